// How the replay buffer lies in memory: its shared state, records with their meta words, and where a slot stands in its episode.
#pragma once

#include "common.cuh"

// What kernels and host share about one buffer; `PerState` in launch/per.rs is its twin. Everything that a replayed graph must
// see fresh lives here: beta, the size, the counter of draws.
struct PerState {
    double total;         // of all priorities, as of the last scan
    u64 size;             // filled slots
    u64 written;          // rows ever stored
    u64 seed;
    u64 draws;            // batches drawn before the last scan: the generator's counter
    u64 bad_td_errors;    // NaN, infinite, or negative where that is not allowed
    u64 stale_rows;       // updates of slots that were overwritten since the draw
    u64 bad_env_ids;
    float beta;
    u32 max_priority;     // bits of the largest priority so far
    u32 min_drawn;        // bits of the smallest priority in the newest batch
    u32 n_touched;        // entries of `touched`
    u32 status;           // STATUS_*, until the host has read it
    u32 reserved;
    u64 next_draw;        // what the next scan sets `draws` to; apart, so that no block of a draw sees it move
};
static_assert(sizeof(PerState) == 96, "launch/per.rs has the same layout");

constexpr u32 TERMINATED = 1;  // bits of RowMeta::flags
constexpr u32 TRUNCATED = 2;

constexpr u32 STATES_F32 = 0;  // any other dtype is bf16

// One stored transition, in words of 4 bytes: state, next state, RowMeta; `RecordLayout` in launch/per.rs is its twin.
struct RecordLayout {
    u64 capacity;
    u32 state_dim;
    u32 state_words;   // words of one padded state: a multiple of 4
    u32 record_words;  // 2 * state_words + 4
    u32 dtype;         // STATES_*, of the stored states
};
static_assert(sizeof(RecordLayout) == 24, "launch/per.rs has the same layout");

struct __align__(16) RowMeta {
    u32 action;
    float reward;  // of this one step
    u32 flags;
    u32 ahead;  // slots to the next step of the same episode, 0 where there is none (yet)
};

__device__ __forceinline__ u64 ring_add(u64 slot, u64 distance, u64 capacity) {
    const u64 sum = slot + distance;
    return sum < capacity ? sum : sum - capacity;
}

__device__ __forceinline__ const RowMeta* meta_of(const u32* records, RecordLayout layout, u64 slot) {
    return reinterpret_cast<const RowMeta*>(records + slot * layout.record_words + 2ull * layout.state_words);
}

// Which episode a slot belongs to, for hindsight; `EpisodePlace` in launch/per.rs is its twin.
struct EpisodePlace {
    u32 episode;  // NO_EPISODE where the environment was not one of the buffer's
    u32 step;
};
constexpr u32 NO_EPISODE = 0xffffffffu;

// Four neighbouring components of a stored state as f32.
__device__ __forceinline__ float4 load_components(const u32* state, u32 first, u32 dtype) {
    if (dtype == STATES_F32) return __ldg(reinterpret_cast<const float4*>(state + first));
    const uint2 packed = __ldg(reinterpret_cast<const uint2*>(state + first / 2));
    return make_float4(f32_from_bf16((u16)packed.x), f32_from_bf16((u16)(packed.x >> 16)), f32_from_bf16((u16)packed.y), f32_from_bf16((u16)(packed.y >> 16)));
}

// One component of a stored state as f32.
__device__ __forceinline__ float load_component(const u32* state, u32 component, u32 dtype) {
    if (dtype == STATES_F32) return __uint_as_float(__ldg(state + component));
    return f32_from_bf16(__ldg(reinterpret_cast<const u16*>(state) + component));
}

// Stores one component into a dense batch of states.
__device__ __forceinline__ void store_component(void* batch, u64 at, u32 dtype, float value) {
    if (dtype == STATES_F32) static_cast<float*>(batch)[at] = value;
    else static_cast<u16*>(batch)[at] = bf16_from_f32(value);
}

// Whether a slot was overwritten since `drawn_at` rows had been stored.
__device__ __forceinline__ bool is_stale(u64 slot, u64 drawn_at, u64 written, u64 capacity) {
    const u64 head = drawn_at % capacity;
    const u64 distance = slot >= head ? slot - head : slot + capacity - head;
    return distance < written - drawn_at;
}
