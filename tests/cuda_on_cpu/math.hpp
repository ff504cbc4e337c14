// Device functions: bits, casts, roundings, fast approximations (exact here), cached loads (plain here).
#pragma once
#include <assert.h>
#include <math.h>
#include <stdio.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

// min and max of CUDA: for every pair of arithmetic types, a NaN argument loses against a number.
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
std::common_type_t<A, B> max(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>)
        return fmax(C(a), C(b));
    else
        return C(a) < C(b) ? C(b) : C(a);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
std::common_type_t<A, B> min(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>)
        return fmin(C(a), C(b));
    else
        return C(b) < C(a) ? C(b) : C(a);
}

// Bits.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= unsigned(bytes >> (selector >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
    return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) >> (shift & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
__extension__ typedef unsigned __int128 cuda_on_cpu_u128;
__extension__ typedef __int128 cuda_on_cpu_i128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(cuda_on_cpu_u128(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return (long long)(cuda_on_cpu_i128(a) * b >> 64); }

// Casts of bits.
template <class To, class From>
To cuda_on_cpu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline float __int_as_float(int x) { return cuda_on_cpu_bits<float>(x); }
inline int __float_as_int(float x) { return cuda_on_cpu_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return cuda_on_cpu_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return cuda_on_cpu_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return cuda_on_cpu_bits<double>(x); }
inline long long __double_as_longlong(double x) { return cuda_on_cpu_bits<long long>(x); }
inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}
inline int __double2hiint(double x) { return int((unsigned long long)__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int((unsigned)__double_as_longlong(x)); }

// Conversions to integers saturate, and NaN becomes 0, where a C++ cast would be undefined.
template <class I, class F>
I cuda_on_cpu_saturate(F x) {
    if (x != x) return 0;
    // The largest integer may round up to a float beyond it, so "at least" is the right test.
    if (x >= F(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    if (x <= F(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    return I(x);
}
#define CUDA_ON_CPU_CONVERT(name, F, I)                                       \
    inline I name##_rn(F x) { return cuda_on_cpu_saturate<I>(nearbyint(x)); } \
    inline I name##_rz(F x) { return cuda_on_cpu_saturate<I>(trunc(x)); }     \
    inline I name##_rd(F x) { return cuda_on_cpu_saturate<I>(floor(x)); }     \
    inline I name##_ru(F x) { return cuda_on_cpu_saturate<I>(ceil(x)); }
CUDA_ON_CPU_CONVERT(__float2int, float, int)
CUDA_ON_CPU_CONVERT(__float2uint, float, unsigned)
CUDA_ON_CPU_CONVERT(__float2ll, float, long long)
CUDA_ON_CPU_CONVERT(__float2ull, float, unsigned long long)
CUDA_ON_CPU_CONVERT(__double2int, double, int)
CUDA_ON_CPU_CONVERT(__double2uint, double, unsigned)
CUDA_ON_CPU_CONVERT(__double2ll, double, long long)
CUDA_ON_CPU_CONVERT(__double2ull, double, unsigned long long)
#undef CUDA_ON_CPU_CONVERT
inline float __double2float_rn(double x) { return float(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }

// Arithmetic that is never fused (compile with -ffp-contract=off).
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __drcp_rn(double x) { return 1.0 / x; }

// Functions that C lacks, and approximations, which are exact here: a test's tolerance is the GPU's, not this one's.
inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float sinpif(float x) { return float(sin(M_PI * double(x))); }
inline float cospif(float x) { return float(cos(M_PI * double(x))); }
inline double sinpi(double x) { return sin(M_PI * x); }
inline double cospi(double x) { return cos(M_PI * x); }
inline void sincospif(float x, float* s, float* c) {
    *s = sinpif(x);
    *c = cospif(x);
}
#if defined(__APPLE__)
inline void sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
inline void sincos(double x, double* s, double* c) {
    *s = sin(x);
    *c = cos(x);
}
#endif

// Loads and stores with a cache hint.
#define CUDA_ON_CPU_LOAD(name) \
    template <class T>         \
    T name(const T* address) { \
        return *address;       \
    }
#define CUDA_ON_CPU_STORE(name)      \
    template <class T>               \
    void name(T* address, T value) { \
        *address = value;            \
    }
CUDA_ON_CPU_LOAD(__ldg)
CUDA_ON_CPU_LOAD(__ldca)
CUDA_ON_CPU_LOAD(__ldcg)
CUDA_ON_CPU_LOAD(__ldcs)
CUDA_ON_CPU_LOAD(__ldcv)
CUDA_ON_CPU_LOAD(__ldlu)
CUDA_ON_CPU_STORE(__stcg)
CUDA_ON_CPU_STORE(__stcs)
CUDA_ON_CPU_STORE(__stwb)
CUDA_ON_CPU_STORE(__stwt)
#undef CUDA_ON_CPU_LOAD
#undef CUDA_ON_CPU_STORE

[[noreturn]] inline void __trap() {
    cuda_on_cpu::fail("thread %u called __trap()", cuda_on_cpu::machine().block->current);
}
inline void __nanosleep(unsigned) {}
