// Programs that must be stopped: `selftest_faults NAME` runs a faulty kernel and is expected to end with an error that
// names the fault. One that ends with 0 means that the shim or a sanitizer missed it.
#include "cuda_on_cpu.hpp"

#include <cstdio>
#include <string>
#include <vector>

__global__ void barrier_for_some() {
    if (threadIdx.x < 10)
        __syncthreads();
    else
        __syncwarp();
    __syncthreads();
}
__global__ void warp_operation_for_some(unsigned* out) {
    if (threadIdx.x != 5) out[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
    __syncthreads();
}
__global__ void mask_without_caller(unsigned* out) { out[threadIdx.x] = __ballot_sync(0x1u, 1); }
__global__ void masks_that_never_meet(unsigned* out) {
    out[threadIdx.x] = __ballot_sync(threadIdx.x < 16 ? 0x0001ffffu : 0xffffffffu, 1);
}
__global__ void different_operations(int* out) {
    if (threadIdx.x % 2)
        out[threadIdx.x] = __any_sync(0xffffffffu, 1);
    else
        out[threadIdx.x] = __all_sync(0xffffffffu, 1);
}
__global__ void write_behind_the_end(float* out, int n) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i <= n) out[i] = 1.0f;
}
__global__ void write_behind_shared() {
    __shared__ float tile[32];
    volatile float* p = tile;
    p[threadIdx.x + 1] = 1.0f;
}
__global__ void write_behind_dynamic_shared() {
    DYNAMIC_SHARED(volatile float, tile);
    tile[threadIdx.x + 1] = 1.0f;
}
__global__ void misaligned_vector(const float* in, float* out) { *out = reinterpret_cast<const float4*>(in + 1)->x; }
__global__ void endless_recursion(volatile int* depth) {
    volatile char frame[4096];
    frame[0] = char(++*depth);
    if (*depth) endless_recursion(depth);
    *depth = *depth + frame[0];
}
__global__ void wait_for_another_block(volatile int* flag) {
    if (blockIdx.x == 0)
        while (*flag == 0) {
        }
    else
        *flag = 1;
}
__global__ void trap() { __trap(); }
__global__ void nothing() {}

int main(int argc, char** argv) {
    const std::string fault = argc > 1 ? argv[1] : "";
    std::vector<float> f(64);
    std::vector<int> i(64);
    std::vector<unsigned> u(64);
    if (fault == "barrier_for_some")
        LAUNCH(barrier_for_some, 1, 64, 0);
    else if (fault == "warp_operation_for_some")
        LAUNCH(warp_operation_for_some, 1, 32, 0, u.data());
    else if (fault == "mask_without_caller")
        LAUNCH(mask_without_caller, 1, 32, 0, u.data());
    else if (fault == "masks_that_never_meet")
        LAUNCH(masks_that_never_meet, 1, 32, 0, u.data());
    else if (fault == "different_operations")
        LAUNCH(different_operations, 1, 32, 0, i.data());
    else if (fault == "write_behind_the_end")
        LAUNCH(write_behind_the_end, 3, 32, 0, f.data(), 64);
    else if (fault == "write_behind_shared")
        LAUNCH(write_behind_shared, 1, 32, 0);
    else if (fault == "write_behind_dynamic_shared")
        LAUNCH(write_behind_dynamic_shared, 1, 32, 32 * sizeof(float));
    else if (fault == "misaligned_vector")
        LAUNCH(misaligned_vector, 1, 1, 0, f.data(), f.data());
    else if (fault == "endless_recursion")
        LAUNCH(endless_recursion, 1, 1, 0, i.data());
    else if (fault == "wait_for_another_block") {
        cuda_on_cpu::options().timeout_seconds = 1;
        LAUNCH(wait_for_another_block, 2, 1, 0, i.data());
    } else if (fault == "trap")
        LAUNCH(trap, 1, 1, 0);
    else if (fault == "too_many_threads")
        LAUNCH(nothing, 1, 1025, 0);
    else if (fault == "empty_grid")
        LAUNCH(nothing, 0, 32, 0);
    else if (fault == "too_much_shared_memory")
        LAUNCH(nothing, 1, 32, 228 * 1024);
    else {
        fprintf(stderr, "selftest_faults: no fault named `%s`\n", fault.c_str());
        return 2;
    }
    return 0;
}
