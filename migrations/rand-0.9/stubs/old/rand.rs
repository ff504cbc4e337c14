//! Stand-in for `rand` 0.8: signatures that fixtures are checked against, nothing that runs.
#![allow(unused_variables, dead_code)]

pub use rand_core::{CryptoRng, Error, RngCore, SeedableRng};

use distributions::uniform::{SampleRange, SampleUniform};
use distributions::Distribution;

pub fn thread_rng() -> rngs::ThreadRng {
    unimplemented!()
}

pub fn random<T>() -> T
where
    distributions::Standard: Distribution<T>,
{
    unimplemented!()
}

pub trait Rng: RngCore {
    fn r#gen<T>(&mut self) -> T
    where
        distributions::Standard: Distribution<T>,
    {
        unimplemented!()
    }
    fn gen_range<T: SampleUniform, R: SampleRange<T>>(&mut self, range: R) -> T {
        unimplemented!()
    }
    fn gen_bool(&mut self, p: f64) -> bool {
        unimplemented!()
    }
    fn gen_ratio(&mut self, numerator: u32, denominator: u32) -> bool {
        unimplemented!()
    }
    fn sample<T, D: Distribution<T>>(&mut self, distr: D) -> T {
        unimplemented!()
    }
    fn sample_iter<T, D: Distribution<T>>(self, distr: D) -> distributions::DistIter<D, Self, T>
    where
        Self: Sized,
    {
        unimplemented!()
    }
    fn fill<T: ?Sized>(&mut self, dest: &mut T) {}
    fn try_fill<T: ?Sized>(&mut self, dest: &mut T) -> Result<(), Error> {
        Ok(())
    }
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
                fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
                    Ok(())
                }
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
    use rand_core::{Error, RngCore, SeedableRng};

    generator!(StdRng, SmallRng, ThreadRng);
    seedable!(StdRng, SmallRng);
}

pub mod distributions {
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

        pub trait UniformSampler: Sized {
            type X;
            fn new<B1, B2>(low: B1, high: B2) -> Self
            where
                B1: SampleBorrow<Self::X> + Sized,
                B2: SampleBorrow<Self::X> + Sized;
            fn new_inclusive<B1, B2>(low: B1, high: B2) -> Self
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
                        fn new<B1, B2>(low: B1, high: B2) -> Self
                        where
                            B1: SampleBorrow<Self::X> + Sized,
                            B2: SampleBorrow<Self::X> + Sized,
                        {
                            unimplemented!()
                        }
                        fn new_inclusive<B1, B2>(low: B1, high: B2) -> Self
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

    pub struct DistIter<D, R, T>(D, R, std::marker::PhantomData<T>);

    impl<D, R, T> Iterator for DistIter<D, R, T> {
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

    pub struct Standard;
    pub struct Alphanumeric;
    pub struct Open01;
    pub struct Bernoulli(());

    distribution!(Standard: bool, u8, u16, u32, u64, i64, f32, f64, usize, isize, [usize; 2]);
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

    pub trait DistString {
        fn sample_string<R: Rng + ?Sized>(&self, rng: &mut R, len: usize) -> String;
    }

    impl DistString for Alphanumeric {
        fn sample_string<R: Rng + ?Sized>(&self, rng: &mut R, len: usize) -> String {
            unimplemented!()
        }
    }

    pub struct Uniform<X: uniform::SampleUniform>(X::Sampler);

    impl<X: uniform::SampleUniform> Uniform<X> {
        pub fn new<B1, B2>(low: B1, high: B2) -> Uniform<X>
        where
            B1: uniform::SampleBorrow<X> + Sized,
            B2: uniform::SampleBorrow<X> + Sized,
        {
            unimplemented!()
        }
        pub fn new_inclusive<B1, B2>(low: B1, high: B2) -> Uniform<X>
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

    impl<X: uniform::SampleUniform> From<std::ops::Range<X>> for Uniform<X> {
        fn from(range: std::ops::Range<X>) -> Self {
            unimplemented!()
        }
    }

    pub use self::weights::{WeightedError, WeightedIndex};

    mod weights {
        use super::super::Rng;
        use super::Distribution;

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WeightedError {
            NoItem,
            InvalidWeight,
            AllWeightsZero,
            TooMany,
        }

        pub struct WeightedIndex<X>(X);

        impl<X> WeightedIndex<X> {
            pub fn new<'w>(weights: &'w [X]) -> Result<WeightedIndex<X>, WeightedError> {
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

    pub trait SliceRandom {
        type Item;
        fn choose<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<&Self::Item>;
        fn choose_mut<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<&mut Self::Item>;
        fn shuffle<R: Rng + ?Sized>(&mut self, rng: &mut R);
    }

    impl<T> SliceRandom for [T] {
        type Item = T;
        fn choose<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<&T> {
            None
        }
        fn choose_mut<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<&mut T> {
            None
        }
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
    pub use crate::distributions::Distribution;
    pub use crate::rngs::{SmallRng, StdRng, ThreadRng};
    pub use crate::seq::{IteratorRandom, SliceRandom};
    pub use crate::{random, thread_rng, CryptoRng, Rng, RngCore, SeedableRng};
}
