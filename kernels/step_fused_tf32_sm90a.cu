// A training step of the reference network between its inputs and its optimizer, for tf32 on Hopper.
// Architectures: sm_90a. The portable twin is the chain of cuBLASLt products, td_loss and relu_backward in crates/ml
// (launch/step.rs); a test compares them.
// Not on the CPU: wgmma and the bulk copy engine are inline PTX.
//
// fused_step_tf32 computes what fused_step (step_fused_sm90a.cu) computes, with f32 in memory and tf32 in the products:
//   states, next_states     tensor maps of x [rows][80] f32, in
//   online, target, back    weights as weight_fragments (step_kernels.cu) lays them out: W1, W2, W3, W4 of both networks, and
//                           W4', W3', W2' of the online one, by the constants AT_* and BACK_*
//   online_bias, target_bias [1200] f32 in: b1, b2, b3 (384 each), b4 (48)
//   action, reward, weight, discount, batch_rows, huber_delta, double_dqn, td, loss_partial    as td_loss has them
//   saved        out: what the other kernel multiplies, below
//   bias_partial [ceil(rows / 128)][1200] f32 out   column sums of the gradients of pre-activations, over 128 rows each
//   masks        [3][ceil(rows / 128)][3][256][2] u32 scratch   which hidden activations are positive, as the threads hold them
//   Products accumulate in f32, from the bias on. Weights, hidden values and all gradients are rounded to tf32, and it is the
//   rounded values that the next product takes; of x the tensor cores ignore the lower bits.
//   Launch: 256 threads, STEP_SHARED_BYTES of dynamic shared memory, grid g and `iters` with g * iters >= ceil(rows / 128).
//   Needs:  rows > 0; a ragged last tile reads zeros, and its gradients are zero behind the rows.
//   Bits:   the order of the k steps depends on the block, so a row's last bits depend on its place; the same launch gives the
//           same bits in every run.
//
// fused_weight_gradients_tf32: partial sums over the batch of the gradients of weights
//   dW3 = Z3' H2,   dW2 = Z2' H1,   dW1 = Z1' x,   dW4 = dout' H3
//   x                     tensor map of the states' x, in boxes of 32 rows
//   partial [13][stride]  f32 out    dW1, dW2, dW3, dW4 one behind the other as the flat parameters have them; dW1 fills the
//                                    first 8 rows alone, dW4 the first 6
//   Launch: 384 threads, WEIGHTS_SHARED_BYTES, grid WEIGHT_BLOCKS.   Bits: fixed order.
//
// What is saved from the one for the other, gradients Z1, Z2, Z3 and dout and activations H1, H2, H3, lies as it lay in shared
// memory: [tiles of 128 rows][chunks of 32 columns][128 rows][32 columns] f32, each row's 16 bytes in the order of the 128-byte
// swizzle. So one bulk copy saves a layer. The last 16 columns of dout's second chunk mean nothing.
//
// How it differs from the kernels for bf16, and why. Activations of 128 rows fill shared memory by themselves (192 KB), so there is
// no room for weights. A product is therefore turned round: H' = W x', the weights are A and come from L2 straight into registers,
// laid out as wgmma wants them; the batch's 128 rows are N, and x, H and Z are B, in shared memory with k side by side, as they are
// wanted both by the next layer and by the copy that saves them. Two warpgroups own 192 units each (3 x m64n128, 192
// accumulator registers a thread). Accumulators then hold a unit's values in one thread: bias, column sums and masks cost nothing.
// The products over the batch have their k across the rows of both operands, and wgmma takes tf32 operands in no other order than
// k side by side. So they are mma.sync's, whose operands are registers: read from shared memory as they lie.
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
constexpr int OFF_OUT = HID / 32 * CHUNK_BYTES;             // half of the sums; the other half is where H3 has been
constexpr int OFF_OUT_1 = 10 * CHUNK_BYTES;
constexpr int OFF_LOSS = OFF_OUT + ROWS * OUT_STRIDE * 4;   // a double for each warp
constexpr int OFF_BEST = OFF_LOSS + 8 * 8;    // best action and y of each row
constexpr int OFF_BAR = OFF_BEST + ROWS * 8;
constexpr int STEP_SHARED_BYTES = OFF_BAR + 8;
static_assert(STEP_SHARED_BYTES == 224328, "launch/fused_tf32.rs asks for as much");

// `StepMaps` in launch/fused_tf32.rs is its twin.
struct StepMaps {
    CUtensorMap states, next_states;
};

// As Saved in launch/fused_tf32.rs.
struct Saved {
    uint8_t *z1, *z2, *z3, *dout;
    uint8_t *h1, *h2, *h3;
};
constexpr int HIDDEN_BYTES = HID / 32 * CHUNK_BYTES, DOUT_BYTES = 2 * CHUNK_BYTES;   // of a tile

// As Step in launch/fused_tf32.rs.
struct Step : FusedArguments {
    const uint4* online;
    const uint4* target;
    const uint4* back;
    float* bias_partial;
    uint2* masks;
    Saved saved;
};
static_assert(sizeof(Step) == 200, "launch/fused_tf32.rs lays it out so");

// Weights of a warp's 16 units for 8 k, of as many products as are on their way at once.
constexpr int AHEAD = 5;
typedef uint4 Fragments[AHEAD];

__device__ __forceinline__ void load_fragment(uint4& v, const uint4* at) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
}
// What `layer` begins with: all but the last of them.
__device__ __forceinline__ void load_first(Fragments& f, const uint4* at) {
#pragma unroll
    for (int n = 0; n + 1 < AHEAD; n++) load_fragment(f[n], at + 32 * n);
}

// A layer for this warpgroup's units, in STEPS of 8 k, of which `rot` is the first; both are even. `w`: the lane's first fragment.
// Each product goes with the load of the fragment that takes the place of the one before. There is no loop: a warp has six scoreboards
// to wait for loads with, and ptxas puts all that are on their way around a loop's end on one, so that to wait for the oldest
// would be to wait for the newest.
template <int STEPS>
__device__ __forceinline__ void layer(float (&acc)[3][64], Fragments& f, const uint4* w, int rot, uint32_t columns) {
    int u = rot;
    asm volatile("" : "+r"(u));
    const uint4* next = w + u * 96;
    uint64_t b = 0;
#pragma unroll
    for (int n = 0; n < 3 * STEPS; n++) {
        // Two steps are within 32 columns.
        if (n % 6 == 0) b = desc128(columns + (u >> 2) * CHUNK_BYTES) + 2 * (u & 2);
        wg_fence();
        wgmma_tf32_n128_rs(acc[n % 3], f[n % AHEAD], n % 6 < 3 ? b : b + 2);
        wg_commit();
        wg_wait<1>();
        // The product before is done, and its registers are free.
        const int m = n + AHEAD - 1;
        if (m < 3 * STEPS) {
            if (m % 6 == 0) {
                u = u + 2 == STEPS ? 0 : u + 2;
                // Else all 24 places are computed before the first layer, and kept where there is no room.
                asm volatile("" : "+r"(u));
                next = w + u * 96;
            }
            load_fragment(f[m % AHEAD], next + 32 * (m % 6));
        }
    }
    wg_wait<0>();
}

// 64 units' accumulators to shared memory, rounded. Thread's values: units 2 g + {0, 1} of the warp's 16, rows
// 8 j + 2 t + {0, 1}.
enum How { RELU, RELU_NOTED, MASKED };
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
            if (HOW != MASKED) {
                v[e] = relu_tf32(d[4 * j + e]);
                if (HOW == RELU_NOTED && v[e] != 0) word |= bit;
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
    float* const out_1 = reinterpret_cast<float*>(sm + OFF_OUT_1);
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
    auto save = [&](uint8_t* to, int first, int chunks) { bulk_store(to + first * CHUNK_BYTES, base + first * CHUNK_BYTES, chunks * CHUNK_BYTES); };

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
                if (k == 0) layer<INPUTS / 8>(acc, f, w, rot_first, base);
                else layer<HID / 8>(acc, f, w, rot_square, base);
                pin(acc[0]); pin(acc[1]); pin(acc[2]);
                if (keep && k > 0 && tid == 0) bulk_read<0>();
                __syncthreads();                          // all have read what is now overwritten
                uint2 bits[3] = {};
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    float2 none;
                    const uint32_t even_at = of_block(even, warp * 3 + i), odd_at = of_block(odd, warp * 3 + i);
                    if (keep) store_units<RELU_NOTED>(acc[i], even_at, odd_at, bits[i], none);
                    else store_units<RELU>(acc[i], even_at, odd_at, bits[i], none);
                    // Meanwhile, and where the first accumulators were.
                    if (i == 0 && k < 2) load_first(f, weights + lane + (k == 0 ? AT_W2 : AT_W3) / 4 + warp * (48 * HID / 4) + rot_square * 96);
                }
                async_proxy_sees();
                __syncthreads();
                if (keep) {
#pragma unroll
                    for (int i = 0; i < 3; i++) tile_masks[(size_t)k * tiles * (3 * 256) + i * 256] = bits[i];
                    if (tid == 0) {
                        uint8_t* const to = (k == 0 ? l.saved.h1 : k == 1 ? l.saved.h2 : l.saved.h3) + (size_t)tile * HIDDEN_BYTES;
                        // Of the last layer first what the outputs and their gradients will overwrite.
                        if (k == 2) { save(to, 10, 2); save(to, 0, 2); bulk_commit(); save(to, 2, 8); }
                        else save(to, 0, HID / 32);
                        bulk_commit();
                    }
                }
            }
            // ---- outputs: each warpgroup multiplies its own 192 units ----
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
                // The second warpgroup's go over units that it alone has multiplied, and that are saved.
                if (keep) {
                    if (tid == 0) bulk_read<1>();
                    __syncthreads();
                } else if (wg == 1) {
                    wg_bar(1);
                }
                if (q < 3) {
                    float* const sums = wg == 0 ? out : out_1;
#pragma unroll
                    for (int j = 0; j < 16; j++)
#pragma unroll
                        for (int p = 0; p < 2; p++)
                            *reinterpret_cast<float2*>(sums + (8 * j + 2 * t + p) * OUT_STRIDE + 16 * q + 2 * g) = make_float2(o[4 * j + p], o[4 * j + 2 + p]);
                }
                __syncthreads();
                if (pass < 2 && tid == 0) load_x(pass == 0 ? &m.next_states : &m.states, row0);
            }
            // ---- what they are for: two threads a row, half of the outputs each ----
            {
                constexpr int HALF = OUTN / 2;
                const int r = tid >> 1, first = (tid & 1) * HALF, row = row0 + r;
                float* const of_row = out + r * OUT_STRIDE;
                float* const of_row_1 = out_1 + r * OUT_STRIDE;
                float o[HALF];
#pragma unroll
                for (int c = 0; c < HALF; c += 4) {
                    const float4 v = *reinterpret_cast<const float4*>(of_row + first + c), w = *reinterpret_cast<const float4*>(of_row_1 + first + c);
                    o[c] = v.x + w.x; o[c + 1] = v.y + w.y; o[c + 2] = v.z + w.z; o[c + 3] = v.w + w.w;
                }
                uint32_t* const best_of_row = reinterpret_cast<uint32_t*>(sm + OFF_BEST) + r;
                float* const y_of_row = reinterpret_cast<float*>(best_of_row + ROWS);
                const bool inside = row < rows, lower = first == 0;
                const float value = __shfl_sync(0xffffffffu, o[0], lane & ~1);
                float sum = 0;
#pragma unroll
                for (int c = 0; c < HALF; c++) sum += (uint32_t)(first + c) - 1u < l.actions ? o[c] : 0.0f;   // the value's column wraps round
                sum += __shfl_xor_sync(0xffffffffu, sum, 1);
                const float mean = sum * (1.0f / (float)l.actions);
                auto advantage = [&](uint32_t a) { return of_row[1 + a] + of_row_1[1 + a]; };
                if (pass == 0 || (pass == 1 && *l.double_dqn == 0)) {
                    // The action with the greatest advantage; the lowest of equals.
                    float most = 0;
                    uint32_t best = 0xffffffffu;
#pragma unroll
                    for (int c = 0; c < HALF; c++) {
                        const uint32_t a = (uint32_t)(first + c) - 1u;
                        if (a < l.actions && (best == 0xffffffffu || o[c] > most)) { most = o[c]; best = a; }
                    }
                    const float other = __shfl_xor_sync(0xffffffffu, most, 1);
                    const uint32_t other_best = __shfl_xor_sync(0xffffffffu, best, 1);
                    // Of the two the lower has the lower actions, and has one.
                    if (lower) *best_of_row = other_best != 0xffffffffu && other > most ? other_best : best;
                    __syncwarp();
                }
                if (pass == 1 && lower) *y_of_row = inside ? l.reward[row] + l.discount[row] * (value + (advantage(*best_of_row) - mean)) : 0.0f;
                if (pass == 2) {
                    const uint32_t filled_rows = *l.batch_rows;
                    const float delta = *l.huber_delta;
                    const bool filled = inside && (uint32_t)row < filled_rows;
                    const uint32_t taken = inside ? l.action[row] : 0u;
                    const float weight = inside ? l.weight[row] : 0.0f;
                    const float error = value + (advantage(taken) - mean) - *y_of_row;
                    const float magnitude = fabsf(error);
                    const bool quadratic = magnitude <= delta;
                    // NaN takes the second way and stays NaN.
                    const float slope = quadratic ? error : (error > 0 ? delta : (error < 0 ? -delta : error));
                    const float gradient = filled ? weight * slope / (float)filled_rows : 0.0f;
                    double loss = filled && lower ? (double)weight * (quadratic ? 0.5 * (double)error * error : (double)delta * ((double)magnitude - 0.5 * delta)) : 0.0;
                    if (inside && lower) l.td[row] = filled ? -error : 0.0f;
                    const float of_others = gradient * (0.0f - 1.0f / (float)l.actions), of_taken = gradient * (1.0f - 1.0f / (float)l.actions);
#pragma unroll
                    for (int c = 0; c < HALF; c++) {
                        const uint32_t a = (uint32_t)(first + c) - 1u;
                        const float d = a == 0xffffffffu ? gradient : a == taken ? of_taken : a < l.actions ? of_others : 0.0f;
                        o[c] = __uint_as_float(to_tf32(d));
                    }
                    // Both threads have read the row.
                    __syncwarp();
#pragma unroll
                    for (int c = 0; c < HALF; c += 4) {
                        const float4 v = make_float4(o[c], o[c + 1], o[c + 2], o[c + 3]);
                        const int column = first + c;
                        *reinterpret_cast<float4*>(sm + (column >> 5) * CHUNK_BYTES + r * 128 + ((((column & 31) >> 2) ^ (r & 7)) << 4)) = v;
                        *reinterpret_cast<float4*>(of_row + column) = v;
                    }
#pragma unroll
                    for (int offset = 16; offset > 0; offset >>= 1) loss += __shfl_xor_sync(0xffffffffu, loss, offset);
                    if (lane == 0) warp_loss[warp] = loss;
                    async_proxy_sees();
                }
            }
        }
        load_first(f, l.back + lane + BACK_W4 / 4 + warp * (48 * OUTN / 4) + rot_last * 96);
        __syncthreads();
        if (tid == 0) {
            bulk_store(l.saved.dout + (size_t)tile * DOUT_BYTES, base, DOUT_BYTES);
            bulk_commit();
        }
        float* const sums = l.bias_partial + (size_t)tile * BIASES;
        if (wg == 1 && (tid & 127) < OUTN) {
            float sum = 0;
#pragma unroll 16
            for (int r = 0; r < ROWS; r++) sum += out[r * OUT_STRIDE + (tid & 127)];
            sums[3 * HID + (tid & 127)] = sum;
        }
        if (tid == 128 || (tid == 129 && row0 + 64 < rows)) {
            const int half = tid - 128;
            double sum = 0;
            for (int i = 0; i < 4; i++) sum += warp_loss[4 * half + i];
            l.loss_partial[row0 / 64 + half] = sum;
        }
        // ---- back through layers 4, 3 and 2 ----
#pragma unroll 1
        for (int k = 0; k < 3; k++) {
            const uint4* const w = l.back + lane + (k == 0 ? BACK_W4 / 4 + warp * (48 * OUTN / 4) : (k == 1 ? BACK_W3 : BACK_W2) / 4 + warp * (48 * HID / 4));
#pragma unroll
            for (int i = 0; i < 3; i++) {
#pragma unroll
                for (int j = 0; j < 64; j++) acc[i][j] = 0;
                pin(acc[i]);
            }
            if (k == 0) layer<OUTN / 8>(acc, f, w, rot_last, base);
            else layer<HID / 8>(acc, f, w, rot_square, base);
            pin(acc[0]); pin(acc[1]); pin(acc[2]);
            uint2 bits[3];
#pragma unroll
            for (int i = 0; i < 3; i++) bits[i] = tile_masks[(size_t)(2 - k) * tiles * (3 * 256) + i * 256];
            if (tid == 0) bulk_read<0>();
            __syncthreads();
            float2 sum[3];
#pragma unroll
            for (int i = 0; i < 3; i++) {
                store_units<MASKED>(acc[i], of_block(even, warp * 3 + i), of_block(odd, warp * 3 + i), bits[i], sum[i]);
                if (i == 0 && k < 2) load_first(f, l.back + lane + (k == 0 ? BACK_W3 : BACK_W2) / 4 + warp * (48 * HID / 4) + rot_square * 96);
            }
            async_proxy_sees();
            __syncthreads();
            if (tid == 0) {
                save((k == 0 ? l.saved.z3 : k == 1 ? l.saved.z2 : l.saved.z1) + (size_t)tile * HIDDEN_BYTES, 0, HID / 32);
                bulk_commit();
            }
#pragma unroll
            for (int i = 0; i < 3; i++) {
                sum[i].x += __shfl_xor_sync(0xffffffffu, sum[i].x, 1);
                sum[i].x += __shfl_xor_sync(0xffffffffu, sum[i].x, 2);
                sum[i].y += __shfl_xor_sync(0xffffffffu, sum[i].y, 1);
                sum[i].y += __shfl_xor_sync(0xffffffffu, sum[i].y, 2);
                if (t == 0) *reinterpret_cast<float2*>(sums + (2 - k) * HID + warp * 48 + i * 16 + 2 * g) = sum[i];
            }
        }
        if (tid == 0) bulk_read<0>();
        __syncthreads();
    }
    if (tid == 0) bulk_written();
}

// ------------------------------------------------------------------------------------------------------ weight gradients

constexpr int GROUP = 32;                                   // rows of the batch, a stage
constexpr int BOX_BYTES = GROUP * 128;                      // 32 columns of them
constexpr int STAGES = 4;
constexpr int STAGE_BYTES = 2 * 6 * BOX_BYTES;              // 192 columns of either operand
constexpr int OFF_STAGE_BAR = STAGES * STAGE_BYTES;
constexpr int WEIGHTS_SHARED_BYTES = OFF_STAGE_BAR + 2 * STAGES * 8;
static_assert(WEIGHTS_SHARED_BYTES == 196672, "launch/fused_tf32.rs asks for as much");
constexpr int WORKERS = 8;                                  // warps that multiply

// Shares of the batch. A block of the square products is held up by products, the others' by the bytes of their operands.
constexpr int SPLITS_SQUARE = 13, SPLITS_FIRST = 8, SPLITS_LAST = 6;
constexpr int WEIGHT_BLOCKS = 8 * SPLITS_SQUARE + 2 * SPLITS_FIRST + 2 * SPLITS_LAST;
static_assert(WEIGHT_BLOCKS == 132, "launch/fused_tf32.rs launches as many");

// d[16][8] += A[16][8] B[8][8] in tf32. Lane 4 g + t holds of A (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), of B (t, g) and
// (t + 4, g), of d (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint2& a0, const uint2& a1, const uint2& b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0.x), "r"(a0.y), "r"(a1.x), "r"(a1.y), "r"(b.x), "r"(b.y));
}
__device__ __forceinline__ uint32_t load_word(uint32_t at) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}
__device__ __forceinline__ uint2 load_pair(uint32_t at) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
    return v;
}

// An operand of a block: columns of a saved array from `chunk` of 32 on, or of x.
struct Operand {
    const uint8_t* saved;      // null for x
    int chunks;                // of a tile of it
    int chunk;
};

// A block adds up, over groups of rows, M columns of `a` by N of `b`. Its warps share M, N, and each group's rows: WM x WN x WK.
// `to`: element (0, 0) of the product, `row_step` from one row to the next.
template <int M, int N, int WM, int WN, int WK>
__device__ __forceinline__ void weight_tile(uint8_t* sm, const CUtensorMap* x, const Operand& a, const Operand& b, int first, int end, float* to,
                                            int row_step) {
    constexpr int MT = M / WM / 16, NT = N / WN / 8;        // a warp's products of 16 x 8 elements
    static_assert(MT * WM * 16 == M && NT * WN * 8 == N && WM * WN * WK == WORKERS, "");
    constexpr int A_BOXES = (M + 31) / 32, B_BOXES = (N + 31) / 32;
    const uint32_t full = s32(sm) + OFF_STAGE_BAR, empty = full + 8 * STAGES;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    if (tid == 0) {
        for (int i = 0; i < STAGES; i++) { mbar_init(full + 8 * i, 1); mbar_init(empty + 8 * i, WORKERS); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    uint32_t s = 0, ph = 0;
    auto next = [&]() { if (++s == STAGES) { s = 0; ph ^= 1; } };
    if (warp >= WORKERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (tid != 32 * WORKERS) return;
        ph = 1;
        for (int i = first; i < end; i++) {
            mbar_wait(empty + 8 * s, ph);
            mbar_expect(full + 8 * s, (A_BOXES + B_BOXES) * BOX_BYTES);
            const uint32_t at = s32(sm) + s * STAGE_BYTES;
            auto load = [&](uint32_t box, const Operand& from, int c) {
                if (from.saved == nullptr) tma_load(at + box * BOX_BYTES, x, c * 32, i * GROUP, full + 8 * s);
                else bulk_load(at + box * BOX_BYTES, from.saved + ((size_t)(i >> 2) * from.chunks + from.chunk + c) * CHUNK_BYTES + (i & 3) * BOX_BYTES, BOX_BYTES, full + 8 * s);
            };
#pragma unroll
            for (int c = 0; c < A_BOXES; c++) load(c, a, c);
#pragma unroll
            for (int c = 0; c < B_BOXES; c++) load(A_BOXES + c, b, c);
            next();
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int wk = warp % WK, wn = warp / WK % WN, wm = warp / (WK * WN);
    float d[MT][NT][4];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) d[i][j][e] = 0;
    // Any order of k is as good as another, if both operands have it: a lane's k of t is row 2 t here, and its t + 4 is row
    // 2 t + 1. Then no two lanes that are served together read one bank. Of A it reads columns 2 g + {0, 1} of 16 for its rows g
    // and g + 8, of B column g of 8. What is added to the place in a stage does not depend on the lane, but for the swizzle, which
    // comes round after 32 columns.
    auto place = [&](int box, int column, int row) {
        return (box + (column >> 5)) * BOX_BYTES + (wk * 8 + row) * 128 + ((((column & 31) >> 2) ^ row) << 4) + (column & 3) * 4;
    };
    uint32_t a_even[2], a_odd[2], b_even[4], b_odd[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        a_even[i] = s32(sm) + place(0, (wm * MT + i) * 16 + 2 * g, 2 * t);
        a_odd[i] = s32(sm) + place(0, (wm * MT + i) * 16 + 2 * g, 2 * t + 1);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        b_even[j] = s32(sm) + place(A_BOXES, (wn * NT + j) * 8 + g, 2 * t);
        b_odd[j] = s32(sm) + place(A_BOXES, (wn * NT + j) * 8 + g, 2 * t + 1);
    }
#pragma unroll 1
    for (int i = first; i < end; i++) {
        mbar_wait(full + 8 * s, ph);
        const uint32_t stage = s * STAGE_BYTES;
#pragma unroll
        for (int k = 0; k < GROUP / 8 / WK; k++) {
            const uint32_t of_k = k * WK * 1024;
            uint2 b[NT];
#pragma unroll
            for (int j = 0; j < NT; j++) {
                b[j].x = load_word(stage + b_even[j & 3] + (j >> 2) * BOX_BYTES + of_k);
                b[j].y = load_word(stage + b_odd[j & 3] + (j >> 2) * BOX_BYTES + of_k);
            }
#pragma unroll
            for (int m = 0; m < MT; m++) {
                const uint2 a0 = load_pair(stage + a_even[m & 1] + (m >> 1) * BOX_BYTES + of_k);
                const uint2 a1 = load_pair(stage + a_odd[m & 1] + (m >> 1) * BOX_BYTES + of_k);
#pragma unroll
                for (int j = 0; j < NT; j++) mma_tf32(d[m][j], a0, a1, b[j]);
            }
        }
        __syncwarp();
        if (lane == 0) mbar_arrive(empty + 8 * s);
        next();
    }
    if (WK == 2) {
        // Through stages that are done with.
        auto all_workers = []() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS * 32) : "memory"); };
        float* const sums = reinterpret_cast<float*>(sm) + (wm * WN + wn) * (MT * NT * 4 * 32) + lane;
        all_workers();
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int j = 0; j < NT; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (wk == 1) sums[((m * NT + j) * 4 + e) * 32] = d[m][j][e];
        all_workers();
        if (wk == 1) return;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int j = 0; j < NT; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) d[m][j][e] += sums[((m * NT + j) * 4 + e) * 32];
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int p = 0; p < 2; p++) {
            float* const row = to + (size_t)((wm * MT + m) * 16 + 2 * g + p) * row_step + wn * NT * 8 + 2 * t;
#pragma unroll
            for (int j = 0; j < NT; j++) *reinterpret_cast<float2*>(row + 8 * j) = make_float2(d[m][j][2 * p], d[m][j][2 * p + 1]);
        }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    fused_weight_gradients_tf32(const __grid_constant__ Saved saved, const __grid_constant__ CUtensorMap x, float* __restrict__ partial, int stride,
                                int rows) {
    extern __shared__ __align__(1024) uint8_t sm[];
    if (s32(sm) & 1023) __trap();                         // the swizzle counts on it
    constexpr int AT_GRADIENT_W2 = HID * INPUTS, AT_GRADIENT_W3 = AT_GRADIENT_W2 + HID * HID, AT_GRADIENT_W4 = AT_GRADIENT_W3 + HID * HID;
    const int groups = (rows + GROUP - 1) / GROUP;
    auto until = [&](int splits, int split) { return (int)((long long)groups * split / splits); };
    // Blocks that read the same rows lie side by side.
    int block = blockIdx.x;
    if (block < 8 * SPLITS_SQUARE) {
        const int split = block >> 3, i = (block >> 1) & 1, j = block & 1;
        const bool third = (block & 4) != 0;
        const Operand a = {third ? saved.z3 : saved.z2, HID / 32, 6 * i}, b = {third ? saved.h2 : saved.h1, HID / 32, 6 * j};
        float* const to = partial + (size_t)split * stride + (third ? AT_GRADIENT_W3 : AT_GRADIENT_W2) + i * 192 * HID + j * 192;
        weight_tile<192, 192, 2, 4, 1>(sm, &x, a, b, until(SPLITS_SQUARE, split), until(SPLITS_SQUARE, split + 1), to, HID);
        return;
    }
    block -= 8 * SPLITS_SQUARE;
    if (block < 2 * SPLITS_FIRST) {
        const int split = block >> 1, i = block & 1;
        const Operand a = {saved.z1, HID / 32, 6 * i}, b = {nullptr, 0, 0};
        weight_tile<192, INPUTS, 4, 1, 2>(sm, &x, a, b, until(SPLITS_FIRST, split), until(SPLITS_FIRST, split + 1),
                                          partial + (size_t)split * stride + i * 192 * INPUTS, INPUTS);
        return;
    }
    block -= 2 * SPLITS_FIRST;
    const int split = block >> 1, j = block & 1;
    const Operand a = {saved.dout, 2, 0}, b = {saved.h3, HID / 32, 6 * j};
    weight_tile<OUTN, 192, 1, 4, 2>(sm, &x, a, b, until(SPLITS_LAST, split), until(SPLITS_LAST, split + 1),
                                    partial + (size_t)split * stride + AT_GRADIENT_W4 + j * 192, HID);
}
