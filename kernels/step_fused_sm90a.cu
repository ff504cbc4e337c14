// A training step of the reference network between its inputs and its optimizer, for bf16 on Hopper.
// Architectures: sm_90a. The portable twin is the chain of cuBLASLt products, td_loss and relu_backward in crates/ml
// (launch/step.rs); a test compares them.
// Not on the CPU: wgmma and the bulk tensor copy engine are inline PTX.
//
//   x [B, 80] -> H1 = relu(x W1' + b1) [B, 384] -> H2 = relu(H1 W2' + b2) -> H3 = relu(H2 W3' + b3) -> out = H3 W4' + b4 [B, 48]
//   out = [value, advantages, padding]; two heads of 192 units side by side in layer 3
//
// fused_step: three forward passes, the loss, and the gradients of all pre-activations. A block owns 128 rows from x to Z1:
//   1. online network, next states: the best next action           (van Hasselt et al. 2016)
//   2. target network, next states: y = r + discount Q(s', best)   (or its own best, without double_dqn)
//   3. online network, states: Q(s, a), TD error, loss, and dout, the gradient of the outputs, as td_loss has them
//   4. Z3 = (dout W4) * (H3 > 0),   Z2 = (Z3 W3) * (H2 > 0),   Z1 = (Z2 W2) * (H1 > 0)
//   maps                  tensor maps of x and weights (in), H, dout and Z (out), all bf16; made by launch/fused_bf16.rs
//   batch, settings       as td_loss takes them
//   bias [2][1200]        f32 in, two addresses: b1, b2, b3 (384 each), b4 (48) of the online and of the target network
//   H1, H2, H3, Z1, Z2, Z3 [rows][384], dout [rows][48]  bf16 out    of pass 3; dout is zero behind the batch's rows
//   td    [rows] f32 out          y - Q(s, a); zero behind the batch's rows
//   loss_partial [ceil(rows / 64)]       f64 out   sums of weighted losses, not yet divided by the batch's rows
//   masks [3][ceil(rows / 64)][6][128]   u32 scratch   which of H are positive, as the threads hold them
//   Products accumulate in f32, from the bias on. Hidden values and all gradients are rounded to bf16, and it is the rounded
//   values that the next product takes.
//   Launch: 384 threads, STEP_SHARED_BYTES of dynamic shared memory, grid g and `iters` with g * iters >= ceil(rows / 128).
//   Bits:   the order of the k chunks depends on the block (`rot`), so a row's last bits depend on its place; the same launch
//           gives the same bits in every run.
//
// fused_weight_gradients: partial sums over the batch of the gradients of weights and biases
//   dW3 = Z3' H2,   dW2 = Z2' H1,   dW1 = Z1' x,   dW4 = dout' H3
//   partial [12][stride]  f32 out    dW1, dW2, dW3, dW4 one behind the other as the flat parameters have them; dW1 fills the
//                                    first 10 rows alone, dW4 the first 8
//   bias_partial [12][1200] f32 out  db1, db2, db3, db4 likewise: column sums of Z1, Z2, Z3 and dout
//   Launch: 512 threads, WEIGHTS_SHARED_BYTES, grid WEIGHT_BLOCKS.   Bits: fixed order.
//
// Needs, both: rows > 0; a ragged last tile reads zeros and stores nothing behind the rows.
//
// In fused_step two consumer warpgroups own 64 rows each and all 384 columns (2 x m64n192, 192 accumulator registers a
// thread), so neither waits for the other: while one writes its activations the other keeps the tensor cores busy.
// Activations and gradients stay in shared memory, in place. One producer thread streams x and the weights from L2 through a
// ring of five 24 KB slots. The last layer takes H3 straight from the accumulators, and its outputs never leave registers. Two
// more warps store what the other kernel needs. W [out, in] is read as it lies on the way back too,
// as an MN-major operand, so no transposed copy is kept.
// In fused_weight_gradients a block owns 192 x N elements of one weight matrix and a share of the batch; both operands are
// MN-major. Its other warps add up the columns of what passes by.
#include "hopper.cuh"
#include "fused_step.cuh"

constexpr int HID = 384, OUTN = 48;
constexpr int BOX_BYTES = 64 * 64 * 2;        // 64 rows of 64 columns

// ------------------------------------------------------------------------------------- passes, loss and input gradients

constexpr int TM = 128;                       // rows a block
constexpr int SLOTS = 5;                      // of the ring
constexpr int SLOT_BYTES = 3 * BOX_BYTES;     // 192 columns by 64 k, or the other way round
constexpr int A_BYTES = TM * HID * 2;         // [warpgroup][k chunk of 64][64 rows][128 bytes]
constexpr int X0_BYTES = TM * 64 * 2;         // x columns 0 to 63, 128-byte swizzle, in a slot; columns 64 to 79 behind it
constexpr int X1_BYTES = TM * 16 * 2;         // those, 32-byte swizzle
constexpr int W4_BOX_BYTES = OUTN * 64 * 2;   // of W4: 48 rows of 64 columns
constexpr int NBIAS = 3 * HID + OUTN;
constexpr int OFF_A = SLOTS * SLOT_BYTES;
constexpr int OFF_BIAS = OFF_A + A_BYTES;     // of both networks
constexpr int OFF_LOSS = OFF_BIAS + 2 * NBIAS * 4;   // a double for each consumer warp
constexpr int OFF_BAR = OFF_LOSS + 8 * 8;
constexpr int STEP_SHARED_BYTES = OFF_BAR + 2 * SLOTS * 8 + 1024;   // and room to align to 1,024
static_assert(STEP_SHARED_BYTES == 231952, "launch/fused_bf16.rs asks for as much");

struct NetworkMaps {
    CUtensorMap w1a, w1b, w2, w3, w4;
};
struct InputMaps {
    CUtensorMap x0, x1;
};
// `StepMaps` in launch/fused_bf16.rs is its twin.
struct StepMaps {
    InputMaps states, next_states;
    NetworkMaps online, target;
    CUtensorMap h1, h2, h3, dout;
    CUtensorMap w3_back, w2_back, z3, z2, z1;
};

// As Loss in launch/fused_bf16.rs.
struct Loss : FusedArguments {
    uint32_t* masks;
};
static_assert(sizeof(Loss) == 112, "launch/fused_bf16.rs lays it out so");

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

// A warpgroup's half of a hidden layer (or of its gradient), accumulators -> shared memory, as bf16. `bits`: three words for
// each half; which of its values are positive.
enum Store { RELU, RELU_NOTED, MASKED };
template <Store HOW>
__device__ __forceinline__ void store_half(float (&d)[96], int half, const uint32_t (&soff)[4], uint32_t (&bits)[6]) {
#pragma unroll
    for (int p = 0; p < 12; p++) {
        const int q = half * 12 + p;
        uint32_t v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float lo = d[8 * p + 2 * j], hi = d[8 * p + 2 * j + 1];
            const int word = half * 3 + p / 4, at = 4 * (p % 4) + j;
            v[j] = HOW == MASKED ? where_positive(bits[word], pack(lo, hi), at) : relu_pack(lo, hi);
            if (HOW == RELU_NOTED) note_positive(bits[word], v[j], at);
        }
        stmatrix4(soff[q & 3] + (q >> 2) * BOX_BYTES, v[0], v[1], v[2], v[3]);
    }
}

// A [64][384] in shared memory times a square weight matrix from the ring, chunk by chunk of k. BACK: the weights lie MN-major,
// and the accumulators start at zero.
template <int BACK>
__device__ __forceinline__ void square_layer(float (&acc0)[96], float (&acc1)[96], uint32_t base, uint32_t abase, uint32_t full,
                                             uint32_t empty, uint32_t& s, uint32_t& ph, int rot, int tid) {
    auto release = [&](uint32_t slot) { if ((tid & 127) == 0) mbar_arrive(empty + 8 * slot); };
    auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
    uint32_t sp = 0;
#pragma unroll 1
    for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1) {
        const uint64_t a = desc128(abase + c * BOX_BYTES);
        mbar_wait(full + 8 * s, ph);
        wg_fence();
        { const uint64_t b = BACK ? desc_rows(base + s * SLOT_BYTES, BOX_BYTES) : desc128(base + s * SLOT_BYTES);
#pragma unroll
          for (int k = 0; k < 4; k++) wgmma_n192<0, BACK>(acc0, a + 2 * k, b + (BACK ? 128 : 2) * k, !BACK || i > 0 || k > 0); }
        wg_commit(); wg_wait<1>(); if (i) release(sp); sp = s; next();
        mbar_wait(full + 8 * s, ph);
        wg_fence();
        { const uint64_t b = BACK ? desc_rows(base + s * SLOT_BYTES, BOX_BYTES) : desc128(base + s * SLOT_BYTES);
#pragma unroll
          for (int k = 0; k < 4; k++) wgmma_n192<0, BACK>(acc1, a + 2 * k, b + (BACK ? 128 : 2) * k, !BACK || i > 0 || k > 0); }
        wg_commit(); wg_wait<1>(); release(sp); sp = s; next();
    }
    wg_wait<0>(); release(sp);
}

// What a thread holds of the outputs: rows r and r + 8, of each the columns 8 j + 2 t and the one behind it, j = 0 to 5. The four
// threads of a row sit side by side in a warp.
__device__ __forceinline__ float row_sum(float value) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
// Of row r + 8 i: the sum of its advantages, and one of them.
__device__ __forceinline__ void advantages(const float (&o)[24], int i, int t, uint32_t actions, uint32_t of, float& sum, float& chosen) {
    sum = chosen = 0;
#pragma unroll
    for (int j = 0; j < 6; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const uint32_t a = 8 * j + 2 * t + e - 1u;   // the value's column wraps round and is no action
            const float v = o[4 * j + 2 * i + e];
            sum += a < actions ? v : 0.0f;
            chosen += a == of ? v : 0.0f;
        }
    sum = row_sum(sum);
    chosen = row_sum(chosen);
}
// The action with the greatest advantage; the lowest of equals.
__device__ __forceinline__ uint32_t best_action(const float (&o)[24], int i, int t, uint32_t actions) {
    float best = 0;
    uint32_t at = 0xffffffffu;
#pragma unroll
    for (int j = 0; j < 6; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const uint32_t a = 8 * j + 2 * t + e - 1u;
            const float v = o[4 * j + 2 * i + e];
            if (a < actions && (at == 0xffffffffu || v > best)) { best = v; at = a; }
        }
#pragma unroll
    for (int offset = 1; offset < 4; offset <<= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, best, offset);
        const uint32_t other_at = __shfl_xor_sync(0xffffffffu, at, offset);
        if (other_at != 0xffffffffu && (at == 0xffffffffu || other > best || (other == best && other_at < at))) { best = other; at = other_at; }
    }
    return at;
}

extern "C" __global__ void __launch_bounds__(384, 1)
    fused_step(const __grid_constant__ StepMaps m, const __grid_constant__ Loss l) {
    extern __shared__ uint8_t raw[];
    uint8_t* sm = raw + ((1024 - (s32(raw) & 1023)) & 1023);
    const uint32_t base = s32(sm);
    const uint32_t full = base + OFF_BAR, empty = full + 8 * SLOTS;
    float* sbias = reinterpret_cast<float*>(sm + OFF_BIAS);
    double* warp_loss = reinterpret_cast<double*>(sm + OFF_LOSS);
    const int tid = threadIdx.x, wg = tid >> 7, warp = tid >> 5, lane = tid & 31;
    const int rot = blockIdx.x % 6;              // first k chunk of the square layers: blocks spread over the weights
    const int rows = (int)l.rows, iters = (int)l.iters;

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
#pragma unroll 1
                for (int pass = 0; pass < 3; pass++) {
                    const InputMaps* x = pass == 2 ? &m.states : &m.next_states;
                    const NetworkMaps* n = pass == 1 ? &m.target : &m.online;
                    acquire(X0_BYTES + X1_BYTES); load(0, &x->x0, 0, row0); load(X0_BYTES, &x->x1, 64, row0); next();
                    for (int h = 0; h < 2; h++) { acquire(SLOT_BYTES); load(0, &n->w1a, 0, h * 192); next(); }
                    acquire(2 * 192 * 32);
                    for (int h = 0; h < 2; h++) load(h * 192 * 32, &n->w1b, 64, h * 192);
                    next();
                    for (int k = 0; k < 2; k++) {
                        const CUtensorMap* w = k ? &n->w3 : &n->w2;
                        for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1)
                            for (int h = 0; h < 2; h++) { acquire(SLOT_BYTES); load(0, w, c * 64, h * 192); next(); }
                    }
                    acquire(4 * W4_BOX_BYTES);
                    for (int c = 0; c < 4; c++) load(c * W4_BOX_BYTES, &n->w4, c * 64, 0);
                    next();
                    acquire(2 * W4_BOX_BYTES);
                    for (int c = 4; c < 6; c++) load((c - 4) * W4_BOX_BYTES, &n->w4, c * 64, 0);
                    next();
                }
                for (int h = 0; h < 2; h++) {
                    acquire(3 * W4_BOX_BYTES);
                    for (int b = 0; b < 3; b++) load(b * W4_BOX_BYTES, &m.online.w4, (h * 3 + b) * 64, 0);
                    next();
                }
                for (int k = 0; k < 2; k++) {
                    const CUtensorMap* w = k ? &m.w2_back : &m.w3_back;
                    for (int i = 0, c = rot; i < 6; i++, c = c == 5 ? 0 : c + 1)
                        for (int h = 0; h < 2; h++) {
                            acquire(SLOT_BYTES);
                            for (int b = 0; b < 3; b++) load(b * BOX_BYTES, w, (h * 3 + b) * 64, c * 64);
                            next();
                        }
                }
            }
        } else if (warp >= 10) {
            // ---- store warps (one for each consumer warpgroup): what A holds, shared memory -> global ----
            // barrier 3 + w: A holds something to be stored; 5 + w: it may be overwritten.
            const int w = warp - 10;
            const uint32_t ab = base + OFF_A + w * (A_BYTES / 2);
            for (int it = 0; it < iters; it++) {
                const int row0 = (it * gridDim.x + blockIdx.x) * TM + w * 64;
                // H1, H2, H3, dout, Z3, Z2, Z1
#pragma unroll 1
                for (int k = 0; k < 7; k++) {
                    asm volatile("bar.sync %0, 160;" ::"r"(3 + w) : "memory");
                    if (lane == 0) {
                        const CUtensorMap* to = k == 0 ? &m.h1 : k == 1 ? &m.h2 : k == 2 ? &m.h3 : k == 3 ? &m.dout : k == 4 ? &m.z3 : k == 5 ? &m.z2 : &m.z1;
                        const int chunks = k == 3 ? 1 : 6;
                        for (int c = 0; c < chunks; c++) tma_store(to, c * 64, row0, ab + c * BOX_BYTES);
                        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                    }
                    if (k == 3 && lane == 0 && row0 < rows) {
                        double sum = 0;
                        for (int i = 0; i < 4; i++) sum += warp_loss[4 * w + i];
                        l.loss_partial[row0 / 64] = sum;
                    }
                    if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                    __syncwarp();
                    if (k < 6 || it + 1 < iters) asm volatile("bar.arrive %0, 160;" ::"r"(5 + w) : "memory");
                }
            }
            if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
    } else {
        // ---- consumers: warpgroup wg owns rows 64 wg .. 64 wg + 63 of the tile ----
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        for (int i = tid; i < 2 * NBIAS; i += 256) {
            const bool target = i >= NBIAS;
            const int at = target ? i - NBIAS : i, p = at & 15, t = p >> 2, e = p & 3;
            sbias[i] = (target ? l.target_bias : l.online_bias)[(at & ~15) + 2 * t + (e & 1) + (e >> 1) * 8];
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
        auto next = [&]() { if (++s == SLOTS) { s = 0; ph ^= 1; } };
        // Before A is overwritten: all warps have used it and, where it was to be stored, so has the store warp.
        auto a_free = [&](bool stored) {
            if (stored) asm volatile("bar.sync %0, 160;" ::"r"(5 + wg) : "memory");
            else wg_bar(wg);
        };
        // After it was written.
        auto a_ready = [&](bool to_store) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (to_store) asm volatile("bar.sync %0, 160;" ::"r"(3 + wg) : "memory");
            else wg_bar(wg);
        };
        const size_t mask_layer = (size_t)((rows + 63) / 64) * 6 * 128;
        float acc0[96], acc1[96];
        for (int it = 0; it < iters; it++) {
            const int row0 = (it * gridDim.x + blockIdx.x) * TM + wg * 64;
            uint32_t* const tile_masks = l.masks + (size_t)(row0 / 64) * 6 * 128 + (tid & 127);
            auto save_bits = [&](const uint32_t (&bits)[6], int layer) {
                if (row0 >= rows) return;
#pragma unroll
                for (int i = 0; i < 6; i++) tile_masks[layer * mask_layer + i * 128] = bits[i];
            };
            const int r0 = row0 + wq * 16 + (lane >> 2);
            uint32_t best[2] = {0, 0};
            float y[2] = {0, 0};
#pragma unroll 1
            for (int pass = 0; pass < 3; pass++) {
                const bool save = pass == 2;
                const float* const b = sbias + (pass == 1 ? NBIAS : 0);
                // ---- layer 1: K = 80 = 64 + 16; x comes through the ring as well ----
                {
                    bias_init(acc0, b, t);
                    bias_init(acc1, b + 192, t);
                    // Starts behind the other, to stay out of step.
                    if (wg == 1 && pass == 0) asm volatile("bar.sync 8, 256;" ::: "memory");
                    pin(acc0); pin(acc1);
                    mbar_wait(full + 8 * s, ph);
                    const uint64_t ax = desc128(base + s * SLOT_BYTES + wg * 8192);
                    const uint64_t ay = desc32(base + s * SLOT_BYTES + X0_BYTES + wg * 2048);
                    const uint32_t sx = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t w = desc128(base + s * SLOT_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc0, ax + 2 * k, w + 2 * k, 1); }
                    wg_commit();
                    const uint32_t sa = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    { const uint64_t w = desc128(base + s * SLOT_BYTES);
#pragma unroll
                      for (int k = 0; k < 4; k++) wgmma_n192<0, 0>(acc1, ax + 2 * k, w + 2 * k, 1); }
                    wg_commit();
                    const uint32_t sb = s; next();
                    mbar_wait(full + 8 * s, ph);
                    wg_fence();
                    wgmma_n192<0, 0>(acc0, ay, desc32(base + s * SLOT_BYTES), 1);
                    wgmma_n192<0, 0>(acc1, ay, desc32(base + s * SLOT_BYTES + 192 * 32), 1);
                    wg_commit(); wg_wait<0>();
                    release(sx); release(sa); release(sb); release(s); next();
                    if (wg == 0 && pass == 0) asm volatile("bar.arrive 8, 256;" ::: "memory");
                    pin(acc0); pin(acc1);
                }
                // ---- layers 2 and 3 ----
#pragma unroll 1
                for (int k = 0; k < 2; k++) {
                    // Hidden layer k of this tile: accumulators -> shared memory, in place over the one before.
                    a_free(save ? k == 1 : pass == 0 && k == 0 && it > 0);
                    if (save) {
                        uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
                        store_half<RELU_NOTED>(acc0, 0, soff, bits);
                        store_half<RELU_NOTED>(acc1, 1, soff, bits);
                        save_bits(bits, k);
                    } else {
                        uint32_t bits[6];
                        store_half<RELU>(acc0, 0, soff, bits);
                        store_half<RELU>(acc1, 1, soff, bits);
                    }
                    bias_init(acc0, b + (k + 1) * HID, t);
                    bias_init(acc1, b + (k + 1) * HID + 192, t);
                    pin(acc0); pin(acc1);
                    a_ready(save);
                    square_layer<0>(acc0, acc1, base, abase, full, empty, s, ph, rot, tid);
                    pin(acc0); pin(acc1);
                }
                // ---- layer 4: H3 from registers ----
                uint32_t p[96];
#pragma unroll
                for (int i = 0; i < 48; i++) p[i] = relu_pack(acc0[2 * i], acc0[2 * i + 1]);
#pragma unroll
                for (int i = 0; i < 48; i++) p[48 + i] = relu_pack(acc1[2 * i], acc1[2 * i + 1]);
                if (save) {
                    uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
#pragma unroll
                    for (int i = 0; i < 96; i++) note_positive(bits[i / 16], p[i], i % 16);
                    save_bits(bits, 2);
                    a_free(true);
#pragma unroll
                    for (int q = 0; q < 24; q++) stmatrix4(soff[q & 3] + (q >> 2) * BOX_BYTES, p[4 * q], p[4 * q + 1], p[4 * q + 2], p[4 * q + 3]);
                    a_ready(true);
                }
                float o[24];
                bias_init(o, b + 3 * HID, t);
                pin(o);
                const uint32_t s0 = s;
                mbar_wait(full + 8 * s, ph); next();
                const uint32_t s1 = s;
                mbar_wait(full + 8 * s, ph); next();
                wg_fence();
#pragma unroll
                for (int q = 0; q < 24; q++) {
                    const int c = q >> 2;
                    const uint64_t w = c < 4 ? desc128(base + s0 * SLOT_BYTES + c * W4_BOX_BYTES) : desc128(base + s1 * SLOT_BYTES + (c - 4) * W4_BOX_BYTES);
                    wgmma_n48_rs(o, p[4 * q], p[4 * q + 1], p[4 * q + 2], p[4 * q + 3], w + 2 * (q & 3));
                }
                wg_commit(); wg_wait<0>(); release(s0); release(s1);
                pin(o);
                // ---- what the outputs are for ----
                const float share = 1.0f / (float)l.actions;
                if (pass < 2) {
                    const bool choose = pass == 0 || *l.double_dqn == 0;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        if (choose) best[i] = best_action(o, i, t, l.actions);
                        float sum, chosen;
                        advantages(o, i, t, l.actions, best[i], sum, chosen);
                        const float value = __shfl_sync(0xffffffffu, o[2 * i], lane & ~3);
                        const int row = r0 + 8 * i;
                        if (pass == 1 && row < rows) y[i] = l.reward[row] + l.discount[row] * (value + (chosen - sum * share));
                    }
                } else {
                    const uint32_t filled_rows = *l.batch_rows;
                    const float delta = *l.huber_delta;
                    double loss = 0;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const int row = r0 + 8 * i;
                        const bool inside_rows = row < rows, filled = inside_rows && (uint32_t)row < filled_rows;
                        const uint32_t taken = inside_rows ? l.action[row] : 0u;
                        const float weight = inside_rows ? l.weight[row] : 0.0f;
                        float sum, chosen;
                        advantages(o, i, t, l.actions, taken, sum, chosen);
                        const float value = __shfl_sync(0xffffffffu, o[2 * i], lane & ~3);
                        const float error = value + (chosen - sum * share) - y[i];
                        const float magnitude = fabsf(error);
                        const bool quadratic = magnitude <= delta;
                        // NaN takes the second way and stays NaN.
                        const float slope = quadratic ? error : (error > 0 ? delta : (error < 0 ? -delta : error));
                        const float gradient = filled ? weight * slope / (float)filled_rows : 0.0f;
                        if (filled && t == 0)
                            loss += (double)weight * (quadratic ? 0.5 * (double)error * error : (double)delta * ((double)magnitude - 0.5 * delta));
                        if (inside_rows && t == 0) l.td[row] = filled ? -error : 0.0f;
#pragma unroll
                        for (int j = 0; j < 6; j++)
#pragma unroll
                            for (int e = 0; e < 2; e++) {
                                const uint32_t column = 8 * j + 2 * t + e, a = column - 1u;
                                float d = 0;
                                if (column == 0) d = gradient;
                                else if (a < l.actions) d = gradient * ((a == taken ? 1.0f : 0.0f) - share);
                                o[4 * j + 2 * i + e] = d;
                            }
                    }
#pragma unroll
                    for (int offset = 16; offset > 0; offset >>= 1) loss += __shfl_xor_sync(0xffffffffu, loss, offset);
                    if (lane == 0) warp_loss[warp] = loss;
                    a_free(true);
#pragma unroll
                    for (int q = 0; q < 3; q++)
                        stmatrix4(soff[q], pack(o[8 * q], o[8 * q + 1]), pack(o[8 * q + 2], o[8 * q + 3]), pack(o[8 * q + 4], o[8 * q + 5]), pack(o[8 * q + 6], o[8 * q + 7]));
                    a_ready(true);
                }
            }
            // ---- back through layer 4: K = 48 ----
            {
                const uint64_t a = desc128(abase);
                pin(acc0); pin(acc1);
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t w = desc_rows(base + s * SLOT_BYTES, W4_BOX_BYTES);
#pragma unroll
                  for (int k = 0; k < 3; k++) wgmma_n192<0, 1>(acc0, a + 2 * k, w + 128 * k, k > 0); }
                const uint32_t sa = s; next();
                mbar_wait(full + 8 * s, ph);
                wg_fence();
                { const uint64_t w = desc_rows(base + s * SLOT_BYTES, W4_BOX_BYTES);
#pragma unroll
                  for (int k = 0; k < 3; k++) wgmma_n192<0, 1>(acc1, a + 2 * k, w + 128 * k, k > 0); }
                wg_commit(); wg_wait<0>();
                release(sa); release(s); next();
                pin(acc0); pin(acc1);
            }
            // ---- and through layers 3 and 2 ----
#pragma unroll 1
            for (int k = 0; k < 3; k++) {
                uint32_t bits[6] = {0, 0, 0, 0, 0, 0};
                if (row0 < rows) {
#pragma unroll
                    for (int i = 0; i < 6; i++) bits[i] = tile_masks[(2 - k) * mask_layer + i * 128];
                }
                a_free(true);
                store_half<MASKED>(acc0, 0, soff, bits);
                store_half<MASKED>(acc1, 1, soff, bits);
                pin(acc0); pin(acc1);
                a_ready(true);
                if (k == 2) break;
                square_layer<1>(acc0, acc1, base, abase, full, empty, s, ph, rot, tid);
                pin(acc0); pin(acc1);
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------------ weight gradients

constexpr int STAGES = 4;
constexpr int STAGE_BYTES = 6 * BOX_BYTES;    // 64 rows of the batch: 192 columns of A, up to 192 of B
constexpr int OFF_STAGE_BAR = STAGES * STAGE_BYTES;
constexpr int WEIGHTS_SHARED_BYTES = OFF_STAGE_BAR + 2 * STAGES * 8 + 1024;
static_assert(WEIGHTS_SHARED_BYTES == 197696, "launch/fused_bf16.rs asks for as much");

// Shares of the batch, by what a chunk of rows costs: bytes of both operands.
constexpr int SPLITS_SQUARE = 12, SPLITS_FIRST = 10, SPLITS_LAST = 8;
constexpr int WEIGHT_BLOCKS = 8 * SPLITS_SQUARE + 2 * SPLITS_FIRST + 2 * SPLITS_LAST;
static_assert(WEIGHT_BLOCKS == 132, "launch/fused_bf16.rs launches as many");

// `WeightMaps` in launch/fused_bf16.rs is its twin.
struct WeightMaps {
    CUtensorMap z3, z2, z1, h3, h2, h1, x, dout;
};

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

// Adds 64 rows of a box of 64 columns in shared memory to the sums of two columns a lane.
__device__ __forceinline__ void add_columns(uint32_t box, int lane, float& lo, float& hi) {
#pragma unroll 1
    for (int r = 0; r < 64; r += 8) {
        uint32_t v[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[i]) : "r"(box + (r + i) * 128 + (((lane >> 2) ^ i) << 4) + (lane & 3) * 4) : "memory");
        float l[8], h[8];
#pragma unroll
        for (int i = 0; i < 8; i++) { l[i] = __uint_as_float(v[i] << 16); h[i] = __uint_as_float(v[i] & 0xffff0000u); }
        lo += ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        hi += ((h[0] + h[1]) + (h[2] + h[3])) + ((h[4] + h[5]) + (h[6] + h[7]));
    }
}

// What a block adds up: 192 columns of A by N of B, from a0 and b0 on, over chunks [first, end) of 64 rows.
struct Share {
    const CUtensorMap *a, *b;
    int a0, b0, first, end;
    float* to;                 // element (0, 0) of the product; `row_step` and `column_step` lead to its neighbours
    int row_step, column_step;
    float* sums;               // column sums of A (or of B, where the columns of the product are not neighbours); or null
};

// A warpgroup owns 64 columns of A. Of the fourth, one thread loads and three warps add columns up.
template <int N>
__device__ __forceinline__ void weight_tile(uint32_t base, const Share& share) {
    constexpr int B_BOXES = (N + 63) / 64;
    const int tid = threadIdx.x, wg = tid >> 7, lane = tid & 31, warp = tid >> 5;
    const uint32_t full = base + OFF_STAGE_BAR, empty = full + 8 * STAGES;
    const int first = share.first, end = share.end;
    const bool sum_b = share.column_step != 1;
    const int adding = share.sums == nullptr ? 0 : (sum_b ? 1 : 3);
    if (tid == 0) {
        for (int i = 0; i < STAGES; i++) { mbar_init(full + 8 * i, 1); mbar_init(empty + 8 * i, 3 + adding); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    uint32_t s = 0, ph = 0;
    auto next = [&]() { if (++s == STAGES) { s = 0; ph ^= 1; } };
    if (wg == 3) {
        if (warp == 12 && lane == 0) {
            ph = 1;
            for (int chunk = first; chunk < end; chunk++) {
                mbar_wait(empty + 8 * s, ph);
                mbar_expect(full + 8 * s, (3 + B_BOXES) * BOX_BYTES);
                const uint32_t at = base + s * STAGE_BYTES;
                for (int b = 0; b < 3; b++) tma_load(at + b * BOX_BYTES, share.a, share.a0 + b * 64, chunk * 64, full + 8 * s);
                for (int b = 0; b < B_BOXES; b++) tma_load(at + (3 + b) * BOX_BYTES, share.b, share.b0 + b * 64, chunk * 64, full + 8 * s);
                next();
            }
        } else if (warp > 12 && warp - 13 < adding) {
            const int box = sum_b ? 3 : warp - 13, column = (warp - 13) * 64 + 2 * lane;
            float lo = 0, hi = 0;
            for (int chunk = first; chunk < end; chunk++) {
                mbar_wait(full + 8 * s, ph);
                add_columns(base + s * STAGE_BYTES + box * BOX_BYTES, lane, lo, hi);
                __syncwarp();
                if (lane == 0) mbar_arrive(empty + 8 * s);
                next();
            }
            if (!sum_b || column < N) *reinterpret_cast<float2*>(share.sums + column) = make_float2(lo, hi);
        }
    } else {
        float d[N / 2];
        uint32_t sp = 0;
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
            next();
        }
        wg_wait<0>();
        pin(d);
        const int r = wg * 64 + (warp & 3) * 16 + (lane >> 2), c = 2 * (lane & 3);
#pragma unroll
        for (int j = 0; j < N / 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float* at = share.to + (size_t)(r + 8 * i) * share.row_step + (c + 8 * j) * share.column_step;
                if (!sum_b) *reinterpret_cast<float2*>(at) = make_float2(d[4 * j + 2 * i], d[4 * j + 2 * i + 1]);
                else { at[0] = d[4 * j + 2 * i]; at[share.column_step] = d[4 * j + 2 * i + 1]; }
            }
    }
}

extern "C" __global__ void __launch_bounds__(512, 1)
    fused_weight_gradients(const __grid_constant__ WeightMaps m, float* __restrict__ partial, float* __restrict__ bias_partial, int stride,
                           int rows) {
    extern __shared__ uint8_t raw[];
    uint8_t* sm = raw + ((1024 - (s32(raw) & 1023)) & 1023);
    const uint32_t base = s32(sm);
    constexpr int AT1 = 0, AT2 = HID * 80, AT3 = AT2 + HID * HID, AT4 = AT3 + HID * HID;
    const int chunks = (rows + 63) / 64;
    // Blocks of one share of the batch lie side by side: they read the same rows at the same time.
    auto of_batch = [&](int splits, int split, Share& share) {
        share.first = (int)((long long)chunks * split / splits);
        share.end = (int)((long long)chunks * (split + 1) / splits);
    };
    int block = blockIdx.x;
    Share share;
    if (block < 8 * SPLITS_SQUARE) {
        const int split = block >> 3, i = (block >> 1) & 1, j = block & 1;
        const bool third = (block & 4) != 0;
        share = {third ? &m.z3 : &m.z2, third ? &m.h2 : &m.h1, i * 192, j * 192, 0, 0,
                 partial + (size_t)split * stride + (third ? AT3 : AT2) + (i * 192) * HID + j * 192, HID, 1,
                 j == 0 ? bias_partial + split * NBIAS + (third ? 2 : 1) * HID + i * 192 : nullptr};
        of_batch(SPLITS_SQUARE, split, share);
        weight_tile<192>(base, share);
        return;
    }
    block -= 8 * SPLITS_SQUARE;
    const bool of_first = block < 2 * SPLITS_FIRST;
    if (!of_first) block -= 2 * SPLITS_FIRST;
    const int split = block >> 1, i = block & 1;
    float* const row = partial + (size_t)split * stride;
    if (of_first) {
        share = {&m.z1, &m.x, i * 192, 0, 0, 0, row + AT1 + i * 192 * 80, 80, 1, bias_partial + split * NBIAS + i * 192};
        of_batch(SPLITS_FIRST, split, share);
        weight_tile<80>(base, share);
    } else {
        // Transposed: rows of the product are columns of W4.
        share = {&m.h3, &m.dout, i * 192, 0, 0, 0, row + AT4 + i * 192, 1, HID, i == 0 ? bias_partial + split * NBIAS + 3 * HID : nullptr};
        of_batch(SPLITS_LAST, split, share);
        weight_tile<48>(base, share);
    }
}
