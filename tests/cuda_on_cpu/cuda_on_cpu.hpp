// Compiles CUDA C++ kernels as plain C++17 and runs them on the CPU, for tests on machines without a GPU.
//
//   #include "cuda_on_cpu.hpp"
//   #include "../../kernels/per_kernels.cu"
//   int main() {
//       ...
//       LAUNCH(per_sample, dim3(blocks), dim3(256), shared_bytes, priority, n, index);
//   }
//
// Device memory is host memory: pass pointers to `std::vector` data, and AddressSanitizer checks every access against
// the vector's real size. Blocks run one after another; inside a block every CUDA thread is a fiber, and the barriers,
// shuffles, ballots and reductions are meeting points of fibers. A launch is synchronous and deterministic.
//
// What it finds: wrong results, accesses out of bounds, misaligned vector loads, undefined arithmetic, barriers that
// part of the block never reaches, different warp operations meeting under one mask, and (by running the threads in
// another order, see `Order`) results that depend on a barrier that is not there.
// What it cannot find: races between blocks, memory ordering, speed. It has no inline PTX, no forward progress
// between blocks (no look-back scans, no grid-wide barrier), no clusters, no textures.
#pragma once
// Kernel files may ask `#ifdef CUDA_ON_CPU`, though few should need to.
#define CUDA_ON_CPU 1

#include "types.hpp"
#include "fibers.hpp"
#include "block.hpp"
#include "warp.hpp"
#include "atomics.hpp"
#include "math.hpp"
#include "launch.hpp"
