// What every kernel file shares: fixed-order warp arithmetic, bf16 by hand, and the macro for dynamic shared memory.
//
// No inline PTX and no CUDA header: the same text compiles under NVRTC for every architecture, and as C++20 on a machine
// without a GPU (tests/cuda_on_cpu). Sums run in an order that depends on nothing but the lane, so the same inputs give the
// same bits on any GPU.
#pragma once

#ifndef CUDA_ON_CPU
#define DYNAMIC_SHARED(T, name) extern __shared__ T name[]
#endif

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;

constexpr u32 FULL_WARP = 0xffffffffu;

// Sum over the 32 lanes, the same bits in every lane.
__device__ __forceinline__ double warp_sum(double value) {
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(FULL_WARP, value, offset);
    return value;
}

// Inclusive sums over the lanes. Additions associate differently in different lanes, so neighbours that should be equal may
// differ by a rounding: callers must not read more into "greater" than that.
__device__ __forceinline__ double warp_inclusive_sum(double value, int lane) {
    for (int offset = 1; offset < 32; offset <<= 1) {
        const double other = __shfl_up_sync(FULL_WARP, value, offset);
        if (lane >= offset) value += other;
    }
    return value;
}

__device__ __forceinline__ u32 warp_max(u32 value) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        const u32 other = __shfl_xor_sync(FULL_WARP, value, offset);
        value = other > value ? other : value;
    }
    return value;
}

__device__ __forceinline__ u32 warp_min(u32 value) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        const u32 other = __shfl_xor_sync(FULL_WARP, value, offset);
        value = other < value ? other : value;
    }
    return value;
}

// bf16 is the upper half of an f32; rounding is to nearest, ties to even, and NaN stays NaN.
__device__ __forceinline__ u16 bf16_from_f32(float value) {
    const u32 bits = (u32)__float_as_int(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)((bits >> 16) | 0x40u);
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ float f32_from_bf16(u16 value) { return __int_as_float((int)((u32)value << 16)); }

// True in exactly one block of the launch: the last to arrive. The ticket returns to zero by itself, so a graph can be
// replayed without a reset. Call it from one thread, after __threadfence() has published the block's results.
__device__ __forceinline__ bool is_last_block(u32* ticket) { return atomicInc(ticket, gridDim.x - 1u) == gridDim.x - 1u; }

// Programmatic dependent launch (sm_90): a kernel may take its place on the device while its predecessor on the stream still
// drains. Elsewhere, and where the launch did not ask for it, these do nothing.
//
// Lets the successor be launched so.
__device__ __forceinline__ void let_next_kernel_start() {
#if !defined(CUDA_ON_CPU) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the predecessor's writes are there. What comes before touches nothing that it writes.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if !defined(CUDA_ON_CPU) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Both, as the first statement of a kernel.
__device__ __forceinline__ void previous_kernel_done() {
    let_next_kernel_start();
    wait_for_previous_kernel();
}
