//! Plain CPU versions of the kernels, in f64 and without cleverness: for tests, and for reading.
//!
//! Nothing here runs in training, but for the random numbers that the agent acts by.

pub mod her;
pub mod per;
pub mod philox;
