//! Kernel tests, written once: each case builds a [`Program`] and checks what comes back. The GPU and the C++ build of
//! the kernels are two [`Backend`]s.

pub mod her;
pub mod per;
pub mod tree;

use std::marker::PhantomData;

use ml_dqn::launch::LaunchShape;
use ml_dqn::launch::memory::{DeviceValue, as_bytes, as_bytes_mut};

/// Runs programs; panics where one cannot be run.
pub trait Backend {
    /// Runs the launches in order on copies of the buffers, and writes the buffers back.
    fn run(&self, program: &mut Program);
}

/// Buffers, and launches that use them.
#[derive(Debug, Default)]
pub struct Program {
    pub buffers: Vec<Vec<u8>>,
    pub launches: Vec<Launch>,
}

/// One launch.
#[derive(Debug)]
pub struct Launch {
    pub kernel: &'static str,
    pub shape: LaunchShape,
    pub arguments: Vec<Argument>,
}

/// One argument: its bytes, with addresses of buffers put in at some places.
#[derive(Debug, Clone, Default)]
pub struct Argument {
    pub bytes: Vec<u8>,
    /// (place in `bytes`, buffer)
    pub addresses: Vec<(usize, usize)>,
}

/// A buffer of a program.
#[derive(Debug)]
pub struct Buffer<T>(usize, PhantomData<T>);

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Buffer<T> {}

impl Program {
    /// A buffer with these values.
    pub fn buffer<T: DeviceValue>(&mut self, values: &[T]) -> Buffer<T> {
        self.buffers.push(as_bytes(values).to_vec());
        Buffer(self.buffers.len() - 1, PhantomData)
    }

    /// A buffer whose bytes are all 0xA5: what a kernel leaves unwritten shows.
    pub fn unwritten<T: DeviceValue>(&mut self, len: usize) -> Buffer<T> {
        self.buffers.push(vec![0xA5; len * size_of::<T>()]);
        Buffer(self.buffers.len() - 1, PhantomData)
    }

    pub fn read<T: DeviceValue + Default>(&self, buffer: Buffer<T>) -> Vec<T> {
        let bytes = &self.buffers[buffer.0];
        let mut values = vec![T::default(); bytes.len() / size_of::<T>()];
        as_bytes_mut(&mut values).copy_from_slice(bytes);
        values
    }

    pub fn write<T: DeviceValue>(&mut self, buffer: Buffer<T>, values: &[T]) {
        self.buffers[buffer.0] = as_bytes(values).to_vec();
    }

    pub fn launch(&mut self, kernel: &'static str, shape: LaunchShape, arguments: Vec<Argument>) {
        self.launches.push(Launch {
            kernel,
            shape,
            arguments,
        });
    }

    /// Runs what was launched, and forgets it; the buffers stay.
    pub fn run(&mut self, backend: &dyn Backend) {
        backend.run(self);
        self.launches.clear();
    }
}

/// A scalar argument.
pub fn value<T: DeviceValue>(value: T) -> Argument {
    Argument {
        bytes: as_bytes(&[value]).to_vec(),
        addresses: Vec::new(),
    }
}

/// A buffer's address.
pub fn address<T>(buffer: Buffer<T>) -> Argument {
    Argument {
        bytes: vec![0; 8],
        addresses: vec![(0, buffer.0)],
    }
}

/// No buffer.
pub fn null() -> Argument {
    value(0u64)
}

/// A struct passed by value, from its fields in order; the caller sees to the padding.
pub fn fields(fields: impl IntoIterator<Item = Argument>) -> Argument {
    let mut whole = Argument::default();
    for field in fields {
        let at = whole.bytes.len();
        whole.bytes.extend(field.bytes);
        whole.addresses.extend(
            field
                .addresses
                .iter()
                .map(|&(place, buffer)| (at + place, buffer)),
        );
    }
    whole
}

/// SplitMix64 (Steele, Lea, Flood 2014): inputs that are the same on every run.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In [0, 1), with 24 bits.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    pub fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
}

/// Says where two sequences of bits first differ.
pub fn assert_same_bits(what: &str, left: &[f64], right: &[f64]) {
    assert_eq!(left.len(), right.len(), "{what}: lengths differ");
    let differ: Vec<usize> = (0..left.len())
        .filter(|&i| left[i].to_bits() != right[i].to_bits())
        .collect();
    if let Some(&first) = differ.first() {
        panic!(
            "{what}: {} of {} differ, first at {first}: {} and {}",
            differ.len(),
            left.len(),
            left[first],
            right[first]
        );
    }
}

/// A case: its name and what it does.
pub type Case = (&'static str, fn(&dyn Backend));

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = per::cases();
    cases.extend(her::cases());
    cases
}
