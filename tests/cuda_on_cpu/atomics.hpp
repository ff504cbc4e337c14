// Atomic operations. Fibers are never interrupted, so plain reads and writes are atomic here. The overloads are CUDA's
// own and no more, so that what compiles here compiles there.
#pragma once
#include <cstring>

#define CUDA_ON_CPU_ATOMIC(name, T, expression)                                 \
    inline T name(T* address, T value) {                                        \
        const T old = *address;                                                 \
        *address = static_cast<T>(expression);                                  \
        return old;                                                             \
    }                                                                           \
    inline T name##_block(T* address, T value) { return name(address, value); } \
    inline T name##_system(T* address, T value) { return name(address, value); }
#define CUDA_ON_CPU_ATOMIC_32(name, expression) \
    CUDA_ON_CPU_ATOMIC(name, int, expression) CUDA_ON_CPU_ATOMIC(name, unsigned, expression)
// Integer arithmetic wraps on the GPU, where signed overflow would be undefined here.
inline int cuda_on_cpu_add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
inline int cuda_on_cpu_subtract(int a, int b) { return int(unsigned(a) - unsigned(b)); }
template <class T>
T cuda_on_cpu_add(T a, T b) {
    return a + b;
}
template <class T>
T cuda_on_cpu_subtract(T a, T b) {
    return a - b;
}

CUDA_ON_CPU_ATOMIC_32(atomicAdd, cuda_on_cpu_add(old, value))
CUDA_ON_CPU_ATOMIC(atomicAdd, unsigned long long, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, float, old + value)
CUDA_ON_CPU_ATOMIC(atomicAdd, double, old + value)
CUDA_ON_CPU_ATOMIC_32(atomicSub, cuda_on_cpu_subtract(old, value))
CUDA_ON_CPU_ATOMIC_32(atomicExch, value)
CUDA_ON_CPU_ATOMIC(atomicExch, unsigned long long, value)
CUDA_ON_CPU_ATOMIC(atomicExch, float, value)
CUDA_ON_CPU_ATOMIC_32(atomicMin, value < old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicMin, long long, value < old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicMin, unsigned long long, value < old ? value : old)
CUDA_ON_CPU_ATOMIC_32(atomicMax, value > old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicMax, long long, value > old ? value : old)
CUDA_ON_CPU_ATOMIC(atomicMax, unsigned long long, value > old ? value : old)
CUDA_ON_CPU_ATOMIC_32(atomicAnd, old& value)
CUDA_ON_CPU_ATOMIC(atomicAnd, unsigned long long, old& value)
CUDA_ON_CPU_ATOMIC_32(atomicOr, old | value)
CUDA_ON_CPU_ATOMIC(atomicOr, unsigned long long, old | value)
CUDA_ON_CPU_ATOMIC_32(atomicXor, old ^ value)
CUDA_ON_CPU_ATOMIC(atomicXor, unsigned long long, old ^ value)
CUDA_ON_CPU_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUDA_ON_CPU_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef CUDA_ON_CPU_ATOMIC
#undef CUDA_ON_CPU_ATOMIC_32

#define CUDA_ON_CPU_CAS(T)                                  \
    inline T atomicCAS(T* address, T expected, T desired) { \
        const T old = *address;                             \
        if (old == expected) *address = desired;            \
        return old;                                         \
    }
CUDA_ON_CPU_CAS(int)
CUDA_ON_CPU_CAS(unsigned)
CUDA_ON_CPU_CAS(unsigned long long)
CUDA_ON_CPU_CAS(unsigned short)
#undef CUDA_ON_CPU_CAS
