// One block of CUDA threads: who runs, who waits for what, and the block's barrier.
#pragma once
#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "fibers.hpp"
#include "types.hpp"

namespace cuda_on_cpu {

// The order in which the threads of a block, and the blocks of a grid, get their turn. The GPU promises none: a kernel
// whose bits change with it misses a barrier, or uses atomics whose order matters.
enum class Order { forward, reverse, shuffled };

struct Options {
    Order order = Order::forward;
    uint64_t seed = 1;               // of `Order::shuffled`
    unsigned timeout_seconds = 600;  // of one launch; a loop that waits for another block would never end
};

// Where in the kernel's source a thread stands.
struct Site {
    const char* file;
    int line;
    bool operator==(const Site& o) const { return line == o.line && strcmp(file, o.file) == 0; }
};

// A set of lanes that do one warp operation together under one mask.
struct Meeting {
    unsigned mask = 0;
    unsigned arrived = 0;  // lanes
    unsigned reading = 0;  // lanes that met and have not read their result yet
    unsigned phase = 0;
    const char* operation = nullptr;
    // Two sets: a lane may deposit its next value while others have yet to read this one.
    uint64_t slot[2][32] = {};
    unsigned present[2] = {0, 0};
};

struct Warp {
    unsigned alive = 0;    // lanes that have not returned
    Meeting meetings[32];  // each in use holds at least one lane, so 32 always do
};

struct Thread {
    enum State { unstarted, running, waiting, done } state = unstarted;
    Fiber* fiber = nullptr;
    uint3 index{0, 0, 0};
    // A waiting thread goes on once `*gate` differs from `seen`.
    const unsigned* gate = nullptr;
    unsigned seen = 0;
    const char* waits_in = "";
    Site site{"", 0};
};

struct Block {
    std::function<void()> body;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<unsigned> order;  // of lanes and warps alike: a permutation of 0..32
    unsigned current = 0;         // index into `threads`
    unsigned position = 0;        // of the scheduler within `order`
    unsigned warp = 0;            // the one whose lanes get turns
    // The barrier.
    unsigned alive = 0;
    unsigned arrived = 0;
    unsigned phase = 0;
    Site barrier_site{"", 0};
    int votes[2] = {0, 0};
};

// What outlives a block: stacks are reused, as making them costs more than most blocks.
struct Machine {
    Options options;
    const char* kernel = "a kernel";
    Block* block = nullptr;
    Fiber scheduler;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;
    void* shared = nullptr;
};
inline Machine& machine() {
    static Machine m;
    return m;
}
inline Options& options() { return machine().options; }
inline void* dynamic_shared() { return machine().shared; }

// Ends the program: what follows a broken barrier would be noise. Exit code 70, message on standard error.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
    fflush(stdout);
    fprintf(stderr, "cuda_on_cpu: `%s`, block (%u, %u, %u): ", machine().kernel, blockIdx.x, blockIdx.y, blockIdx.z);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(70);
}

inline Thread& current_thread() { return machine().block->threads[machine().block->current]; }

// Gives the turn away until `*gate` changes.
inline void wait_for_change(const unsigned* gate, const char* what, Site site) {
    Thread& t = current_thread();
    t.state = Thread::waiting;
    t.gate = gate;
    t.seen = *gate;
    t.waits_in = what;
    t.site = site;
    switch_fiber(*t.fiber, machine().scheduler);
}

inline void open_barrier(Block& b) {
    b.arrived = 0;
    b.votes[(b.phase + 1) & 1] = 0;
    b.phase++;
}

// Returns how many threads voted yes.
inline int meet_block(const char* what, bool vote, Site site) {
    Block& b = *machine().block;
    if (b.arrived == 0) {
        b.barrier_site = site;
    } else if (!(b.barrier_site == site)) {
        fail(
            "thread %u waits at the barrier of %s:%d, others at that of %s:%d; every thread of a block must reach the "
            "same one",
            b.current, site.file, site.line, b.barrier_site.file, b.barrier_site.line);
    }
    const unsigned parity = b.phase & 1;
    b.votes[parity] += vote;
    if (++b.arrived == b.alive) {
        open_barrier(b);
    } else {
        wait_for_change(&b.phase, what, site);
    }
    return b.votes[parity];
}

inline void open_meeting(Meeting& m) {
    m.present[m.phase & 1] = m.arrived;
    m.reading |= m.arrived;
    m.arrived = 0;
    m.phase++;
}

// A thread that returned takes no part in later barriers and warp operations, as on sm_70 and newer.
inline void thread_done(Block& b) {
    b.threads[b.current].state = Thread::done;
    b.alive--;
    if (b.alive && b.arrived == b.alive) open_barrier(b);
    Warp& w = b.warps[b.current / 32];
    w.alive &= ~(1u << b.current % 32);
    for (Meeting& m : w.meetings) {
        if (m.arrived && m.arrived == (m.mask & w.alive)) open_meeting(m);
    }
}

// The lane at the scheduler's position; threads.size() where the last warp has no such lane.
inline unsigned thread_at(const Block& b, unsigned position) {
    return std::min<size_t>(b.warp * 32 + b.order[position], b.threads.size());
}

inline void become(Block& b, unsigned thread) {
    b.current = thread;
    threadIdx = b.threads[thread].index;
}

// Runs threads, one after another as long as they end without waiting: a kernel without barriers never switches.
inline void fiber_main() {
    Machine& m = machine();
    fiber_started(m.scheduler);
    for (;;) {
        Block& b = *m.block;
        Fiber* self = b.threads[b.current].fiber;
        b.threads[b.current].state = Thread::running;
        b.body();
        thread_done(b);
        unsigned next = b.position + 1 < 32 ? thread_at(b, b.position + 1) : unsigned(b.threads.size());
        if (next < b.threads.size() && b.threads[next].state == Thread::unstarted) {
            b.position++;
            b.threads[next].fiber = self;
            become(b, next);
            continue;
        }
        m.idle.push_back(self);
        switch_fiber(*self, m.scheduler);
    }
}

// Gives `thread` a turn if it can use one.
inline bool run_thread(Block& b, unsigned thread) {
    Machine& m = machine();
    Thread& t = b.threads[thread];
    if (t.state == Thread::done || (t.state == Thread::waiting && *t.gate == t.seen)) return false;
    if (t.state == Thread::unstarted) {
        if (m.idle.empty()) {
            m.fibers.push_back(std::make_unique<Fiber>(fiber_main));
            m.idle.push_back(m.fibers.back().get());
        }
        t.fiber = m.idle.back();
        m.idle.pop_back();
    }
    become(b, thread);
    t.state = Thread::running;
    switch_fiber(m.scheduler, *t.fiber);
    return true;
}

// Says how many threads wait where; a deadlock has two or three such places.
[[noreturn]] inline void report_deadlock(const Block& b) {
    std::vector<std::pair<const Thread*, unsigned>> places;
    for (const Thread& t : b.threads) {
        if (t.state != Thread::waiting) continue;
        auto same = [&](const auto& place) {
            return place.first->site == t.site && place.first->waits_in == t.waits_in;
        };
        auto known = std::find_if(places.begin(), places.end(), same);
        if (known == places.end())
            places.emplace_back(&t, 1);
        else
            known->second++;
    }
    std::string text = "deadlock: threads wait for others that never come";
    for (const auto& [thread, count] : places) {
        const uint3 i = thread->index;
        text += "\n  " + std::to_string(count) + " in " + thread->waits_in + " at " + thread->site.file + ":" +
                std::to_string(thread->site.line) + ", the first is thread (" + std::to_string(i.x) + ", " +
                std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
    }
    fail("%s", text.c_str());
}

// Warp by warp: a warp goes on until each of its lanes has ended or waits for another warp.
inline void run_block(Block& b) {
    const unsigned n_warps = b.warps.size();
    while (b.alive) {
        bool progress = false;
        for (unsigned i = 0; i < 32; i++) {
            for (b.warp = b.order[i]; b.warp < n_warps; b.warp += 32) {
                bool again = true;
                while (again) {
                    again = false;
                    for (b.position = 0; b.position < 32; b.position++) {
                        const unsigned thread = thread_at(b, b.position);
                        if (thread < b.threads.size()) again |= run_thread(b, thread);
                    }
                    progress |= again;
                }
            }
        }
        if (!progress) report_deadlock(b);
    }
}

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
inline void __syncthreads(CUDA_ON_CPU_SITE) { cuda_on_cpu::meet_block("__syncthreads", false, {file, line}); }
inline int __syncthreads_count(int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_block("__syncthreads_count", predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_block("__syncthreads_or", predicate != 0, {file, line}) != 0;
}
inline int __syncthreads_and(int predicate, CUDA_ON_CPU_SITE) {
    return cuda_on_cpu::meet_block("__syncthreads_and", predicate == 0, {file, line}) == 0;
}
// Fibers see each other's writes at once.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
