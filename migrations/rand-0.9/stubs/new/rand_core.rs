//! Stand-in for `rand_core` 0.9: signatures that fixtures are checked against, nothing that runs.
#![allow(unused_variables)]

use std::convert::Infallible;
use std::fmt;
use std::ops::DerefMut;

pub trait RngCore {
    fn next_u32(&mut self) -> u32;
    fn next_u64(&mut self) -> u64;
    fn fill_bytes(&mut self, dst: &mut [u8]);
}

impl<T: DerefMut> RngCore for T
where
    T::Target: RngCore,
{
    fn next_u32(&mut self) -> u32 {
        unimplemented!()
    }
    fn next_u64(&mut self) -> u64 {
        unimplemented!()
    }
    fn fill_bytes(&mut self, dst: &mut [u8]) {}
}

pub trait CryptoRng: RngCore {}

pub trait TryRngCore {
    type Error: fmt::Debug + fmt::Display;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error>;
    fn try_next_u64(&mut self) -> Result<u64, Self::Error>;
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Self::Error>;
    fn unwrap_err(self) -> UnwrapErr<Self>
    where
        Self: Sized,
    {
        UnwrapErr(self)
    }
}

impl<R: RngCore + ?Sized> TryRngCore for R {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unimplemented!()
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unimplemented!()
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        Ok(())
    }
}

pub trait TryCryptoRng: TryRngCore {}

#[derive(Clone, Copy, Debug, Default)]
pub struct UnwrapErr<R: TryRngCore>(pub R);

impl<R: TryRngCore> RngCore for UnwrapErr<R> {
    fn next_u32(&mut self) -> u32 {
        unimplemented!()
    }
    fn next_u64(&mut self) -> u64 {
        unimplemented!()
    }
    fn fill_bytes(&mut self, dst: &mut [u8]) {}
}

#[derive(Clone, Copy, Debug, Default)]
pub struct OsRng;

#[derive(Debug)]
pub struct OsError;

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error")
    }
}

impl TryRngCore for OsRng {
    type Error = OsError;
    fn try_next_u32(&mut self) -> Result<u32, OsError> {
        Err(OsError)
    }
    fn try_next_u64(&mut self) -> Result<u64, OsError> {
        Err(OsError)
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), OsError> {
        Err(OsError)
    }
}

pub trait SeedableRng: Sized {
    type Seed: Clone + Default + AsRef<[u8]> + AsMut<[u8]>;
    fn from_seed(seed: Self::Seed) -> Self;
    fn seed_from_u64(state: u64) -> Self {
        unimplemented!()
    }
    fn from_rng(rng: &mut impl RngCore) -> Self {
        unimplemented!()
    }
    fn try_from_rng<R: TryRngCore>(rng: &mut R) -> Result<Self, R::Error> {
        unimplemented!()
    }
    fn from_os_rng() -> Self {
        unimplemented!()
    }
}
