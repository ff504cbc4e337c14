//! A Rust file as plain data: names and byte ranges.

use std::fmt;

/// A half-open range of bytes in one text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    pub lo: usize,
    pub hi: usize,
}

impl Span {
    pub fn new(lo: usize, hi: usize) -> Self {
        Span { lo, hi }
    }

    pub fn to(self, other: Span) -> Span {
        Span::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    pub fn contains(self, other: Span) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    pub fn overlaps(self, other: Span) -> bool {
        self.lo < other.hi && other.lo < self.hi
    }

    pub fn len(self) -> usize {
        self.hi - self.lo
    }

    pub fn is_empty(self) -> bool {
        self.lo == self.hi
    }

    pub fn text(self, source: &str) -> &str {
        &source[self.lo..self.hi]
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.lo, self.hi)
    }
}

/// An identifier, without `r#`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

#[derive(Debug, Clone, Default)]
pub struct File {
    pub items: Vec<Item>,
    /// Every identifier of the file in order, those in macros and attributes too; not those in comments and strings.
    pub idents: Vec<Name>,
    /// Every string literal, with its span.
    pub strings: Vec<Span>,
    /// Comments that document an item, and `#[doc = …]`.
    pub docs: Vec<Span>,
    pub n_exprs: u32,
    pub inner_attrs: Vec<Attr>,
}

#[derive(Debug, Clone)]
pub struct Attr {
    pub path: String,
    /// From `#` to `]`, or the whole comment.
    pub span: Span,
    pub is_doc: bool,
    /// The tokens behind the path, as written.
    pub tokens: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vis {
    Public,
    /// `pub(crate)` and its like, as written.
    Restricted(String),
    Private,
}

#[derive(Debug, Clone)]
pub struct Item {
    /// With attributes and doc comments.
    pub span: Span,
    pub attrs: Vec<Attr>,
    pub vis: Vis,
    pub name: Option<Name>,
    pub kind: ItemKind,
}

#[derive(Debug, Clone)]
pub enum ItemKind {
    Use(UseItem),
    Mod(ModItem),
    Fn(Box<FnItem>),
    Struct(StructItem),
    Enum(EnumItem),
    Trait(TraitItem),
    Impl(ImplItem),
    TypeAlias {
        generics: Generics,
        ty: Option<Ty>,
        bounds: Vec<Bound>,
    },
    Const {
        ty: Ty,
        value: Option<Expr>,
    },
    MacroRules {
        body: Span,
    },
    MacroCall(MacroCall),
    ExternCrate {
        krate: Name,
        rename: Option<Name>,
    },
    /// `extern "C" { … }`: its functions.
    Foreign(Vec<Item>),
    Other,
}

#[derive(Debug, Clone)]
pub struct UseItem {
    pub leading_colon: bool,
    pub tree: UseTree,
}

#[derive(Debug, Clone)]
pub struct UseTree {
    pub span: Span,
    pub kind: UseKind,
}

#[derive(Debug, Clone)]
pub enum UseKind {
    Path { name: Name, rest: Box<UseTree> },
    Name(Name),
    Rename { name: Name, rename: Name },
    Glob,
    Group { items: Vec<UseTree> },
}

#[derive(Debug, Clone)]
pub struct ModItem {
    pub items: Option<Vec<Item>>,
    /// From `{` to `}`.
    pub braces: Option<Span>,
    pub path_attr: Option<String>,
}

#[derive(Debug, Clone)]
pub struct FnItem {
    pub sig: Sig,
    pub body: Option<Block>,
}

#[derive(Debug, Clone)]
pub struct Sig {
    pub span: Span,
    pub is_async: bool,
    pub generics: Generics,
    pub receiver: Option<Receiver>,
    pub params: Vec<Param>,
    pub ret: Option<Ty>,
    pub parens: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverKind {
    Value,
    Ref,
    RefMut,
    /// `self: Box<Self>` and its like.
    Typed,
}

#[derive(Debug, Clone)]
pub struct Receiver {
    pub span: Span,
    pub kind: ReceiverKind,
    pub ty: Option<Ty>,
}

#[derive(Debug, Clone)]
pub struct Param {
    pub span: Span,
    pub pat: Pat,
    pub ty: Ty,
}

#[derive(Debug, Clone, Default)]
pub struct Generics {
    pub params: Vec<GenericParam>,
    pub wheres: Vec<(Ty, Vec<Bound>)>,
}

impl Generics {
    /// The parameters' names, in order.
    pub fn names(&self) -> Vec<String> {
        self.params
            .iter()
            .map(|param| param.name.text.clone())
            .collect()
    }
}

#[derive(Debug, Clone)]
pub struct GenericParam {
    pub name: Name,
    pub bounds: Vec<Bound>,
    pub default: Option<Ty>,
    pub is_type: bool,
}

#[derive(Debug, Clone)]
pub struct Bound {
    pub path: Path,
}

#[derive(Debug, Clone)]
pub struct StructItem {
    pub generics: Generics,
    pub fields: Vec<Field>,
    pub is_tuple: bool,
    /// `{ … }` or `( … )`; none for a unit struct.
    pub delimiters: Option<Span>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub span: Span,
    pub attrs: Vec<Attr>,
    pub vis: Vis,
    pub name: String,
    pub name_span: Option<Span>,
    pub ty: Ty,
}

#[derive(Debug, Clone)]
pub struct EnumItem {
    pub generics: Generics,
    pub variants: Vec<Variant>,
}

#[derive(Debug, Clone)]
pub struct Variant {
    pub span: Span,
    pub name: Name,
    pub fields: Vec<Field>,
    pub is_tuple: bool,
    pub is_unit: bool,
}

#[derive(Debug, Clone)]
pub struct TraitItem {
    pub generics: Generics,
    pub supertraits: Vec<Bound>,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone)]
pub struct ImplItem {
    pub generics: Generics,
    pub of_trait: Option<Path>,
    pub self_ty: Ty,
    pub items: Vec<Item>,
    pub braces: Span,
}

#[derive(Debug, Clone)]
pub struct Path {
    pub span: Span,
    pub leading_colon: bool,
    pub segs: Vec<Seg>,
    /// `<T as Trait>::…`: the type; the trait is in `segs`, up to `qself_pos`.
    pub qself: Option<Box<Ty>>,
    pub qself_pos: usize,
}

impl Path {
    pub fn last(&self) -> &Seg {
        self.segs.last().expect("a path has a segment")
    }

    /// The one identifier that this path is, if it is one.
    pub fn ident(&self) -> Option<&Name> {
        match &self.segs[..] {
            [only] if !self.leading_colon && self.qself.is_none() && only.args.is_none() => {
                Some(&only.name)
            }
            _ => None,
        }
    }

    pub fn names(&self) -> Vec<&str> {
        self.segs.iter().map(|seg| seg.name.text.as_str()).collect()
    }
}

#[derive(Debug, Clone)]
pub struct Seg {
    pub name: Name,
    pub args: Option<GenericArgs>,
}

#[derive(Debug, Clone, Default)]
pub struct GenericArgs {
    pub span: Span,
    pub types: Vec<Ty>,
    pub assoc: Vec<(Name, Ty)>,
    /// `Fn(A, B) -> C`: `types` holds the parameters and this the result.
    pub parenthesized: bool,
    pub output: Option<Box<Ty>>,
    /// Bounds in `Item: Bound` positions, and const expressions: only walked for names.
    pub bounds: Vec<Bound>,
}

#[derive(Debug, Clone)]
pub struct Ty {
    pub span: Span,
    pub kind: TyKind,
}

#[derive(Debug, Clone)]
pub enum TyKind {
    Path(Path),
    Ref {
        mutable: bool,
        inner: Box<Ty>,
    },
    Ptr(Box<Ty>),
    Tuple(Vec<Ty>),
    Slice(Box<Ty>),
    Array(Box<Ty>),
    Fn {
        params: Vec<Ty>,
        ret: Option<Box<Ty>>,
    },
    Impl(Vec<Bound>),
    Dyn(Vec<Bound>),
    Never,
    Infer,
    Macro(MacroCall),
    Other,
}

pub type ExprId = u32;

#[derive(Debug, Clone)]
pub struct Expr {
    pub id: ExprId,
    /// Without attributes.
    pub span: Span,
    pub attrs: Vec<Attr>,
    pub kind: ExprKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LitKind {
    Bool(bool),
    Int,
    Float,
    Str,
    Char,
    Other,
}

#[derive(Debug, Clone)]
pub enum ExprKind {
    Lit(LitKind),
    Path(Path),
    Call {
        callee: Box<Expr>,
        args: Vec<Expr>,
    },
    MethodCall {
        recv: Box<Expr>,
        dot: Span,
        method: Name,
        turbofish: Option<GenericArgs>,
        args: Vec<Expr>,
        parens: Span,
    },
    Field {
        base: Box<Expr>,
        dot: Span,
        member: Name,
    },
    Index {
        base: Box<Expr>,
        index: Box<Expr>,
    },
    Not(Box<Expr>),
    Neg(Box<Expr>),
    Deref(Box<Expr>),
    Binary {
        op: BinOp,
        op_span: Span,
        lhs: Box<Expr>,
        rhs: Box<Expr>,
    },
    Assign {
        lhs: Box<Expr>,
        rhs: Box<Expr>,
    },
    Ref {
        mutable: bool,
        inner: Box<Expr>,
    },
    RawRef(Box<Expr>),
    Cast {
        inner: Box<Expr>,
        ty: Ty,
    },
    If {
        cond: Box<Expr>,
        then: Block,
        alt: Option<Box<Expr>>,
        else_span: Span,
    },
    Let {
        pat: Pat,
        value: Box<Expr>,
    },
    Match {
        scrutinee: Box<Expr>,
        arms: Vec<Arm>,
        braces: Span,
    },
    Loop {
        label: Option<Name>,
        body: Block,
    },
    While {
        label: Option<Name>,
        cond: Box<Expr>,
        body: Block,
    },
    For {
        label: Option<Name>,
        pat: Pat,
        iter: Box<Expr>,
        body: Block,
    },
    Block {
        label: Option<Name>,
        flavour: BlockFlavour,
        block: Block,
    },
    Closure {
        params: Vec<(Pat, Option<Ty>)>,
        ret: Option<Ty>,
        body: Box<Expr>,
        is_async: bool,
        is_move: bool,
    },
    Return(Option<Box<Expr>>),
    Break {
        label: Option<Name>,
        value: Option<Box<Expr>>,
    },
    Continue {
        label: Option<Name>,
    },
    Try(Box<Expr>),
    Await(Box<Expr>),
    Tuple(Vec<Expr>),
    Array(Vec<Expr>),
    Repeat {
        value: Box<Expr>,
        len: Box<Expr>,
    },
    Struct {
        path: Path,
        fields: Vec<FieldInit>,
        rest: Option<Box<Expr>>,
        dots: bool,
        braces: Span,
    },
    Range {
        start: Option<Box<Expr>>,
        end: Option<Box<Expr>>,
    },
    Paren(Box<Expr>),
    Macro(MacroCall),
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFlavour {
    Plain,
    Unsafe,
    Async,
    Const,
    Try,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinOp {
    And,
    Or,
    Eq,
    Ne,
    Compare,
    Arith,
    /// `+=` and its like.
    AssignOp,
}

#[derive(Debug, Clone)]
pub struct FieldInit {
    pub span: Span,
    pub name: Name,
    pub shorthand: bool,
    pub value: Expr,
}

#[derive(Debug, Clone)]
pub struct Arm {
    /// From the first attribute to the comma, if there is one.
    pub span: Span,
    pub attrs: Vec<Attr>,
    pub pat: Pat,
    pub guard: Option<Expr>,
    pub body: Expr,
    pub comma: Option<Span>,
}

#[derive(Debug, Clone)]
pub struct Block {
    /// With its braces.
    pub span: Span,
    pub stmts: Vec<Stmt>,
}

#[derive(Debug, Clone)]
pub struct Stmt {
    /// With attributes and semicolon.
    pub span: Span,
    pub attrs: Vec<Attr>,
    pub kind: StmtKind,
}

// Nodes are made once for each statement of a file: boxing would cost more than the room saves.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum StmtKind {
    Let {
        pat: Pat,
        ty: Option<Ty>,
        init: Option<Expr>,
        diverge: Option<Expr>,
    },
    /// `semi`: whether a semicolon follows.
    Expr {
        expr: Expr,
        semi: bool,
    },
    Item(Box<Item>),
}

#[derive(Debug, Clone)]
pub struct Pat {
    pub span: Span,
    pub kind: PatKind,
}

#[derive(Debug, Clone)]
pub enum PatKind {
    Wild,
    Rest,
    Ident {
        name: Name,
        by_ref: bool,
        mutable: bool,
        sub: Option<Box<Pat>>,
    },
    Path(Path),
    TupleStruct {
        path: Path,
        elems: Vec<Pat>,
    },
    Struct {
        path: Path,
        fields: Vec<FieldPat>,
        rest: bool,
    },
    Tuple(Vec<Pat>),
    Slice(Vec<Pat>),
    Ref {
        mutable: bool,
        inner: Box<Pat>,
    },
    Or(Vec<Pat>),
    Paren(Box<Pat>),
    Type {
        inner: Box<Pat>,
        ty: Ty,
    },
    Lit,
    Range,
    Macro(MacroCall),
    Other,
}

#[derive(Debug, Clone)]
pub struct FieldPat {
    pub span: Span,
    pub name: Name,
    pub shorthand: bool,
    pub pat: Pat,
}

#[derive(Debug, Clone)]
pub struct MacroCall {
    /// From the path to the closing delimiter.
    pub span: Span,
    pub path: Path,
    /// Between the delimiters.
    pub inner: Span,
    pub args: MacroArgs,
}

#[derive(Debug, Clone)]
pub enum MacroArgs {
    /// Arguments that parse as a list of expressions.
    Exprs {
        args: Vec<MacroArg>,
        captures: Vec<Name>,
    },
    /// `matches!(value, pat if guard)`.
    Matches {
        value: Box<Expr>,
        pat: Box<Pat>,
        guard: Option<Box<Expr>>,
    },
    /// `vec![value; n]`.
    Repeat {
        value: Box<Expr>,
        len: Box<Expr>,
    },
    Opaque,
}

#[derive(Debug, Clone)]
pub struct MacroArg {
    pub name: Option<Name>,
    pub value: Expr,
}
