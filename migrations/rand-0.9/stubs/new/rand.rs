//! Stand-in for `rand` 0.9: signatures that fixtures are checked against, nothing that runs.
#![allow(unused_variables, dead_code)]

pub use rand_core::{CryptoRng, RngCore, SeedableRng, TryCryptoRng, TryRngCore};

use distr::uniform::{SampleRange, SampleUniform};
use distr::Distribution;

pub fn rng() -> rngs::ThreadRng {
    unimplemented!()
}

pub fn random<T>() -> T
where
    distr::StandardUniform: Distribution<T>,
{
    unimplemented!()
}

pub trait Rng: RngCore {
    fn random<T>(&mut self) -> T
    where
        distr::StandardUniform: Distribution<T>,
    {
        unimplemented!()
    }
    fn random_range<T: SampleUniform, R: SampleRange<T>>(&mut self, range: R) -> T {
        unimplemented!()
    }
    fn random_bool(&mut self, p: f64) -> bool {
        unimplemented!()
    }
    fn random_ratio(&mut self, numerator: u32, denominator: u32) -> bool {
        unimplemented!()
    }
    fn sample<T, D: Distribution<T>>(&mut self, distr: D) -> T {
        unimplemented!()
    }
    fn sample_iter<T, D: Distribution<T>>(self, distr: D) -> distr::Iter<D, Self, T>
    where
        Self: Sized,
    {
        unimplemented!()
    }
    fn fill<T: ?Sized>(&mut self, dest: &mut T) {}
}

impl<R: RngCore + ?Sized> Rng for R {}

macro_rules! generator {
    ($($name:ident),*) => {
        $(
            #[derive(Clone, Debug)]
            pub struct $name(());

            impl RngCore for $name {
                fn next_u32(&mut self) -> u32 {
                    unimplemented!()
                }
                fn next_u64(&mut self) -> u64 {
                    unimplemented!()
                }
                fn fill_bytes(&mut self, dest: &mut [u8]) {}
            }
        )*
    };
}

macro_rules! seedable {
    ($($name:ident),*) => {
        $(
            impl SeedableRng for $name {
                type Seed = [u8; 32];
                fn from_seed(seed: [u8; 32]) -> Self {
                    $name(())
                }
            }
        )*
    };
}

pub mod rngs {
    pub use rand_core::OsRng;
    use rand_core::{RngCore, SeedableRng};

    generator!(StdRng, SmallRng, ThreadRng);
    seedable!(StdRng, SmallRng);
}

pub mod distr {
    use super::Rng;

    pub mod uniform {
        use super::super::Rng;
        pub use super::Uniform;

        pub trait SampleUniform: Sized {
            type Sampler: UniformSampler<X = Self>;
        }

        pub trait SampleBorrow<B> {
            fn borrow(&self) -> &B;
        }

        impl<B: SampleUniform> SampleBorrow<B> for B {
            fn borrow(&self) -> &B {
                self
            }
        }

        pub trait SampleRange<T> {}
        impl<T: SampleUniform> SampleRange<T> for std::ops::Range<T> {}
        impl<T: SampleUniform> SampleRange<T> for std::ops::RangeInclusive<T> {}

        #[derive(Clone, Copy, Debug)]
        pub enum Error {
            EmptyRange,
            NonFinite,
        }

        pub trait UniformSampler: Sized {
            type X;
            fn new<B1, B2>(low: B1, high: B2) -> Result<Self, Error>
            where
                B1: SampleBorrow<Self::X> + Sized,
                B2: SampleBorrow<Self::X> + Sized;
            fn new_inclusive<B1, B2>(low: B1, high: B2) -> Result<Self, Error>
            where
                B1: SampleBorrow<Self::X> + Sized,
                B2: SampleBorrow<Self::X> + Sized;
            fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Self::X;
        }

        macro_rules! sampler {
            ($name:ident: $($ty:ty),*) => {
                #[derive(Clone, Copy, Debug)]
                pub struct $name<X>(X);
                $(
                    impl UniformSampler for $name<$ty> {
                        type X = $ty;
                        fn new<B1, B2>(low: B1, high: B2) -> Result<Self, Error>
                        where
                            B1: SampleBorrow<Self::X> + Sized,
                            B2: SampleBorrow<Self::X> + Sized,
                        {
                            unimplemented!()
                        }
                        fn new_inclusive<B1, B2>(low: B1, high: B2) -> Result<Self, Error>
                        where
                            B1: SampleBorrow<Self::X> + Sized,
                            B2: SampleBorrow<Self::X> + Sized,
                        {
                            unimplemented!()
                        }
                        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> $ty {
                            unimplemented!()
                        }
                    }
                    impl SampleUniform for $ty {
                        type Sampler = $name<$ty>;
                    }
                )*
            };
        }

        sampler!(UniformInt: u8, u16, u32, u64, i32, usize);
        sampler!(UniformFloat: f32, f64);
    }

    pub trait Distribution<T> {
        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> T;
    }

    impl<T, D: Distribution<T>> Distribution<T> for &D {
        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> T {
            unimplemented!()
        }
    }

    pub struct Iter<D, R, T>(D, R, std::marker::PhantomData<T>);

    impl<D, R, T> Iterator for Iter<D, R, T> {
        type Item = T;
        fn next(&mut self) -> Option<T> {
            None
        }
    }

    macro_rules! distribution {
        ($name:ty: $($ty:ty),*) => {
            $(
                impl Distribution<$ty> for $name {
                    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> $ty {
                        unimplemented!()
                    }
                }
            )*
        };
    }

    pub struct StandardUniform;
    pub struct Alphanumeric;
    pub struct Open01;
    pub struct Bernoulli(());

    distribution!(StandardUniform: bool, u8, u16, u32, u64, i64, f32, f64);
    distribution!(Alphanumeric: u8);
    distribution!(Open01: f32, f64);
    distribution!(Bernoulli: bool);

    impl Bernoulli {
        pub fn new(p: f64) -> Result<Bernoulli, BernoulliError> {
            unimplemented!()
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub enum BernoulliError {
        InvalidProbability,
    }

    pub trait SampleString {
        fn sample_string<R: Rng + ?Sized>(&self, rng: &mut R, len: usize) -> String;
    }

    impl SampleString for Alphanumeric {
        fn sample_string<R: Rng + ?Sized>(&self, rng: &mut R, len: usize) -> String {
            unimplemented!()
        }
    }

    pub struct Uniform<X: uniform::SampleUniform>(X::Sampler);

    impl<X: uniform::SampleUniform> Uniform<X> {
        pub fn new<B1, B2>(low: B1, high: B2) -> Result<Uniform<X>, uniform::Error>
        where
            B1: uniform::SampleBorrow<X> + Sized,
            B2: uniform::SampleBorrow<X> + Sized,
        {
            unimplemented!()
        }
        pub fn new_inclusive<B1, B2>(low: B1, high: B2) -> Result<Uniform<X>, uniform::Error>
        where
            B1: uniform::SampleBorrow<X> + Sized,
            B2: uniform::SampleBorrow<X> + Sized,
        {
            unimplemented!()
        }
    }

    impl<X: uniform::SampleUniform> Distribution<X> for Uniform<X> {
        fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> X {
            unimplemented!()
        }
    }

    impl<X: uniform::SampleUniform> TryFrom<std::ops::Range<X>> for Uniform<X> {
        type Error = uniform::Error;
        fn try_from(range: std::ops::Range<X>) -> Result<Self, uniform::Error> {
            unimplemented!()
        }
    }

    pub mod weighted {
        use super::super::Rng;
        use super::Distribution;

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            InvalidInput,
            InvalidWeight,
            InsufficientNonZero,
            Overflow,
        }

        pub struct WeightedIndex<X>(X);

        impl<X> WeightedIndex<X> {
            pub fn new<'w>(weights: &'w [X]) -> Result<WeightedIndex<X>, Error> {
                unimplemented!()
            }
        }

        impl<X> Distribution<usize> for WeightedIndex<X> {
            fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
                unimplemented!()
            }
        }
    }
}

pub mod seq {
    use super::Rng;

    pub trait IndexedRandom {
        type Output;
        fn choose<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<&Self::Output>;
    }

    pub trait IndexedMutRandom: IndexedRandom {
        fn choose_mut<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<&mut Self::Output>;
    }

    pub trait SliceRandom: IndexedMutRandom {
        fn shuffle<R: Rng + ?Sized>(&mut self, rng: &mut R);
    }

    impl<T> IndexedRandom for [T] {
        type Output = T;
        fn choose<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<&T> {
            None
        }
    }

    impl<T> IndexedMutRandom for [T] {
        fn choose_mut<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<&mut T> {
            None
        }
    }

    impl<T> SliceRandom for [T] {
        fn shuffle<R: Rng + ?Sized>(&mut self, rng: &mut R) {}
    }

    pub trait IteratorRandom: Iterator + Sized {
        fn choose<R: Rng + ?Sized>(self, rng: &mut R) -> Option<Self::Item> {
            None
        }
    }

    impl<I: Iterator + Sized> IteratorRandom for I {}
}

pub mod prelude {
    pub use crate::distr::Distribution;
    pub use crate::rngs::{SmallRng, StdRng, ThreadRng};
    pub use crate::seq::{IndexedMutRandom, IndexedRandom, IteratorRandom, SliceRandom};
    pub use crate::{CryptoRng, Rng, RngCore, SeedableRng};
}
