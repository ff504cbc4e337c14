//! The engine as a whole, on trees: fixtures, branches, and what holds for any input.
//!
//! Everything here plans in memory and writes to temporary folders only. Where a text is compared with a file of the
//! repository, `BLESS=1` writes the file instead; what it wrote is read in the diff like any other change.

mod branches;
mod fixtures;
mod foxhunt;
mod fuzz;
mod hostile;
mod mutants;
mod properties;
mod rename_everything;
mod support;
mod type_check;
