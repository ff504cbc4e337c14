// The whole forward pass of the reference network in one kernel, for bf16 on Hopper.
// Architectures: sm_90a. Its portable twin is the chain of cuBLASLt products in crates/ml (launch/step.rs); a test compares them.
// Not on the CPU: wgmma and the bulk tensor copy engine are inline PTX.
//
//   x[B, 80] -> H1 = relu(x W1' + b1) [B, 384] -> H2 = relu(H1 W2' + b2) [B, 384]
//            -> H3 = relu(H2 W3' + b3) [B, 384] -> out = H3 W4' + b4 [B, 48]
//
//   maps                  tensor maps of x, W1 to W4 and, for fused_forward_save, H1 to H3; made by launch/fused.rs
//   x, W1[384, 80], W2[384, 384], W3[384, 384], W4[48, 384]   bf16 in, row-major (W as nn.Linear has it), 16-byte aligned
//   bias [1200]           f32 in    b1, b2, b3 (384 each), b4 (48)
//   out  [rows][48]       f32 out
//   H1, H2, H3 [rows][384] bf16 out  by fused_forward_save alone: the very values that the next layer used
// Products accumulate in f32, from the bias on; hidden values are cut by ReLU and rounded to bf16.
// Launch: 384 threads, FUSED_SHARED_BYTES of dynamic shared memory, grid g and `iters` with g * iters >= ceil(rows / 128).
// Needs:  rows > 0; a ragged last tile reads zeros and stores nothing behind the rows.
// Bits:   the order of the k chunks depends on the block (`rot`), so a row's last bits depend on its place; the same launch
//         gives the same bits in every run.
//
// A block owns 128 rows. Two consumer warpgroups own 64 rows each and all 384 columns (2 x m64n192, 192 accumulator registers
// a thread), so neither waits for the other: while one writes its activations the other keeps the tensor cores busy.
// Activations stay in shared memory, in place. One producer thread streams x and the weights from L2 through a ring of five
// 24 KB slots (192 output rows by 64 k). The last layer takes H3 straight from the accumulators. Two more warps store the
// saved activations from shared memory.
typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

// As cuda.h has it, which NVRTC does not bring.
struct alignas(64) CUtensorMap {
    uint64_t opaque[16];
};

constexpr int HID = 384, OUTN = 48;
constexpr int TM = 128;                       // rows a block
constexpr int SLOTS = 5;                      // of the ring
constexpr int SLOT_BYTES = 192 * 64 * 2;
constexpr int A_BYTES = TM * HID * 2;         // [warpgroup][k chunk of 64][64 rows][128 bytes]
constexpr int X0_BYTES = TM * 64 * 2;         // x columns 0 to 63, 128-byte swizzle, in a slot; columns 64 to 79 behind it
constexpr int X1_BYTES = TM * 16 * 2;         // those, 32-byte swizzle
constexpr int NBIAS = 3 * HID + OUTN;
constexpr int OFF_A = SLOTS * SLOT_BYTES;
constexpr int OFF_BIAS = OFF_A + A_BYTES;
constexpr int OFF_BAR = OFF_BIAS + NBIAS * 4;
constexpr int FUSED_SHARED_BYTES = OFF_BAR + 2 * SLOTS * 8 + 1024;   // and room to align to 1,024
static_assert(FUSED_SHARED_BYTES == 227088, "launch/fused.rs asks for as much");

// `Maps` in launch/fused.rs is its twin.
struct Maps {
    CUtensorMap x0, x1, w1a, w1b, w2, w3, w4, h1, h2, h3;
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
__device__ __forceinline__ void stmatrix4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}
__device__ __forceinline__ uint32_t relu_pack(float lo, float hi) {
    uint32_t d;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}
__device__ __forceinline__ void wg_bar(int wg) { asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory"); }
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
// K-major shared-memory matrix descriptors; +2 advances k by 16 inside the 128-byte swizzle atom.
__device__ __forceinline__ uint64_t desc128(uint32_t a) {
    return (uint64_t)((a & 0x3FFFF) >> 4) | (1ull << 16) | (uint64_t(1024 >> 4) << 32) | (1ull << 62);
}
__device__ __forceinline__ uint64_t desc32(uint32_t a) {
    return (uint64_t)((a & 0x3FFFF) >> 4) | (1ull << 16) | (uint64_t(256 >> 4) << 32) | (3ull << 62);
}

__device__ __forceinline__ void wgmma_n192(float (&d)[96], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
        : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void wgmma_n48_rs(float (&d)[24], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
        "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23}, "
        "{%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(1));
}

// bias in shared memory is permuted so that a thread reads its four values of 16 columns as one float4:
// position 16 p + 4 t + {0,1,2,3} holds columns 16 p + 2 t + {0, 1, 8, 9}.
template <int N> __device__ __forceinline__ void bias_init(float (&d)[N], const float* b, int t) {
#pragma unroll
    for (int p = 0; p < N / 8; p++) {
        float4 v = *reinterpret_cast<const float4*>(b + p * 16 + t * 4);
        d[8 * p + 0] = v.x; d[8 * p + 1] = v.y; d[8 * p + 2] = v.x; d[8 * p + 3] = v.y;
        d[8 * p + 4] = v.z; d[8 * p + 5] = v.w; d[8 * p + 6] = v.z; d[8 * p + 7] = v.w;
    }
}

template <bool SAVE>
__device__ __forceinline__ void forward_tiles(const Maps& m, const float* __restrict__ bias, float* __restrict__ out, int rows, int iters) {
    extern __shared__ uint8_t raw[];
    uint8_t* sm = raw + ((1024 - (s32(raw) & 1023)) & 1023);
    const uint32_t base = s32(sm);
    const uint32_t full = base + OFF_BAR, empty = full + 8 * SLOTS;
    float* sbias = reinterpret_cast<float*>(sm + OFF_BIAS);
    const int tid = threadIdx.x, wg = tid >> 7, warp = tid >> 5, lane = tid & 31;
    const int rot = blockIdx.x % 6;              // ROT: first k chunk of layers 2 and 3 (CTAs spread over the weights)

    if (tid == 256) {
        for (int i = 0; i < SLOTS; i++) { mbar_init(full + 8 * i, 1); mbar_init(empty + 8 * i, 2); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    if (wg == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (warp == 8 && lane == 0) {
            // ---- producer: one thread ----
            uint32_t s = 0, ph = 1;
            auto acquire = [&](uint32_t bytes) { mbar_wait(empty + 8 * s, ph); mbar_expect(full + 8 * s, bytes); };
            auto load = [&](uint32_t off, const CUtensorMap* map, int c, int r) { tma_load(base + s * SLOT_BYTES + off, map, c, r, full + 8 * s); };
            auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
            for (int it = 0; it < iters; it++) {
                const int row0 = (it * gridDim.x + blockIdx.x) * TM;
                acquire(X0_BYTES + X1_BYTES); load(0, &m.x0, 0, row0); load(X0_BYTES, &m.x1, 64, row0); next();
                for (int h = 0; h < 2; h++) { acquire(SLOT_BYTES); load(0, &m.w1a, 0, h * 192); next(); }
                acquire(2 * 192 * 32);
                for (int h = 0; h < 2; h++) load(h * 192 * 32, &m.w1b, 64, h * 192);
                next();
                for (int l = 0; l < 2; l++) {
                    const CUtensorMap* w = l ? &m.w3 : &m.w2;
                    for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1)
                        for (int h = 0; h < 2; h++) { acquire(SLOT_BYTES); load(0, w, c * 64, h * 192); next(); }
                }
                acquire(4 * 48 * 128);
                for (int c = 0; c < 4; c++) load(c * 48 * 128, &m.w4, c * 64, 0);
                next();
                acquire(2 * 48 * 128);
                for (int c = 4; c < 6; c++) load((c - 4) * 48 * 128, &m.w4, c * 64, 0);
                next();
            }
        } else if (SAVE && warp >= 10) {
            // ---- store warps (one for each consumer warpgroup): hidden activations, shared memory -> global ----
            // barrier 5 + w: A may be overwritten (consumers wait there); 3 + w: A holds a new layer.
            const int w = warp - 10;
            const uint32_t ab = base + OFF_A + w * (A_BYTES / 2);
            asm volatile("bar.arrive %0, 160;" ::"r"(5 + w) : "memory");
            for (int it = 0; it < iters; it++) {
                const int row0 = (it * gridDim.x + blockIdx.x) * TM + w * 64;
                for (int l = 0; l < 3; l++) {
                    asm volatile("bar.sync %0, 160;" ::"r"(3 + w) : "memory");
                    if (lane == 0) {
                        const CUtensorMap* h = l == 0 ? &m.h1 : l == 1 ? &m.h2 : &m.h3;
                        for (int c = 0; c < 6; c++) tma_store(h, c * 64, row0, ab + c * 8192);
                        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                    }
                    __syncwarp();
                    if (l < 2 || it + 1 < iters) asm volatile("bar.arrive %0, 160;" ::"r"(5 + w) : "memory");
                }
            }
            if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
    } else {
        // ---- consumers: warpgroup wg owns rows 64 wg .. 64 wg + 63 of the tile ----
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        for (int i = tid; i < NBIAS; i += 256) {
            int p = i & 15, t = p >> 2, e = p & 3;
            sbias[i] = bias[(i & ~15) + 2 * t + (e & 1) + (e >> 1) * 8];
        }
        asm volatile("bar.sync 7, 256;" ::: "memory");
        const int t = lane & 3, wq = warp & 3;
        const uint32_t abase = base + OFF_A + wg * (A_BYTES / 2);
        uint32_t s = 0, ph = 0;
        uint32_t soff[4];                                // stmatrix addresses of the four 16-column groups of a chunk
        {
            const int mi = lane >> 3, r = lane & 7, row = wq * 16 + (mi & 1) * 8 + r;
#pragma unroll
            for (int q = 0; q < 4; q++) soff[q] = abase + row * 128 + (((q * 2 + (mi >> 1)) ^ r) << 4);
        }
        auto release = [&](uint32_t slot) { if ((tid & 127) == 0) mbar_arrive(empty + 8 * slot); };   // one arrival a warpgroup
        auto a_free = [&]() {
            if (SAVE) asm volatile("bar.sync %0, 160;" ::"r"(5 + wg) : "memory");
            else asm volatile("bar.sync %0, 128;" ::"r"(5 + wg) : "memory");
        };
        auto a_ready = [&]() {
            if (SAVE) asm volatile("bar.sync %0, 160;" ::"r"(3 + wg) : "memory");
            else asm volatile("bar.sync %0, 128;" ::"r"(3 + wg) : "memory");
        };
        auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
        float acc0[96], acc1[96];
        auto store_half = [&](float (&d)[96], int h) {
#pragma unroll
            for (int p = 0; p < 12; p++) {
                const int q = h * 12 + p;
                stmatrix4(soff[q & 3] + (q >> 2) * 8192, relu_pack(d[8 * p], d[8 * p + 1]), relu_pack(d[8 * p + 2], d[8 * p + 3]),
                          relu_pack(d[8 * p + 4], d[8 * p + 5]), relu_pack(d[8 * p + 6], d[8 * p + 7]));
            }
        };
        bias_init(acc0, sbias, t);
        bias_init(acc1, sbias + 192, t);
        for (int it = 0; it < iters; it++) {
            const int row0 = (it * gridDim.x + blockIdx.x) * TM + wg * 64;
            // ---- layer 1: K = 80 = 64 + 16; x comes through the ring as well ----
            {
                if (wg == 1) asm volatile("bar.sync 8, 256;" ::: "memory");   // starts behind the other, to stay out of step
                pin(acc0); pin(acc1);
                mbar_wait(full + 8 * s, ph);
                const uint64_t ax = desc128(base + s * SLOT_BYTES + wg * 8192);
                const uint64_t ay = desc32(base + s * SLOT_BYTES + X0_BYTES + wg * 2048);
                const uint32_t sx = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                  for (int k = 0; k < 4; k++) wgmma_n192(acc0, ax + 2 * k, b + 2 * k); }
                wg_commit();
                const uint32_t sa = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                  for (int k = 0; k < 4; k++) wgmma_n192(acc1, ax + 2 * k, b + 2 * k); }
                wg_commit();
                const uint32_t sb = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                wgmma_n192(acc0, ay, desc32(base + s * SLOT_BYTES));
                wgmma_n192(acc1, ay, desc32(base + s * SLOT_BYTES + 192 * 32));
                wg_commit(); wg_wait<0>();
                release(sx); release(sa); release(sb); release(s); next();
                if (wg == 0) asm volatile("bar.arrive 8, 256;" ::: "memory");
            }
            pin(acc0); pin(acc1);
            // ---- layers 2 and 3 ----
#pragma unroll 1
            for (int l = 0; l < 2; l++) {
                // hidden layer l of this tile: accumulators -> shared memory (in place over the one before)
                a_free();
                store_half(acc0, 0);
                store_half(acc1, 1);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                bias_init(acc0, sbias + (l + 1) * HID, t);
                bias_init(acc1, sbias + (l + 1) * HID + 192, t);
                pin(acc0); pin(acc1);
                a_ready();
                uint32_t sp = 0;
#pragma unroll 1
                for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1) {
                    const uint64_t a = desc128(abase + c * 8192);
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192(acc0, a + 2 * k, b + 2 * k); }
                    wg_commit(); wg_wait<1>(); if (i) release(sp); sp = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192(acc1, a + 2 * k, b + 2 * k); }
                    wg_commit(); wg_wait<1>(); release(sp); sp = s; next();
                }
                wg_wait<0>(); release(sp);
                pin(acc0); pin(acc1);
            }
            // ---- layer 4: H3 from registers ----
            uint32_t p[96];
#pragma unroll
            for (int i = 0; i < 48; i++) { p[i] = relu_pack(acc0[2 * i], acc0[2 * i + 1]); }
#pragma unroll
            for (int i = 0; i < 48; i++) { p[48 + i] = relu_pack(acc1[2 * i], acc1[2 * i + 1]); }
            if (SAVE) {
                a_free();
#pragma unroll
                for (int q = 0; q < 24; q++) stmatrix4(soff[q & 3] + (q >> 2) * 8192, p[4 * q], p[4 * q + 1], p[4 * q + 2], p[4 * q + 3]);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                a_ready();
            }
            float o[24];
            bias_init(o, sbias + 3 * HID, t);
            pin(o);
            const uint32_t s0 = s;
            mbar_wait(full + 8 * s, ph); next();
            const uint32_t s1 = s;
            mbar_wait(full + 8 * s, ph); next();
            wg_fence();
#pragma unroll
            for (int q = 0; q < 24; q++) {
                const int c = q >> 2;
                const uint64_t b = c < 4 ? desc128(base + s0 * SLOT_BYTES + c * 6144) : desc128(base + s1 * SLOT_BYTES + (c - 4) * 6144);
                wgmma_n48_rs(o, p[4 * q], p[4 * q + 1], p[4 * q + 2], p[4 * q + 3], b + 2 * (q & 3));
            }
            wg_commit(); wg_wait<0>(); release(s0); release(s1);
            pin(o);
            const int r = row0 + wq * 16 + (lane >> 2);
#pragma unroll
            for (int j = 0; j < 6; j++) {
                if (r < rows) *reinterpret_cast<float2*>(out + (size_t)r * OUTN + j * 8 + 2 * t) = make_float2(o[4 * j], o[4 * j + 1]);
                if (r + 8 < rows) *reinterpret_cast<float2*>(out + (size_t)(r + 8) * OUTN + j * 8 + 2 * t) = make_float2(o[4 * j + 2], o[4 * j + 3]);
            }
            if (it + 1 == iters) break;                  // (as a condition around the next lines it costs spills)
            bias_init(acc0, sbias, t);
            bias_init(acc1, sbias + 192, t);
        }
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    fused_forward(const __grid_constant__ Maps maps, const float* bias, float* out, int rows, int iters) {
    forward_tiles<false>(maps, bias, out, rows, iters);
}
extern "C" __global__ void __launch_bounds__(384, 1)
    fused_forward_save(const __grid_constant__ Maps maps, const float* bias, float* out, int rows, int iters) {
    forward_tiles<true>(maps, bias, out, rows, iters);
}
