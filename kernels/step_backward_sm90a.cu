// The backward pass of the reference network in two kernels, for bf16 on Hopper.
// Architectures: sm_90a. Their portable twin is the chain of cuBLASLt products in crates/ml (launch/step.rs); a test compares them.
// Not on the CPU: wgmma and the bulk tensor copy engine are inline PTX.
//
//   out [B, 48] <- H3 [B, 384] <- H2 <- H1 <- x [B, 80]    with the weights W4 [48, 384], W3, W2 [384, 384], W1 [384, 80]
//
// fused_backward: gradients of the hidden layers' pre-activations, and of their biases
//   Z3 = (dout W4) * (H3 > 0),   Z2 = (Z3 W3) * (H2 > 0),   Z1 = (Z2 W2) * (H1 > 0)
//   maps                  tensor maps of dout, W4, W3, W2 (in) and Z3, Z2, Z1 (out); made by launch/fused.rs; all bf16
//   masks [3][ceil(rows / 64)][6][128] u32 in    by fused_forward_save: which of H1, H2, H3 are positive
//   bias_partial [ceil(rows / 64)][bias_stride] f32 out   sums over 64 rows of Z1, Z2, Z3, in columns 0, 384 and 768 on
//   Products accumulate in f32; Z is rounded to bf16, and it is the rounded values that the next product and the sums take.
//   Launch: 384 threads, BACKWARD_SHARED_BYTES, grid g and `iters` with g * iters >= ceil(rows / 128).
//   Bits:   the order of the k chunks depends on the block (`rot`); the same launch gives the same bits in every run.
//
// fused_weight_gradients: partial sums over the batch of the weights' gradients
//   dW3 = Z3' H2,   dW2 = Z2' H1,   dW1 = Z1' x,   dW4 = dout' H3
//   maps                  tensor maps of Z3, Z2, Z1, H3, H2, H1, x, dout, all bf16
//   partial [12][stride]  f32 out    dW1, dW2, dW3, dW4 one behind the other as the flat parameters have them; dW1 fills the
//                                    first 10 rows alone, dW4 the first 8
//   Launch: 512 threads, WEIGHTS_SHARED_BYTES, grid WEIGHT_BLOCKS.   Bits: fixed order.
//
// Needs, both: rows > 0; a ragged last tile reads zeros and stores nothing behind the rows.
//
// The first has the build of the forward kernel (step_forward_sm90a.cu): a block owns 128 rows, two warpgroups 64 rows each and
// all 384 columns, gradients stay in shared memory, weights stream from L2. W [out, in] is read as it lies, as an MN-major
// operand, so no transposed copy is kept. The warp that stores a layer's gradients adds up their columns beside it.
// In the second a block owns 192 x N elements of one weight matrix and a share of the batch: both operands are MN-major.
#include "hopper.cuh"

constexpr int HID = 384;

// ------------------------------------------------------------------------------------------------------ input gradients

constexpr int TM = 128;                       // rows a block
constexpr int SLOTS = 5;                      // of the ring
constexpr int BOX_BYTES = 64 * 64 * 2;        // 64 rows of 64 columns
constexpr int SLOT_BYTES = 3 * BOX_BYTES;     // 64 k by 192 columns
constexpr int W4_BOX_BYTES = 48 * 64 * 2;     // of W4: 48 rows of 64 columns
constexpr int A_BYTES = TM * HID * 2;         // [warpgroup][k chunk of 64][64 rows][128 bytes]
constexpr int OFF_A = SLOTS * SLOT_BYTES;
constexpr int OFF_BAR = OFF_A + A_BYTES;
constexpr int BACKWARD_SHARED_BYTES = OFF_BAR + 2 * SLOTS * 8 + 1024;   // and room to align to 1,024
static_assert(BACKWARD_SHARED_BYTES == 222288, "launch/fused.rs asks for as much");

// `BackwardMaps` in launch/fused.rs is its twin.
struct BackwardMaps {
    CUtensorMap dout, w4, w3, w2, z3, z2, z1;
};

// Adds up 64 rows of a chunk of 64 columns in shared memory, two columns a lane.
__device__ __forceinline__ void sum_columns(uint32_t chunk, int lane, float* to) {
    float lo = 0, hi = 0;
#pragma unroll 1
    for (int r = 0; r < 64; r += 8) {
        uint32_t v[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[i]) : "r"(chunk + (r + i) * 128 + (((lane >> 2) ^ i) << 4) + (lane & 3) * 4) : "memory");
#pragma unroll
        for (int i = 0; i < 8; i++) {
            lo += __uint_as_float(v[i] << 16);
            hi += __uint_as_float(v[i] & 0xffff0000u);
        }
    }
    *reinterpret_cast<float2*>(to + 2 * lane) = make_float2(lo, hi);
}

extern "C" __global__ void __launch_bounds__(384, 1)
    fused_backward(const __grid_constant__ BackwardMaps m, const uint32_t* __restrict__ masks, float* __restrict__ bias_partial,
                   int bias_stride, int rows, int iters) {
    extern __shared__ uint8_t raw[];
    uint8_t* sm = raw + ((1024 - (s32(raw) & 1023)) & 1023);
    const uint32_t base = s32(sm);
    const uint32_t full = base + OFF_BAR, empty = full + 8 * SLOTS;
    const int tid = threadIdx.x, wg = tid >> 7, warp = tid >> 5, lane = tid & 31;
    const int rot = blockIdx.x % 6;              // first k chunk of a layer: blocks spread over the weights

    if (tid == 256) {
        for (int i = 0; i < SLOTS; i++) { mbar_init(full + 8 * i, 1); mbar_init(empty + 8 * i, 2); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    if (wg == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == 8 && lane == 0) {
            // ---- producer: one thread ----
            uint32_t s = 0, ph = 1;
            auto acquire = [&](uint32_t bytes) { mbar_wait(empty + 8 * s, ph); mbar_expect(full + 8 * s, bytes); };
            auto load = [&](uint32_t off, const CUtensorMap* map, int c, int r) { tma_load(base + s * SLOT_BYTES + off, map, c, r, full + 8 * s); };
            auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
            for (int it = 0; it < iters; it++) {
                const int row0 = (it * gridDim.x + blockIdx.x) * TM;
                acquire(2 * BOX_BYTES); load(0, &m.dout, 0, row0); load(BOX_BYTES, &m.dout, 0, row0 + 64); next();
                for (int h = 0; h < 2; h++) {
                    acquire(3 * W4_BOX_BYTES);
                    for (int b = 0; b < 3; b++) load(b * W4_BOX_BYTES, &m.w4, (h * 3 + b) * 64, 0);
                    next();
                }
                for (int l = 0; l < 2; l++) {
                    const CUtensorMap* w = l ? &m.w2 : &m.w3;
                    for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1)
                        for (int h = 0; h < 2; h++) {
                            acquire(SLOT_BYTES);
                            for (int b = 0; b < 3; b++) load(b * BOX_BYTES, w, (h * 3 + b) * 64, c * 64);
                            next();
                        }
                }
            }
        } else if (warp >= 10) {
            // ---- store warps (one for each consumer warpgroup): gradients, shared memory -> global, and their sums ----
            // barrier 5 + w: A may be overwritten (consumers wait there); 3 + w: A holds a new layer.
            const int w = warp - 10;
            const uint32_t ab = base + OFF_A + w * (A_BYTES / 2);
            asm volatile("bar.arrive %0, 160;" ::"r"(5 + w) : "memory");
            for (int it = 0; it < iters; it++) {
                const int row0 = (it * gridDim.x + blockIdx.x) * TM + w * 64;
                for (int l = 0; l < 3; l++) {
                    asm volatile("bar.sync %0, 160;" ::"r"(3 + w) : "memory");
                    if (lane == 0) {
                        const CUtensorMap* z = l == 0 ? &m.z3 : l == 1 ? &m.z2 : &m.z1;
                        for (int c = 0; c < 6; c++) tma_store(z, c * 64, row0, ab + c * 8192);
                        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                    }
                    // The last layer's are added up by the consumers, who have nothing else left to do.
                    if (row0 < rows && l < 2) {
                        float* to = bias_partial + (size_t)(row0 / 64) * bias_stride + (2 - l) * HID;
                        for (int c = 0; c < 6; c++) sum_columns(ab + c * 8192, lane, to + c * 64);
                    }
                    if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                    __syncwarp();
                    if (l < 2 || it + 1 < iters) asm volatile("bar.arrive %0, 160;" ::"r"(5 + w) : "memory");
                }
            }
            if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
    } else {
        // ---- consumers: warpgroup wg owns rows 64 wg .. 64 wg + 63 of the tile ----
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int wq = warp & 3;
        const uint32_t abase = base + OFF_A + wg * (A_BYTES / 2);
        uint32_t s = 0, ph = 0;
        uint32_t soff[4];                                // stmatrix addresses of the four 16-column groups of a chunk
        {
            const int mi = lane >> 3, r = lane & 7, row = wq * 16 + (mi & 1) * 8 + r;
#pragma unroll
            for (int q = 0; q < 4; q++) soff[q] = abase + row * 128 + (((q * 2 + (mi >> 1)) ^ r) << 4);
        }
        auto release = [&](uint32_t slot) { if ((tid & 127) == 0) mbar_arrive(empty + 8 * slot); };   // one arrival a warpgroup
        auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
        const size_t mask_layer = (size_t)((rows + 63) / 64) * 6 * 128;
        float acc0[96], acc1[96];
        auto store_half = [&](float (&d)[96], int h, const uint32_t (&bits)[6]) {
#pragma unroll
            for (int p = 0; p < 12; p++) {
                const int q = h * 12 + p;
                uint32_t v[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v[j] = where_positive(bits[h * 3 + p / 4], pack(d[8 * p + 2 * j], d[8 * p + 2 * j + 1]), 4 * (p % 4) + j);
                stmatrix4(soff[q & 3] + (q >> 2) * 8192, v[0], v[1], v[2], v[3]);
            }
        };
        for (int it = 0; it < iters; it++) {
            const int row0 = (it * gridDim.x + blockIdx.x) * TM + wg * 64;
            // ---- layer 4: K = 48 ----
            {
                if (wg == 1) asm volatile("bar.sync 8, 256;" ::: "memory");   // starts behind the other, to stay out of step
                pin(acc0); pin(acc1);
                mbar_wait(full + 8 * s, ph);
                const uint64_t a = desc128(base + s * SLOT_BYTES + wg * BOX_BYTES);
                const uint32_t sd = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t b = desc_rows(base + s * SLOT_BYTES, W4_BOX_BYTES);
#pragma unroll
                  for (int k = 0; k < 3; k++) wgmma_n192<0, 1>(acc0, a + 2 * k, b + 128 * k, k > 0); }
                const uint32_t sa = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t b = desc_rows(base + s * SLOT_BYTES, W4_BOX_BYTES);
#pragma unroll
                  for (int k = 0; k < 3; k++) wgmma_n192<0, 1>(acc1, a + 2 * k, b + 128 * k, k > 0); }
                wg_commit(); wg_wait<0>();
                release(sd); release(sa); release(s); next();
                if (wg == 0) asm volatile("bar.arrive 8, 256;" ::: "memory");
            }
            pin(acc0); pin(acc1);
            // ---- layers 3 and 2 ----
#pragma unroll 1
            for (int l = 0; l < 3; l++) {
                uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
                if (row0 < rows) {
                    const uint32_t* from = masks + (2 - l) * mask_layer + (size_t)(row0 / 64) * 6 * 128 + (tid & 127);
#pragma unroll
                    for (int i = 0; i < 6; i++) bits[i] = __ldg(from + i * 128);
                }
                asm volatile("bar.sync %0, 160;" ::"r"(5 + wg) : "memory");
                store_half(acc0, 0, bits);
                store_half(acc1, 1, bits);
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                pin(acc0); pin(acc1);
                asm volatile("bar.sync %0, 160;" ::"r"(3 + wg) : "memory");
                if (l == 2) break;
                uint32_t sp = 0;
#pragma unroll 1
                for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1) {
                    const uint64_t a = desc128(abase + c * 8192);
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t b = desc_rows(base + s * SLOT_BYTES, BOX_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 1>(acc0, a + 2 * k, b + 128 * k, i > 0 || k > 0); }
                    wg_commit(); wg_wait<1>(); if (i) release(sp); sp = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t b = desc_rows(base + s * SLOT_BYTES, BOX_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 1>(acc1, a + 2 * k, b + 128 * k, i > 0 || k > 0); }
                    wg_commit(); wg_wait<1>(); release(sp); sp = s; next();
                }
                wg_wait<0>(); release(sp);
                pin(acc0); pin(acc1);
            }
            if (row0 < rows) {
                float* to = bias_partial + (size_t)(row0 / 64) * bias_stride;
                for (int c = wq; c < 6; c += 4) sum_columns(abase + c * 8192, lane, to + c * 64);
            }
            // The next tile's first layer must not overwrite what is still being added up.
            if (it + 1 < iters) wg_bar(wg);
        }
    }
}

// ------------------------------------------------------------------------------------------------------ weight gradients

constexpr int STAGES = 4;
constexpr int STAGE_BYTES = 6 * BOX_BYTES;    // 64 rows of the batch: 192 columns of A, up to 192 of B
constexpr int OFF_STAGE_BAR = STAGES * STAGE_BYTES;
constexpr int WEIGHTS_SHARED_BYTES = OFF_STAGE_BAR + 2 * STAGES * 8 + 1024;
static_assert(WEIGHTS_SHARED_BYTES == 197696, "launch/fused.rs asks for as much");

// Shares of the batch, by what a chunk of rows costs: bytes of both operands.
constexpr int SPLITS_SQUARE = 12, SPLITS_FIRST = 10, SPLITS_LAST = 8;
constexpr int WEIGHT_BLOCKS = 8 * SPLITS_SQUARE + 2 * SPLITS_FIRST + 2 * SPLITS_LAST;
static_assert(WEIGHT_BLOCKS == 132, "launch/fused.rs launches as many");

// `WeightMaps` in launch/fused.rs is its twin.
struct WeightMaps {
    CUtensorMap z3, z2, z1, h3, h2, h1, x, dout;
};

// One block's sum: 192 columns of A by N of B over chunks [first, end). A warpgroup owns 64 columns of A.
template <int N>
struct Accumulators;
template <> struct Accumulators<192> {
    static __device__ __forceinline__ void add(float (&d)[96], uint64_t a, uint64_t b, int keep) { wgmma_n192<1, 1>(d, a, b, keep); }
};
template <> struct Accumulators<80> {
    static __device__ __forceinline__ void add(float (&d)[40], uint64_t a, uint64_t b, int keep) { wgmma_n80<1, 1>(d, a, b, keep); }
};
template <> struct Accumulators<48> {
    static __device__ __forceinline__ void add(float (&d)[24], uint64_t a, uint64_t b, int keep) { wgmma_n48<1, 1>(d, a, b, keep); }
};

// to: where element (row 0, column 0) of the tile goes; `row` and `column` are the steps from one to the next there.
template <int N>
__device__ __forceinline__ void weight_tile(uint32_t base, const CUtensorMap* am, int a0, const CUtensorMap* bm, int b0, int first,
                                            int end, float* __restrict__ to, int row_step, int column_step) {
    constexpr int B_BOXES = (N + 63) / 64;
    const int tid = threadIdx.x, wg = tid >> 7, lane = tid & 31, warp = tid >> 5;
    const uint32_t full = base + OFF_STAGE_BAR, empty = full + 8 * STAGES;
    if (wg == 3) {
        if (warp == 12 && lane == 0) {
            uint32_t s = 0, ph = 1;
            for (int chunk = first; chunk < end; chunk++) {
                mbar_wait(empty + 8 * s, ph);
                mbar_expect(full + 8 * s, (3 + B_BOXES) * BOX_BYTES);
                const uint32_t at = base + s * STAGE_BYTES;
                for (int b = 0; b < 3; b++) tma_load(at + b * BOX_BYTES, am, a0 + b * 64, chunk * 64, full + 8 * s);
                for (int b = 0; b < B_BOXES; b++) tma_load(at + (3 + b) * BOX_BYTES, bm, b0 + b * 64, chunk * 64, full + 8 * s);
                if (++s == STAGES) { s = 0; ph ^= 1; }
            }
        }
    } else {
        float d[N / 2];
        uint32_t s = 0, ph = 0, sp = 0;
#pragma unroll
        for (int i = 0; i < N / 2; i++) d[i] = 0;
        pin(d);
#pragma unroll 1
        for (int chunk = first; chunk < end; chunk++) {
            mbar_wait(full + 8 * s, ph);
            const uint32_t at = base + s * STAGE_BYTES;
            const uint64_t a = desc_rows(at + wg * BOX_BYTES, BOX_BYTES), b = desc_rows(at + 3 * BOX_BYTES, BOX_BYTES);
            wg_fence();
#pragma unroll
            for (int k = 0; k < 4; k++) Accumulators<N>::add(d, a + 128 * k, b + 128 * k, 1);
            wg_commit(); wg_wait<1>();
            if (chunk > first && (tid & 127) == 0) mbar_arrive(empty + 8 * sp);
            sp = s;
            if (++s == STAGES) { s = 0; ph ^= 1; }
        }
        wg_wait<0>();
        pin(d);
        const int r = wg * 64 + (warp & 3) * 16 + (lane >> 2), c = 2 * (lane & 3);
#pragma unroll
        for (int j = 0; j < N / 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float* at = to + (size_t)(r + 8 * i) * row_step + (c + 8 * j) * column_step;
                if (column_step == 1) *reinterpret_cast<float2*>(at) = make_float2(d[4 * j + 2 * i], d[4 * j + 2 * i + 1]);
                else { at[0] = d[4 * j + 2 * i]; at[column_step] = d[4 * j + 2 * i + 1]; }
            }
    }
}

extern "C" __global__ void __launch_bounds__(512, 1)
    fused_weight_gradients(const __grid_constant__ WeightMaps m, float* __restrict__ partial, int stride, int rows) {
    extern __shared__ uint8_t raw[];
    uint8_t* sm = raw + ((1024 - (s32(raw) & 1023)) & 1023);
    const uint32_t base = s32(sm);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { mbar_init(base + OFF_STAGE_BAR + 8 * i, 1); mbar_init(base + OFF_STAGE_BAR + 8 * (STAGES + i), 3); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    constexpr int AT1 = 0, AT2 = HID * 80, AT3 = AT2 + HID * HID, AT4 = AT3 + HID * HID;
    const int chunks = (rows + 63) / 64;
    int block = blockIdx.x;
    // Blocks of one share lie side by side: they read the same rows at the same time.
    auto share = [&](int splits, int split, int& first, int& end) {
        first = (int)((long long)chunks * split / splits);
        end = (int)((long long)chunks * (split + 1) / splits);
    };
    int first, end;
    if (block < 8 * SPLITS_SQUARE) {
        const int split = block >> 3, tile = block & 3;
        const bool third = (block & 4) != 0;
        const int i = tile >> 1, j = tile & 1;
        share(SPLITS_SQUARE, split, first, end);
        float* to = partial + (size_t)split * stride + (third ? AT3 : AT2) + (i * 192) * HID + j * 192;
        weight_tile<192>(base, third ? &m.z3 : &m.z2, i * 192, third ? &m.h2 : &m.h1, j * 192, first, end, to, HID, 1);
        return;
    }
    block -= 8 * SPLITS_SQUARE;
    if (block < 2 * SPLITS_FIRST) {
        const int split = block >> 1, i = block & 1;
        share(SPLITS_FIRST, split, first, end);
        weight_tile<80>(base, &m.z1, i * 192, &m.x, 0, first, end, partial + (size_t)split * stride + AT1 + i * 192 * 80, 80, 1);
        return;
    }
    block -= 2 * SPLITS_FIRST;
    const int split = block >> 1, i = block & 1;
    share(SPLITS_LAST, split, first, end);
    // dW4 transposed: rows of the tile are columns of W4.
    weight_tile<48>(base, &m.h3, i * 192, &m.dout, 0, first, end, partial + (size_t)split * stride + AT4 + i * 192, 1, HID);
}
