//! Libraries of errors that programs put between a call and its `?`: without their signatures, types would end there.
//!
//! They are no part of any rule, and a tree's own copy of such a package counts before what is declared here.

use super::Surface;

const ANYHOW: &str = r#"
pub struct Error;
pub type Result<T, E = Error> = std::result::Result<T, E>;
pub trait Context<T, E> {
    fn context<C>(self, context: C) -> std::result::Result<T, Error>;
    fn with_context<C>(self, context: impl FnOnce() -> C) -> std::result::Result<T, Error>;
}
impl<T, E> Context<T, E> for std::result::Result<T, E> {
    fn context<C>(self, context: C) -> std::result::Result<T, Error> {}
    fn with_context<C>(self, context: impl FnOnce() -> C) -> std::result::Result<T, Error> {}
}
impl<T> Context<T, Error> for std::option::Option<T> {
    fn context<C>(self, context: C) -> std::result::Result<T, Error> {}
    fn with_context<C>(self, context: impl FnOnce() -> C) -> std::result::Result<T, Error> {}
}
"#;

const EYRE: &str = r#"
pub struct Report;
pub type Result<T, E = Report> = std::result::Result<T, E>;
pub trait WrapErr<T, E> {
    fn wrap_err<D>(self, msg: D) -> std::result::Result<T, Report>;
    fn wrap_err_with<D>(self, msg: impl FnOnce() -> D) -> std::result::Result<T, Report>;
    fn context<D>(self, msg: D) -> std::result::Result<T, Report>;
    fn with_context<D>(self, msg: impl FnOnce() -> D) -> std::result::Result<T, Report>;
}
pub use WrapErr as Context;
impl<T, E> WrapErr<T, E> for std::result::Result<T, E> {
    fn wrap_err<D>(self, msg: D) -> std::result::Result<T, Report> {}
    fn wrap_err_with<D>(self, msg: impl FnOnce() -> D) -> std::result::Result<T, Report> {}
    fn context<D>(self, msg: D) -> std::result::Result<T, Report> {}
    fn with_context<D>(self, msg: impl FnOnce() -> D) -> std::result::Result<T, Report> {}
}
pub trait OptionExt<T> {
    fn ok_or_eyre<M>(self, message: M) -> std::result::Result<T, Report>;
}
impl<T> OptionExt<T> for std::option::Option<T> {
    fn ok_or_eyre<M>(self, message: M) -> std::result::Result<T, Report> {}
}
"#;

const COLOR_EYRE: &str = "pub use eyre; pub use eyre::{Report, Result};";

/// Whether a package is one of these.
pub fn is_one(package: &str) -> bool {
    matches!(package, "anyhow" | "eyre" | "color-eyre")
}

/// The surfaces of those packages that are depended on.
pub fn of(depended_on: impl Fn(&str) -> bool) -> Vec<Surface> {
    let color_eyre = depended_on("color-eyre");
    [
        ("anyhow", ANYHOW),
        ("eyre", EYRE),
        ("color-eyre", COLOR_EYRE),
    ]
    .into_iter()
    .filter(|(package, _)| depended_on(package) || *package == "eyre" && color_eyre)
    .map(|(package, text)| Surface {
        package: package.into(),
        text: text.into(),
    })
    .collect()
}
