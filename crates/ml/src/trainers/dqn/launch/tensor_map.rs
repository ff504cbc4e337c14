//! What tells the bulk tensor copy engine how a matrix lies.

use cudarc::driver::sys::{
    self, CUtensorMapDataType_enum as Element, CUtensorMapSwizzle_enum as Swizzle,
};
use ml_cuda::CudaError;

/// A row-major matrix of (columns, rows), read or written in boxes of (columns, rows). The elements are bf16 or f32.
pub fn tensor_map(
    element: Element,
    address: u64,
    (columns, rows): (usize, usize),
    (box_columns, box_rows): (usize, usize),
    swizzle: Swizzle,
) -> Result<sys::CUtensorMap, CudaError> {
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    let bytes = match element {
        Element::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 => 2,
        _ => 4,
    };
    let extent = [columns as u64, rows as u64];
    let stride = [bytes * columns as u64];
    let boxes = [box_columns as u32, box_rows as u32];
    let steps = [1u32, 1];
    // SAFETY: all arrays have the lengths that rank 2 asks for and live through the call; the address is
    // only written into the map.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut map,
            element,
            2,
            address as *mut std::ffi::c_void,
            extent.as_ptr(),
            stride.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .result()?;
    Ok(map)
}
