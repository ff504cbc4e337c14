//! Matrix products by cuBLASLt: descriptors, algorithm and workspace fixed once, then only enqueued.
//!
//! Matrices are row-major here, as kernels and PyTorch see them. cuBLASLt is column-major, and reads
//! the same memory as the transposed matrix; the translation is in this file alone.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cudarc::cublaslt::{result as lt, sys};
use cudarc::driver::CudaStream;

use crate::error::CudaError;
use crate::graph::make_current;
use crate::library::Library;
use crate::memory::DeviceMemory;

/// Hopper's recommended workspace; more than earlier devices use.
const WORKSPACE_BYTES: usize = 32 << 20;

/// How products are computed and what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// f32 storage, f32 products on the ordinary cores.
    Fp32,
    /// f32 storage, products of TF32 (10 bits of mantissa), f32 sums.
    #[default]
    Tf32,
    /// bf16 storage (7 bits of mantissa), f32 sums.
    Bf16,
}

/// Type of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// As the inputs are stored.
    AsInputs,
    /// f32, whatever the inputs are.
    F32,
}

/// What is done to the sums before they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    Nothing,
    /// Adds a vector with one value a column, of the output's type, at this device address.
    Bias(u64),
    /// [`Bias`](Self::Bias), then negative values become zero.
    BiasRelu(u64),
}

/// The three products of a linear layer `y[rows, outputs] = x[rows, inputs] · w[outputs, inputs]ᵀ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// `y[rows, outputs] = x · wᵀ`: first operand `w`, second `x`.
    Forward,
    /// `dx[rows, inputs] = dy · w`: first operand `w`, second `dy`.
    InputGradient,
    /// `dw[outputs, inputs] = dyᵀ · x`: first operand `x`, second `dy`.
    WeightGradient,
}

/// A cuBLASLt handle and one workspace, for products that follow one another on one stream.
pub struct Products {
    handle: sys::cublasLtHandle_t,
    stream: Arc<CudaStream>,
    workspace: DeviceMemory<u8>,
}

// SAFETY: NVIDIA's documentation makes the handle usable from any thread; it is only read.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    /// # Errors
    /// [`CudaError::MissingLibrary`] without cuBLASLt, or what it or the driver refused.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Arc<Self>, CudaError> {
        Library::CublasLt.ensure()?;
        make_current(stream)?;
        let handle = lt::create_handle().map_err(refused("create a handle"))?;
        let workspace = match DeviceMemory::zeroed(stream, WORKSPACE_BYTES) {
            Ok(workspace) => workspace,
            Err(error) => {
                // SAFETY: made above, and nobody else has it.
                let _ = unsafe { lt::destroy_handle(handle) };
                return Err(error);
            }
        };
        Ok(Arc::new(Self {
            handle,
            stream: Arc::clone(stream),
            workspace,
        }))
    }

    /// Plans one product for fixed sizes. Leading dimensions are the sizes themselves: no padding
    /// between rows. With [`Precision::Bf16`] sizes must be multiples of 8, else of 4 (alignment).
    ///
    /// The algorithm is the first that the library's heuristic names, without in-place reductions:
    /// the same library on the same device gives the same bits in every run.
    ///
    /// # Errors
    /// [`CudaError::NoAlgorithm`] where the library has none for this product.
    pub fn plan(
        self: &Arc<Self>,
        product: Product,
        (rows, inputs, outputs): (usize, usize, usize),
        precision: Precision,
        output: Output,
        epilogue: Epilogue,
    ) -> Result<Plan, CudaError> {
        let stored = match precision {
            Precision::Fp32 | Precision::Tf32 => sys::cudaDataType_t::CUDA_R_32F,
            Precision::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        };
        let out = match output {
            Output::AsInputs => stored,
            Output::F32 => sys::cudaDataType_t::CUDA_R_32F,
        };
        // (transpose a, transpose b, stored shape of a, of b, of d), column-major: rows of memory
        // are columns here.
        let (trans_a, trans_b, a, b, d) = match product {
            Product::Forward => (
                true,
                false,
                (inputs, outputs),
                (inputs, rows),
                (outputs, rows),
            ),
            Product::InputGradient => (
                false,
                false,
                (inputs, outputs),
                (outputs, rows),
                (inputs, rows),
            ),
            Product::WeightGradient => (
                false,
                true,
                (inputs, rows),
                (outputs, rows),
                (inputs, outputs),
            ),
        };
        let compute = match precision {
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Fp32 | Precision::Bf16 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        make_current(&self.stream)?;
        let descriptor = lt::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F)
            .map_err(refused("describe a product"))?;
        let mut plan = Plan {
            products: Arc::clone(self),
            descriptor,
            layouts: [std::ptr::null_mut(); 3],
            // SAFETY: plain bytes, overwritten by the heuristic before any use.
            algorithm: unsafe { std::mem::zeroed() },
            elements: [a.0 * a.1, b.0 * b.1, d.0 * d.1],
            label: format!("{product:?} {rows}x{inputs}x{outputs} {precision:?}"),
        };
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        plan.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(trans_a))?;
        plan.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(trans_b))?;
        let (kind, bias) = match epilogue {
            Epilogue::Nothing => (sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT, None),
            Epilogue::Bias(at) => (sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS, Some(at)),
            Epilogue::BiasRelu(at) => (
                sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS,
                Some(at),
            ),
        };
        plan.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, kind)?;
        if let Some(bias) = bias {
            plan.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        }
        let types = [stored, stored, out];
        for ((shape, kind), layout) in [a, b, d].into_iter().zip(types).zip(&mut plan.layouts) {
            *layout =
                lt::create_matrix_layout(kind, shape.0 as u64, shape.1 as u64, shape.0 as i64)
                    .map_err(refused("describe a matrix"))?;
        }
        plan.choose()?;
        Ok(plan)
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        let _ = make_current(&self.stream);
        // SAFETY: made in `new`, destroyed once; plans hold the `Arc`, so none is left.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

impl fmt::Debug for Products {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Products")
            .field("workspace_bytes", &WORKSPACE_BYTES)
            .finish_non_exhaustive()
    }
}

/// One product, ready to be enqueued again and again, also inside a capture.
pub struct Plan {
    products: Arc<Products>,
    descriptor: sys::cublasLtMatmulDesc_t,
    /// Of the two operands and the output.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    elements: [usize; 3],
    label: String,
}

// SAFETY: descriptors are only read once the plan is built.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    /// Enqueues the product on the stream of its [`Products`]. Operands as [`Product`] names them.
    ///
    /// # Safety
    /// The device addresses, and the bias of the epilogue, must hold as many elements of their types
    /// as the product's sizes say, be 16-byte aligned, and stay allocated until the work is done (or
    /// the graph that captured it is gone). The output must not overlap the operands.
    ///
    /// # Errors
    /// What cuBLASLt refused.
    pub unsafe fn enqueue(&self, first: u64, second: u64, output: u64) -> Result<(), CudaError> {
        let stream = &self.products.stream;
        make_current(stream)?;
        let (one, zero) = (1.0f32, 0.0f32);
        let [a, b, d] = self.layouts;
        // SAFETY: the caller's promise for the matrices; scalars are read at the call; descriptor,
        // layouts, algorithm and workspace belong to the plan.
        unsafe {
            lt::matmul(
                self.products.handle,
                self.descriptor,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                first as *const c_void,
                a,
                second as *const c_void,
                b,
                output as *const c_void,
                d,
                output as *mut c_void,
                d,
                &self.algorithm,
                self.products.workspace.address() as *mut c_void,
                WORKSPACE_BYTES,
                stream.cu_stream().cast(),
            )
        }
        .map_err(refused("enqueue a product"))
    }

    /// Elements of the two operands and of the output, for length checks.
    pub fn elements(&self) -> [usize; 3] {
        self.elements
    }

    fn set<T>(
        &mut self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), CudaError> {
        // SAFETY: the value lives through the call and has the size given.
        unsafe {
            lt::set_matmul_desc_attribute(
                self.descriptor,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        }
        .map_err(refused("describe a product"))
    }

    fn choose(&mut self) -> Result<(), CudaError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = lt::create_matmul_pref().map_err(refused("make a preference"))?;
        let bytes = WORKSPACE_BYTES;
        // Partial sums meet in f32 in the workspace, in a fixed order.
        let reductions =
            sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let [a, b, d] = self.layouts;
        // SAFETY: both attributes live through the calls; the preference is destroyed below.
        let found = unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const bytes).cast(),
                size_of::<usize>(),
            )
            .and_then(|()| {
                lt::set_matmul_pref_attribute(
                    preference,
                    Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                    (&raw const reductions).cast(),
                    size_of::<u32>(),
                )
            })
            .and_then(|()| {
                lt::get_matmul_algo_heuristic(
                    self.products.handle,
                    self.descriptor,
                    a,
                    b,
                    d,
                    d,
                    preference,
                )
            })
        };
        // SAFETY: made above, destroyed once.
        let _ = unsafe { lt::destroy_matmul_pref(preference) };
        let found = found.map_err(|error| CudaError::NoAlgorithm {
            product: self.label.clone(),
            status: format!("{:?}", error.0),
        })?;
        self.algorithm = found.algo;
        Ok(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: made in `plan`, destroyed once. A product under way has read them already.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.descriptor);
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(&self.label).finish()
    }
}

fn refused(doing: &'static str) -> impl Fn(lt::CublasError) -> CudaError {
    move |error| CudaError::Cublas {
        doing,
        status: format!("{:?}", error.0),
    }
}
