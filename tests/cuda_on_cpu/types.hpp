// Language keywords and vector types of CUDA C++, in terms of C++17.
#pragma once
#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __restrict__ __restrict
// The attribute form stands where CUDA allows `__align__`: after `struct` and after `__shared__`.
#define __align__(bytes) __attribute__((aligned(bytes)))
// `__noinline__` is left alone: the standard library spells an attribute that way.

// One block runs at a time, so static storage is the block's shared memory, with AddressSanitizer's fences around it.
#define __shared__ static

// Dynamic shared memory. `extern __shared__ T name[];` has no spelling in C++, so kernels write
// `DYNAMIC_SHARED(T, name);`, which `kernels/common.cuh` defines for the GPU.
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(::cuda_on_cpu::dynamic_shared())

// CUDA's alignments: a 16-byte load of a float4 that is not aligned faults on the GPU and is reported here by UBSan.
#define CUDA_ON_CPU_VECTOR(T, name, a1, a2, a3, a4)                    \
    struct alignas(a1) name##1 { T x; };                               \
    struct alignas(a2) name##2 { T x, y; };                            \
    struct alignas(a3) name##3 { T x, y, z; };                         \
    struct alignas(a4) name##4 { T x, y, z, w; };                      \
    inline name##1 make_##name##1(T x) { return {x}; }                 \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_ON_CPU_VECTOR(signed char, char, 1, 2, 1, 4)
CUDA_ON_CPU_VECTOR(unsigned char, uchar, 1, 2, 1, 4)
CUDA_ON_CPU_VECTOR(short, short, 2, 4, 2, 8)
CUDA_ON_CPU_VECTOR(unsigned short, ushort, 2, 4, 2, 8)
CUDA_ON_CPU_VECTOR(int, int, 4, 8, 4, 16)
CUDA_ON_CPU_VECTOR(unsigned, uint, 4, 8, 4, 16)
CUDA_ON_CPU_VECTOR(long, long, 8, 16, 8, 16)
CUDA_ON_CPU_VECTOR(unsigned long, ulong, 8, 16, 8, 16)
CUDA_ON_CPU_VECTOR(long long, longlong, 8, 16, 8, 16)
CUDA_ON_CPU_VECTOR(unsigned long long, ulonglong, 8, 16, 8, 16)
CUDA_ON_CPU_VECTOR(float, float, 4, 8, 4, 16)
CUDA_ON_CPU_VECTOR(double, double, 8, 16, 8, 16)
#undef CUDA_ON_CPU_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};

// Set by the scheduler before a fiber goes on; kernels only read them.
inline uint3 threadIdx{0, 0, 0};
inline uint3 blockIdx{0, 0, 0};
inline dim3 blockDim{};
inline dim3 gridDim{};
constexpr int warpSize = 32;
