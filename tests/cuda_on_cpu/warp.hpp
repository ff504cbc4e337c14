// Warp operations: shuffles, votes, matches and reductions. All lanes of the mask that are still alive deposit a value,
// meet, and read.
#pragma once
#include "block.hpp"

namespace cuda_on_cpu {

// What a lane sees after the meeting.
struct Deposits {
    const uint64_t* slot;
    unsigned present;
    unsigned lane;
    // Of a lane that took no part the GPU's answer is undefined; here it is a pattern that spoils what uses it.
    template <class T>
    T of(unsigned from) const {
        uint64_t bits = present >> from & 1 ? slot[from] : 0xA5A5A5A5A5A5A5A5ull;
        T value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
};

inline Meeting& find_meeting(Warp& w, unsigned mask) {
    Meeting* free = nullptr;
    for (Meeting& m : w.meetings) {
        if (m.mask == mask && (m.arrived || m.reading)) return m;
        if (!free && !m.arrived && !m.reading) free = &m;
    }
    free->mask = mask;
    return *free;
}

template <class T, class Read>
auto meet_warp(const char* operation, unsigned mask, T value, Site site, Read read) {
    static_assert(sizeof(T) <= 8, "a warp operation exchanges at most 8 bytes a lane");
    Block& b = *machine().block;
    Warp& w = b.warps[b.current / 32];
    const unsigned lane = b.current % 32;
    if (!(mask >> lane & 1))
        fail("thread %u calls %s at %s:%d with mask %08x, which lacks its own lane %u", b.current, operation, site.file,
             site.line, mask, lane);
    Meeting& m = find_meeting(w, mask);
    if (m.arrived && strcmp(m.operation, operation) != 0) {
        fail("lane %u is in %s at %s:%d, while lanes %08x of the same mask are in %s", lane, operation, site.file,
             site.line, m.arrived, m.operation);
    }
    m.operation = operation;
    const unsigned parity = m.phase & 1;
    memcpy(&m.slot[parity][lane], &value, sizeof value);
    m.arrived |= 1u << lane;
    if (m.arrived == (mask & w.alive)) {
        open_meeting(m);
    } else {
        wait_for_change(&m.phase, operation, site);
    }
    auto result = read(Deposits{m.slot[parity], m.present[parity], lane});
    m.reading &= ~(1u << lane);
    return result;
}

// `width` splits the warp into segments, each with lanes of its own.
inline unsigned segment_start(unsigned lane, int width) { return lane & ~unsigned(width - 1); }

template <class T, class Combine>
T reduce_warp(const char* operation, unsigned mask, T value, Site site, Combine combine) {
    return meet_warp(operation, mask, value, site, [&](Deposits d) {
        T result = value;
        bool first = true;
        for (unsigned i = 0; i < 32; i++) {
            if (!(d.present >> i & 1)) continue;
            result = first ? d.of<T>(i) : combine(result, d.of<T>(i));
            first = false;
        }
        return result;
    });
}

}  // namespace cuda_on_cpu

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__shfl_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        return d.of<T>(cuda_on_cpu::segment_start(d.lane, width) + (unsigned(from) & unsigned(width - 1)));
    });
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__shfl_up_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        return d.lane - cuda_on_cpu::segment_start(d.lane, width) >= delta ? d.of<T>(d.lane - delta) : value;
    });
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__shfl_down_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        return d.lane - cuda_on_cpu::segment_start(d.lane, width) + delta < unsigned(width) ? d.of<T>(d.lane + delta)
                                                                                            : value;
    });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__shfl_xor_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        const unsigned from = d.lane ^ unsigned(lanes);
        // A lane of an earlier segment may be read, one of a later may not.
        return from < cuda_on_cpu::segment_start(d.lane, width) + unsigned(width) ? d.of<T>(from & 31) : value;
    });
}

inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__ballot_sync", mask, int(predicate != 0), {file, line},
                                  [](cuda_on_cpu::Deposits d) {
                                      unsigned votes = 0;
                                      for (unsigned i = 0; i < 32; i++) {
                                          if ((d.present >> i & 1) && d.of<int>(i)) votes |= 1u << i;
                                      }
                                      return votes;
                                  });
}
inline int __any_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::reduce_warp("__any_sync", mask, int(predicate != 0), {file, line},
                                    [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::reduce_warp("__all_sync", mask, int(predicate != 0), {file, line},
                                    [](int a, int b) { return a & b; });
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__match_any_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        unsigned equal = 0;
        for (unsigned i = 0; i < 32; i++) {
            if ((d.present >> i & 1) && d.of<T>(i) == value) equal |= 1u << i;
        }
        return equal;
    });
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_warp("__match_all_sync", mask, value, {file, line}, [&](cuda_on_cpu::Deposits d) {
        *all = 1;
        for (unsigned i = 0; i < 32; i++) {
            if ((d.present >> i & 1) && !(d.of<T>(i) == value)) *all = 0;
        }
        return *all ? d.present : 0u;
    });
}
inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_ON_CPU_SITE) {
    cuda_on_cpu::meet_warp("__syncwarp", mask, 0, {file, line}, [](cuda_on_cpu::Deposits) { return 0; });
}
// The lanes that have not returned: at a point where the kernel diverged, the GPU may answer with fewer.
inline unsigned __activemask() {
    return cuda_on_cpu::machine().block->warps[cuda_on_cpu::machine().block->current / 32].alive;
}

#define CUDA_ON_CPU_REDUCE(T)                                                                   \
    inline T __reduce_add_sync(unsigned mask, T v, CUDA_ON_CPU_SITE) {                          \
        return cuda_on_cpu::reduce_warp("__reduce_add_sync", mask, v, {file, line},             \
                                        [](T a, T b) { return T(unsigned(a) + unsigned(b)); }); \
    }                                                                                           \
    inline T __reduce_min_sync(unsigned mask, T v, CUDA_ON_CPU_SITE) {                          \
        return cuda_on_cpu::reduce_warp("__reduce_min_sync", mask, v, {file, line},             \
                                        [](T a, T b) { return a < b ? a : b; });                \
    }                                                                                           \
    inline T __reduce_max_sync(unsigned mask, T v, CUDA_ON_CPU_SITE) {                          \
        return cuda_on_cpu::reduce_warp("__reduce_max_sync", mask, v, {file, line},             \
                                        [](T a, T b) { return a < b ? b : a; });                \
    }
CUDA_ON_CPU_REDUCE(unsigned)
CUDA_ON_CPU_REDUCE(int)
#undef CUDA_ON_CPU_REDUCE
inline unsigned __reduce_and_sync(unsigned mask, unsigned v, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::reduce_warp("__reduce_and_sync", mask, v, {file, line},
                                    [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned v, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::reduce_warp("__reduce_or_sync", mask, v, {file, line},
                                    [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned v, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::reduce_warp("__reduce_xor_sync", mask, v, {file, line},
                                    [](unsigned a, unsigned b) { return a ^ b; });
}
