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
#include "hopper.cuh"

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
__device__ __forceinline__ void forward_tiles(const Maps& m, const float* __restrict__ bias, float* __restrict__ out, uint32_t* __restrict__ masks,
                                              int rows, int iters) {
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
        // Of `bits`, the three words of half h: which of its values are positive.
        auto store_half = [&](float (&d)[96], int h, uint32_t (&bits)[6]) {
#pragma unroll
            for (int p = 0; p < 12; p++) {
                const int q = h * 12 + p;
                uint32_t v[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    v[j] = relu_pack(d[8 * p + 2 * j], d[8 * p + 2 * j + 1]);
                    if (SAVE) note_positive(bits[h * 3 + p / 4], v[j], 4 * (p % 4) + j);
                }
                stmatrix4(soff[q & 3] + (q >> 2) * 8192, v[0], v[1], v[2], v[3]);
            }
        };
        auto save_bits = [&](uint32_t (&bits)[6], int layer, int row0) {
            if (row0 >= rows) return;
            uint32_t* to = masks + ((size_t)(layer * ((rows + 63) / 64) + row0 / 64) * 6) * 128 + (tid & 127);
#pragma unroll
            for (int i = 0; i < 6; i++) to[i * 128] = bits[i];
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
                  for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc0, ax + 2 * k, b + 2 * k, 1); }
                wg_commit();
                const uint32_t sa = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                  for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc1, ax + 2 * k, b + 2 * k, 1); }
                wg_commit();
                const uint32_t sb = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                wgmma_n192<0, 0>(acc0, ay, desc32(base + s * SLOT_BYTES), 1);
                wgmma_n192<0, 0>(acc1, ay, desc32(base + s * SLOT_BYTES + 192 * 32), 1);
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
                uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
                store_half(acc0, 0, bits);
                store_half(acc1, 1, bits);
                if (SAVE) save_bits(bits, l, row0);
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
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc0, a + 2 * k, b + 2 * k, 1); }
                    wg_commit(); wg_wait<1>(); if (i) release(sp); sp = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t b = desc128(base + s * SLOT_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc1, a + 2 * k, b + 2 * k, 1); }
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
                uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
#pragma unroll
                for (int i = 0; i < 96; i++) note_positive(bits[i / 16], p[i], i % 16);
                save_bits(bits, 2, row0);
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
    forward_tiles<false>(maps, bias, out, nullptr, rows, iters);
}
extern "C" __global__ void __launch_bounds__(384, 1)
    fused_forward_save(const __grid_constant__ Maps maps, const float* bias, float* out, uint32_t* masks, int rows, int iters) {
    forward_tiles<true>(maps, bias, out, masks, rows, iters);
}
