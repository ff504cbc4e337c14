// Prioritized replay on the GPU: priorities, their sums, draws, gathers, importance weights.
// Architectures: all from sm_80 on. No inline PTX: runs as C++ on the CPU in tests.
//
// Sums are kept as a tree of four levels, so that no f32 sum ever grows large:
//
//   priority    f32   one a slot                                   (|td| + eps)^alpha, >= 0
//   tile_sum    f64   one for 128 slots        (TILE)      tile_end   inclusive, within the group
//   group_sum   f64   one for 64 tiles         (GROUP)     group_end  inclusive, within the super-group
//   super_sum   f64   one for 64 groups        (SUPER)     super_end  inclusive over all: the last one is the total
//
// An f32 prefix over 24.7M priorities has steps of zero width, which can never be drawn; here a draw descends level by level
// with its remainder in f64, and every priority > 0 has its share. Sums of touched tiles are recomputed, never adjusted by a
// difference: the kept tree equals a rebuilt one to the bit.
//
// The sign bit of a stored priority says "written by an update that no scan has seen yet". As unsigned numbers such values
// are larger than all others, so the first write of an update replaces the old priority and later ones of the same update
// raise it: one atomicMax gives a repeated index the largest of its new priorities, in any order of execution. The scan
// clears the bit. Whoever reads a priority in between takes its magnitude.
//
// Slots are a ring. `written` counts every row ever stored, so a slot was overwritten since a draw at count `drawn_at` when
// (slot - drawn_at) mod capacity < written - drawn_at: no generation needs to be stored for each slot.
#include "common.cuh"
#include "philox.cuh"
#include "replay.cuh"

constexpr u32 TILE = 128;
constexpr u32 GROUP = 64;
constexpr u32 SUPER = 64;
constexpr u32 SUPERS_AT_HAND = 64;  // as many a warp holds, two a lane: up to 33 million slots
constexpr u32 MARK = 0x80000000u;

constexpr u32 STATUS_ZERO_TOTAL = 1;
constexpr u32 STATUS_NOT_FINITE = 2;

// ---------------------------------------------------------------------------------------------------------------- sums

// Tiles that one warp sums side by side, so that their loads overlap.
constexpr u32 TILES = 4;

// Sums of tiles by one warp, marks cleared; a negative one is passed over. Four slots a lane, then lanes in the order of warp_sum.
__device__ __forceinline__ void settle_tiles(float* priority, double* tile_sum, const i64 (&tile)[TILES], int lane) {
    float4 raw[TILES];
#pragma unroll
    for (u32 k = 0; k < TILES; ++k) {
        raw[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (tile[k] >= 0) raw[k] = reinterpret_cast<const float4*>(priority + tile[k] * TILE)[lane];
    }
#pragma unroll
    for (u32 k = 0; k < TILES; ++k) {
        const float4 p = make_float4(fabsf(raw[k].x), fabsf(raw[k].y), fabsf(raw[k].z), fabsf(raw[k].w));
        const u32 signs = (__float_as_uint(raw[k].x) | __float_as_uint(raw[k].y) | __float_as_uint(raw[k].z) | __float_as_uint(raw[k].w)) & MARK;
        if (signs) reinterpret_cast<float4*>(priority + tile[k] * TILE)[lane] = p;
        const double sum = warp_sum(((double)p.x + (double)p.y) + ((double)p.z + (double)p.w));
        if (lane == 0 && tile[k] >= 0) tile_sum[tile[k]] = sum;
    }
}

// Inclusive sums over 64 values, two a lane.
__device__ __forceinline__ double2 inclusive_ends(double2 pair, int lane) {
    const double inclusive = warp_inclusive_sum(pair.x + pair.y, lane);
    double before = __shfl_up_sync(FULL_WARP, inclusive, 1);
    if (lane == 0) before = 0.0;
    return make_double2(before + pair.x, inclusive);
}

// Recomputes the sums of the tiles that the last update touched, and clears its marks.
//   touched   [most]            i32 in   of them the first state.n_touched count: a tile each, or -1 for "nothing new here";
//                                        repeats are harmless
//   most      in                >= state.n_touched, a multiple of TILES
//   priority  [n_tiles * 128]   f32 in/out
//   tile_sum  [padded tiles]    f64 out  at the touched tiles
// Launch: one warp for TILES entries, block 256, any grid (strides over the rest), shared 0 bytes.
// Bits: a tile's sum depends on its priorities alone; warps that share a tile store the same bits.
extern "C" __global__ void __launch_bounds__(256) per_touched_tiles(const PerState* state, const int* touched, u32 most, float* priority, double* tile_sum) {
    previous_kernel_done();
    const int lane = threadIdx.x & 31;
    const u32 n = state->n_touched;
    for (u32 first = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * TILES; first < most; first += ((gridDim.x * blockDim.x) >> 5) * TILES) {
        // Read before it is known to count, so that both loads are under way together.
        const int4 listed = *reinterpret_cast<const int4*>(touched + first);
        if (first >= n) break;
        const i64 tile[TILES] = {listed.x, first + 1 < n ? listed.y : -1, first + 2 < n ? listed.z : -1, first + 3 < n ? listed.w : -1};
        settle_tiles(priority, tile_sum, tile, lane);
    }
}

// Recomputes the sums of all tiles: after a restore, and to check the kept ones.
//   priority  [n_tiles * 128] f32 in/out  zero beyond the filled slots
//   tile_sum  [n_tiles]       f64 out
// Launch: one warp for TILES tiles, block 256, any grid, shared 0 bytes.   Bits: as per_touched_tiles.
extern "C" __global__ void __launch_bounds__(256) per_all_tiles(float* priority, double* tile_sum, u64 n_tiles) {
    const int lane = threadIdx.x & 31;
    for (u64 first = ((blockIdx.x * (u64)blockDim.x + threadIdx.x) >> 5) * TILES; first < n_tiles; first += (((u64)gridDim.x * blockDim.x) >> 5) * TILES) {
        i64 tile[TILES];
#pragma unroll
        for (u32 k = 0; k < TILES; ++k) tile[k] = first + k < n_tiles ? (i64)(first + k) : -1;
        settle_tiles(priority, tile_sum, tile, lane);
    }
}

// Finishes the scan but for the ends of super-groups: sums of groups and super-groups, inclusive sums below them.
//   tile_sum   [n_super * 4096] f64 in   zero where there is no tile
//   tile_end   [n_super * 4096] f64 out  inclusive within the group
//   group_sum  [n_super * 64]   f64 out
//   group_end  [n_super * 64]   f64 out  inclusive within the super-group
//   super_sum  [n_super]        f64 out
//   state      out: n_touched, min_drawn and draws are made ready for the next update and the next draw
// Launch: grid n_super, block 1024, shared 0 bytes.   Bits: fixed order throughout.
extern "C" __global__ void __launch_bounds__(1024) per_prefix_scan(const double* tile_sum, double* tile_end, double* group_sum, double* group_end, double* super_sum, PerState* state) {
    __shared__ double sums[SUPER];
    previous_kernel_done();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u64 first_group = (u64)blockIdx.x * SUPER;
    // Both groups of a warp are loaded before either is summed.
    const u64 groups[2] = {first_group + warp, first_group + warp + SUPER / 2};
    double2 pairs[2];
    for (int i = 0; i < 2; ++i) pairs[i] = reinterpret_cast<const double2*>(tile_sum + groups[i] * GROUP)[lane];
    if (blockIdx.x == 0 && threadIdx.x == blockDim.x - 1) {
        state->n_touched = 0;
        state->min_drawn = 0x7f800000u;
        state->draws = state->next_draw;
    }
    for (int i = 0; i < 2; ++i) {
        const double2 ends = inclusive_ends(pairs[i], lane);
        reinterpret_cast<double2*>(tile_end + groups[i] * GROUP)[lane] = ends;
        if (lane == 31) {
            sums[groups[i] - first_group] = ends.y;
            group_sum[groups[i]] = ends.y;
        }
    }
    __syncthreads();
    if (warp != 0) return;
    const double2 ends = inclusive_ends(make_double2(sums[2 * lane], sums[2 * lane + 1]), lane);
    reinterpret_cast<double2*>(group_end + first_group)[lane] = ends;
    if (lane == 31) super_sum[blockIdx.x] = ends.y;
}

// Eight of at most SUPERS_AT_HAND sums from number `base` on, zero behind the last: lanes 0 to 7 hold some.
struct EightSums {
    double of[8];
};

__device__ __forceinline__ EightSums load_sums(const double* sums, u64 base, u64 count, int lane) {
    EightSums mine;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const u64 at = base + 8 * (u32)lane + i;
        mine.of[i] = lane < 8 && at < count ? sums[at] : 0.0;
    }
    return mine;
}

// Turns sums into inclusive ends behind `end`, by one warp; gives the last of them. A lane adds its own up one after another, and the
// lanes follow one after another, so that ends never go down, and one without mass equals the one before it.
__device__ __forceinline__ double add_up(EightSums& mine, double end, int lane) {
#pragma unroll
    for (u32 i = 1; i < 8; ++i) mine.of[i] += mine.of[i - 1];
    double before = end;
#pragma unroll
    for (int l = 0; l < 8; ++l) {
        if (lane == l) before = end;
        end += __shfl_sync(FULL_WARP, mine.of[7], l);
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) mine.of[i] += before;
    return end;
}

__device__ __forceinline__ bool is_drawable(double total) { return total > 0.0 && total <= 1.7976931348623157e308; }

// What is wrong with a total. NaN is neither drawable nor at most zero.
__device__ __forceinline__ u32 status_of(double total) { return is_drawable(total) ? 0u : total <= 0.0 ? STATUS_ZERO_TOTAL : STATUS_NOT_FINITE; }

// Notes a total, and tells the host where it is at fault. An empty buffer has none, which is no fault. By one thread.
__device__ __forceinline__ void note_total(PerState* state, double total) {
    const u32 status = status_of(total);
    state->total = total;
    if (status != 0 && (status != STATUS_ZERO_TOTAL || state->size > 0)) state->status |= status;
}

// Ends of the super-groups, the total and its status. sample_batch does this by itself where there are at most 64 of them.
//   super_sum  [n_super] f64 in
//   super_end  [n_super] f64 out  inclusive over all; the last is the total
//   state      out: total; status gains a bit where the total is zero or not finite while size > 0
// Launch: one warp, shared 0 bytes.   Bits: fixed order.
extern "C" __global__ void __launch_bounds__(32) per_total(const double* super_sum, double* super_end, u64 n_super, PerState* state) {
    previous_kernel_done();
    const int lane = threadIdx.x;
    double end = 0.0;
    for (u64 base = 0; base < n_super; base += SUPERS_AT_HAND) {
        EightSums mine = load_sums(super_sum, base, n_super, lane);
        end = add_up(mine, end, lane);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const u64 at = base + 8 * (u32)lane + i;
            if (lane < 8 && at < n_super) super_end[at] = mine.of[i];
        }
    }
    if (lane == 0) note_total(state, end);
}

// --------------------------------------------------------------------------------------------------------------- draws

// Finds which of the 32 * N children holds `rest`, lane l having children N*l .. N*l+N-1; `rest` becomes the remainder in it.
// Never one without mass, as long as any has: where rounding leaves `rest` beyond the last sum, the last with mass takes it.
template <int N>
__device__ __forceinline__ u32 descend(const double (&mass)[N], int lane, double& rest) {
    double sum = mass[0];
    for (int i = 1; i < N; ++i) sum += mass[i];
    const double inclusive = warp_inclusive_sum(sum, lane);
    const u32 with_mass = __ballot_sync(FULL_WARP, sum > 0.0);
    const u32 beyond = __ballot_sync(FULL_WARP, inclusive > rest) & with_mass;
    const int chosen = beyond ? __ffs((int)beyond) - 1 : with_mass ? 31 - __clz((int)with_mass) : 0;
    double before = __shfl_up_sync(FULL_WARP, inclusive, 1);
    if (lane == 0) before = 0.0;
    double here = rest - before;
    if (here < 0.0) here = 0.0;
    // Within the lane. A child without mass is passed by; the last one with mass takes what rounding left over.
    int child = 0;
    double left = here;
    bool found = false;
    double walked = here;
    for (int i = 0; i < N; ++i) {
        if (found || !(mass[i] > 0.0)) continue;
        child = i;
        left = walked;
        if (walked < mass[i]) found = true;
        else walked -= mass[i];
    }
    rest = __shfl_sync(FULL_WARP, left, chosen);
    return __shfl_sync(FULL_WARP, (u32)(lane * N + child), chosen);
}

// The arrays that a draw reads, as the scan left them; `PerLevels` in launch/per.rs is its twin.
struct PerLevels {
    const float* priority;    // [n_tiles * 128]
    const double* tile_sum;   // [n_super * 4096]
    const double* tile_end;   // [n_super * 4096]
    const double* group_sum;  // [n_super * 64]
    const double* group_end;  // [n_super * 64]
    const double* super_sum;  // [n_super]
    const double* super_end;  // [n_super]          as per_total left them
    u64 n_super;
};
static_assert(sizeof(PerLevels) == 64, "launch/per.rs has the same layout");

// A target within [0, total). A half-open range: the total itself belongs to nobody, the next smaller f64 does.
__device__ __forceinline__ double clamp_target(double target, double total) {
    if (!(target < total)) target = __longlong_as_double(__double_as_longlong(total) - 1);
    return target >= 0.0 ? target : 0.0;
}

// A slot and its priority. Slots are 32 bits wide within a draw, as a capacity is below 2^32; outside, and in every offset, 64.
struct Found {
    u32 slot;
    float priority;
};
constexpr u32 NO_SLOT = 0xffffffffu;

// The first super-group that ends beyond `target`, which is less than the total; `rest` becomes the remainder in it.
__device__ __forceinline__ u32 find_super(const PerLevels& levels, double target, int lane, double& rest) {
    u32 low = 0, count = (u32)levels.n_super;
    // 32 candidates at a time, coarse strides first.
    while (count > 1) {
        const u32 stride = (count + 31) / 32;
        const u32 limit = low + count - 1;
        const u32 probe = min(low + (lane + 1) * stride - 1, limit);
        const bool beyond = probe == limit || __ldg(levels.super_end + probe) > target;
        const u32 first = (u32)__ffs((int)__ballot_sync(FULL_WARP, beyond)) - 1;
        low += first * stride;
        count = min(stride, limit - low + 1);
    }
    rest = low ? target - __ldg(levels.super_end + low - 1) : target;
    return low;
}

// The slot by sums alone of what remains of a target in its super-group: right where rounding made the ends of a level disagree with
// what lies below them.
__device__ __forceinline__ Found find_by_sums(const PerLevels& levels, u64 super, double rest, int lane) {
    const double2 g = __ldg(reinterpret_cast<const double2*>(levels.group_sum + super * SUPER) + lane);
    const double groups[2] = {g.x, g.y};
    const u64 group = super * SUPER + descend(groups, lane, rest);
    const double2 t = __ldg(reinterpret_cast<const double2*>(levels.tile_sum + group * GROUP) + lane);
    const double tiles[2] = {t.x, t.y};
    const u64 tile = group * GROUP + descend(tiles, lane, rest);
    const float4 p = __ldg(reinterpret_cast<const float4*>(levels.priority + tile * TILE) + lane);
    const double slots[4] = {fabsf(p.x), fabsf(p.y), fabsf(p.z), fabsf(p.w)};
    const u32 place = descend(slots, lane, rest);
    const float mine = (place & 3u) == 0 ? p.x : (place & 3u) == 1 ? p.y : (place & 3u) == 2 ? p.z : p.w;
    return Found{(u32)(tile * TILE) + place, fabsf(__shfl_sync(FULL_WARP, mine, (int)(place >> 2)))};
}

// Finds among 64 inclusive ends, two a lane, the first beyond `rest`; `rest` becomes the remainder there. 64 where there is none.
__device__ __forceinline__ u32 first_beyond(double2 ends, double& rest) {
    const u32 even = __ballot_sync(FULL_WARP, ends.x > rest), odd = __ballot_sync(FULL_WARP, ends.y > rest);
    if (odd == 0) return 64;
    const int lane = __ffs((int)odd) - 1;
    const bool is_even = even >> lane & 1u;
    // What ends before: the odd child of the lane before, or the even one of this lane.
    const double before = __shfl_sync(FULL_WARP, is_even ? ends.y : ends.x, is_even ? (lane + 31) & 31 : lane);
    if (!is_even || lane > 0) rest -= before;
    return 2 * (u32)lane + (is_even ? 0u : 1u);
}

// A lane's two of at most SUPERS_AT_HAND ends of super-groups; anything where there are more. Behind the last stands what no target
// reaches.
__device__ __forceinline__ double2 load_supers(const PerLevels& levels, int lane) {
    const double none = 1.7976931348623157e308;
    const u64 even = 2 * (u32)lane, odd = even + 1;
    return make_double2(even < levels.n_super ? levels.super_end[even] : none, odd < levels.n_super ? levels.super_end[odd] : none);
}

// The super-group of a target, which is less than the total; `rest` becomes the remainder in it.
__device__ __forceinline__ u32 super_of(const PerLevels& levels, double2 supers, double target, int lane, double& rest) {
    if (levels.n_super > SUPERS_AT_HAND) return find_super(levels, target, lane, rest);
    rest = target;
    return first_beyond(supers, rest);
}

// Slots for N targets at once by one warp, level by level, so that their loads overlap. Lane i holds target i, for i < N. Targets must
// be in [0, total); they are moved there if rounding put them outside. `supers`: a lane's two ends, where there are at most
// SUPERS_AT_HAND.
template <int N>
__device__ __forceinline__ void find_slots(const PerLevels& levels, double total, double2 supers, double target, int lane, Found (&found)[N]) {
    target = clamp_target(target, total);
    double rest[N];
    u32 at[N];  // super-groups, groups, then tiles: a buffer has fewer than 2^32 slots
    u32 again = 0;  // bits of targets that are to be searched for by sums
    double2 ends[N];
    float4 p[N];
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = super_of(levels, supers, __shfl_sync(FULL_WARP, target, i), lane, rest[i]);
#pragma unroll
    for (int i = 0; i < N; ++i) ends[i] = __ldg(reinterpret_cast<const double2*>(levels.group_end + (u64)at[i] * SUPER) + lane);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 child = first_beyond(ends[i], rest[i]);
        if (child == 64) again |= 1u << i;
        at[i] = at[i] * SUPER + (child & 63u);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) ends[i] = __ldg(reinterpret_cast<const double2*>(levels.tile_end + (u64)at[i] * GROUP) + lane);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 child = first_beyond(ends[i], rest[i]);
        if (child == 64) again |= 1u << i;
        at[i] = at[i] * GROUP + (child & 63u);
    }
    // A lost draw may stand at a tile behind the last one.
#pragma unroll
    for (int i = 0; i < N; ++i) p[i] = again >> i & 1u ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : __ldg(reinterpret_cast<const float4*>(levels.priority + (u64)at[i] * TILE) + lane);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const double x = fabsf(p[i].x), y = fabsf(p[i].y), z = fabsf(p[i].z), w = fabsf(p[i].w);
        const double two = x + y, three = two + z, sum = three + w;
        const double inclusive = warp_inclusive_sum(sum, lane);
        const u32 with_mass = __ballot_sync(FULL_WARP, sum > 0.0);
        const u32 beyond = __ballot_sync(FULL_WARP, inclusive > rest[i]) & with_mass;
        double before = __shfl_up_sync(FULL_WARP, inclusive, 1);
        if (lane == 0) before = 0.0;
        // Where rounding leaves the remainder beyond the last sum, the last slot with mass takes it.
        const int chosen = beyond ? __ffs((int)beyond) - 1 : with_mass ? 31 - __clz((int)with_mass) : 0;
        const double here = rest[i] - before;
        const int last = w > 0.0 ? 3 : z > 0.0 ? 2 : y > 0.0 ? 1 : 0;
        // A slot without mass ends where the one before it ends, so it is passed by; so is an ending run of them.
        const int within = min((here >= x) + (here >= two) + (here >= three), last);
        // Below 0 by a rounding: the first slot with mass.
        const int first = x > 0.0 ? 0 : y > 0.0 ? 1 : z > 0.0 ? 2 : 3;
        const int place = max(within, first);
        const float mine = place == 0 ? p[i].x : place == 1 ? p[i].y : place == 2 ? p[i].z : p[i].w;
        const int slot = __shfl_sync(FULL_WARP, 4 * lane + place, chosen);
        found[i] = Found{at[i] * TILE + (u32)slot, fabsf(__shfl_sync(FULL_WARP, mine, chosen))};
        if (with_mass == 0) again |= 1u << i;
    }
    // The ends of a level may differ from the sums below by a rounding, and so name a tile without mass. One at a time: it is rare.
    while (again) {
        const int one = __ffs((int)again) - 1;
        again &= again - 1;
        double remainder;
        const u32 super = super_of(levels, supers, __shfl_sync(FULL_WARP, target, one), lane, remainder);
        const Found right = find_by_sums(levels, super, remainder, lane);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i == one) found[i] = right;
        }
    }
}

// Finds the slot for each of the given targets; the search of per_sample without its random numbers.
//   target  [n] f64 in   clamped into [0, total)
//   index   [n] i64 out  a slot of priority > 0; -1 where the total is zero or not finite
// Launch: one warp a target, block 256, any grid, shared 0 bytes.   Needs: a scan since the last change of a priority.
extern "C" __global__ void __launch_bounds__(256) per_find(const PerLevels levels, const PerState* state, const double* target, u32 n, i64* index) {
    const int lane = threadIdx.x & 31;
    const double total = state->total;
    for (u32 i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; i < n; i += (gridDim.x * blockDim.x) >> 5) {
        Found found[1] = {{0, 0.0f}};
        const bool drawable = is_drawable(total);
        if (drawable) find_slots(levels, total, load_supers(levels, lane), target[i], lane, found);
        if (lane == 0) index[i] = drawable ? (i64)found[0].slot : -1;
    }
}

// The same by sums alone, which per_find falls back to: for its test.   Launch, arguments: as per_find.
extern "C" __global__ void __launch_bounds__(256) per_find_by_sums(const PerLevels levels, const PerState* state, const double* target, u32 n, i64* index) {
    const int lane = threadIdx.x & 31;
    const double total = state->total;
    for (u32 i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; i < n; i += (gridDim.x * blockDim.x) >> 5) {
        i64 slot = -1;
        if (is_drawable(total)) {
            double rest;
            const u32 super = find_super(levels, clamp_target(target[i], total), lane, rest);
            slot = find_by_sums(levels, super, rest, lane).slot;
        }
        if (lane == 0) index[i] = slot;
    }
}

// Draws of one warp that are searched for side by side.
constexpr u32 DRAWS = 4;

// The first row that a warp draws, and how many rows all warps draw at a time.
__device__ __forceinline__ u32 first_row() { return ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * DRAWS; }
__device__ __forceinline__ u32 rows_at_a_time() { return ((gridDim.x * blockDim.x) >> 5) * DRAWS; }

// The random number of a row in [0, 1), one lane a draw, for rows from `first` on.
__device__ __forceinline__ double unit_of_row(u64 seed, u64 call, u32 first, int lane) {
    return philox_unit(philox4x32(seed, first + (lane & (DRAWS - 1)), call, DOMAIN_REPLAY));
}

// Draws DRAWS rows, from row `first` on: stratum i of n equal shares of the mass gives draw i. Lane 0 writes; all lanes get
// slots (NO_SLOT beyond the batch and where nothing can be drawn). Gives the smallest priority drawn, as bits.
__device__ __forceinline__ u32 draw_rows(const PerLevels& levels, double total, double2 supers, double unit, double width, u32 first, u32 n, int lane, i64* index, float* drawn, u32 (&slots)[DRAWS]) {
    const bool drawable = is_drawable(total);
    u32 least = 0x7f800000u;
    const u32 row = first + (lane & (DRAWS - 1));
    // Rounded here: fused into the subtraction that follows, the bits would depend on the compiler.
    const double mine = drawable ? __dmul_rn(__dadd_rn((double)row, unit), width) : 0.0;
    Found found[DRAWS];
#pragma unroll
    for (u32 k = 0; k < DRAWS; ++k) found[k] = Found{0, 0.0f};
    if (drawable) find_slots(levels, total, supers, mine, lane, found);
#pragma unroll
    for (u32 k = 0; k < DRAWS; ++k) {
        slots[k] = drawable && first + k < n ? found[k].slot : NO_SLOT;
        if (slots[k] != NO_SLOT) least = min(least, __float_as_uint(found[k].priority));
        if (lane == 0 && first + k < n) {
            index[first + k] = slots[k] == NO_SLOT ? -1 : (i64)slots[k];
            drawn[first + k] = found[k].priority;
        }
    }
    return least;
}

// What a draw leaves behind beside its rows, by one thread of it, and early: nothing of it is read before the next launch.
__device__ __forceinline__ void note_draw(PerState* state, double total, u64 call, u64 written, u64* drawn_at, u32* status) {
    *drawn_at = written;
    *status = status_of(total);
    state->next_draw = call + 1;
}

// The smallest priority drawn, by all threads of a block, each with its warp's. `smallest` is shared memory, one for each warp.
template <int WARPS>
__device__ __forceinline__ void note_least(PerState* state, u32 least, u32 (&smallest)[WARPS]) {
    if ((threadIdx.x & 31) == 0) smallest[threadIdx.x >> 5] = least;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < WARPS; ++w) least = min(least, smallest[w]);
    // Read first: once the smallest is known, no block needs the atomic.
    if (least < *(volatile u32*)&state->min_drawn) atomicMin(&state->min_drawn, least);
}

// Draws a batch by priority (Schaul et al. 2016, section 3.3 and appendix B.2.1).
//   levels    in           as the scan left them
//   index     [n] i64 out  not decreasing; a slot of priority > 0; -1 where nothing can be drawn
//   drawn     [n] f32 out  its priority; 0 where nothing can be drawn
//   drawn_at  [1] u64 out  state.written at the time of the draw
//   status    [1] u32 out  0, or a STATUS_* where the total is zero or not finite: the step then skips its update
//   state     in/out: min_drawn falls to the smallest priority drawn; next_draw counts up
// Launch: one warp for DRAWS rows, block 256, any grid, shared 0 bytes.   Needs: n > 0, n <= 2^20, a scan before each draw.
// Bits: random numbers depend on (seed, draws, row) alone; same seed and same calls, same indices on any GPU.
extern "C" __global__ void __launch_bounds__(256) per_sample(const PerLevels levels, PerState* state, u32 n, i64* index, float* drawn, u64* drawn_at, u32* status) {
    __shared__ u32 smallest[8];
    const int lane = threadIdx.x & 31;
    const double total = state->total;
    const u64 seed = state->seed, call = state->draws, written = state->written;
    const double width = __ddiv_rn(total, (double)n);
    if (blockIdx.x == 0 && threadIdx.x == 0) note_draw(state, total, call, written, drawn_at, status);
    u32 least = 0x7f800000u;
    for (u32 first = first_row(); first < n; first += rows_at_a_time()) {
        u32 slots[DRAWS];
        const double unit = unit_of_row(seed, call, first, lane);
        least = min(least, draw_rows(levels, total, load_supers(levels, lane), unit, width, first, n, lane, index, drawn, slots));
    }
    note_least(state, least, smallest);
}

// ------------------------------------------------------------------------------------------------------------- weights

// (N * P)^-beta, divided by the largest of the batch; the smallest priority has the largest weight, so that N and the total
// cancel: (p_min / p)^beta.
__device__ __forceinline__ float normalized_weight(float p, float p_min, float beta) {
    // Exactly 1 at both ends: powf promises no exact results.
    if (beta == 0.0f || p == p_min) return 1.0f;
    return powf(p_min / p, beta);
}

// Importance weights of a batch.
//   drawn      [n] f32 in   priorities of the drawn slots, > 0; 0 for "nothing drawn"
//   weight     [n] f32 out  normalized != 0: (N * P)^-beta / max of the batch, in (0, 1]; else (N * P)^-beta, at most FLT_MAX;
//                           0 for "nothing drawn"
//   state      in: size (N: filled slots, not the capacity), total, beta, min_drawn
// Launch: one thread a draw, block 256, grid ceil(n / 256), shared 0 bytes.   Bits: pow is the compiler's, within 2 ulp.
extern "C" __global__ void is_weights(const PerState* state, const float* drawn, u32 n, u32 normalized, float* weight) {
    previous_kernel_done();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float p = drawn[i], beta = state->beta;
    float w = 0.0f;
    if (p > 0.0f) {
        if (normalized) {
            w = normalized_weight(p, __uint_as_float(state->min_drawn), beta);
        } else {
            const double scaled = pow((double)state->size * ((double)p / state->total), -(double)beta);
            w = scaled < 3.4028234663852886e38 ? (float)scaled : 3.4028234663852886e38f;
        }
    }
    weight[i] = w;
}

// ------------------------------------------------------------------------------------------------------------- gathers

// Narrows slot numbers.   index [n] i64 in, 0 <= index < 2^32 or -1;   out [n] u32, 0xffffffff for -1 and for what does not fit.
// Launch: one thread each, block 256, grid ceil(n / 256), shared 0 bytes.
extern "C" __global__ void i64_to_u32(const i64* index, u32 n, u32* out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const i64 slot = index[i];
    out[i] = slot >= 0 && slot < 0xffffffffll ? (u32)slot : 0xffffffffu;
}

// Gathers one word of each drawn record: u32 words, and their f32 twin.
//   index    [n] i64 in   slots; -1 gives 0
//   records  [capacity * record_words] u32 in
//   word     in           which word of the record, < record_words
//   out      [n]
// Launch: one thread a row, block 256, grid ceil(n / 256), shared 0 bytes.   The offset is 64-bit: 24.7M * 80 passes 2^31.
extern "C" __global__ void gather_u32(const i64* index, u32 n, const u32* records, RecordLayout layout, u32 word, u32* out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const i64 slot = index[i];
    out[i] = slot < 0 ? 0u : __ldg(records + (u64)slot * layout.record_words + word);
}

extern "C" __global__ void gather_f32(const i64* index, u32 n, const u32* records, RecordLayout layout, u32 word, float* out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const i64 slot = index[i];
    out[i] = slot < 0 ? 0.0f : __uint_as_float(__ldg(records + (u64)slot * layout.record_words + word));
}

// Stores up to four components into a dense [n, state_dim] batch; `first` is a multiple of 4.
__device__ __forceinline__ void store_components(void* batch, u64 row, u32 first, u32 state_dim, u32 dtype, float4 value) {
    const u64 at = row * state_dim + first;
    if (dtype == STATES_F32) {
        float* out = static_cast<float*>(batch) + at;
        if (state_dim % 4 == 0) {
            *reinterpret_cast<float4*>(out) = value;
            return;
        }
        out[0] = value.x;
        if (first + 1 < state_dim) out[1] = value.y;
        if (first + 2 < state_dim) out[2] = value.z;
        if (first + 3 < state_dim) out[3] = value.w;
        return;
    }
    u16* out = static_cast<u16*>(batch) + at;
    const u16 x = bf16_from_f32(value.x), y = bf16_from_f32(value.y), z = bf16_from_f32(value.z), w = bf16_from_f32(value.w);
    if (state_dim % 4 == 0) {
        *reinterpret_cast<uint2*>(out) = make_uint2((u32)x | (u32)y << 16, (u32)z | (u32)w << 16);
        return;
    }
    out[0] = x;
    if (first + 1 < state_dim) out[1] = y;
    if (first + 2 < state_dim) out[2] = z;
    if (first + 3 < state_dim) out[3] = w;
}

// The step that ends the n-step window of `slot`: walks the episode's links. Gives the discounted reward, the flags of the
// last step and how many were summed. `gamma` to the power of that many is the bootstrap's factor.
struct Window {
    u64 last;
    float reward;
    u32 flags;
    u32 steps;
    u32 action;
};

__device__ __forceinline__ Window walk_window(const u32* records, RecordLayout layout, u64 slot, u32 n_steps, float gamma) {
    const uint4 first = __ldg(reinterpret_cast<const uint4*>(meta_of(records, layout, slot)));
    Window window{slot, __uint_as_float(first.y), first.z, 1u, first.x};
    u32 ahead = first.w;
    float factor = gamma;
    while (window.steps < n_steps && window.flags == 0 && ahead != 0) {
        window.last = ring_add(window.last, ahead, layout.capacity);
        const uint4 next = __ldg(reinterpret_cast<const uint4*>(meta_of(records, layout, window.last)));
        window.reward = __fadd_rn(window.reward, __fmul_rn(factor, __uint_as_float(next.y)));
        window.flags = next.z;
        ahead = next.w;
        factor = __fmul_rn(factor, gamma);
        window.steps += 1;
    }
    return window;
}

// Gathers states alone.
//   index   [n] i64 in             slots; -1 gives a row of zeros
//   which   in                     0: the state, 1: the next state, both of the record itself
//   states  [n, state_dim] out     f32 or bf16, as out_dtype says; dense, 16-byte aligned
// Launch: one thread for four components, block 256, any grid, shared 0 bytes.
extern "C" __global__ void __launch_bounds__(256) gather_states(const i64* index, u32 n, const u32* records, RecordLayout layout, u32 which, u32 out_dtype, void* states) {
    const u32 quads = (layout.state_dim + 3) / 4;
    const u64 work = (u64)n * quads;
    for (u64 t = blockIdx.x * (u64)blockDim.x + threadIdx.x; t < work; t += (u64)gridDim.x * blockDim.x) {
        const u32 row = (u32)(t / quads), first = (u32)(t % quads) * 4;
        const i64 slot = index[row];
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (slot >= 0) value = load_components(records + (u64)slot * layout.record_words + which * layout.state_words, first, layout.dtype);
        store_components(states, row, first, layout.state_dim, out_dtype, value);
    }
}

// What gather_batch reads and writes; `GatherBatch` in launch/per.rs is its twin.
struct GatherBatch {
    i64* index;            // [n]             slots, or -1: a row of zeros with weight 0 and done 1
    float* drawn;          // [n]             their priorities
    void* states;          // [n, state_dim]
    void* next_states;     // [n, state_dim]  of the last step of the n-step window
    u32* actions;          // [n]
    float* rewards;        // [n]             sum of gamma^k * reward over the window
    float* dones;          // [n]             1 where the window ended in a terminal state; a truncated one bootstraps
    float* weights;        // [n]             as is_weights, normalized
    u32* step_counts;      // [n]             steps in the window
    u32 n;
    u32 n_steps;
    float gamma;
    u32 out_dtype;         // of states and next_states
};
static_assert(sizeof(GatherBatch) == 88, "launch/per.rs has the same layout");

// Gathers a whole batch in one pass. Contains gather_states (both), gather_u32 and gather_f32 (action, reward, flags) and
// is_weights (normalized).
// Launch: one thread for four components of one state, block 256, any grid, shared 0 bytes.
// Needs: n > 0.   Bits: the n-step sum runs forward in f32, each product and sum rounded.
extern "C" __global__ void __launch_bounds__(256) gather_batch(const GatherBatch batch, const u32* records, RecordLayout layout, const PerState* state) {
    const u32 quads = (layout.state_dim + 3) / 4, per_row = 2 * quads;
    const u64 work = (u64)batch.n * per_row;
    for (u64 t = blockIdx.x * (u64)blockDim.x + threadIdx.x; t < work; t += (u64)gridDim.x * blockDim.x) {
        const u32 row = work <= 0xffffffffull ? (u32)t / per_row : (u32)(t / per_row);
        const u32 place = (u32)(t - (u64)row * per_row);
        const bool next = place >= quads;
        const u32 first = (next ? place - quads : place) * 4;
        const i64 slot = __ldg(batch.index + row);
        if (slot < 0) {
            store_components(next ? batch.next_states : batch.states, row, first, layout.state_dim, batch.out_dtype, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
            if (place == 0) {
                batch.actions[row] = 0;
                batch.rewards[row] = 0.0f;
                batch.dones[row] = 1.0f;
                batch.weights[row] = 0.0f;
                batch.step_counts[row] = 0;
            }
            continue;
        }
        u64 source = (u64)slot;
        if (next && batch.n_steps > 1) source = walk_window(records, layout, source, batch.n_steps, batch.gamma).last;
        const float4 value = load_components(records + source * layout.record_words + (next ? layout.state_words : 0u), first, layout.dtype);
        store_components(next ? batch.next_states : batch.states, row, first, layout.state_dim, batch.out_dtype, value);
        if (place == 0) {
            const Window window = walk_window(records, layout, (u64)slot, batch.n_steps, batch.gamma);
            batch.actions[row] = window.action;
            batch.rewards[row] = window.reward;
            batch.dones[row] = window.flags & TERMINATED ? 1.0f : 0.0f;
            batch.step_counts[row] = window.steps;
            batch.weights[row] = normalized_weight(__ldg(batch.drawn + row), __uint_as_float(state->min_drawn), state->beta);
        }
    }
}

// Draws a batch and gathers it in one pass, so that rows are on their way while others are still searched for. Contains per_sample,
// gather_states (both), gather_u32 and gather_f32 (action, reward, flags); is_weights follows, once the smallest priority is known.
//   levels, drawn_at, status, state   as per_sample; and state.total and its status, as per_total, where n_super <= SUPERS_AT_HAND
//   batch    as gather_batch: index and drawn are out here, weights are left alone
// Launch: one warp for DRAWS rows, block 128, any grid, shared 0 bytes.   Needs, bits: as per_sample and gather_batch.
// Eight blocks a multiprocessor (64 registers a thread): a batch of 16,384 is one wave on 132 of them.
extern "C" __global__ void __launch_bounds__(128, 8) sample_batch(const PerLevels levels, const GatherBatch batch, const u32* records, RecordLayout layout, PerState* state, u64* drawn_at, u32* status) {
    __shared__ u32 smallest[4];
    __shared__ double2 supers[SUPERS_AT_HAND / 2];  // inclusive ends; the total behind the last of them
    __shared__ double shared_total;
    previous_kernel_done();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u64 seed = state->seed, call = state->draws, written = state->written;
    const u32 stride = rows_at_a_time();
    u32 first = first_row();
    // Every block adds the super-groups up for itself: less than a block of the scan that all others wait for would take.
    const bool at_hand = levels.n_super <= SUPERS_AT_HAND;
    EightSums mine;
    if (warp == 0) mine = load_sums(levels.super_sum, 0, at_hand ? levels.n_super : 0, lane);
    // While they are under way.
    double unit = unit_of_row(seed, call, first, lane);
    if (warp == 0) {
        const double total = at_hand ? add_up(mine, 0.0, lane) : state->total;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            if (lane < 8) supers[4 * lane + i] = make_double2(mine.of[2 * i], mine.of[2 * i + 1]);
        }
        if (lane == 0) {
            shared_total = total;
            if (blockIdx.x == 0) {
                if (at_hand) note_total(state, total);
                note_draw(state, total, call, written, drawn_at, status);
            }
        }
    }
    __syncthreads();
    const double total = shared_total;
    const double2 ends = supers[lane];
    const double width = __ddiv_rn(total, (double)batch.n);
    const u32 quads = (layout.state_dim + 3) / 4, per_row = 2 * quads;
    u32 least = 0x7f800000u;
    for (; first < batch.n; first += stride, unit = unit_of_row(seed, call, first, lane)) {
        u32 slots[DRAWS];
        least = min(least, draw_rows(levels, total, ends, unit, width, first, batch.n, lane, batch.index, batch.drawn, slots));

        // The fields, one lane a row.
        u32 mine = NO_SLOT;
#pragma unroll
        for (u32 k = 0; k < DRAWS; ++k) {
            if (lane == (int)k) mine = slots[k];
        }
        if (lane < (int)DRAWS && first + lane < batch.n) {
            const u32 row = first + lane;
            Window window{0, 0.0f, TERMINATED, 0u, 0u};
            if (mine != NO_SLOT) window = walk_window(records, layout, mine, batch.n_steps, batch.gamma);
            batch.actions[row] = window.action;
            batch.rewards[row] = window.reward;
            batch.dones[row] = window.flags & TERMINATED ? 1.0f : 0.0f;
            batch.step_counts[row] = window.steps;
            mine = (u32)window.last;
        }
        // The slot of the last step of each window, which its lane has found.
        u32 lasts[DRAWS];
#pragma unroll
        for (u32 k = 0; k < DRAWS; ++k) lasts[k] = batch.n_steps > 1 ? __shfl_sync(FULL_WARP, mine, (int)k) : slots[k];

        // The states, all lanes, one quad of each row at a time.
        for (u32 place = lane; place < per_row; place += 32) {
            const bool next = place >= quads;
            const u32 component = (next ? place - quads : place) * 4;
            float4 values[DRAWS];
#pragma unroll
            for (u32 k = 0; k < DRAWS; ++k) {
                values[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (slots[k] == NO_SLOT) continue;
                const u64 source = next ? lasts[k] : slots[k];
                values[k] = load_components(records + source * layout.record_words + (next ? layout.state_words : 0u), component, layout.dtype);
            }
#pragma unroll
            for (u32 k = 0; k < DRAWS; ++k) {
                if (first + k < batch.n) store_components(next ? batch.next_states : batch.states, first + k, component, layout.state_dim, batch.out_dtype, values[k]);
            }
        }
    }
    note_least(state, least, smallest);
}

// ------------------------------------------------------------------------------------------------------------- updates

constexpr u32 BAD_TD_KEEP = 0;  // the slot keeps its priority; any other value: it gets the largest one so far

// Gives drawn slots their new priority, (|td| + eps)^alpha.
//   index     [n] i64 in     slots; -1 is passed over
//   td_error  [n] f32 in     NaN and infinite ones are counted and treated as `bad_td` says, negative ones too unless signed_td
//   drawn_at  [1] u64 in     from per_sample: slots overwritten since then are passed over and counted
//   priority  [..] f32 in/out  marked; a repeated index gets the largest of its new priorities
//   touched   [n] i32 out    the slot's tile; -1 where it keeps its priority
//   state     in/out: max_priority rises, n_touched = n, bad_td_errors and stale_rows count
// Launch: one thread a row, block 128, grid ceil(n / 128), shared 0 bytes.
// Needs: no marks left over from an earlier update (a scan, or per_touched_tiles, in between).
// Bits: order-free; the largest of several values is the same whoever comes first.
extern "C" __global__ void __launch_bounds__(128) per_update_pa(const i64* index, const float* td_error, u32 n, const u64* drawn_at, u64 capacity, float alpha, float eps, u32 bad_td, u32 signed_td,
                                                                float* priority, int* touched, PerState* state) {
    previous_kernel_done();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 since = *drawn_at, written = state->written;
    const u32 max_before = state->max_priority;
    u32 bits = 0;
    bool bad = false, stale = false;
    if (i < n) {
        int tile = -1;
        // Both loads under way together.
        const i64 slot = index[i];
        const float td = td_error[i];
        if (slot >= 0) {
            stale = since != written && is_stale((u64)slot, since, written, capacity);
            const float magnitude = fabsf(td);
            float p = powf(magnitude + eps, alpha);
            // Compared so that NaN is bad; the power of a finite number may still overflow.
            bad = !stale && (!(magnitude <= 3.4028234663852886e38f) || !(p <= 3.4028234663852886e38f) || (!signed_td && td < 0.0f));
            if (bad) p = __uint_as_float(max_before);
            if (!stale && !(bad && bad_td == BAD_TD_KEEP)) {
                bits = __float_as_uint(p);
                // The old value is not asked for, as that would be one more trip to the memory: tiles of repeated indices are listed
                // more than once.
                atomicMax(reinterpret_cast<u32*>(priority) + slot, bits | MARK);
                tile = (int)((u64)slot / TILE);
            }
        }
        touched[i] = tile;
    }
    const u32 largest = warp_max(bits);
    const u32 n_bad = (u32)__popc(__ballot_sync(FULL_WARP, bad)), n_stale = (u32)__popc(__ballot_sync(FULL_WARP, stale));
    if ((threadIdx.x & 31) == 0) {
        // The maximum read above may be old, never too large: at worst one atomic more than needed.
        if (largest > max_before) atomicMax(&state->max_priority, largest);
        if (n_bad) atomicAdd(&state->bad_td_errors, (u64)n_bad);
        if (n_stale) atomicAdd(&state->stale_rows, (u64)n_stale);
    }
    if (i == 0) state->n_touched = n;
}

// ------------------------------------------------------------------------------------------------------------- inserts

// New rows as they arrive, one array a field; `NewRows` in launch/per.rs is its twin.
struct NewRows {
    const float* states;       // [count, state_dim]
    const float* next_states;  // [count, state_dim]
    const u32* actions;        // [count]
    const float* rewards;      // [count]
    const unsigned char* terminated;  // [count]
    const unsigned char* truncated;   // [count]
    const u32* env_ids;        // [count]
    u64 first;                 // rows stored before the first of these: it goes to slot first mod capacity
    u32 count;                 // <= capacity
    u32 reserved;
};
static_assert(sizeof(NewRows) == 72, "launch/per.rs has the same layout");

// Copies new rows into their slots, without links.
//   records  [capacity * record_words] u32 out   at the slots of the new rows
// Launch: one thread a component, block 256, any grid, shared 0 bytes.
extern "C" __global__ void __launch_bounds__(256) store_rows(const NewRows rows, u32* records, RecordLayout layout) {
    const u32 per_row = 2 * layout.state_dim;
    const u64 work = (u64)rows.count * per_row;
    const u64 start = rows.first % layout.capacity;
    for (u64 t = blockIdx.x * (u64)blockDim.x + threadIdx.x; t < work; t += (u64)gridDim.x * blockDim.x) {
        const u32 row = (u32)(t / per_row), place = (u32)(t % per_row);
        const bool next = place >= layout.state_dim;
        const u32 component = next ? place - layout.state_dim : place;
        u32* record = records + ring_add(start, row, layout.capacity) * layout.record_words;
        const float value = (next ? rows.next_states : rows.states)[(u64)row * layout.state_dim + component];
        u32* state = record + (next ? layout.state_words : 0u);
        if (layout.dtype == STATES_F32) state[component] = __float_as_uint(value);
        else reinterpret_cast<u16*>(state)[component] = bf16_from_f32(value);
        if (place == 0) {
            const u32 flags = (rows.terminated[row] ? TERMINATED : 0u) | (rows.truncated[row] ? TRUNCATED : 0u);
            *reinterpret_cast<uint4*>(record + 2ull * layout.state_words) = make_uint4(rows.actions[row], __float_as_uint(rows.rewards[row]), flags, 0u);
        }
    }
}

// Where an environment stands; `EnvCursor` in launch/per.rs is its twin.
struct EnvCursor {
    u64 last;     // rows stored before its newest row
    u32 open;     // 1 where that row has not ended its episode
    u32 step;     // of the newest row within its episode
    u32 episode;  // first row of the episode, mod 2^32: its number
    u32 reserved;
};
static_assert(sizeof(EnvCursor) == 24, "launch/per.rs has the same layout");

// Links each new row to the row before it in the same environment, so that n-step windows and hindsight can follow an episode.
//   cursors  [n_envs] in/out       rows of one environment are consecutive in time
//   records  [..] out              RowMeta::ahead of the row before
//   places   [capacity] out        episode and step of each new row; null where nobody asks
//   ends     [capacity] out        at the slot of an episode's first row: (episode << 32) | its newest step; null likewise
//   state    out: bad_env_ids counts rows with env_id >= n_envs; they are stored without links
// Launch: one thread an environment, block 256, grid ceil(n_envs / 256), shared 0 bytes.   Needs: store_rows before.
// A thread walks all new rows, so the cost is count * (n_envs / threads that run at a time).
extern "C" __global__ void __launch_bounds__(256) link_steps(const NewRows rows, u32* records, RecordLayout layout, EnvCursor* cursors, u32 n_envs, EpisodePlace* places, u64* ends, PerState* state) {
    __shared__ u32 ids[256];
    __shared__ unsigned char ended[256];
    const u32 env = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 capacity = layout.capacity;
    // Rows older than this are overwritten once the new ones are in.
    const u64 written = rows.first + rows.count;
    const u64 oldest = written > capacity ? written - capacity : 0;
    EnvCursor cursor{0, 0, 0, 0, 0};
    if (env < n_envs) cursor = cursors[env];
    for (u32 base = 0; base < rows.count; base += 256) {
        const u32 mine = base + threadIdx.x;
        if (mine < rows.count) {
            ids[threadIdx.x] = rows.env_ids[mine];
            ended[threadIdx.x] = rows.terminated[mine] || rows.truncated[mine];
            if (blockIdx.x == 0 && ids[threadIdx.x] >= n_envs) {
                atomicAdd(&state->bad_env_ids, 1ull);
                if (places) places[(rows.first + mine) % capacity] = EpisodePlace{NO_EPISODE, 0};
            }
        }
        __syncthreads();
        const u32 here = min(256u, rows.count - base);
        if (env < n_envs) {
            for (u32 k = 0; k < here; ++k) {
                if (ids[k] != env) continue;
                const u64 number = rows.first + base + k;
                if (cursor.open && cursor.last >= oldest) {
                    u32* before = records + (cursor.last % capacity) * layout.record_words + 2ull * layout.state_words;
                    reinterpret_cast<RowMeta*>(before)->ahead = (u32)(number - cursor.last);
                }
                if (cursor.open) {
                    cursor.step += 1;
                } else {
                    cursor.step = 0;
                    cursor.episode = (u32)number;
                }
                cursor.last = number;
                cursor.open = ended[k] ? 0u : 1u;
                if (places) {
                    places[number % capacity] = EpisodePlace{cursor.episode, cursor.step};
                    // The first row's own number, for its slot: the newest row's minus the steps' total distance is not known,
                    // so the upper bits come from the newest row's number.
                    u64 first = (number & ~0xffffffffull) | cursor.episode;
                    if (first > number) first -= 1ull << 32;
                    ends[first % capacity] = (u64)cursor.episode << 32 | cursor.step;
                }
            }
        }
        __syncthreads();
    }
    if (env < n_envs) cursors[env] = cursor;
}

// Gives new rows the largest priority so far and brings the sums of their tiles up to date.
//   first, count  the rows stored: slots first mod capacity onwards, around the ring; 0 < count <= capacity
//   priority      [n_tiles * 128] f32 in/out
//   tile_sum      [padded tiles]  f64 out   at the tiles of the new rows
//   size          filled slots once these rows are in
//   state         out: size and written; in: max_priority
// Launch: one block of 128 threads a tile: grid = tiles from the first slot to the ring's end or the last row, plus tiles from
// slot 0 to the last row where it wraps; shared 0 bytes. A tile that both parts share is written twice, with the same bits.
extern "C" __global__ void __launch_bounds__(128) per_insert(u64 first, u64 count, u64 capacity, u64 size, float* priority, double* tile_sum, PerState* state) {
    const u64 start = first % capacity;
    const u64 until = min(start + count, capacity);
    const u64 first_tile = start / TILE, n_straight = (until - 1) / TILE - first_tile + 1;
    const u64 tile = blockIdx.x < n_straight ? first_tile + blockIdx.x : blockIdx.x - n_straight;
    const u64 slot = tile * TILE + threadIdx.x;
    const float newest = __uint_as_float(state->max_priority);
    if (slot < capacity && (slot >= start ? slot - start : slot + capacity - start) < count) priority[slot] = newest;
    __syncthreads();
    if (threadIdx.x < 32) {
        const float4 p = reinterpret_cast<const float4*>(priority + tile * TILE)[threadIdx.x];
        // Marks of an update in flight stay: their tiles are on its list.
        const double sum = warp_sum(((double)fabsf(p.x) + (double)fabsf(p.y)) + ((double)fabsf(p.z) + (double)fabsf(p.w)));
        if (threadIdx.x == 0) tile_sum[tile] = sum;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        state->written = first + count;
        state->size = size;
    }
}

// Sets what the host may change between steps, without a host copy: one thread.
extern "C" __global__ void per_set_beta(PerState* state, float beta) { state->beta = beta; }

// Forgets all rows: the next one is number `written`, a multiple of the capacity and so large that every earlier draw is stale.
// Priorities, sums and cursors are set to zero beside it. Launch: one thread.
extern "C" __global__ void per_reset(PerState* state, u64 written) {
    state->total = 0.0;
    state->size = 0;
    state->written = written;
    state->max_priority = 0x3f800000u;  // 1.0f, as in a new buffer
    state->min_drawn = 0x7f800000u;
    state->n_touched = 0;
    state->status = 0;
}

// Hands the status to the host and clears it, so that a fault is told once. Launch: one thread.
extern "C" __global__ void per_take_status(PerState* state, PerState* copy) {
    *copy = *state;
    state->status = 0;
}
