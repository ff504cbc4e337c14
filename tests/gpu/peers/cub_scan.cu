// CUB's inclusive sum over all priorities: what a scan that keeps nothing must do. Ours reads the touched tiles.
//
// Checked first: the last sum against f64. How often the f32 sums go down is told with it: such a slot is never drawn.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <vector>

namespace {

void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

// Priorities in (0.001, 1.001].
__global__ void fill(float* out, size_t count) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned bits = (unsigned)i * 0x9E3779B9u;
        bits = (bits ^ bits >> 16) * 0x85EBCA6Bu;
        out[i] = (float)((bits ^ bits >> 13) >> 8) / 16777216.0f + 1e-3f;
    }
}

float elapsed_us(cudaEvent_t start, cudaEvent_t end) {
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, start, end), "the time between two events");
    return ms * 1e3f;
}

// Sorted times of `work`, a pair of events each, all enqueued behind some 10 ms of other work.
template <class Work>
std::vector<float> pairs(int count, void* block, size_t block_bytes, Work work) {
    std::vector<cudaEvent_t> starts(count), ends(count);
    for (int i = 0; i < count; ++i) {
        check(cudaEventCreate(&starts[i]), "an event");
        check(cudaEventCreate(&ends[i]), "an event");
    }
    for (int i = 0; i < 40; ++i) check(cudaMemsetAsync(block, 0, block_bytes), "a memset");
    for (int i = 0; i < count; ++i) {
        check(cudaEventRecord(starts[i]), "a record");
        work(i);
        check(cudaEventRecord(ends[i]), "a record");
    }
    check(cudaDeviceSynchronize(), "the timed work");
    std::vector<float> times(count);
    for (int i = 0; i < count; ++i) {
        times[i] = elapsed_us(starts[i], ends[i]);
        cudaEventDestroy(starts[i]);
        cudaEventDestroy(ends[i]);
    }
    std::sort(times.begin(), times.end());
    return times;
}

void measure(size_t slots, const char* name, void* block, size_t block_bytes) {
    // In turn, so that the L2 cache does not hold what is read next.
    const int sets = slots < 5000000 ? 12 : 3;
    std::vector<float*> in(sets), out(sets);
    for (int i = 0; i < sets; ++i) {
        check(cudaMalloc(&in[i], slots * 4), "priorities");
        check(cudaMalloc(&out[i], slots * 4), "sums");
        fill<<<1024, 256>>>(in[i], slots);
    }
    void* scratch = nullptr;
    size_t bytes = 0;
    check(cub::DeviceScan::InclusiveSum(scratch, bytes, in[0], out[0], slots), "the size of the scratch");
    check(cudaMalloc(&scratch, bytes), "the scratch");
    auto scan = [&](int i) {
        check(cub::DeviceScan::InclusiveSum(scratch, bytes, in[i % sets], out[i % sets], slots), "the scan");
    };

    scan(0);
    std::vector<float> priorities(slots), sums(slots);
    check(cudaMemcpy(priorities.data(), in[0], slots * 4, cudaMemcpyDeviceToHost), "priorities");
    check(cudaMemcpy(sums.data(), out[0], slots * 4, cudaMemcpyDeviceToHost), "sums");
    double exact = 0.0;
    size_t down = 0;
    for (size_t i = 0; i < slots; ++i) {
        exact += priorities[i];
        down += i > 0 && sums[i] < sums[i - 1];
    }
    if (!(std::fabs(sums[slots - 1] - exact) < 1e-2 * exact)) {
        std::fprintf(stderr, "error: the sum of %zu priorities is %g and not %g\n", slots, sums[slots - 1], exact);
        std::exit(1);
    }
    std::printf("figure: scan_goes_down %s by CUB = %zu steps | of f32 sums\n", name, down);

    const float cost = pairs(200, block, block_bytes, [](int) {})[100];
    const std::vector<float> times = pairs(100, block, block_bytes, scan);
    const char* detail = "f32 inclusive sum of all priorities, pair minus empty pair";
    std::printf("figure: per_scan %s by CUB = %.2f us | %s\n", name, times[50] - cost, detail);
    std::printf("figure: per_scan %s p99 by CUB = %.2f us | %s\n", name, times[99] - cost, detail);
    for (int i = 0; i < sets; ++i) {
        cudaFree(in[i]);
        cudaFree(out[i]);
    }
    cudaFree(scratch);
}

}  // namespace

int main() {
    void* block = nullptr;
    const size_t block_bytes = (size_t)1 << 30;
    check(cudaMalloc(&block, block_bytes), "a GiB");
    measure(1000000, "1M", block, block_bytes);
    measure(24700000, "24.7M", block, block_bytes);
    measure(100000000, "100M", block, block_bytes);
    return 0;
}
