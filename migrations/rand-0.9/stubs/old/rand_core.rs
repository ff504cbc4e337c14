//! Stand-in for `rand_core` 0.6: signatures that fixtures are checked against, nothing that runs.
#![allow(unused_variables)]

use std::fmt;

#[derive(Debug)]
pub struct Error;

impl Error {
    pub fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(err: E) -> Self {
        Error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error")
    }
}

impl std::error::Error for Error {}

pub trait RngCore {
    fn next_u32(&mut self) -> u32;
    fn next_u64(&mut self) -> u64;
    fn fill_bytes(&mut self, dest: &mut [u8]);
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error>;
}

macro_rules! forward {
    ($($head:tt)*) => {
        $($head)* {
            fn next_u32(&mut self) -> u32 {
                unimplemented!()
            }
            fn next_u64(&mut self) -> u64 {
                unimplemented!()
            }
            fn fill_bytes(&mut self, dest: &mut [u8]) {}
            fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
                Ok(())
            }
        }
    };
}

forward!(impl<R: RngCore + ?Sized> RngCore for &mut R);
forward!(impl<R: RngCore + ?Sized> RngCore for Box<R>);
forward!(impl RngCore for OsRng);

pub trait CryptoRng {}

#[derive(Clone, Copy, Debug, Default)]
pub struct OsRng;

impl CryptoRng for OsRng {}

pub trait SeedableRng: Sized {
    type Seed: Sized + Default + AsMut<[u8]>;
    fn from_seed(seed: Self::Seed) -> Self;
    fn seed_from_u64(state: u64) -> Self {
        unimplemented!()
    }
    fn from_rng<R: RngCore>(rng: R) -> Result<Self, Error> {
        Err(Error)
    }
    fn from_entropy() -> Self {
        unimplemented!()
    }
}
