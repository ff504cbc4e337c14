// Launching a kernel: every block of the grid, one after another.
#pragma once
#include <signal.h>
#include <unistd.h>

#include <tuple>

#include "block.hpp"

namespace cuda_on_cpu {

// SplitMix64 (Steele, Lea, Flood 2014): enough to shuffle with.
inline uint64_t next_random(uint64_t& state) {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

inline void arrange(std::vector<unsigned>& order, uint64_t& random) {
    std::iota(order.begin(), order.end(), 0u);
    if (options().order == Order::reverse) std::reverse(order.begin(), order.end());
    if (options().order == Order::shuffled) {
        for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[next_random(random) % i]);
    }
}

// CUDA_ON_CPU_ORDER=forward | reverse | shuffled:SEED sets the order without a rebuild.
inline void read_environment() {
    static bool done = false;
    if (done) return;
    done = true;
    const char* order = getenv("CUDA_ON_CPU_ORDER");
    if (!order) return;
    if (strcmp(order, "forward") == 0)
        options().order = Order::forward;
    else if (strcmp(order, "reverse") == 0)
        options().order = Order::reverse;
    else if (strncmp(order, "shuffled", 8) == 0) {
        options().order = Order::shuffled;
        if (order[8] == ':') options().seed = strtoull(order + 9, nullptr, 10);
    } else
        fail("CUDA_ON_CPU_ORDER is `%s`; it must be forward, reverse or shuffled:SEED", order);
}

// CUDA_ON_CPU_LOG=FILE collects the names of the kernels that ran, one a line, so that CI can say which never do.
inline void log_kernel(const char* name) {
    const char* path = getenv("CUDA_ON_CPU_LOG");
    if (!path) return;
    FILE* f = fopen(path, "a");
    if (!f) fail("cannot append to `%s`, which CUDA_ON_CPU_LOG names", path);
    fprintf(f, "%s\n", name);
    fclose(f);
}

// Printing is not for signal handlers, but nothing goes on after this one, and an endless loop holds no lock.
inline void timed_out(int) {
    fail("still running after %u s; it may wait for another block, and blocks run one after another here",
         options().timeout_seconds);
}

// Runs `kernel` over `grid` blocks of `threads` threads with `shared_bytes` of dynamic shared memory, which is filled
// with 0xA5 before every block. Arguments convert to the kernel's parameters and are copied, as by a real launch.
template <class... Parameters, class... Arguments>
void launch_named(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared_bytes,
                  Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "a kernel is launched with as many arguments as it has parameters");
    Machine& m = machine();
    m.kernel = name;
    read_environment();
    const size_t n_threads = size_t(threads.x) * threads.y * threads.z;
    const size_t n_blocks = size_t(grid.x) * grid.y * grid.z;
    // The limits of every GPU since sm_80; more is CUDA_ERROR_INVALID_VALUE there.
    if (n_threads == 0 || n_threads > 1024 || threads.z > 64)
        fail("launched with %ux%ux%u threads a block; 1 to 1024 are possible, 64 in z", threads.x, threads.y,
             threads.z);
    if (n_blocks == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        fail("launched with a grid of %ux%ux%u blocks; at least 1, and at most 65535 in y and z, are possible", grid.x,
             grid.y, grid.z);
    if (shared_bytes > 227 * 1024)
        fail("launched with %zu bytes of dynamic shared memory; no GPU has more than 227 KiB a block", shared_bytes);
    log_kernel(name);

    std::tuple<std::decay_t<Parameters>...> parameters(static_cast<Parameters>(arguments)...);
    Block b;
    b.body = [&] { std::apply(kernel, parameters); };
    b.order.resize(32);
    gridDim = grid;
    blockDim = threads;
    // Exact size, 16-byte aligned, so that AddressSanitizer sees the first byte behind it.
    void* shared = nullptr;
    if (shared_bytes && posix_memalign(&shared, 128, shared_bytes) != 0)
        fail("no memory for %zu bytes of shared memory", shared_bytes);
    m.shared = shared;
    uint64_t random = m.options.seed;
    auto old_handler = signal(SIGALRM, timed_out);
    alarm(m.options.timeout_seconds);

    // Few grids are so large that the list of blocks matters; those run forward.
    std::vector<unsigned> block_order(n_blocks <= (1u << 24) ? n_blocks : 0);
    arrange(block_order, random);
    for (size_t i = 0; i < n_blocks; i++) {
        const size_t block = block_order.empty() ? i : block_order[i];
        blockIdx = {unsigned(block % grid.x), unsigned(block / grid.x % grid.y), unsigned(block / grid.x / grid.y)};
        if (shared_bytes) memset(shared, 0xA5, shared_bytes);
        arrange(b.order, random);
        b.threads.assign(n_threads, Thread{});
        b.warps.resize((n_threads + 31) / 32);  // their meetings are idle again after a block
        for (Warp& w : b.warps) w.alive = 0;
        for (size_t t = 0; t < n_threads; t++) {
            b.threads[t].index = {unsigned(t % threads.x), unsigned(t / threads.x % threads.y),
                                  unsigned(t / threads.x / threads.y)};
            b.warps[t / 32].alive |= 1u << t % 32;
        }
        b.alive = unsigned(n_threads);
        b.arrived = b.phase = 0;
        b.votes[0] = b.votes[1] = 0;
        m.block = &b;
        run_block(b);
        m.block = nullptr;
    }
    alarm(0);
    signal(SIGALRM, old_handler);
    free(shared);
    m.shared = nullptr;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared_bytes, Arguments&&... arguments) {
    launch_named("(unnamed)", kernel, grid, threads, shared_bytes, std::forward<Arguments>(arguments)...);
}

}  // namespace cuda_on_cpu

// Launches a kernel by name; prefer it to `cuda_on_cpu::launch`, as messages and CUDA_ON_CPU_LOG then name the kernel.
// A template with several arguments is wrapped in parentheses: LAUNCH((gather<float, 4>), grid, ...).
#define LAUNCH(kernel, ...) ::cuda_on_cpu::launch_named(#kernel, kernel, __VA_ARGS__)
