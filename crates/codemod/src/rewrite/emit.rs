//! Putting what is left of a `match` or an `if` where it stood.

use super::known::Code;
use super::nodes::Parent;
use super::*;
use crate::edit::{Edit, EditGroup};
use crate::syntax::trivia::{
    self, indent_of, line_end, line_start, next_line, reindent, starts_line,
};
use crate::syntax::{Block, BlockFlavour, PatKind, Stmt, StmtKind};

/// What stays of a construct.
#[derive(Debug, Clone)]
pub struct Rest {
    /// Statements in front of the body, `;` included.
    pub lets: Vec<String>,
    pub body: Body,
    /// Comments above.
    pub before: Vec<String>,
    /// A comment at the end of its line.
    pub after: Option<String>,
    pub rule: String,
}

#[derive(Debug, Clone)]
pub enum Body {
    Expr(Code),
    /// What stands between braces, as it was indented there.
    Block(BlockText),
    Nothing,
}

#[derive(Debug, Clone)]
pub struct BlockText {
    /// With its comments; blanks at both ends taken off.
    pub inner: String,
    pub indent: String,
    /// Declares names that could be seen behind it.
    pub declares: bool,
    /// Declares items, which are seen in front of it too.
    pub has_items: bool,
    /// Where in `inner` its value ends and no semicolon follows; none where it has no value.
    pub tail_end: Option<usize>,
    /// That value is a block or the like, which needs no semicolon.
    pub tail_is_block: bool,
    pub n_stmts: usize,
    pub has_comments: bool,
    /// Its last statement leaves: what follows is not reached.
    pub leaves: bool,
}

impl<'a> Cx<'a> {
    /// What a block holds, with replacements made in it.
    pub fn block_text(&self, block: &Block, edits: &[(Span, String)]) -> BlockText {
        let inside = Span::new(block.span.lo + 1, block.span.hi - 1);
        let (text, tail) =
            self.apply_in(inside, edits, block.stmts.last().map(|stmt| stmt.span.hi));
        let start = text.len() - text.trim_start().len();
        // A comment behind the opening brace stays on a line of its own.
        let inner = text.trim();
        let first = block
            .stmts
            .first()
            .map_or(block.span.lo, |stmt| stmt.span.lo);
        let comments = trivia::comments(self.text, Span::new(inside.lo, first.max(inside.lo)));
        let first_at = comments
            .first()
            .map_or(first, |comment| comment.span.lo.min(first));
        let indent = if self.text[block.span.lo..first_at.max(block.span.lo)].contains('\n') {
            indent_of(self.text, first_at)
        } else {
            indent_of(self.text, block.span.lo)
        };
        let last = block.stmts.last();
        let tail_expr = last.and_then(|stmt| match &stmt.kind {
            StmtKind::Expr { expr, semi: false } => Some(expr),
            _ => None,
        });
        let declares = block
            .stmts
            .iter()
            .any(|stmt| matches!(stmt.kind, StmtKind::Let { .. } | StmtKind::Item(_)));
        let has_items = block
            .stmts
            .iter()
            .any(|stmt| matches!(stmt.kind, StmtKind::Item(_)));
        let has_comments = {
            let mut at = inside.lo;
            let mut any = false;
            for stmt in &block.stmts {
                any |= !trivia::comments(self.text, Span::new(at, stmt.span.lo)).is_empty();
                at = stmt.span.hi;
            }
            any || !trivia::comments(self.text, Span::new(at, inside.hi)).is_empty()
        };
        BlockText {
            indent: indent.to_owned(),
            declares,
            has_items,
            tail_end: tail_expr.and(tail).map(|at| at - start),
            tail_is_block: tail_expr.is_some_and(|expr| nodes::is_block_like(expr) || matches!(&expr.kind, ExprKind::Macro(_) if self.src(expr.span).ends_with('}'))),
            n_stmts: block.stmts.len(),
            has_comments,
            leaves: last.is_some_and(|stmt| match &stmt.kind {
                StmtKind::Expr { expr, .. } => matches!(
                    expr.kind,
                    ExprKind::Return(_) | ExprKind::Break { .. } | ExprKind::Continue { .. }
                ),
                _ => false,
            }),
            inner: inner.to_owned(),
        }
    }

    /// A stretch with replacements made, and where a position in it has gone.
    fn apply_in(
        &self,
        span: Span,
        edits: &[(Span, String)],
        mark: Option<usize>,
    ) -> (String, Option<usize>) {
        let mut out = String::new();
        let mut at = span.lo;
        let mut marked = None;
        for (part, text) in edits.iter().filter(|(part, _)| span.contains(*part)) {
            if part.lo < at {
                continue;
            }
            if let Some(mark) = mark
                && marked.is_none()
                && mark <= part.lo
            {
                marked = Some(out.len() + (mark - at));
            }
            out.push_str(&self.text[at..part.lo]);
            out.push_str(text);
            at = part.hi;
        }
        if let Some(mark) = mark
            && marked.is_none()
            && mark >= at
        {
            marked = Some(out.len() + (mark - at));
        }
        out.push_str(&self.text[at..span.hi]);
        (out, marked)
    }

    /// The body of an arm or branch, with replacements made in it.
    pub fn body_of(&self, expr: &Expr, edits: &[(Span, String)]) -> Body {
        match &expr.kind {
            ExprKind::Block {
                label: None,
                flavour: BlockFlavour::Plain,
                block,
            } if expr.attrs.is_empty() => {
                let text = self.block_text(block, edits);
                if text.inner.is_empty() {
                    Body::Nothing
                } else {
                    Body::Block(text)
                }
            }
            _ => {
                let (text, _) = self.apply_in(expr.span, edits, None);
                let prec = if edits.iter().any(|(span, _)| *span == expr.span) {
                    Prec::Unary
                } else {
                    nodes::prec(expr)
                };
                let prec = if text
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '_' || c == '.')
                {
                    Prec::Tight
                } else {
                    prec
                };
                Body::Expr(Code {
                    text,
                    prec,
                    block_like: nodes::is_block_like(expr),
                })
            }
        }
    }

    pub fn body_of_block(&self, block: &Block, edits: &[(Span, String)]) -> Body {
        let text = self.block_text(block, edits);
        if text.inner.is_empty() {
            Body::Nothing
        } else {
            Body::Block(text)
        }
    }

    /// Puts `rest` in the place of `expr`.
    pub fn emit(&self, expr: &'a Expr, rest: Rest) -> Option<EditGroup> {
        match self.nodes.parent(expr) {
            Some(Parent::Stmt { stmt, block, at })
                if stmt
                    .attrs
                    .iter()
                    .all(|attr| attr.path != "cfg" && attr.path != "cfg_attr") =>
            {
                // Attributes of a construct that is gone (`allow` of a lint on it, say) go with it.
                self.emit_stmt(expr, stmt, block, at, rest)
            }
            Some(Parent::Stmt { stmt, .. }) => {
                // What is configured stays one statement.
                let indent = indent_of(self.text, stmt.span.lo).to_owned();
                let text = self.as_block(&rest, &indent, self.src(expr.span).contains('\n'));
                self.edit(expr.span, text, &rest.rule)
            }
            Some(Parent::Init { stmt, .. }) => self.emit_init(expr, stmt, rest),
            Some(Parent::Expr(outer)) if matches!(&outer.kind, ExprKind::If { alt: Some(alt), .. } if alt.id == expr.id) =>
            {
                // `else if …` becomes `else { … }`.
                let indent = indent_of(self.text, expr.span.lo).to_owned();
                let multi = self.src(expr.span).contains('\n');
                let text = self.as_block(&rest, &indent, multi);
                self.edit(expr.span, text, &rest.rule)
            }
            _ => self.emit_nested(expr, rest),
        }
    }

    fn emit_stmt(
        &self,
        _expr: &'a Expr,
        stmt: &'a Stmt,
        block: &'a Block,
        at: usize,
        rest: Rest,
    ) -> Option<EditGroup> {
        let StmtKind::Expr { semi, .. } = &stmt.kind else {
            return None;
        };
        let is_last = at + 1 == block.stmts.len();
        let is_tail = is_last && !semi;
        let eol = trivia::eol(self.text);
        let indent = indent_of(self.text, stmt.span.lo).to_owned();
        let own_line = starts_line(self.text, stmt.span.lo);
        let declares = rest
            .lets
            .iter()
            .any(|text| text.starts_with("let ") && !text.starts_with("let _ = "))
            || matches!(&rest.body, Body::Block(text) if text.declares);
        let leaves = matches!(&rest.body, Body::Block(text) if text.leaves);
        let has_items = matches!(&rest.body, Body::Block(text) if text.has_items);
        if (declares && !is_last && !leaves) || (has_items && block.stmts.len() > 1) {
            // Names must not be seen behind it, nor items in front of it.
            let text = self.as_block(
                &rest,
                &indent,
                self.src(stmt.span).contains('\n')
                    || matches!(&rest.body, Body::Block(text) if text.inner.contains('\n')),
            );
            return self.edit(stmt.span, text, &rest.rule);
        }
        let mut lines: Vec<String> = rest.before.clone();
        lines.extend(rest.lets.iter().cloned());
        let mut last = match &rest.body {
            Body::Nothing => String::new(),
            Body::Expr(code) => {
                let mut text = code.text.clone();
                // A value that nobody takes.
                if !is_tail
                    && (if code.block_like {
                        *semi
                    } else {
                        !text.ends_with(';')
                    })
                {
                    text.push(';');
                }
                text
            }
            Body::Block(inner) => {
                let mut text = inner.inner.clone();
                if !is_tail
                    && let Some(end) = inner.tail_end
                    && !inner.tail_is_block
                {
                    text.insert(end, ';');
                }
                reindent(&text, &inner.indent, &indent)
            }
        };
        if is_tail
            && matches!(rest.body, Body::Expr(ref code) if code.text == "()")
            && !lines.is_empty()
        {
            last.clear();
        }
        if let Some(after) = &rest.after
            && !last.is_empty()
        {
            if last.lines().last().is_some_and(|line| line.contains("//")) {
                last.push_str(eol);
                last.push_str(&indent);
            } else {
                last.push(' ');
            }
            last.push_str(after);
        }
        if !last.is_empty() {
            lines.push(last);
        }
        if lines.is_empty() {
            return Some(EditGroup::one(
                self.delete_stmt(stmt, block, at, &rest.rule)?,
            ));
        }
        let separator = if own_line {
            format!("{eol}{indent}")
        } else {
            " ".to_owned()
        };
        // A line comment must not swallow what follows on its line.
        let text = if own_line {
            lines.join(&separator)
        } else {
            self.join_inline(&lines, eol, &indent)
        };
        let mut edits = vec![Edit::new(stmt.span, text.clone(), &rest.rule)];
        if rest.after.is_some()
            && !self.text[stmt.span.hi..line_end(self.text, stmt.span.hi)]
                .trim()
                .is_empty()
        {
            edits[0].text.push_str(&format!("{eol}{indent}"));
        }
        if self.is_frozen(stmt.span) {
            return None;
        }
        Some(EditGroup { edits })
    }

    fn join_inline(&self, lines: &[String], eol: &str, indent: &str) -> String {
        let mut out = String::new();
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                if lines[at - 1].contains("//") {
                    out.push_str(&format!("{eol}{indent}"))
                } else {
                    out.push(' ')
                }
            }
            out.push_str(line);
        }
        out
    }

    fn emit_init(&self, expr: &'a Expr, stmt: &'a Stmt, rest: Rest) -> Option<EditGroup> {
        let StmtKind::Let { pat, .. } = &stmt.kind else {
            return None;
        };
        let eol = trivia::eol(self.text);
        let indent = indent_of(self.text, stmt.span.lo).to_owned();
        let simple = match &rest.body {
            Body::Expr(code) if rest.lets.is_empty() => Some(code.text.clone()),
            Body::Block(text)
                if rest.lets.is_empty()
                    && text.n_stmts == 1
                    && text.tail_end.is_some()
                    && !text.has_comments =>
            {
                Some(reindent(&text.inner, &text.indent, &indent))
            }
            _ => None,
        };
        if let Some(text) = simple {
            // `let x = x;` says nothing.
            if let PatKind::Ident {
                name,
                by_ref: false,
                mutable: false,
                sub: None,
            } = &pat.kind
                && name.text == text
                && stmt.attrs.is_empty()
                && let Some((stmt, block, at)) = self.nodes.statement(expr)
            {
                return Some(EditGroup::one(
                    self.delete_stmt(stmt, block, at, &rest.rule)?,
                ));
            }
            let mut edits = vec![Edit::new(expr.span, text, &rest.rule)];
            if !rest.before.is_empty() && starts_line(self.text, stmt.span.lo) {
                let comments: String = rest
                    .before
                    .iter()
                    .map(|comment| format!("{comment}{eol}{indent}"))
                    .collect();
                edits.push(Edit::new(
                    Span::new(stmt.span.lo, stmt.span.lo),
                    comments,
                    &rest.rule,
                ));
            }
            if let Some(after) = &rest.after {
                if trivia::ends_line(self.text, stmt.span.hi) {
                    edits.push(Edit::new(
                        Span::new(stmt.span.hi, stmt.span.hi),
                        format!(" {after}"),
                        &rest.rule,
                    ));
                } else if !rest.before.is_empty() || starts_line(self.text, stmt.span.lo) {
                    edits.push(Edit::new(
                        Span::new(stmt.span.lo, stmt.span.lo),
                        format!("{after}{eol}{indent}"),
                        &rest.rule,
                    ));
                }
            }
            edits.sort_by_key(|edit| edit.span.lo);
            if edits.windows(2).any(|pair| pair[0].span == pair[1].span) {
                edits.truncate(1);
            }
            return (!self.is_frozen(stmt.span)).then_some(EditGroup { edits });
        }
        let multi = self.src(expr.span).contains('\n');
        let text = self.as_block(&rest, &indent, multi);
        self.edit(expr.span, text, &rest.rule)
    }

    fn emit_nested(&self, expr: &'a Expr, rest: Rest) -> Option<EditGroup> {
        let indent = indent_of(self.text, expr.span.lo).to_owned();
        let code = match &rest.body {
            Body::Expr(code) if rest.lets.is_empty() && rest.before.is_empty() => {
                Some(code.clone())
            }
            Body::Block(text)
                if rest.lets.is_empty()
                    && text.n_stmts == 1
                    && text.tail_end.is_some()
                    && !text.has_comments
                    && rest.before.is_empty() =>
            {
                Some(Code {
                    text: reindent(&text.inner, &text.indent, &indent),
                    prec: Prec::Loose,
                    block_like: text.tail_is_block,
                })
            }
            Body::Nothing if rest.lets.is_empty() => Some(Code::tight("()")),
            _ => None,
        };
        let rule = rest.rule.clone();
        let text = match code {
            Some(mut code) => {
                if code.prec == Prec::Loose && self.looks_tight(&code.text) {
                    code.prec = Prec::Tight;
                }
                let text = self.fit(expr, code.text, code.prec, code.block_like);
                match &rest.after {
                    Some(after) if trivia::ends_line(self.text, expr.span.hi) => {
                        format!("{text} {after}")
                    }
                    _ => text,
                }
            }
            None => {
                let multi = self.src(expr.span).contains('\n');
                let block = self.as_block(&rest, &indent, multi);
                self.fit(expr, block, Prec::Tight, true)
            }
        };
        self.edit(expr.span, text, &rule)
    }

    /// A name, a field or a call: needs no parentheses anywhere.
    fn looks_tight(&self, text: &str) -> bool {
        let Ok(expr) = syn::parse_str::<syn::Expr>(text) else {
            return false;
        };
        let tight = matches!(
            expr,
            syn::Expr::Path(_)
                | syn::Expr::MethodCall(_)
                | syn::Expr::Call(_)
                | syn::Expr::Field(_)
                | syn::Expr::Lit(_)
                | syn::Expr::Paren(_)
                | syn::Expr::Try(_)
                | syn::Expr::Macro(_)
                | syn::Expr::Index(_)
                | syn::Expr::Tuple(_)
                | syn::Expr::Array(_)
        );
        proc_macro2::extra::invalidate_current_thread_spans();
        tight
    }

    /// `{ … }` around what is left, its lines at one step more than `indent`.
    pub fn as_block(&self, rest: &Rest, indent: &str, multi: bool) -> String {
        let eol = trivia::eol(self.text);
        let unit = if indent.contains('\t') { "\t" } else { "    " };
        let inner_indent = format!("{indent}{unit}");
        let mut lines: Vec<String> = rest.before.clone();
        lines.extend(rest.lets.iter().cloned());
        match &rest.body {
            Body::Nothing => {}
            Body::Expr(code) => lines.push(code.text.clone()),
            Body::Block(text) => {
                lines.push(if multi {
                    reindent(&text.inner, &text.indent, &inner_indent)
                } else {
                    text.inner.clone()
                });
            }
        }
        if let (Some(after), Some(last)) = (&rest.after, lines.last_mut()) {
            let ends_in_comment = last.lines().last().is_some_and(|line| line.contains("//"));
            if ends_in_comment {
                lines.push(after.clone());
            } else {
                last.push(' ');
                last.push_str(after);
            }
        }
        if lines.is_empty() {
            return "{}".into();
        }
        let any_comment = lines.iter().any(|line| line.contains("//"));
        if multi || any_comment {
            format!(
                "{{{eol}{inner_indent}{}{eol}{indent}}}",
                lines.join(&format!("{eol}{inner_indent}"))
            )
        } else {
            format!("{{ {} }}", lines.join(" "))
        }
    }

    /// Takes a statement out, with its line, and with the comment above if that spoke of it alone.
    pub fn delete_stmt(&self, stmt: &Stmt, block: &Block, at: usize, rule: &str) -> Option<Edit> {
        let span = self.stmt_extent(stmt.span, block, at);
        (!self.is_frozen(span)).then(|| Edit::new(span, "", rule))
    }

    fn stmt_extent(&self, span: Span, block: &Block, at: usize) -> Span {
        let text = self.text;
        let mut lo = span.lo;
        let mut hi = span.hi;
        let rest = &text[hi..line_end(text, hi)];
        let trailing = rest.trim_start();
        let alone_behind = trailing.is_empty() || trailing.starts_with("//");
        if starts_line(text, lo) && alone_behind {
            lo = line_start(text, lo);
            hi = next_line(text, hi);
            // Comments above that stand in a paragraph with this statement alone.
            let next_blank = text[hi..line_end(text, hi)].trim().is_empty()
                || text[hi..].trim_start().starts_with('}');
            let bound = if at == 0 {
                block.span.lo + 1
            } else {
                block.stmts[at - 1].span.hi
            };
            let mut top = lo;
            while top > 0 {
                let above = line_start(text, top - 1);
                let line = text[above..top].trim();
                if above >= bound
                    && (line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/")))
                {
                    top = above
                } else {
                    break;
                }
            }
            if top < lo && next_blank {
                let before_blank = top == 0 || {
                    let above = line_start(text, top - 1);
                    let line = text[above..top].trim();
                    line.is_empty() || line.ends_with('{')
                };
                let closes = text[hi..].trim_start().starts_with('}');
                if before_blank || closes {
                    lo = top;
                }
            }
            // Two blank lines in a row, or one behind the opening brace or before the closing one, would be left.
            let above = if lo == 0 {
                ""
            } else {
                text[line_start(text, lo - 1)..lo].trim()
            };
            let below = text[hi..line_end(text, hi)].trim();
            if below.is_empty()
                && hi < text.len()
                && (above.is_empty() || above.ends_with('{'))
                && lo > 0
            {
                hi = next_line(text, hi);
            } else if above.is_empty() && lo > 0 && below.starts_with('}') {
                lo = line_start(text, lo - 1);
            }
        } else if starts_line(text, lo) {
            hi += rest.len() - trailing.len();
        } else {
            let before = &text[line_start(text, lo)..lo];
            lo -= before.len() - before.trim_end().len();
        }
        Span::new(lo, hi)
    }
}
