//! Where every expression stands: parents, statements, blocks.

use std::collections::HashMap;

use crate::analysis::children;
use crate::syntax::{
    Block, Expr, ExprId, ExprKind, File, FnItem, Item, ItemKind, MacroArgs, Span, Stmt, StmtKind,
};

#[derive(Debug, Clone, Copy)]
pub enum Parent<'a> {
    /// Somewhere inside this expression.
    Expr(&'a Expr),
    /// The statement itself.
    Stmt {
        stmt: &'a Stmt,
        block: &'a Block,
        at: usize,
    },
    /// The value of a `let`.
    Init {
        stmt: &'a Stmt,
        block: &'a Block,
        at: usize,
    },
    /// The `else` of a `let`.
    Diverge { stmt: &'a Stmt },
    /// The value of a constant.
    Const,
}

/// What a block is the body of.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    Function(&'a Item),
    Expr(&'a Expr),
}

#[derive(Debug, Clone, Copy)]
pub struct LetStmt<'a> {
    pub stmt: &'a Stmt,
    pub block: &'a Block,
    pub at: usize,
}

#[derive(Debug, Default)]
pub struct Nodes<'a> {
    pub parents: HashMap<ExprId, Parent<'a>>,
    /// Outer before inner, in the order of the text.
    pub exprs: Vec<&'a Expr>,
    pub by_id: HashMap<ExprId, &'a Expr>,
    pub owners: HashMap<usize, Owner<'a>>,
    pub lets: Vec<LetStmt<'a>>,
    pub blocks: Vec<&'a Block>,
    pub functions: Vec<(&'a Item, &'a FnItem)>,
    /// Items in the order of the text, nested ones too, with the item around them.
    pub items: Vec<(&'a Item, Option<&'a Item>)>,
}

impl<'a> Nodes<'a> {
    pub fn new(file: &'a File) -> Self {
        let mut nodes = Nodes::default();
        for item in &file.items {
            nodes.item(item, None);
        }
        nodes
    }

    fn item(&mut self, item: &'a Item, outer: Option<&'a Item>) {
        self.items.push((item, outer));
        match &item.kind {
            ItemKind::Mod(it) => it
                .items
                .iter()
                .flatten()
                .for_each(|inner| self.item(inner, Some(item))),
            ItemKind::Impl(it) => it
                .items
                .iter()
                .for_each(|inner| self.item(inner, Some(item))),
            ItemKind::Trait(it) => it
                .items
                .iter()
                .for_each(|inner| self.item(inner, Some(item))),
            ItemKind::Fn(f) => {
                self.functions.push((item, f));
                if let Some(body) = &f.body {
                    self.owners.insert(body.span.lo, Owner::Function(item));
                    self.block(body);
                }
            }
            ItemKind::Const {
                value: Some(value), ..
            } => {
                self.parents.insert(value.id, Parent::Const);
                self.expr(value);
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &'a Block) {
        self.blocks.push(block);
        for (at, stmt) in block.stmts.iter().enumerate() {
            match &stmt.kind {
                StmtKind::Let { init, diverge, .. } => {
                    self.lets.push(LetStmt { stmt, block, at });
                    if let Some(init) = init {
                        self.parents
                            .insert(init.id, Parent::Init { stmt, block, at });
                        self.expr(init);
                    }
                    if let Some(diverge) = diverge {
                        self.parents.insert(diverge.id, Parent::Diverge { stmt });
                        self.expr(diverge);
                    }
                }
                StmtKind::Expr { expr, .. } => {
                    self.parents
                        .insert(expr.id, Parent::Stmt { stmt, block, at });
                    self.expr(expr);
                }
                StmtKind::Item(item) => self.item(item, None),
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        self.exprs.push(expr);
        self.by_id.insert(expr.id, expr);
        let blocks: Vec<&'a Block> = match &expr.kind {
            ExprKind::If { then, .. } => vec![then],
            ExprKind::Loop { body, .. }
            | ExprKind::While { body, .. }
            | ExprKind::For { body, .. } => vec![body],
            ExprKind::Block { block, .. } => vec![block],
            _ => vec![],
        };
        for block in &blocks {
            self.owners.insert(block.span.lo, Owner::Expr(expr));
        }
        let inside = |span: Span| blocks.iter().any(|block| block.span.contains(span));
        let mut direct: Vec<&'a Expr> = Vec::new();
        children(expr, &mut |child| {
            if !inside(child.span) {
                direct.push(child);
            }
        });
        // In the order of the text: a condition comes before its block.
        let mut cursor = 0;
        for child in direct {
            for block in blocks
                .iter()
                .filter(|block| block.span.lo >= cursor && block.span.lo < child.span.lo)
            {
                self.block(block);
            }
            cursor = child.span.lo;
            self.parents.insert(child.id, Parent::Expr(expr));
            self.expr(child);
        }
        for block in blocks.iter().filter(|block| block.span.lo >= cursor) {
            self.block(block);
        }
    }

    pub fn parent(&self, expr: &Expr) -> Option<Parent<'a>> {
        self.parents.get(&expr.id).copied()
    }

    /// The expression around this one, parentheses skipped.
    pub fn outer(&self, expr: &Expr) -> Option<&'a Expr> {
        match self.parent(expr)? {
            Parent::Expr(outer) if matches!(outer.kind, ExprKind::Paren(_)) => self.outer(outer),
            Parent::Expr(outer) => Some(outer),
            _ => None,
        }
    }

    /// The expressions around this one, innermost first, up to the statement.
    pub fn ancestors(&self, expr: &Expr) -> Vec<&'a Expr> {
        let mut out = Vec::new();
        let mut at = self.parent(expr);
        while let Some(Parent::Expr(outer)) = at {
            out.push(outer);
            at = self.parent(outer);
        }
        out
    }

    /// The statement that an expression belongs to, with its block.
    pub fn statement(&self, expr: &Expr) -> Option<(&'a Stmt, &'a Block, usize)> {
        let mut at = self.parent(expr)?;
        loop {
            match at {
                Parent::Expr(outer) => at = self.parent(outer)?,
                Parent::Stmt { stmt, block, at } | Parent::Init { stmt, block, at } => {
                    return Some((stmt, block, at));
                }
                Parent::Diverge { .. } | Parent::Const => return None,
            }
        }
    }
}

/// How tightly an expression holds together, from loose to tight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prec {
    /// Closures, assignments, jumps, ranges.
    Loose,
    Or,
    And,
    Compare,
    Arith,
    Cast,
    Unary,
    /// Calls, paths, literals, parentheses.
    Tight,
}

/// `if`, `match`, blocks and loops: tight, but at the start of a statement they end it.
pub fn is_block_like(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::If { .. }
            | ExprKind::Match { .. }
            | ExprKind::Block { .. }
            | ExprKind::Loop { .. }
            | ExprKind::While { .. }
            | ExprKind::For { .. }
    )
}

pub fn prec(expr: &Expr) -> Prec {
    use crate::syntax::BinOp;
    match &expr.kind {
        ExprKind::Binary { op, .. } => match op {
            BinOp::Or => Prec::Or,
            BinOp::And => Prec::And,
            BinOp::Eq | BinOp::Ne | BinOp::Compare => Prec::Compare,
            BinOp::Arith => Prec::Arith,
            BinOp::AssignOp => Prec::Loose,
        },
        ExprKind::Cast { .. } => Prec::Cast,
        ExprKind::Not(_)
        | ExprKind::Neg(_)
        | ExprKind::Deref(_)
        | ExprKind::Ref { .. }
        | ExprKind::RawRef(_) => Prec::Unary,
        ExprKind::Assign { .. }
        | ExprKind::Closure { .. }
        | ExprKind::Return(_)
        | ExprKind::Break { .. }
        | ExprKind::Range { .. }
        | ExprKind::Let { .. } => Prec::Loose,
        _ => Prec::Tight,
    }
}

/// How tight what stands in the place of `child` has to be.
pub fn needed(outer: &Expr, child: &Expr) -> Prec {
    use crate::syntax::BinOp;
    match &outer.kind {
        ExprKind::MethodCall { recv, .. } if recv.id == child.id => Prec::Tight,
        ExprKind::Field { .. } | ExprKind::Try(_) | ExprKind::Await(_) => Prec::Tight,
        ExprKind::Index { base, .. } if base.id == child.id => Prec::Tight,
        ExprKind::Call { callee, .. } if callee.id == child.id => Prec::Tight,
        ExprKind::Not(_)
        | ExprKind::Neg(_)
        | ExprKind::Deref(_)
        | ExprKind::Ref { .. }
        | ExprKind::RawRef(_) => Prec::Unary,
        ExprKind::Cast { .. } => Prec::Cast,
        ExprKind::Binary { op, rhs, .. } => match op {
            BinOp::Or => {
                if rhs.id == child.id {
                    Prec::And
                } else {
                    Prec::Or
                }
            }
            BinOp::And => {
                if rhs.id == child.id {
                    Prec::Compare
                } else {
                    Prec::And
                }
            }
            BinOp::Eq | BinOp::Ne | BinOp::Compare => Prec::Arith,
            BinOp::Arith => Prec::Cast,
            BinOp::AssignOp => Prec::Loose,
        },
        ExprKind::Range { .. } => Prec::Or,
        ExprKind::Let { .. } => Prec::Compare,
        _ => Prec::Loose,
    }
}

/// Expressions among a macro's arguments.
pub fn macro_exprs(args: &MacroArgs) -> Vec<&Expr> {
    match args {
        MacroArgs::Exprs { args, .. } => args.iter().map(|arg| &arg.value).collect(),
        MacroArgs::Matches { value, guard, .. } => {
            std::iter::once(&**value).chain(guard.as_deref()).collect()
        }
        MacroArgs::Repeat { value, len } => vec![value, len],
        MacroArgs::Opaque => vec![],
    }
}
