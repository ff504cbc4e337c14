// A training step of the reference network between its inputs and the gradients of its pre-activations, for tf32 on Hopper.
// Architectures: sm_90a. The portable twin is the chain of cuBLASLt products, td_loss and relu_backward in crates/ml
// (launch/step.rs); a test compares them.
// Not on the CPU: wgmma and the bulk tensor copy engine are inline PTX.
//
// fused_step_tf32 computes what fused_step (step_fused_sm90a.cu) computes, with f32 in memory and tf32 in the products:
//   states, next_states     tensor maps of x [rows][80] f32, in
//   h1, h2, h3, z1, z2, z3  tensor maps [rows][384] f32, out: hidden activations of the states, and gradients of what is before
//                           their ReLU
//   online, target, back    weights as weight_fragments (step_kernels.cu) lays them out: W1, W2, W3, W4 of both networks, and
//                           W4', W3', W2' of the online one, by the constants AT_* and BACK_*
//   online_bias, target_bias [1200] f32 in: b1, b2, b3 (384 each), b4 (48)
//   action, reward, weight, discount, batch_rows, huber_delta, double_dqn, td, loss_partial    as td_loss has them
//   dout         [rows][48] f32 out            gradient of the outputs; zero behind the batch's rows
//   bias_partial [ceil(rows / 128)][1200] f32 out   column sums of the gradients of pre-activations, over 128 rows each
//   masks        [3][ceil(rows / 128)][3][256][2] u32 scratch   which hidden activations are positive, as the threads hold them
//   Products accumulate in f32, from the bias on. Weights, hidden values and all gradients are rounded to tf32, and it is the
//   rounded values that the next product takes; of x the tensor cores ignore the lower bits.
//   Launch: 256 threads, SHARED_BYTES of dynamic shared memory, grid g and `iters` with g * iters >= ceil(rows / 128).
//   Needs:  rows > 0; a ragged last tile reads zeros and stores nothing behind the rows.
//   Bits:   the order of the k steps depends on the block, so a row's last bits depend on its place; the same launch gives the
//           same bits in every run.
//
// How it differs from the kernel for bf16, and why. Activations of 128 rows fill shared memory by themselves (192 KB), so there is
// no room for weights. A product is therefore turned round: H' = W x', the weights are A and come from L2 straight into registers,
// laid out as wgmma wants them; the batch's 128 rows are N, and x, H and Z are B, in shared memory with k side by side, as they are
// wanted both by the next layer and by the tensor copy that saves them. Two warpgroups own 192 units each (3 x m64n128, 192
// accumulator registers a thread). Accumulators then hold a unit's values in one thread: bias, column sums and masks cost nothing.
#include "hopper.cuh"
#include "fused_step.cuh"

constexpr int HID = 384, OUTN = 48, INPUTS = 80;
constexpr int ROWS = 128;                     // of the batch, a tile
constexpr int CHUNK_BYTES = ROWS * 128;       // 32 columns of a tile
constexpr int BIASES = 3 * HID + OUTN;

// Where the fragments of each matrix begin, in f32. W4 is filled up to 64 rows.
constexpr int AT_W1 = 0, AT_W2 = AT_W1 + HID * INPUTS, AT_W3 = AT_W2 + HID * HID, AT_W4 = AT_W3 + HID * HID, AT_END = AT_W4 + 64 * HID;
constexpr int BACK_W4 = 0, BACK_W3 = BACK_W4 + HID * OUTN, BACK_W2 = BACK_W3 + HID * HID, BACK_END = BACK_W2 + HID * HID;
static_assert(AT_END == 350208 && BACK_END == 313344, "launch/fused_tf32.rs lays them out so");

constexpr int OUT_STRIDE = 52;                // of a row of outputs: no two lanes in one bank, rows aligned to 16 bytes
constexpr int OFF_OUT = HID / 32 * CHUNK_BYTES;
constexpr int OFF_LOSS = OFF_OUT + ROWS * OUT_STRIDE * 4;   // a double for each of four warps
constexpr int OFF_BEST = OFF_LOSS + 4 * 8;    // best action and y of each row
constexpr int OFF_BAR = OFF_BEST + ROWS * 8;
constexpr int SHARED_BYTES = OFF_BAR + 8;
static_assert(SHARED_BYTES == 224296, "launch/fused_tf32.rs asks for as much");

// `StepMaps` in launch/fused_tf32.rs is its twin.
struct StepMaps {
    CUtensorMap states, next_states;
    CUtensorMap h1, h2, h3, z3, z2, z1;
};

// As Step in launch/fused_tf32.rs.
struct Step : FusedArguments {
    const uint4* online;
    const uint4* target;
    const uint4* back;
    float* dout;
    float* bias_partial;
    uint2* masks;
};
static_assert(sizeof(Step) == 152, "launch/fused_tf32.rs lays it out so");

// Weights of a warp's 48 units for 16 k: [k step of 8][16 units].
typedef uint4 Fragments[6];

__device__ __forceinline__ void load_fragment(uint4& v, const uint4* at) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
}
// All but the last of the two steps from `at` on: what `layer` begins with.
__device__ __forceinline__ void load_first(Fragments& f, const uint4* at) {
#pragma unroll
    for (int x = 0; x < 5; x++) load_fragment(f[x], at + 32 * x);
}

// A layer for this warpgroup's units, in `steps` of 8 k, of which `rot` is the first; both are even. `w`: the lane's first
// fragment. Each product goes with the load of what it was five products before: weights are on their way while five others are
// multiplied, of this warpgroup and of the other.
__device__ __forceinline__ void layer(float (&acc)[3][64], Fragments& f, const uint4* w, int steps, int rot, uint32_t columns) {
    int u = rot;
#pragma unroll 1
    for (int i = 0; i < steps; i += 2) {
        const uint64_t b = desc128(columns + (u >> 2) * CHUNK_BYTES) + 2 * (u & 2);
        const uint4* const here = w + u * 96;
        u = u + 2 == steps ? 0 : u + 2;
        const uint4* const next = w + u * 96;
        const bool more = i + 2 < steps;
#pragma unroll
        for (int x = 0; x < 6; x++) {
            wg_fence();
            wgmma_tf32_n128_rs(acc[x % 3], f[x], x < 3 ? b : b + 2);
            wg_commit();
            wg_wait<1>();
            // The product before is done, and its registers are free.
            if (x == 0) load_fragment(f[5], here + 32 * 5);
            else if (more) load_fragment(f[x - 1], next + 32 * (x - 1));
        }
    }
    wg_wait<0>();
}

// 64 units' accumulators to shared memory, rounded. Thread's values: units 2 g + {0, 1} of the warp's 16, rows
// 8 j + 2 t + {0, 1}.
enum How { RELU, MASKED };
template <How HOW>
__device__ __forceinline__ void store_units(float (&d)[64], uint32_t even, uint32_t odd, uint2& bits, float2& sums) {
    sums = make_float2(0, 0);
#pragma unroll
    for (int j = 0; j < 16; j++) {
        uint32_t& word = j < 8 ? bits.x : bits.y;
        uint32_t v[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint32_t bit = 1u << ((4 * j + e) & 31);
            if (HOW == RELU) {
                v[e] = relu_tf32(d[4 * j + e]);
                if (v[e] != 0) word |= bit;
            } else {
                v[e] = word & bit ? to_tf32(d[4 * j + e]) : 0;
                (e < 2 ? sums.x : sums.y) += __uint_as_float(v[e]);
            }
        }
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(even + j * 1024), "r"(v[0]), "r"(v[2]) : "memory");
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(odd + j * 1024), "r"(v[1]), "r"(v[3]) : "memory");
    }
}

__device__ __forceinline__ void async_proxy_sees() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(256, 1)
    fused_step_tf32(const __grid_constant__ StepMaps m, const __grid_constant__ Step l) {
    extern __shared__ __align__(1024) uint8_t sm[];
    const uint32_t base = s32(sm), bar = base + OFF_BAR;
    float* const out = reinterpret_cast<float*>(sm + OFF_OUT);
    double* const warp_loss = reinterpret_cast<double*>(sm + OFF_LOSS);
    const int tid = threadIdx.x, wg = tid >> 7, warp = tid >> 5, lane = tid & 31, q = warp & 3, g = lane >> 2, t = lane & 3;
    const int rows = (int)l.rows;
    // First step of a layer: blocks spread over the weights.
    const int rot_square = (int)(blockIdx.x * 4 % 48), rot_first = (int)(blockIdx.x % 5 * 2), rot_last = (int)(blockIdx.x % 3 * 2);
    // Of the 16 units of block b of 16: this thread's of row 2 t and of row 2 t + 1, in shared memory.
    const uint32_t even = base + (g & 1) * 8 + (2 * t) * 128 + (((g >> 1) ^ (2 * t)) << 4);
    const uint32_t odd = base + (g & 1) * 8 + (2 * t + 1) * 128 + (((g >> 1) ^ (2 * t + 1)) << 4);
    auto of_block = [&](uint32_t at, int b) { return (at + (b >> 1) * CHUNK_BYTES) ^ ((b & 1) << 6); };
    const int tiles = (rows + ROWS - 1) / ROWS;

    if (tid == 0) {
        if (base & 1023) __trap();                        // the swizzle counts on it
        mbar_init(bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    uint32_t parity = 0;
    auto load_x = [&](const CUtensorMap* x, int row0) {
        async_proxy_sees();
        mbar_expect(bar, 3 * CHUNK_BYTES);
        for (int c = 0; c < 3; c++) tma_load(base + c * CHUNK_BYTES, x, c * 32, row0, bar);
    };
    auto save = [&](const CUtensorMap* to, int row0) {
        for (int c = 0; c < HID / 32; c++) tma_store(to, c * 32, row0, base + c * CHUNK_BYTES);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    };
    auto saved = [&]() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); };

    Fragments f;
    float acc[3][64];
#pragma unroll 1
    for (int it = 0; it < (int)l.iters; it++) {
        const int tile = it * gridDim.x + blockIdx.x, row0 = tile * ROWS;
        if (tile >= tiles) break;
        uint2* const tile_masks = l.masks + (size_t)tile * (3 * 256) + tid;
        if (tid == 0) load_x(&m.next_states, row0);
#pragma unroll 1
        for (int pass = 0; pass < 3; pass++) {
            const bool keep = pass == 2;
            const uint4* const weights = pass == 1 ? l.target : l.online;
            const float* const bias = pass == 1 ? l.target_bias : l.online_bias;
            load_first(f, weights + lane + AT_W1 / 4 + warp * (48 * INPUTS / 4) + rot_first * 96);
            mbar_wait(bar, parity);
            parity ^= 1;
#pragma unroll 1
            for (int k = 0; k < 3; k++) {
                const int steps = k == 0 ? INPUTS / 8 : HID / 8, rot = k == 0 ? rot_first : rot_square;
                const uint4* const w = weights + lane + (k == 0 ? AT_W1 / 4 + warp * (48 * INPUTS / 4) : (k == 1 ? AT_W2 : AT_W3) / 4 + warp * (48 * HID / 4));
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    const float2 b = *reinterpret_cast<const float2*>(bias + k * HID + warp * 48 + i * 16 + 2 * g);
#pragma unroll
                    for (int j = 0; j < 16; j++) {
                        acc[i][4 * j] = acc[i][4 * j + 1] = b.x;
                        acc[i][4 * j + 2] = acc[i][4 * j + 3] = b.y;
                    }
                    pin(acc[i]);
                }
                layer(acc, f, w, steps, rot, base);
                pin(acc[0]); pin(acc[1]); pin(acc[2]);
                if (keep && k > 0 && tid == 0) saved();
                __syncthreads();                          // all have read what is now overwritten
                uint2 bits[3] = {};
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    float2 none;
                    store_units<RELU>(acc[i], of_block(even, warp * 3 + i), of_block(odd, warp * 3 + i), bits[i], none);
                    // Meanwhile, and where the first accumulators were.
                    if (i == 0 && k < 2) load_first(f, weights + lane + (k == 0 ? AT_W2 : AT_W3) / 4 + warp * (48 * HID / 4) + rot_square * 96);
                }
                async_proxy_sees();
                __syncthreads();
                if (keep) {
#pragma unroll
                    for (int i = 0; i < 3; i++) tile_masks[(size_t)k * tiles * (3 * 256) + i * 256] = bits[i];
                    if (tid == 0) save(k == 0 ? &m.h1 : k == 1 ? &m.h2 : &m.h3, row0);
                }
            }
            // ---- outputs: each warpgroup multiplies its own 128 units, and the sums are added up in turn ----
            {
                float (&o)[64] = acc[0];
                const uint4* const w = weights + AT_W4 / 4 + (q * 48 + wg * 24) * 32 + lane;
                uint4 w4[24];
#pragma unroll
                for (int s = 0; s < 24; s++) load_fragment(w4[s], w + s * 32);
                float2 b = make_float2(0, 0);
                if (wg == 0 && q < 3) b = *reinterpret_cast<const float2*>(bias + 3 * HID + 16 * q + 2 * g);
#pragma unroll
                for (int j = 0; j < 16; j++) {
                    o[4 * j] = o[4 * j + 1] = b.x;
                    o[4 * j + 2] = o[4 * j + 3] = b.y;
                }
                pin(o);
                wg_fence();
#pragma unroll
                for (int s = 0; s < 24; s++) wgmma_tf32_n128_rs(o, w4[s], desc128(base + (wg * 6 + (s >> 2)) * CHUNK_BYTES) + 2 * (s & 3));
                wg_commit(); wg_wait<0>();
                pin(o);
                if (keep && tid == 0) saved();
#pragma unroll 1
                for (int turn = 0; turn < 2; turn++) {
                    if (wg == turn && q < 3) {
#pragma unroll
                        for (int j = 0; j < 16; j++)
#pragma unroll
                            for (int p = 0; p < 2; p++) {
                                float2* const at = reinterpret_cast<float2*>(out + (8 * j + 2 * t + p) * OUT_STRIDE + 16 * q + 2 * g);
                                float2 v = make_float2(o[4 * j + p], o[4 * j + 2 + p]);
                                if (turn > 0) { const float2 sum = *at; v.x += sum.x; v.y += sum.y; }
                                *at = v;
                            }
                    }
                    __syncthreads();
                    if (turn == 0 && pass < 2 && tid == 0) load_x(pass == 0 ? &m.next_states : &m.states, row0);
                }
            }
            // ---- what they are for: a row a thread ----
            if (wg == 0) {
                const float* const of_row = out + tid * OUT_STRIDE;
                float o[OUTN];
#pragma unroll
                for (int c = 0; c < OUTN; c += 4) {
                    const float4 v = *reinterpret_cast<const float4*>(of_row + c);
                    o[c] = v.x; o[c + 1] = v.y; o[c + 2] = v.z; o[c + 3] = v.w;
                }
                uint32_t* const best_of_row = reinterpret_cast<uint32_t*>(sm + OFF_BEST) + tid;
                float* const y_of_row = reinterpret_cast<float*>(best_of_row + ROWS);
                const int row = row0 + tid;
                const bool inside = row < rows;
                const float share = 1.0f / (float)l.actions;
                float sum = 0;
#pragma unroll
                for (int a = 0; a + 1 < OUTN; a++) sum += (uint32_t)a < l.actions ? o[a + 1] : 0.0f;
                if (pass == 0 || (pass == 1 && *l.double_dqn == 0)) {
                    // The action with the greatest advantage; the lowest of equals.
                    float most = o[1];
                    uint32_t best = 0;
#pragma unroll
                    for (int a = 1; a + 1 < OUTN; a++)
                        if ((uint32_t)a < l.actions && o[a + 1] > most) { most = o[a + 1]; best = a; }
                    *best_of_row = best;
                }
                if (pass == 1) *y_of_row = inside ? l.reward[row] + l.discount[row] * (o[0] + (of_row[1 + *best_of_row] - sum * share)) : 0.0f;
                if (pass == 2) {
                    const uint32_t filled_rows = *l.batch_rows;
                    const float delta = *l.huber_delta;
                    const bool filled = inside && (uint32_t)row < filled_rows;
                    const uint32_t taken = inside ? l.action[row] : 0u;
                    const float weight = inside ? l.weight[row] : 0.0f;
                    const float error = o[0] + (of_row[1 + taken] - sum * share) - *y_of_row;
                    const float magnitude = fabsf(error);
                    const bool quadratic = magnitude <= delta;
                    // NaN takes the second way and stays NaN.
                    const float slope = quadratic ? error : (error > 0 ? delta : (error < 0 ? -delta : error));
                    const float gradient = filled ? weight * slope / (float)filled_rows : 0.0f;
                    double loss = filled ? (double)weight * (quadratic ? 0.5 * (double)error * error : (double)delta * ((double)magnitude - 0.5 * delta)) : 0.0;
                    if (inside) l.td[row] = filled ? -error : 0.0f;
#pragma unroll
                    for (int c = 0; c < OUTN; c++) {
                        const uint32_t a = c - 1u;
                        const float d = c == 0 ? gradient : a < l.actions ? gradient * ((a == taken ? 1.0f : 0.0f) - share) : 0.0f;
                        o[c] = __uint_as_float(to_tf32(d));
                    }
#pragma unroll
                    for (int c = 0; c < OUTN; c += 4) {
                        const float4 v = make_float4(o[c], o[c + 1], o[c + 2], o[c + 3]);
                        *reinterpret_cast<float4*>(sm + (c >> 5) * CHUNK_BYTES + tid * 128 + ((((c & 31) >> 2) ^ (tid & 7)) << 4)) = v;
                        *reinterpret_cast<float4*>(out + tid * OUT_STRIDE + c) = v;
                        if (inside) *reinterpret_cast<float4*>(l.dout + (size_t)row * OUTN + c) = v;
                    }
#pragma unroll
                    for (int offset = 16; offset > 0; offset >>= 1) loss += __shfl_xor_sync(0xffffffffu, loss, offset);
                    if (lane == 0) warp_loss[q] = loss;
                    async_proxy_sees();
                }
            }
        }
        load_first(f, l.back + lane + BACK_W4 / 4 + warp * (48 * OUTN / 4) + rot_last * 96);
        __syncthreads();
        float* const sums = l.bias_partial + (size_t)tile * BIASES;
        if (wg == 1 && (tid & 127) < OUTN) {
            float sum = 0;
#pragma unroll 16
            for (int r = 0; r < ROWS; r++) sum += out[r * OUT_STRIDE + (tid & 127)];
            sums[3 * HID + (tid & 127)] = sum;
        }
        if (tid == 128 || (tid == 129 && row0 + 64 < rows)) {
            const int half = tid - 128;
            l.loss_partial[row0 / 64 + half] = warp_loss[2 * half] + warp_loss[2 * half + 1];
        }
        // ---- back through layers 4, 3 and 2 ----
#pragma unroll 1
        for (int k = 0; k < 3; k++) {
            const int steps = k == 0 ? OUTN / 8 : HID / 8, rot = k == 0 ? rot_last : rot_square;
            const uint4* const w = l.back + lane + (k == 0 ? BACK_W4 / 4 + warp * (48 * OUTN / 4) : (k == 1 ? BACK_W3 : BACK_W2) / 4 + warp * (48 * HID / 4));
#pragma unroll
            for (int i = 0; i < 3; i++) {
#pragma unroll
                for (int j = 0; j < 64; j++) acc[i][j] = 0;
                pin(acc[i]);
            }
            layer(acc, f, w, steps, rot, base);
            pin(acc[0]); pin(acc[1]); pin(acc[2]);
            uint2 bits[3];
#pragma unroll
            for (int i = 0; i < 3; i++) bits[i] = tile_masks[(size_t)(2 - k) * tiles * (3 * 256) + i * 256];
            if (k > 0 && tid == 0) saved();
            __syncthreads();
            float2 sum[3];
#pragma unroll
            for (int i = 0; i < 3; i++) {
                store_units<MASKED>(acc[i], of_block(even, warp * 3 + i), of_block(odd, warp * 3 + i), bits[i], sum[i]);
                if (i == 0 && k < 2) load_first(f, l.back + lane + (k == 0 ? BACK_W3 : BACK_W2) / 4 + warp * (48 * HID / 4) + rot_square * 96);
            }
            async_proxy_sees();
            __syncthreads();
            if (tid == 0) save(k == 0 ? &m.z3 : k == 1 ? &m.z2 : &m.z1, row0);
#pragma unroll
            for (int i = 0; i < 3; i++) {
                sum[i].x += __shfl_xor_sync(0xffffffffu, sum[i].x, 1);
                sum[i].x += __shfl_xor_sync(0xffffffffu, sum[i].x, 2);
                sum[i].y += __shfl_xor_sync(0xffffffffu, sum[i].y, 1);
                sum[i].y += __shfl_xor_sync(0xffffffffu, sum[i].y, 2);
                if (t == 0) *reinterpret_cast<float2*>(sums + (2 - k) * HID + warp * 48 + i * 16 + 2 * g) = sum[i];
            }
        }
        if (tid == 0) saved();
        __syncthreads();
    }
    if (tid == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
