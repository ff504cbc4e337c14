// What the kernels for Hopper's tensor cores share: barriers, bulk tensor copies, wgmma and its matrix descriptors.
//
// Architectures: sm_90a. PTX ISA: "Asynchronous Warpgroup Level Matrix Multiply-Accumulate", "cp.async.bulk.tensor",
// "mbarrier"; the canonical layouts behind the descriptors are those of CUTLASS (cute/arch/mma_sm90_desc.hpp).
#pragma once

typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

// As cuda.h has it, which NVRTC does not bring.
struct alignas(64) CUtensorMap {
    uint64_t opaque[16];
};

__device__ __forceinline__ uint32_t s32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mbar_init(uint32_t b, uint32_t n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
__device__ __forceinline__ void mbar_expect(uint32_t b, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive(uint32_t b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
__device__ __forceinline__ void mbar_wait(uint32_t b, uint32_t parity) {
    asm volatile("{\n.reg .pred p;\nL_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D_%=;\nbra L_%=;\nD_%=:\n}\n"
                 ::"r"(b), "r"(parity) : "memory");
}
__device__ __forceinline__ void tma_load(uint32_t dst, const CUtensorMap* m, int c, int r, uint32_t bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(dst), "l"(m), "r"(c), "r"(r), "r"(bar) : "memory");
}
__device__ __forceinline__ void tma_store(const CUtensorMap* m, int c, int r, uint32_t src) {
    // Saved activations are read once, much later: they leave L2 first.
    asm volatile("{\n.reg .b64 pol;\ncreatepolicy.fractional.L2::evict_first.b64 pol, 1.0;\n"
                 "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], pol;\n}\n"
                 ::"l"(m), "r"(c), "r"(r), "r"(src) : "memory");
}
// As they lie, 16 bytes aligned.
__device__ __forceinline__ void bulk_load(uint32_t dst, const void* from, uint32_t bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(dst), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, uint32_t src, uint32_t bytes) {
    // As for tma_store.
    asm volatile("{\n.reg .b64 pol;\ncreatepolicy.fractional.L2::evict_first.b64 pol, 1.0;\n"
                 "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, pol;\n}\n"
                 ::"l"(to), "r"(src), "r"(bytes) : "memory");
}
// Copies out of shared memory since the last of these are one group.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All groups but the N last have read what they copy; or are where they should be.
template <int N> __device__ __forceinline__ void bulk_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void bulk_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void stmatrix4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}
__device__ __forceinline__ uint32_t relu_pack(float lo, float hi) {
    uint32_t d;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
// Bits `at` and 16 + `at` of `bits`: whether the lower and the upper of two bf16 are greater than zero.
__device__ __forceinline__ void note_positive(uint32_t& bits, uint32_t pair, int at) {
    uint32_t positive;
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(positive) : "r"(pair), "r"(0u));
    bits |= positive & (0x10001u << at);
}
// The pair with zeros where those bits are not set.
__device__ __forceinline__ uint32_t where_positive(uint32_t bits, uint32_t pair, int at) {
    uint32_t mask;
    const uint32_t tops = bits << (15 - at);
    asm("prmt.b32 %0, %1, %1, 0xBB99;" : "=r"(mask) : "r"(tops));   // each half becomes copies of its top bit
    return pair & mask;
}
__device__ __forceinline__ void wg_bar(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory"); }
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
// Descriptors of an operand whose rows of k lie side by side (K-major); +2 advances k by 16 inside the swizzle's 128 bytes.
__device__ __forceinline__ uint64_t desc128(uint32_t a) {
    return (uint64_t)((a & 0x3FFFF) >> 4) | (1ull << 16) | (uint64_t(1024 >> 4) << 32) | (1ull << 62);
}
__device__ __forceinline__ uint64_t desc32(uint32_t a) {
    return (uint64_t)((a & 0x3FFFF) >> 4) | (1ull << 16) | (uint64_t(256 >> 4) << 32) | (3ull << 62);
}

// Descriptor of an operand stored the other way round (MN-major): for each k a row of m or n, in boxes of 64 columns and any
// number of rows, 128-byte swizzle, `box` bytes from one box of columns to the next; +128 advances k by 16 rows.
__device__ __forceinline__ uint64_t desc_rows(uint32_t a, uint32_t box) {
    return (uint64_t)((a & 0x3FFFF) >> 4) | ((uint64_t)(box >> 4) << 16) | (uint64_t(1024 >> 4) << 32) | (1ull << 62);
}

// The accumulators of a product, so many registers of `d`: in the text of the instruction, and as its operands.
#define WGMMA_REGS_24 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_REGS_40 WGMMA_REGS_24 ", %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_REGS_64 WGMMA_REGS_40 ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGS_96 WGMMA_REGS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_OUT_8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_OUT_24 WGMMA_OUT_8(0), WGMMA_OUT_8(8), WGMMA_OUT_8(16)
#define WGMMA_OUT_40 WGMMA_OUT_24, WGMMA_OUT_8(24), WGMMA_OUT_8(32)
#define WGMMA_OUT_64 WGMMA_OUT_40, WGMMA_OUT_8(40), WGMMA_OUT_8(48), WGMMA_OUT_8(56)
#define WGMMA_OUT_96 WGMMA_OUT_64, WGMMA_OUT_8(64), WGMMA_OUT_8(72), WGMMA_OUT_8(80), WGMMA_OUT_8(88)

// d[64][N] += A[64][16] B[16][N], or = where `keep` is 0. TA, TB: 1 where the operand is MN-major.
template <int TA, int TB>
__device__ __forceinline__ void wgmma_n192(float (&d)[96], uint64_t a, uint64_t b, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" WGMMA_REGS_96 "}, "
        "%96, %97, p, 1, 1, %99, %100;\n}\n"
        : WGMMA_OUT_96
        : "l"(a), "l"(b), "r"(keep), "n"(TA), "n"(TB));
}
template <int TA, int TB>
__device__ __forceinline__ void wgmma_n80(float (&d)[40], uint64_t a, uint64_t b, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" WGMMA_REGS_40 "}, "
        "%40, %41, p, 1, 1, %43, %44;\n}\n"
        : WGMMA_OUT_40
        : "l"(a), "l"(b), "r"(keep), "n"(TA), "n"(TB));
}
template <int TA, int TB>
__device__ __forceinline__ void wgmma_n48(float (&d)[24], uint64_t a, uint64_t b, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" WGMMA_REGS_24 "}, "
        "%24, %25, p, 1, 1, %27, %28;\n}\n"
        : WGMMA_OUT_24
        : "l"(a), "l"(b), "r"(keep), "n"(TA), "n"(TB));
}

// A from registers, as wgmma lays out the accumulators of a layer before.
__device__ __forceinline__ void wgmma_n48_rs(float (&d)[24], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" WGMMA_REGS_24 "}, "
        "{%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}\n"
        : WGMMA_OUT_24
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(1));
}

// The nearest f32 with the 10 bits of mantissa that tf32 has; ties to even. The second is 0 where it would be negative.
__device__ __forceinline__ uint32_t to_tf32(float value) {
    uint32_t d;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(d) : "f"(value));
    return d;
}
__device__ __forceinline__ uint32_t relu_tf32(float value) {
    uint32_t d;
    asm("cvt.rn.relu.tf32.f32 %0, %1;" : "=r"(d) : "f"(value));
    return d;
}
// d[64][128] += A[64][8] B[8][128] in tf32. A from registers: lane 4 g + t of a warp holds of its 16 rows
// (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4).
__device__ __forceinline__ void wgmma_tf32_n128_rs(float (&d)[64], const uint4& a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" WGMMA_REGS_64 "}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1;\n"
        : WGMMA_OUT_64
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}
