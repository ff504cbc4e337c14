// The training step between its matrix products: inputs, loss, gradients of ReLU and bias, gradient norm, Adam.
//
// Architectures: any; no inline PTX. Everything here also runs on the CPU (tests/cuda_on_cpu) against an f64 oracle.
//
// Layout that all kernels share
//   Matrices are row-major. Widths are padded to multiples of 8 with zeros ("width" is the padded one); a padded unit stays
//   zero by itself, as its weights, activations and gradients are zero.
//   T is float, or u16 that holds bf16.
//   The last layer's row is [value, advantage of action 0, action 1, ..., padding].
//   The flat parameter vector holds all weight matrices, then all biases, in order of the layers; gradients likewise.
//
// Everything that changes from step to step is in device memory (StepState, StepSettings): a captured graph freezes nothing.
// Sums run in a fixed order: same inputs, same bits, in every run, with graphs and without.
#include "common.cuh"

// What the step leaves behind; copied to the host as it is. As StepState in state.rs, field by field.
struct StepState {
    u64 attempts;         // steps run
    u64 applied;          // updates made: Adam's t
    u64 skipped;          // steps whose gradient or loss was not finite; nothing was updated
    u64 skipped_in_row;   // of them, since the last update
    float loss;           // of the newest step
    float grad_norm;      // of the newest step, before clipping
    float learning_rate;  // of the newest update
    u32 rows;             // rows of the newest batch
    double power1;        // beta1^t, 0 before the first update
    double power2;        // beta2^t
    // What update t + 1 will need, by grad_norm for adam_step.
    double next_power1;
    double next_power2;
    float next_rate;
    float correction1;    // 1 / (1 - beta1^(t + 1))
    float correction2;    // 1 / (1 - beta2^(t + 1))
    u32 next_copies;      // 1: it copies the parameters to the target network
};

// What the host may change between steps. As StepSettings in state.rs, field by field.
struct StepSettings {
    float learning_rate;      // after the warm-up
    float final_rate;         // after decay_steps
    u64 warmup_steps;         // the rate rises linearly from 0
    u64 decay_steps;          // then falls linearly to final_rate; 0: stays
    double beta1, beta2;
    float epsilon;
    float weight_decay;       // decoupled (AdamW); 0: Adam
    float max_grad_norm;      // 0: no clipping
    float huber_delta;
    float tau;                // Polyak: target += tau (parameters - target); 0 with a period
    u32 target_period;        // copies the parameters every so many updates; 0 with tau
    u32 double_dqn;           // 1: the online network chooses the next action
    u32 pad;
};

static_assert(sizeof(StepState) == 96 && sizeof(StepSettings) == 72, "state.rs lays them out so");

__device__ __forceinline__ float load(const float* at) { return *at; }
__device__ __forceinline__ float load(const u16* at) { return f32_from_bf16(*at); }
__device__ __forceinline__ void store(float* at, float value) { *at = value; }
__device__ __forceinline__ void store(u16* at, float value) { *at = bf16_from_f32(value); }

// Four neighbours at once: 16 bytes of float, 8 of bf16.
template <typename T>
struct Four;
template <>
struct Four<float> {
    typedef float4 Stored;
    static __device__ __forceinline__ float4 get(float4 v) { return v; }
    static __device__ __forceinline__ float4 put(float4 v) { return v; }
};
template <>
struct Four<u16> {
    typedef ushort4 Stored;
    static __device__ __forceinline__ float4 get(ushort4 v) {
        return make_float4(f32_from_bf16(v.x), f32_from_bf16(v.y), f32_from_bf16(v.z), f32_from_bf16(v.w));
    }
    static __device__ __forceinline__ ushort4 put(float4 v) {
        return make_ushort4(bf16_from_f32(v.x), bf16_from_f32(v.y), bf16_from_f32(v.z), bf16_from_f32(v.w));
    }
};

// Eight neighbours at once, as they are stored: one or two loads of 16 bytes.
template <typename T>
struct Eight;
template <>
struct Eight<float> {
    float4 lower, upper;
    static __device__ __forceinline__ Eight zeros() { return {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)}; }
    static __device__ __forceinline__ Eight load(const float* at) { return {((const float4*)at)[0], ((const float4*)at)[1]}; }
    __device__ __forceinline__ void store(float* at) const {
        ((float4*)at)[0] = lower;
        ((float4*)at)[1] = upper;
    }
    __device__ __forceinline__ void store(u16* at) const {
        *(uint4*)at = make_uint4(pair(lower.x, lower.y), pair(lower.z, lower.w), pair(upper.x, upper.y), pair(upper.z, upper.w));
    }

private:
    static __device__ __forceinline__ u32 pair(float low, float high) { return bf16_from_f32(low) | (u32)bf16_from_f32(high) << 16; }
};
template <>
struct Eight<u16> {
    uint4 pairs;
    static __device__ __forceinline__ Eight zeros() { return {make_uint4(0, 0, 0, 0)}; }
    static __device__ __forceinline__ Eight load(const u16* at) { return {*(const uint4*)at}; }
    __device__ __forceinline__ void store(u16* at) const { *(uint4*)at = pairs; }
    __device__ __forceinline__ void store(float* at) const {
        ((float4*)at)[0] = make_float4(low(pairs.x), high(pairs.x), low(pairs.y), high(pairs.y));
        ((float4*)at)[1] = make_float4(low(pairs.z), high(pairs.z), low(pairs.w), high(pairs.w));
    }

private:
    static __device__ __forceinline__ float low(u32 pair) { return __uint_as_float(pair << 16); }
    static __device__ __forceinline__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
};

// Sum over the block's threads in a fixed order, valid in thread 0. `scratch` holds one double for each warp.
__device__ __forceinline__ double block_sum(double value, double* scratch) {
    const double in_warp = warp_sum(value);
    if ((threadIdx.x & 31u) == 0) scratch[threadIdx.x >> 5] = in_warp;
    __syncthreads();
    double total = 0;
    if (threadIdx.x == 0) {
        for (u32 warp = 0; warp < (blockDim.x + 31u) / 32u; ++warp) total += scratch[warp];
    }
    __syncthreads();
    return total;
}

// ---------------------------------------------------------------------------------------------------------------- inputs

// Columns [column, column + 4) of a row, zeros behind its end. Rows of a multiple of four start aligned.
template <typename S>
__device__ __forceinline__ float4 four_of_row(const S* states, u32 row, u32 column, u32 state_dim) {
    const S* from = states + (u64)row * state_dim + column;
    if ((state_dim & 3u) == 0) {
        return column < state_dim ? Four<S>::get(*(const typename Four<S>::Stored*)from) : make_float4(0, 0, 0, 0);
    }
    return make_float4(column < state_dim ? load(from) : 0.0f, column + 1 < state_dim ? load(from + 1) : 0.0f,
                       column + 2 < state_dim ? load(from + 2) : 0.0f, column + 3 < state_dim ? load(from + 3) : 0.0f);
}

// What a batch says of its rows beside their states.
struct RowFields {
    const u32* actions;
    const float *rewards, *weights, *dones;
    const u32* step_counts;
};
struct OfRow {
    u32 action;
    float reward, weight, bootstraps;
    u32 steps;
};

// Of one row; of none behind `rows`, which is worth nothing.
__device__ __forceinline__ OfRow load_fields(const RowFields& from, u32 row, u32 rows) {
    if (row >= rows) return OfRow{0, 0, 0, 0, 0};
    return OfRow{from.actions[row], from.rewards[row], from.weights[row], 1.0f - from.dones[row],
                 from.step_counts != nullptr ? from.step_counts[row] : 1u};
}

// Values that a thread copies at a time, its loads in flight together.
constexpr u32 UPLOADS_AT_ONCE = 16;

// Rows of the same width on both sides lie behind each other there and here, so that it does not matter where one begins.
// `filled` of the `values` of each half come from the batch; both are multiples of 8.
template <typename S, typename T>
__device__ __forceinline__ void copy_states(const S* __restrict__ states, const S* __restrict__ next_states, T* __restrict__ x, u32 first,
                                            u32 stride, u64 filled, u32 values) {
    constexpr u32 AT_ONCE = UPLOADS_AT_ONCE / 8;
    const u32 half = values / 8;
    for (u32 start = first; start < 2 * half; start += AT_ONCE * stride) {
        Eight<S> pieces[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const u32 at = start + i * stride;
            const bool next = at >= half;
            const u64 within = 8ull * (next ? at - half : at);
            pieces[i] = at < 2 * half && within < filled ? Eight<S>::load((next ? next_states : states) + within) : Eight<S>::zeros();
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const u32 at = start + i * stride;
            if (at < 2 * half) pieces[i].store(x + 8ull * at);
        }
    }
}

// Rows that are padded here.
template <typename S, typename T>
__device__ __forceinline__ void pad_batch(const S* __restrict__ states, const S* __restrict__ next_states, T* __restrict__ x, u32 first,
                                          u32 stride, u32 rows, u32 capacity, u32 state_dim, u32 width) {
    constexpr u32 AT_ONCE = UPLOADS_AT_ONCE / 4;
    const u32 quads = width / 4, half = capacity * quads;
    for (u32 start = first; start < 2 * half; start += AT_ONCE * stride) {
        float4 values[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const u32 at = start + i * stride;
            const bool next = at >= half;
            const u32 within = next ? at - half : at;
            const u32 row = within / quads, column = within % quads * 4;
            values[i] = at < 2 * half && row < rows ? four_of_row<S>(next ? next_states : states, row, column, state_dim)
                                                    : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; ++i) {
            const u32 at = start + i * stride;
            if (at < 2 * half) ((typename Four<T>::Stored*)x)[at] = Four<T>::put(values[i]);
        }
    }
}

// Copies a batch from the replay buffer into the step's own inputs, padded and converted, and zeroes the rows behind it, so
// that one captured graph serves every batch of at most `capacity` rows.
//   states, next_states [rows][state_dim] S in     (float, or u16 that holds bf16)
//   actions             [rows]            u32 in
//   rewards, weights    [rows]            f32 in
//   dones               [rows]            f32 in   1 where the transition terminates
//   step_counts         [rows]            u32 in   steps summed into the reward; null: one each
//   x          [2 capacity][width]        T   out  states, then next states
//   action, reward, weight, discount [capacity]   out; discount is (1 - done) gamma^steps; all zero behind `rows`
//   status              [1]               u32 in   not 0: the batch could not be drawn, and the step changes nothing; or null
//   state->rows                                   out
// Launch: block 256, any grid (strides).   Needs: rows <= capacity, state_dim <= width, width a multiple of 4,
//         capacity * width < 2^32.   Bits: copies, one rounding to T.
template <typename S, typename T>
__device__ __forceinline__ void upload_batch(const S* __restrict__ states, const S* __restrict__ next_states,
                                             const u32* __restrict__ actions, const float* __restrict__ rewards,
                                             const float* __restrict__ weights, const float* __restrict__ dones,
                                             const u32* __restrict__ step_counts, const u32* __restrict__ status, T* __restrict__ x,
                                             u32* __restrict__ action, float* __restrict__ reward, float* __restrict__ weight,
                                             float* __restrict__ discount, StepState* state, float gamma, u32 rows, u32 capacity,
                                             u32 state_dim, u32 width) {
    previous_kernel_done();
    const u32 stride = gridDim.x * blockDim.x;
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    const RowFields from{actions, rewards, weights, dones, step_counts};
    // From the last thread on, which have the least to copy; on their way before the states.
    u32 row = stride - 1 - first;
    OfRow of_row = load_fields(from, row, rows);
    const bool drawn = first != 0 || status == nullptr || *status == 0;
    if (state_dim == width) {
        copy_states<S, T>(states, next_states, x, first, stride, (u64)rows * width, capacity * width);
    } else {
        pad_batch<S, T>(states, next_states, x, first, stride, rows, capacity, state_dim, width);
    }
    while (row < capacity) {
        action[row] = of_row.action;
        reward[row] = of_row.reward;
        weight[row] = of_row.weight;
        float factor = of_row.bootstraps;
        for (u32 step = 0; step < of_row.steps; ++step) factor *= gamma;
        discount[row] = factor;
        row += stride;
        of_row = load_fields(from, row, rows);
    }
    if (first == 0) state->rows = drawn ? rows : 0u;
}

#define UPLOAD_BATCH(name, S, T)                                                                                            \
    extern "C" __global__ void name(const S* states, const S* next_states, const u32* actions, const float* rewards,        \
                                    const float* weights, const float* dones, const u32* step_counts, const u32* status, T* x, u32* action,    \
                                    float* reward, float* weight, float* discount, StepState* state, float gamma, u32 rows, \
                                    u32 capacity, u32 state_dim, u32 width) {                                               \
        upload_batch<S, T>(states, next_states, actions, rewards, weights, dones, step_counts, status, x, action, reward, weight, \
                           discount, state, gamma, rows, capacity, state_dim, width);                                       \
    }
UPLOAD_BATCH(upload_batch_f32_f32, float, float)
UPLOAD_BATCH(upload_batch_f32_bf16, float, u16)
UPLOAD_BATCH(upload_batch_bf16_f32, u16, float)
UPLOAD_BATCH(upload_batch_bf16_bf16, u16, u16)

// Copies states alone, as upload_batch does, for acting.
//   states [rows][state_dim] f32 in;   x [rows][width] T out
// Launch: block 256, any grid (strides).
template <typename T>
__device__ __forceinline__ void pad_states(const float* states, T* x, u32 rows, u32 state_dim, u32 width) {
    const u32 quads = width / 4;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < rows * quads; at += gridDim.x * blockDim.x) {
        ((typename Four<T>::Stored*)x)[at] = Four<T>::put(four_of_row<float>(states, at / quads, at % quads * 4, state_dim));
    }
}
extern "C" __global__ void pad_states_f32(const float* states, float* x, u32 rows, u32 state_dim, u32 width) {
    pad_states<float>(states, x, rows, state_dim, width);
}
extern "C" __global__ void pad_states_bf16(const float* states, u16* x, u32 rows, u32 state_dim, u32 width) {
    pad_states<u16>(states, x, rows, state_dim, width);
}

// ------------------------------------------------------------------------------------------------------------------ loss

// Rows that one block of td_loss and of relu_backward takes; each block leaves one row of partial bias gradients.
constexpr u32 ROW_TILE = 64;

// Loss of a dueling (double) DQN, and the gradient of the last layer's outputs.
//   Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .)                    (Wang et al. 2016, equation 9)
//   y = r + discount Q_target(s', argmax_a Q_online(s', a))                    (van Hasselt et al. 2016); without double_dqn
//       the target network chooses; ties go to the lowest action
//   loss = sum over rows of weight * huber(Q(s, a) - y) / rows
//   online [2 capacity][width] f32 in    outputs for states, then for next states
//   target [capacity][width]   f32 in    the target network's outputs for next states
//   action, reward, weight, discount [capacity] in
//   d_out  [capacity][width]   T   out   d loss / d outputs; zero behind the batch's rows and in the padding
//   td     [capacity]          f32 out   y - Q(s, a); zero behind the batch's rows
//   bias_partial [blocks][bias_stride] f32 out   columns of d_out summed over the block's rows, before rounding to T
//   loss_partial [blocks]      f64 out   the block's sum of weighted losses, not yet divided by the rows
// Launch: block 512, grid ceil(capacity / 64), dynamic shared 16 * width floats.
// Needs:  1 + actions <= width, action < actions.   Bits: fixed order.
constexpr u32 LOSS_WARPS = 16;

// NARROW: width is at most 64, and two columns a lane are known to be enough.
template <typename T, bool NARROW>
__device__ __forceinline__ void td_loss(const float* __restrict__ online, const float* __restrict__ target,
                                        const u32* __restrict__ action, const float* __restrict__ reward,
                                        const float* __restrict__ weight, const float* __restrict__ discount,
                                        T* __restrict__ d_out, float* __restrict__ td, float* __restrict__ bias_partial,
                                        double* __restrict__ loss_partial, const StepState* __restrict__ state,
                                        const StepSettings* __restrict__ settings, u32 capacity, u32 actions, u32 width,
                                        u32 bias_stride) {
    DYNAMIC_SHARED(float, column_sums);  // [16 warps][width]
    __shared__ double warp_loss[LOSS_WARPS];
    const u32 warp = threadIdx.x >> 5, lane = threadIdx.x & 31u;
    float* own_sums = column_sums + warp * width;
    for (u32 column = lane; column < width; column += 32) own_sums[column] = 0.0f;
    const u32 rows = state->rows;
    const float delta = settings->huber_delta;
    const bool double_dqn = settings->double_dqn != 0;
    const u32 pieces = NARROW ? 2u : (width + 31u) / 32u;
    const float share = 1.0f / (float)actions;
    float narrow_sums[2] = {0, 0};
    double loss = 0;
    // Rows of one warp are independent, and their loads in flight together.
#pragma unroll 4
    for (u32 step = 0; step < ROW_TILE / LOSS_WARPS; ++step) {
        const u32 row = blockIdx.x * ROW_TILE + step * LOSS_WARPS + warp;
        if (row < capacity) {
            // Rows behind the batch are computed like the others, from zeros, and come to nothing.
            const bool filled = row < rows;
            const float* now = online + (u64)row * width;
            const float* later = target + (u64)row * width;
            const float* chooser = double_dqn ? online + ((u64)capacity + row) * width : later;
            const u32 taken = action[row];
            const float now_value = now[0], later_value = later[0], now_taken = now[1 + taken];
            float now_sum = 0, later_sum = 0, best = 0;
            u32 best_action = 0xffffffffu;
            for (u32 piece = 0; piece < pieces; ++piece) {
                const u32 a = piece * 32u + lane;
                if (a < actions) {
                    now_sum += now[1 + a];
                    later_sum += later[1 + a];
                    const float advantage = chooser[1 + a];
                    if (best_action == 0xffffffffu || advantage > best) {
                        best = advantage;
                        best_action = a;
                    }
                }
            }
            for (int offset = 16; offset > 0; offset >>= 1) {
                now_sum += __shfl_xor_sync(FULL_WARP, now_sum, offset);
                later_sum += __shfl_xor_sync(FULL_WARP, later_sum, offset);
                const float other = __shfl_xor_sync(FULL_WARP, best, offset);
                const u32 other_action = __shfl_xor_sync(FULL_WARP, best_action, offset);
                const bool take = other_action != 0xffffffffu &&
                                  (best_action == 0xffffffffu || other > best || (other == best && other_action < best_action));
                if (take) {
                    best = other;
                    best_action = other_action;
                }
            }
            const float q = now_value + (now_taken - now_sum * share);
            const float q_later = later_value + (later[1 + best_action] - later_sum * share);
            const float y = reward[row] + discount[row] * q_later;
            const float error = q - y;
            const float magnitude = fabsf(error);
            const bool inside = magnitude <= delta;
            const double huber = inside ? 0.5 * (double)error * error : (double)delta * ((double)magnitude - 0.5 * delta);
            // NaN takes the second way and stays NaN.
            const float slope = inside ? error : (error > 0 ? delta : (error < 0 ? -delta : error));
            const float gradient = filled ? weight[row] * slope / (float)rows : 0.0f;
            if (filled) loss += (double)weight[row] * huber;
            if (lane == 0) td[row] = filled ? y - q : 0.0f;
            for (u32 piece = 0; piece < pieces; ++piece) {
                const u32 column = piece * 32u + lane;
                if (column < width) {
                    float value = 0;
                    if (column == 0) value = gradient;
                    else if (column <= actions) value = gradient * ((column - 1 == taken ? 1.0f : 0.0f) - share);
                    store(d_out + (u64)row * width + column, value);
                    if (NARROW) narrow_sums[piece & 1u] += value;
                    else own_sums[column] += value;
                }
            }
        }
    }
    if (NARROW) {
        for (u32 piece = 0; piece < 2; ++piece) {
            if (piece * 32u + lane < width) own_sums[piece * 32u + lane] = narrow_sums[piece];
        }
    }
    if (lane == 0) warp_loss[warp] = loss;
    __syncthreads();
    for (u32 column = threadIdx.x; column < width; column += blockDim.x) {
        float sum = 0;
        for (u32 w = 0; w < LOSS_WARPS; ++w) sum += column_sums[w * width + column];
        bias_partial[(u64)blockIdx.x * bias_stride + column] = sum;
    }
    if (threadIdx.x == 0) {
        double sum = 0;
        for (u32 w = 0; w < LOSS_WARPS; ++w) sum += warp_loss[w];
        loss_partial[blockIdx.x] = sum;
    }
}

#define TD_LOSS(name, T)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(512)                                                                       \
        name(const float* online, const float* target, const u32* action, const float* reward, const float* weight,        \
             const float* discount, T* d_out, float* td, float* bias_partial, double* loss_partial, const StepState* state, \
             const StepSettings* settings, u32 capacity, u32 actions, u32 width, u32 bias_stride) {                         \
        if (width <= 64)                                                                                                    \
            td_loss<T, true>(online, target, action, reward, weight, discount, d_out, td, bias_partial, loss_partial,       \
                             state, settings, capacity, actions, width, bias_stride);                                       \
        else                                                                                                                \
            td_loss<T, false>(online, target, action, reward, weight, discount, d_out, td, bias_partial, loss_partial,      \
                              state, settings, capacity, actions, width, bias_stride);                                      \
    }
TD_LOSS(td_loss_f32, float)
TD_LOSS(td_loss_bf16, u16)

// -------------------------------------------------------------------------------------------------------------- gradients

// Gradient through a ReLU, in place, and the bias gradient of its layer.
//   d [rows][width] T in, out    d loss / d activation in, d loss / d pre-activation out
//   h [rows][width] T in         the activation: zero where the ReLU cut
//   bias_partial [blocks][bias_stride] f32 out   columns summed over the block's 64 rows
// Launch: a thread takes 16 bytes of a row (v = 4 values of f32, 8 of bf16): block width / v * groups threads with
//         groups = max(1, 384 / (width / v)), grid ceil(rows / 64), dynamic shared groups * width floats.
// Needs:  width a multiple of 8 and at most 4096, d and h 16-byte aligned.   Bits: fixed order.
template <typename T>
__device__ __forceinline__ void relu_backward(T* __restrict__ d, const T* __restrict__ h, float* __restrict__ bias_partial, u32 rows,
                                              u32 width, u32 bias_stride) {
    DYNAMIC_SHARED(float, group_sums);  // [groups][width]
    constexpr u32 VALUES = 16 / sizeof(T);
    typedef typename Four<T>::Stored Stored;
    constexpr u32 QUADS = VALUES / 4;
    struct __align__(16) Piece {
        Stored quad[QUADS];
    };
    const u32 columns = width / VALUES;
    const u32 groups = blockDim.x / columns;
    const u32 column = threadIdx.x % columns, group = threadIdx.x / columns;
    float4 sum[QUADS];
    for (u32 i = 0; i < QUADS; ++i) sum[i] = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (u32 step = group; step < ROW_TILE; step += groups) {
        const u32 row = blockIdx.x * ROW_TILE + step;
        if (row < rows) {
            Piece* at = (Piece*)(d + (u64)row * width) + column;
            Piece piece = *at;
            const Piece active = ((const Piece*)(h + (u64)row * width))[column];
#pragma unroll
            for (u32 i = 0; i < QUADS; ++i) {
                float4 gradient = Four<T>::get(piece.quad[i]);
                const float4 cut = Four<T>::get(active.quad[i]);
                gradient.x = cut.x > 0 ? gradient.x : 0.0f;
                gradient.y = cut.y > 0 ? gradient.y : 0.0f;
                gradient.z = cut.z > 0 ? gradient.z : 0.0f;
                gradient.w = cut.w > 0 ? gradient.w : 0.0f;
                piece.quad[i] = Four<T>::put(gradient);
                sum[i].x += gradient.x;
                sum[i].y += gradient.y;
                sum[i].z += gradient.z;
                sum[i].w += gradient.w;
            }
            *at = piece;
        }
    }
    for (u32 i = 0; i < QUADS; ++i) ((float4*)(group_sums + group * width))[column * QUADS + i] = sum[i];
    __syncthreads();
    for (u32 at = threadIdx.x; at < width; at += blockDim.x) {
        float total = 0;
        for (u32 g = 0; g < groups; ++g) total += group_sums[g * width + at];
        bias_partial[(u64)blockIdx.x * bias_stride + at] = total;
    }
}

extern "C" __global__ void __launch_bounds__(1024)
    relu_backward_f32(float* d, const float* h, float* bias_partial, u32 rows, u32 width, u32 bias_stride) {
    relu_backward<float>(d, h, bias_partial, rows, width, bias_stride);
}
extern "C" __global__ void __launch_bounds__(1024)
    relu_backward_bf16(u16* d, const u16* h, float* bias_partial, u32 rows, u32 width, u32 bias_stride) {
    relu_backward<u16>(d, h, bias_partial, rows, width, bias_stride);
}

// -------------------------------------------------------------------------------------------------------------- optimizer

// Weights that one block of grad_norm takes, four a thread; and biases.
constexpr u32 WEIGHT_CHUNK = 1024;
constexpr u32 BIAS_CHUNK = 8;

// Partial sums of the weights' gradients: rows of `stride` values, as many as the weight's layer has. As GradientParts in
// launch/step.rs.
struct GradientParts {
    u32 stride;
    u32 of_first, of_middle, of_last;  // rows that hold something
    u32 first_end;                     // where the first layer's weights end
    u32 last;                          // where the last layer's begin
};

// What the next update needs of the schedules, by one thread.
__device__ __forceinline__ void prepare_update(StepState* state, const StepSettings* settings) {
    const u64 t = state->applied + 1;
    const double warm = t < settings->warmup_steps ? (double)t / (double)settings->warmup_steps : 1.0;
    double rate = settings->learning_rate;
    if (settings->decay_steps > 0) {
        const u64 past = t > settings->warmup_steps ? t - settings->warmup_steps : 0;
        const double share = past < settings->decay_steps ? (double)past / (double)settings->decay_steps : 1.0;
        rate += share * ((double)settings->final_rate - rate);
    }
    state->next_rate = (float)(rate * warm);
    // By one product a step instead of pow.
    const double power1 = (t == 1 ? 1.0 : state->power1) * settings->beta1;
    const double power2 = (t == 1 ? 1.0 : state->power2) * settings->beta2;
    state->next_power1 = power1;
    state->next_power2 = power2;
    state->correction1 = (float)(1.0 / (1.0 - power1));
    state->correction2 = (float)(1.0 / (1.0 - power2));
    state->next_copies = settings->target_period > 0 && t % settings->target_period == 0 ? 1u : 0u;
}

// Finishes the gradient: sums of its parts, bias gradients from theirs, zeros where the last layer's value row meets advantage
// units and the other way round, and the squares for its norm. Also prepares what the next update needs of schedules.
//   partial      [parts][stride]    f32 in      may be `gradient` itself, with one part each
//   gradient     [weights + biases] f32 out
//   bias_partial [bias_rows][biases] f32 in
//   square_partial [grid]           f64 out
//   state, settings                     in, out
//   The last layer's weights begin at parts.last: 1 + actions rows (and padding) of `last_width` = 2 * head (and padding)
//   columns; columns [0, head) belong to the value, [head, 2 head) to the advantages.
// Launch: block 256, grid ceil(biases / 8) + ceil(weights / 1024), biases first.
// Needs:  weights, stride, first_end and last multiples of 4.   Bits: fixed order.
extern "C" __global__ void __launch_bounds__(256, 4)
    grad_norm(const float* partial, GradientParts parts, float* gradient, const float* bias_partial, double* square_partial,
              StepState* state, const StepSettings* settings, u32 weights, u32 biases, u32 bias_rows, u32 last_width, u32 head) {
    __shared__ double scratch[8];
    __shared__ float group_sums[32][BIAS_CHUNK];
    previous_kernel_done();
    constexpr u32 AT_ONCE = 6;  // loads of one thread in flight together: half of what fused kernels leave, for want of registers
    const u32 bias_blocks = (biases + BIAS_CHUNK - 1u) / BIAS_CHUNK;
    double squares = 0;
    // By a warp that has the least to add up of biases.
    if (blockIdx.x == 0 && threadIdx.x == blockDim.x - 1u) prepare_update(state, settings);
    if (blockIdx.x < bias_blocks) {
        const u32 lane = threadIdx.x % BIAS_CHUNK, group = threadIdx.x / BIAS_CHUNK;
        const u32 column = blockIdx.x * BIAS_CHUNK + lane;
        float sum = 0;
        if (column < biases) {
#pragma unroll 8
            for (u32 row = group; row < bias_rows; row += 32) sum += bias_partial[(u64)row * biases + column];
        }
        group_sums[group][lane] = sum;
        __syncthreads();
        if (group == 0 && column < biases) {
            float total = 0;
            for (u32 g = 0; g < 32; ++g) total += group_sums[g][lane];
            gradient[weights + column] = total;
            squares = (double)total * total;
        }
    } else {
        const u32 at = (blockIdx.x - bias_blocks) * WEIGHT_CHUNK + threadIdx.x * 4u;
        if (at < weights) {
            const u32 rows = at < parts.first_end ? parts.of_first : (at < parts.last ? parts.of_middle : parts.of_last);
            float4 sum = make_float4(0, 0, 0, 0);
            for (u32 base = 0; base < rows; base += AT_ONCE) {
                float4 four[AT_ONCE];
#pragma unroll
                for (u32 i = 0; i < AT_ONCE; ++i) {
                    if (base + i < rows) four[i] = *(const float4*)(partial + (u64)(base + i) * parts.stride + at);
                }
#pragma unroll
                for (u32 i = 0; i < AT_ONCE; ++i) {
                    if (base + i >= rows) break;
                    sum.x += four[i].x;
                    sum.y += four[i].y;
                    sum.z += four[i].z;
                    sum.w += four[i].w;
                }
            }
            float values[4] = {sum.x, sum.y, sum.z, sum.w};
            if (at >= parts.last) {
                // Rows are multiples of 8 long, so the four lie in one.
                const u32 row = (at - parts.last) / last_width, column = (at - parts.last) % last_width;
                for (u32 i = 0; i < 4; ++i) {
                    const bool of_value = column + i < head;
                    if ((row == 0) != of_value) values[i] = 0.0f;
                }
            }
            *(float4*)(gradient + at) = make_float4(values[0], values[1], values[2], values[3]);
            for (u32 i = 0; i < 4; ++i) squares += (double)values[i] * values[i];
        }
    }
    const double block_squares = block_sum(squares, scratch);
    if (threadIdx.x == 0) square_partial[blockIdx.x] = block_squares;
}

// The decision about the update, then Adam with decoupled weight decay (Kingma and Ba 2015; Loshchilov and Hutter 2019), as
// torch.optim.AdamW computes it, and the target network's update; also the bf16 copies that the next products read.
//   gradient [count] f32 in
//   parameter, first, second, target [count] f32 in, out
//   parameter_bf16, target_bf16 [count] u16 out, or null
//   square_partial [norm_blocks], loss_partial [tiles] f64 in
//   state, settings   in, out
// A loss or norm that is not finite skips the update: nothing but the counts changes, Adam's t stays.
// Every block comes to the same decision by itself, as a block that all others wait for costs more than the sums; block 0
// writes it down, into fields that no other block reads.
// Launch: block 256, grid ceil(count / 1024).   Needs: count a multiple of 4, all 16-byte aligned.   Bits: fixed order.
extern "C" __global__ void __launch_bounds__(256)
    adam_step(const float* gradient, float* parameter, float* first, float* second, float* target, u16* parameter_bf16,
              u16* target_bf16, const double* square_partial, const double* loss_partial, StepState* state,
              const StepSettings* settings, u32 count, u32 norm_blocks, u32 tiles) {
    __shared__ double scratch[2][8];
    __shared__ float clip_scale;
    __shared__ bool finite;
    let_next_kernel_start();
    const u32 at = (blockIdx.x * 256u + threadIdx.x) * 4u;
    const bool inside = at < count;
    // In flight while the kernel before drains and the decision is made: nothing before writes these.
    float4 p4, m4, v4, t4;
    p4 = m4 = v4 = t4 = make_float4(0, 0, 0, 0);
    if (inside) {
        p4 = *(float4*)(parameter + at);
        m4 = *(float4*)(first + at);
        v4 = *(float4*)(second + at);
        t4 = *(float4*)(target + at);
    }
    const float beta1 = (float)settings->beta1, beta2 = (float)settings->beta2;
    const float rest1 = (float)(1.0 - settings->beta1), rest2 = (float)(1.0 - settings->beta2);
    const float decay = settings->weight_decay, epsilon = settings->epsilon, tau = settings->tau, most = settings->max_grad_norm;
    wait_for_previous_kernel();
    const float4 g4 = inside ? *(const float4*)(gradient + at) : make_float4(0, 0, 0, 0);
    const float rate = state->next_rate, correction1 = state->correction1, correction2 = state->correction2;
    const bool copy = state->next_copies != 0;
    const u32 rows = state->rows;
    StepState before;
    if (blockIdx.x == 0 && threadIdx.x == 0) before = *state;
    double squares = 0, loss = 0;
    // Loads ahead of the additions.
#pragma unroll 4
    for (u32 i = threadIdx.x; i < norm_blocks; i += 256) squares += square_partial[i];
#pragma unroll 4
    for (u32 i = threadIdx.x; i < tiles; i += 256) loss += loss_partial[i];
    squares = warp_sum(squares);
    loss = warp_sum(loss);
    if ((threadIdx.x & 31u) == 0) {
        scratch[0][threadIdx.x >> 5] = squares;
        scratch[1][threadIdx.x >> 5] = loss;
    }
    __syncthreads();
    // Thread 0 alone knows it.
    float norm = 0;
    if (threadIdx.x == 0) {
        squares = loss = 0;
        for (u32 warp = 0; warp < 8; ++warp) {
            squares += scratch[0][warp];
            loss += scratch[1][warp];
        }
        norm = (float)sqrt(squares);
        // Comparisons with NaN are false. Of the loss, the mean counts.
        finite = norm <= 3.402823466e38f && fabs(loss) <= 3.402823466e38 * (rows > 0 ? rows : 1);
        clip_scale = most > 0 && norm > most ? most / norm : 1.0f;
    }
    __syncthreads();
    const bool apply = finite && rows > 0;
    // While the other warps go on.
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        state->attempts = before.attempts + 1;
        state->loss = (float)(rows > 0 ? loss / rows : loss);
        state->grad_norm = norm;
        if (finite) {
            state->skipped_in_row = 0;
        } else {
            state->skipped = before.skipped + 1;
            state->skipped_in_row = before.skipped_in_row + 1;
        }
        if (apply) {
            state->applied = before.applied + 1;
            state->power1 = before.next_power1;
            state->power2 = before.next_power2;
            state->learning_rate = rate;
        }
    }
    if (!apply || !inside) return;
    const float scale = clip_scale, keep = 1.0f - rate * decay;
    const float g[4] = {g4.x * scale, g4.y * scale, g4.z * scale, g4.w * scale};
    float p[4] = {p4.x, p4.y, p4.z, p4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w}, v[4] = {v4.x, v4.y, v4.z, v4.w};
    float t[4] = {t4.x, t4.y, t4.z, t4.w};
    for (int i = 0; i < 4; ++i) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
        p[i] = keep * p[i] - rate * (m[i] * correction1) / (sqrtf(v[i] * correction2) + epsilon);
        t[i] = copy ? p[i] : t[i] + tau * (p[i] - t[i]);
    }
    *(float4*)(parameter + at) = make_float4(p[0], p[1], p[2], p[3]);
    *(float4*)(first + at) = make_float4(m[0], m[1], m[2], m[3]);
    *(float4*)(second + at) = make_float4(v[0], v[1], v[2], v[3]);
    *(float4*)(target + at) = make_float4(t[0], t[1], t[2], t[3]);
    if (parameter_bf16 != nullptr) *(ushort4*)(parameter_bf16 + at) = Four<u16>::put(make_float4(p[0], p[1], p[2], p[3]));
    if (target_bf16 != nullptr) *(ushort4*)(target_bf16 + at) = Four<u16>::put(make_float4(t[0], t[1], t[2], t[3]));
}

// Rounds parameters to the bf16 copies that products read, after they were set from the host.
//   from [count] f32 in;   to [count] u16 out
// Launch: block 256, grid ceil(count / 256).
extern "C" __global__ void round_to_bf16(const float* from, u16* to, u32 count) {
    const u32 at = blockIdx.x * 256u + threadIdx.x;
    if (at < count) to[at] = bf16_from_f32(from[at]);
}

// Weights as fused_step_tf32 takes them: rounded to tf32, four to a lane as wgmma wants its A operand in registers.
// A part is a matrix A [units][k], element (u, c) at from[u * unit_step + c * k_step]; units behind its end are zero. It is cut into
// fragments of 16 units and 8 k; lane 4 g + t of a fragment holds units 2 g, 2 g + 1 at c = t, then both at c = t + 4. The
// fragments of `side` blocks of units for one step of k lie side by side, then those of the next step.
//   from f32 in;   to [side * ceil(units / 16 / side)][k / 8][32][4] f32 out
// Launch: block 256, grid (ceil(lanes of the largest part / 256), parts).   Needs: k a multiple of 8.
struct FragmentPart {
    const float* from;
    float* to;
    u32 units, k, unit_step, k_step;
    u32 lanes;   // 32 for each fragment
    u32 side;
};
constexpr int FRAGMENT_PARTS = 11;
struct FragmentPlan {
    FragmentPart parts[FRAGMENT_PARTS];
};
static_assert(sizeof(FragmentPlan) == 11 * 40, "launch/fused_tf32.rs lays it out so");

// The nearest f32 with 10 bits of mantissa, ties to even; NaN stays NaN.
__device__ __forceinline__ float tf32_from_f32(float value) {
    const u32 bits = (u32)__float_as_int(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return value;
    return __int_as_float((int)((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu));
}

extern "C" __global__ void weight_fragments(const FragmentPlan plan) {
    const FragmentPart& part = plan.parts[blockIdx.y];
    const u32 at = blockIdx.x * 256u + threadIdx.x;
    if (at >= part.lanes) return;
    const u32 lane = at & 31u, fragment = at >> 5, steps = part.k / 8u;
    const u32 block = fragment / (steps * part.side) * part.side + fragment % part.side, step = fragment / part.side % steps;
    const u32 unit = block * 16u + (lane >> 2) * 2u, column = step * 8u + (lane & 3u);
    float v[4];
    for (u32 i = 0; i < 4; ++i) {
        const u32 u = unit + (i & 1u), c = column + (i >> 1) * 4u;
        v[i] = u < part.units ? tf32_from_f32(part.from[(u64)u * part.unit_step + (u64)c * part.k_step]) : 0.0f;
    }
    ((float4*)part.to)[at] = make_float4(v[0], v[1], v[2], v[3]);
}

// ----------------------------------------------------------------------------------------------------------------- acting

// Q values from the last layer's outputs: Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .).
//   out [rows][width] f32 in;   q [rows][actions] f32 out
// Launch: block 256, one warp a row, grid ceil(rows / 8).   Bits: fixed order.
extern "C" __global__ void dueling_q(const float* out, float* q, u32 rows, u32 actions, u32 width) {
    const u32 row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31u;
    if (row >= rows) return;
    const float* from = out + (u64)row * width;
    double sum = 0;
    for (u32 a = lane; a < actions; a += 32) sum += from[1 + a];
    const float mean = (float)(warp_sum(sum) / actions);
    for (u32 a = lane; a < actions; a += 32) q[(u64)row * actions + a] = from[0] + (from[1 + a] - mean);
}
