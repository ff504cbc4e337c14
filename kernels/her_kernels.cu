// Hindsight experience replay on the GPU: goals of a sampled batch are replaced by what the episode reached later.
// Andrychowicz et al., "Hindsight Experience Replay" (NeurIPS 2017); strategies "future" and "final" of their section 4.5.
// Architectures: all from sm_80 on. No inline PTX: runs as C++ on the CPU in tests.
#include "common.cuh"
#include "philox.cuh"
#include "replay.cuh"

constexpr u32 STRATEGY_FUTURE = 0;  // any other value: the last step of the episode so far

// `HerState` in launch/her.rs is its twin.
struct HerState {
    u64 seed;
    u64 calls;       // launches so far: the generator's counter
    u64 relabelled;  // rows that got another goal
    u64 skipped;     // rows that were to get one, and whose slot or episode was overwritten since the draw
    u32 ticket;
    u32 reserved;
};
static_assert(sizeof(HerState) == 40, "launch/her.rs has the same layout");

// `HerBatch` in launch/her.rs is its twin.
struct HerBatch {
    const i64* index;     // [n]            drawn slots; -1 is passed over
    const u64* drawn_at;  // [1]
    void* states;         // [n, state_dim] f32 or bf16: the goal's components are replaced
    void* next_states;    // [n, state_dim] likewise
    float* rewards;       // [n]            replaced
    float* dones;         // [n]            replaced
    u32 n;
    u32 out_dtype;
    u32 k;                // hindsight goals for one of its own: a row is relabelled with probability k / (k + 1)
    u32 goal_dim;
    u32 achieved_offset;  // where the next state holds what was reached
    u32 goal_offset;      // where a state holds the goal
    u32 strategy;
    u32 terminate;        // not 0: reaching the goal ends the episode
    float tolerance;      // greatest distance at which a goal counts as reached
    float success_reward;
    float step_reward;
    u32 reserved;
};
static_assert(sizeof(HerBatch) == 96, "launch/her.rs has the same layout");

// Steps that the episode of `slot` has after it. The table knows, unless a newer episode began in the same slot; then
// the links are followed.
__device__ __forceinline__ u32 steps_after(const u32* records, RecordLayout layout, const EpisodePlace* places, const u64* ends, u64 slot, u64 number) {
    const EpisodePlace place = places[slot];
    u64 first = (number & ~0xffffffffull) | place.episode;
    if (first > number) first -= 1ull << 32;
    const u64 end = ends[first % layout.capacity];
    if ((u32)(end >> 32) == place.episode && (u32)end >= place.step) return (u32)end - place.step;
    u32 steps = 0;
    u64 at = slot;
    for (u32 ahead = meta_of(records, layout, at)->ahead; ahead != 0; ahead = meta_of(records, layout, at)->ahead) {
        at = ring_add(at, ahead, layout.capacity);
        ++steps;
    }
    return steps;
}

// The slot `steps` steps later in the episode. Environments that step together lie at one distance, so the first guess is
// mostly right; where it is not, the links are followed.
__device__ __forceinline__ u64 slot_after(const u32* records, RecordLayout layout, const EpisodePlace* places, u64 slot, u32 steps) {
    if (steps == 0) return slot;
    const EpisodePlace place = places[slot];
    const u64 jump = (u64)meta_of(records, layout, slot)->ahead * steps;
    if (jump < layout.capacity) {
        const u64 guess = ring_add(slot, jump, layout.capacity);
        if (places[guess].episode == place.episode && places[guess].step == place.step + steps) return guess;
    }
    u64 at = slot;
    for (u32 i = 0; i < steps; ++i) at = ring_add(at, meta_of(records, layout, at)->ahead, layout.capacity);
    return at;
}

// Relabels rows of a batch in place: the goal becomes what a later step of the same episode reached, reward and done follow.
//   records   [capacity * record_words] in   as store_rows and link_steps left them
//   places    [capacity] in                  as link_steps left them
//   ends      [capacity] in                  likewise
//   replay    in                             written
//   chosen    [n] i64 out                    slot whose achieved goal the row got; -1 where it kept its own; may be null
//   state     in/out: calls counts up once a launch, relabelled and skipped count rows
// Launch: one thread a row, block 256, grid ceil(n / 256), shared 0 bytes.
// Bits: random numbers depend on (seed, calls, row) alone; the squared distance is summed forward, each step rounded.
extern "C" __global__ void __launch_bounds__(256) her_relabel(const HerBatch batch, const u32* records, RecordLayout layout, const EpisodePlace* places, const u64* ends,
                                                              const PerState* replay, HerState* state, i64* chosen) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 seed = state->seed, call = state->calls;
    bool relabelled = false, skipped = false;
    i64 source = -1;
    if (row < batch.n && batch.index[row] >= 0) {
        const u64 slot = (u64)batch.index[row];
        const Philox random = philox4x32(seed, row, call, DOMAIN_HER);
        const bool wanted = (u64)random.x * (batch.k + 1ull) >> 32 < batch.k;
        const u64 drawn_at = *batch.drawn_at, written = replay->written;
        if (wanted && (is_stale(slot, drawn_at, written, layout.capacity) || places[slot].episode == NO_EPISODE)) {
            skipped = true;
        } else if (wanted) {
            // The row's own number: the newest one with this slot.
            const u64 newest = written - 1, newest_slot = newest % layout.capacity;
            const u64 number = newest - (slot <= newest_slot ? newest_slot - slot : newest_slot + layout.capacity - slot);
            const u32 after = steps_after(records, layout, places, ends, slot, number);
            const u32 steps = batch.strategy == STRATEGY_FUTURE ? (u32)((u64)random.y * (after + 1ull) >> 32) : after;
            source = (i64)slot_after(records, layout, places, slot, steps);
            const u32* reached_there = records + (u64)source * layout.record_words + layout.state_words;
            const u32* reached_here = records + slot * layout.record_words + layout.state_words;
            float distance = 0.0f;
            for (u32 i = 0; i < batch.goal_dim; ++i) {
                const float goal = load_component(reached_there, batch.achieved_offset + i, layout.dtype);
                const float here = load_component(reached_here, batch.achieved_offset + i, layout.dtype);
                const float difference = __fsub_rn(here, goal);
                distance = __fadd_rn(distance, __fmul_rn(difference, difference));
                const u64 at = (u64)row * layout.state_dim + batch.goal_offset + i;
                store_component(batch.states, at, batch.out_dtype, goal);
                store_component(batch.next_states, at, batch.out_dtype, goal);
            }
            const bool success = distance <= __fmul_rn(batch.tolerance, batch.tolerance);
            batch.rewards[row] = success ? batch.success_reward : batch.step_reward;
            batch.dones[row] = success && batch.terminate ? 1.0f : 0.0f;
            relabelled = true;
        }
    }
    if (chosen && row < batch.n) chosen[row] = source;
    const u32 n_relabelled = (u32)__popc(__ballot_sync(FULL_WARP, relabelled)), n_skipped = (u32)__popc(__ballot_sync(FULL_WARP, skipped));
    if ((threadIdx.x & 31) == 0) {
        if (n_relabelled) atomicAdd(&state->relabelled, (u64)n_relabelled);
        if (n_skipped) atomicAdd(&state->skipped, (u64)n_skipped);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    // The counter moves when every block has read it.
    if (is_last_block(&state->ticket)) state->calls = call + 1;
}
