// Prioritized replay on the device. Compiled by NVRTC when the buffer is made.
//
// Draws come back through `GpuBatchPtrs`; the Rust side wraps them in a BatchSample.
// All kernels run on the buffer's one stream, so that none needs to wait for another.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Inclusive sums of the priorities, in f64.
//   priority [n] f32 in, prefix [n] f64 out.   Launch: one block of 1024 threads, n > 0.
extern "C" __global__ void per_prefix_scan(const float* priority, double* prefix, u32 n) {
    __shared__ double chunk_sum[1024];
    const u32 chunk = (n + blockDim.x - 1) / blockDim.x;
    const u32 from = min(threadIdx.x * chunk, n);
    const u32 to = min(from + chunk, n);
    double sum = 0.0;
    for (u32 at = from; at < to; ++at) sum += priority[at];
    chunk_sum[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double before = 0.0;
        for (u32 t = 0; t < blockDim.x; ++t) {
            const double own = chunk_sum[t];
            chunk_sum[t] = before;
            before += own;
        }
    }
    __syncthreads();
    sum = chunk_sum[threadIdx.x];
    for (u32 at = from; at < to; ++at) prefix[at] = (sum += priority[at]);
}

__device__ u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// One draw from each of `batch` equal slices of the mass.
//   prefix [n] f64 in, index [batch] i64 out.   Launch: one thread per row.
extern "C" __global__ void per_sample(const double* prefix, i64* index, u64 seed, u32 n, u32 batch) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch) return;
    const double unit = (double)(mix(seed ^ mix(row)) >> 11) * (1.0 / 9007199254740992.0);
    const double target = (row + unit) / batch * prefix[n - 1];
    u32 low = 0, high = n - 1;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (prefix[middle] > target) high = middle; else low = middle + 1;
    }
    index[row] = low;
}

// Rows of `width` values, in the order of `index`.   Launch: one thread per value.
extern "C" __global__ void gather_f32(const float* from, const i64* index, float* to, u32 batch, u32 width) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (u64)batch * width) return;
    to[at] = from[index[at / width] * width + at % width];
}

extern "C" __global__ void gather_u32(const u32* from, const i64* index, u32* to, u32 batch) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < batch) to[row] = from[index[row]];
}

// (n p / total)^-beta, divided by the largest.   Launch: one block of 1024 threads.
extern "C" __global__ void is_weights(const float* priority, const double* prefix, const i64* index, float* weight,
                                      float beta, u32 n, u32 batch) {
    __shared__ float largest[1024];
    const double total = prefix[n - 1];
    float own = 0.0f;
    for (u32 row = threadIdx.x; row < batch; row += blockDim.x) {
        weight[row] = (float)pow(n * (priority[index[row]] / total), -(double)beta);
        own = fmaxf(own, weight[row]);
    }
    largest[threadIdx.x] = own;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) largest[threadIdx.x] = fmaxf(largest[threadIdx.x], largest[threadIdx.x + half]);
        __syncthreads();
    }
    for (u32 row = threadIdx.x; row < batch; row += blockDim.x) weight[row] /= largest[0];
}

// New priorities; of rows that came twice, either may win.   Launch: one thread per row.
extern "C" __global__ void per_update_pa(float* priority, const i64* index, const float* td_error, float alpha, u32 batch) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch) return;
    priority[index[row]] = powf(fminf(fabsf(td_error[row]), 1.0f) + 1e-5f, alpha);
}
