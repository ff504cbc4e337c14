// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). A draw is a function of (seed, counter) alone: no state to keep per thread, the same numbers on any GPU.
//
// Counters are (lane, call low, call high, domain). Each user of random numbers has a domain of its own, so that no two
// share a stream under one seed.
#pragma once

#include "common.cuh"

constexpr u32 DOMAIN_REPLAY = 0;  // per_sample
constexpr u32 DOMAIN_HER = 1;     // her_relabel
constexpr u32 DOMAIN_ACT = 2;     // epsilon-greedy acting

struct Philox {
    u32 x, y, z, w;
};

__device__ __forceinline__ Philox philox4x32(u64 seed, u32 lane, u64 call, u32 domain) {
    u32 key0 = (u32)seed, key1 = (u32)(seed >> 32);
    Philox c{lane, (u32)call, (u32)(call >> 32), domain};
    for (int round = 0; round < 10; ++round) {
        const u64 product0 = (u64)0xD2511F53u * c.x;
        const u64 product1 = (u64)0xCD9E8D57u * c.z;
        c = Philox{(u32)(product1 >> 32) ^ c.y ^ key0, (u32)product1, (u32)(product0 >> 32) ^ c.w ^ key1, (u32)product0};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// A number in [0, 1) from 38 bits, at most 1 - 2^-32: added to an integer below 2^20 it stays exact enough never to reach the
// next integer, so a stratum is never left.
__device__ __forceinline__ double philox_unit(Philox bits) {
    const u64 mantissa = ((u64)bits.x << 6) | (bits.y >> 26);
    const double unit = (double)mantissa * 0x1p-38;
    const double most = 1.0 - 0x1p-32;
    return unit < most ? unit : most;
}
