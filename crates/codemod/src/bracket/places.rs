//! Where in a function's blocks an expression stands.

use crate::analysis::children;
use crate::syntax::{Block, BlockFlavour, Expr, ExprKind, Span, Stmt, StmtKind};

/// What a block is, as far as statements put into it are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs once where its statement runs, if at all.
    Plain,
    /// Runs any number of times.
    Loop,
    /// Runs when somebody calls or polls it.
    Deferred,
}

/// A statement of a block.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub block: &'a Block,
    pub at: usize,
    pub kind: Kind,
}

impl<'a> Place<'a> {
    pub fn stmt(&self) -> &'a Stmt {
        &self.block.stmts[self.at]
    }
}

/// The statements around a stretch of text, outermost first.
pub fn path_to<'a>(body: &'a Block, span: Span) -> Vec<Place<'a>> {
    let mut out = Vec::new();
    let mut next = Some((body, Kind::Plain));
    while let Some((block, kind)) = next.take() {
        let Some(at) = block.stmts.iter().position(|stmt| stmt.span.contains(span)) else {
            break;
        };
        out.push(Place { block, at, kind });
        next = blocks_of(&block.stmts[at])
            .into_iter()
            .find(|(inner, _)| inner.span.contains(span));
    }
    out
}

/// The blocks of a statement that are in no other block of it.
fn blocks_of(stmt: &Stmt) -> Vec<(&Block, Kind)> {
    let mut out = Vec::new();
    match &stmt.kind {
        StmtKind::Let { init, diverge, .. } => init
            .iter()
            .chain(diverge)
            .for_each(|expr| collect(expr, false, &mut out)),
        StmtKind::Expr { expr, .. } => collect(expr, false, &mut out),
        StmtKind::Item(_) => {}
    }
    out
}

fn collect<'a>(expr: &'a Expr, deferred: bool, out: &mut Vec<(&'a Block, Kind)>) {
    let own: Option<(&Block, Kind)> = match &expr.kind {
        ExprKind::If { then, .. } => Some((then, Kind::Plain)),
        ExprKind::Loop { body, .. } | ExprKind::While { body, .. } | ExprKind::For { body, .. } => {
            Some((body, Kind::Loop))
        }
        ExprKind::Block { block, flavour, .. } => Some((
            block,
            match flavour {
                BlockFlavour::Plain | BlockFlavour::Unsafe => Kind::Plain,
                BlockFlavour::Async | BlockFlavour::Const | BlockFlavour::Try => Kind::Deferred,
            },
        )),
        _ => None,
    };
    if let Some((block, kind)) = own {
        out.push((block, if deferred { Kind::Deferred } else { kind }));
    }
    let deferred = deferred || matches!(expr.kind, ExprKind::Closure { .. });
    children(expr, &mut |child| {
        if own.is_none_or(|(block, _)| !block.span.contains(child.span)) {
            collect(child, deferred, out);
        }
    });
}
