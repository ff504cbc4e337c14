// The shim's own test: what every CUDA feature that it offers must do. Ends with 0, or says what is wrong and ends
// with 1.
#include "cuda_on_cpu.hpp"

#include <cstdio>
#include <vector>

static int failures = 0;
#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            failures++;                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                   \
    } while (0)

// Every thread of every block runs once, with indices of all three dimensions.
__global__ void count_visits(int* visits) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    visits[block * blockDim.x * blockDim.y * blockDim.z + thread]++;
}
void test_indices() {
    std::vector<int> visits(2 * 3 * 4 * 5 * 6 * 7);
    LAUNCH(count_visits, dim3(2, 3, 4), dim3(5, 6, 7), 0, visits.data());
    for (int v : visits) EXPECT(v == 1);
}

// Reverses each block through shared memory: wrong without its barriers, in every order of turns.
__global__ void reverse_blocks(const int* in, int* out) {
    __shared__ int fixed[96];
    DYNAMIC_SHARED(int, dynamic);
    fixed[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    dynamic[threadIdx.x] = fixed[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = dynamic[threadIdx.x];
}
void test_barrier() {
    std::vector<int> in(5 * 96), out(5 * 96);
    for (int i = 0; i < 5 * 96; i++) in[i] = i;
    LAUNCH(reverse_blocks, 5, 96, 96 * sizeof(int), in.data(), out.data());
    for (int i = 0; i < 5 * 96; i++) EXPECT(out[i] == i / 96 * 96 + 95 - i % 96);
}

// Threads that returned are not waited for, neither by the block nor by their warp.
__global__ void leave_early(int* sums, int* votes) {
    if (threadIdx.x >= 40) return;
    int lanes = __reduce_add_sync(0xffffffffu, 1u);
    votes[threadIdx.x] = __syncthreads_count(threadIdx.x % 2);
    __syncthreads();
    sums[threadIdx.x] = lanes;
}
void test_early_return() {
    std::vector<int> sums(40), votes(40);
    LAUNCH(leave_early, 1, 100, 0, sums.data(), votes.data());
    for (int i = 0; i < 40; i++) {
        EXPECT(sums[i] == (i < 32 ? 32 : 8));
        EXPECT(votes[i] == 20);
    }
}

__global__ void votes_of_a_block(int* out) {
    const int any = __syncthreads_or(threadIdx.x == 77);
    const int none = __syncthreads_or(threadIdx.x == 200);
    const int all = __syncthreads_and(threadIdx.x < 100);
    const int not_all = __syncthreads_and(threadIdx.x != 3);
    out[threadIdx.x] = any << 3 | none << 2 | all << 1 | not_all;
}
void test_block_votes() {
    std::vector<int> out(100);
    LAUNCH(votes_of_a_block, 1, 100, 0, out.data());
    for (int v : out) EXPECT(v == (1 << 3 | 1 << 1));
}

struct Lane {
    double from, up, down, exchanged, segment;
    unsigned ballot, match, match_all;
    int all, any, every, smallest, largest;
    unsigned bits_and, bits_or, bits_xor;
};
__global__ void warp_operations(Lane* lanes) {
    const unsigned all = 0xffffffffu, l = threadIdx.x % 32;
    const double v = 100.0 * (threadIdx.x / 32) + l;
    Lane r{};
    r.from = __shfl_sync(all, v, 37);  // taken modulo 32
    r.up = __shfl_up_sync(all, v, 3);
    r.down = __shfl_down_sync(all, v, 3);
    r.exchanged = __shfl_xor_sync(all, v, 5);
    r.segment = __shfl_up_sync(all, v, 1, 8);
    r.ballot = __ballot_sync(all, l % 3 == 0);
    r.match = __match_any_sync(all, int(l / 4));
    r.match_all = __match_all_sync(all, int(l / 32), &r.all);
    r.any = __any_sync(all, l == 31);
    r.every = __all_sync(all, l != 31);
    r.smallest = __reduce_min_sync(all, int(l) - 10);
    r.largest = __reduce_max_sync(all, int(l) - 10);
    r.bits_and = __reduce_and_sync(all, 0xf0u | l);
    r.bits_or = __reduce_or_sync(all, l);
    r.bits_xor = __reduce_xor_sync(all, 1u << l);
    lanes[threadIdx.x] = r;
}
void test_warp() {
    std::vector<Lane> lanes(64);
    LAUNCH(warp_operations, 1, 64, 0, lanes.data());
    for (unsigned t = 0; t < 64; t++) {
        const unsigned l = t % 32;
        const double base = 100.0 * (t / 32);
        const Lane& r = lanes[t];
        EXPECT(r.from == base + 5);
        EXPECT(r.up == base + (l >= 3 ? l - 3 : l));
        EXPECT(r.down == base + (l + 3 < 32 ? l + 3 : l));
        EXPECT(r.exchanged == base + (l ^ 5));
        EXPECT(r.segment == base + (l % 8 ? l - 1 : l));
        EXPECT(r.ballot == 0x49249249u);
        EXPECT(r.match == 0xfu << l / 4 * 4);
        EXPECT(r.match_all == 0xffffffffu && r.all == 1);
        EXPECT(r.any == 1 && r.every == 0);
        EXPECT(r.smallest == -10 && r.largest == 21);
        EXPECT(r.bits_and == 0xf0u);
        EXPECT(r.bits_or == 31u && r.bits_xor == 0xffffffffu);
    }
}

// Two halves of a warp work apart, a different number of rounds each, and meet again.
__global__ void split_warp(unsigned* out) {
    const unsigned l = threadIdx.x;
    const unsigned half = l < 16 ? 0x0000ffffu : 0xffff0000u;
    unsigned v = l;
    for (unsigned round = 0; round < (l < 16 ? 3u : 7u); round++) v += __shfl_xor_sync(half, v, 1);
    __syncwarp();
    out[l] = v + __popc(__ballot_sync(0xffffffffu, 1));
}
void test_split_warp() {
    std::vector<unsigned> out(32);
    LAUNCH(split_warp, 1, 32, 0, out.data());
    for (unsigned l = 0; l < 32; l++) {
        unsigned pair = l + (l ^ 1u);
        EXPECT(out[l] == (pair << (l < 16 ? 2 : 6)) + 32);
    }
}

// A value that no lane gave is not silently 0.
__global__ void read_absent_lane(unsigned* out) { out[threadIdx.x] = __shfl_sync(0x0000000fu, threadIdx.x, 9); }
void test_absent_lane() {
    std::vector<unsigned> out(4);
    LAUNCH(read_absent_lane, 1, 4, 0, out.data());
    for (unsigned v : out) EXPECT(v == 0xA5A5A5A5u);
}

// Dynamic shared memory holds no zeros by accident, nor what the block before left there.
__global__ void uninitialised(unsigned* out) {
    DYNAMIC_SHARED(unsigned, words);
    out[blockIdx.x] = words[0];
    words[0] = 7;
}
void test_uninitialised_shared() {
    std::vector<unsigned> out(2);
    LAUNCH(uninitialised, 2, 1, 4, out.data());
    EXPECT(out[0] == 0xA5A5A5A5u && out[1] == 0xA5A5A5A5u);
}

__global__ void atomics(int* i, unsigned* u, unsigned long long* ull, float* f, double* d) {
    const int t = int(threadIdx.x + blockIdx.x * blockDim.x);
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMax(&i[2], t);
    atomicMin(&i[3], -t);
    atomicOr(&u[0], 1u << t % 32);
    atomicXor(&u[1], unsigned(t));
    atomicAnd(&u[2], ~(1u << t % 7));
    atomicInc(&u[3], 9u);
    atomicDec(&u[4], 9u);
    atomicAdd(&ull[0], 1ull << 40);
    // A maximum of floats on their bits, as for priorities.
    atomicMax(&u[5], __float_as_uint(0.5f * float(t)));
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    unsigned old = u[6], assumed;
    do {
        assumed = old;
        old = atomicCAS(&u[6], assumed, assumed + 2);
    } while (old != assumed);
    atomicExch(&u[7], 42u);
}
void test_atomics() {
    std::vector<int> i(4);
    std::vector<unsigned> u(8);
    std::vector<unsigned long long> ull(1);
    float f = 0;
    double d = 0;
    u[2] = 0xffu;
    LAUNCH(atomics, 4, 25, 0, i.data(), u.data(), ull.data(), &f, &d);
    EXPECT(i[0] == 4950 && i[1] == -4950 && i[2] == 99 && i[3] == -99);
    EXPECT(u[0] == 0xffffffffu && u[1] == 0u && u[2] == 0x80u);
    EXPECT(u[3] == 0u && u[4] == 0u);  // both counters run round every 10 steps
    EXPECT(ull[0] == 100ull << 40);
    EXPECT(__uint_as_float(u[5]) == 49.5f);
    EXPECT(f == 50.0f && d == 25.0 && u[6] == 200u && u[7] == 42u);
}

void test_math() {
    EXPECT(min(3, 5u) == 3u && max(-1, 4) == 4);
    EXPECT(max(NAN, 2.0f) == 2.0f && min(2.0f, NAN) == 2.0f);
    EXPECT(__ffs(0) == 0 && __ffs(8) == 4 && __clz(0) == 32 && __clz(1) == 31 && __clzll(1) == 63);
    EXPECT(__brev(1u) == 0x80000000u && __brevll(1ull) == 1ull << 63 && __popcll(~0ull) == 64);
    EXPECT(__byte_perm(0x33221100u, 0x77665544u, 0x7610u) == 0x77661100u);
    EXPECT(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu && __mulhi(-1, 1) == -1);
    EXPECT(__umul64hi(~0ull, ~0ull) == ~0ull - 1 && __mul64hi(-1, 1) == -1);
    EXPECT(__funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_r(1u, 1u, 1) == 0x80000000u);
    EXPECT(__int_as_float(__float_as_int(-2.5f)) == -2.5f);
    EXPECT(__longlong_as_double(__double_as_longlong(1e300)) == 1e300);
    EXPECT(__hiloint2double(__double2hiint(1.1), __double2loint(1.1)) == 1.1);
    EXPECT(__float2int_rn(2.5f) == 2 && __float2int_rn(3.5f) == 4 && __float2int_rz(-2.9f) == -2);
    EXPECT(__float2int_rd(-2.1f) == -3 && __float2int_ru(2.1f) == 3);
    EXPECT(__float2int_rz(1e20f) == 2147483647 && __float2uint_rz(-4.0f) == 0u && __float2int_rz(NAN) == 0);
    EXPECT(__double2ull_rz(1e30) == ~0ull && __double2ll_rz(-1e30) == -9223372036854775807ll - 1);
    EXPECT(rsqrtf(4.0f) == 0.5f && __saturatef(7.0f) == 1.0f && __saturatef(NAN) == 0.0f);
    const float4 v = make_float4(1, 2, 3, 4);
    EXPECT(alignof(float4) == 16 && alignof(double2) == 16 && sizeof(float3) == 12 && __ldg(&v).w == 4.0f);
}

// Blocks of the largest size, with barriers and warp operations: the speed of the shim shows here.
__global__ void sum_of_ones(const float* x, double* total, int n) {
    __shared__ double warp_sum[32];
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    double v = i < n ? double(x[i]) : 0.0;
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = warp_sum[threadIdx.x];
        for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
        if (threadIdx.x == 0) atomicAdd(total, v);
    }
}
void test_large_blocks() {
    const int n = 100003;
    std::vector<float> x(n, 1.0f);
    double total = 0;
    LAUNCH(sum_of_ones, (n + 1023) / 1024, 1024, 0, x.data(), &total, n);
    EXPECT(total == n);
}

int main() {
    for (auto order : {cuda_on_cpu::Order::forward, cuda_on_cpu::Order::reverse, cuda_on_cpu::Order::shuffled}) {
        cuda_on_cpu::options().order = order;
        test_indices();
        test_barrier();
        test_early_return();
        test_block_votes();
        test_warp();
        test_split_warp();
        test_absent_lane();
        test_uninitialised_shared();
        test_atomics();
        test_large_blocks();
    }
    test_math();
    if (failures == 0) printf("the shim does what CUDA does\n");
    return failures != 0;
}
