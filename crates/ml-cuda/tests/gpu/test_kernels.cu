// Kernels that the tests of ml-cuda need; each takes one 64-bit argument.
extern "C" __global__ void spin(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}
extern "C" __global__ void add_one(long long address) { *reinterpret_cast<int*>(address) += 1; }
