// Runs kernels by name for the tests of this crate: buffers and launches come in on stdin, the buffers go out on stdout.
//
// In:  u64 number of buffers, then each as u64 length and bytes;
//      u64 number of launches, then each as u64 length of the name and the name, u64 grid, u64 block, u64 number of arguments,
//      and each argument as u64 length, bytes, u64 number of addresses, and each as u64 place, u64 buffer.
// Out: the buffers' bytes, one after another.
#include "cuda_on_cpu.hpp"
#include "kernels/per_kernels.cu"
#include "kernels/her_kernels.cu"

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

void read_exactly(void* to, size_t length) {
    if (length && fread(to, 1, length, stdin) != length) {
        fprintf(stderr, "driver: the input ends early\n");
        exit(2);
    }
}
uint64_t read_number() {
    uint64_t number;
    read_exactly(&number, sizeof number);
    return number;
}

struct Arguments {
    std::vector<std::vector<char>> values;
    // Copied, as an argument's bytes may not be aligned for its type.
    template <class T> T get(size_t i) const {
        if (values.at(i).size() != sizeof(T)) {
            fprintf(stderr, "driver: argument %zu has %zu bytes, the kernel's parameter %zu\n", i, values[i].size(), sizeof(T));
            exit(2);
        }
        T value;
        memcpy(&value, values[i].data(), sizeof value);
        return value;
    }
};

using Launcher = std::function<void(dim3, dim3, const Arguments&)>;

template <class... P, size_t... I>
void launch_with(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, const Arguments& arguments, std::index_sequence<I...>) {
    if (arguments.values.size() != sizeof...(P)) {
        fprintf(stderr, "driver: `%s` takes %zu arguments, %zu were given\n", name, sizeof...(P), arguments.values.size());
        exit(2);
    }
    cuda_on_cpu::launch_named(name, kernel, grid, block, 0, arguments.get<std::remove_cv_t<P>>(I)...);
}
template <class... P> Launcher launcher(const char* name, void (*kernel)(P...)) {
    return [=](dim3 grid, dim3 block, const Arguments& arguments) { launch_with(name, kernel, grid, block, arguments, std::index_sequence_for<P...>()); };
}

#define KERNEL(name) {#name, launcher(#name, name)}
const std::map<std::string, Launcher> kernels = {
    KERNEL(per_touched_tiles), KERNEL(per_all_tiles), KERNEL(per_prefix_scan), KERNEL(per_total), KERNEL(per_find), KERNEL(per_find_by_sums), KERNEL(per_sample), KERNEL(sample_batch), KERNEL(is_weights),
    KERNEL(i64_to_u32), KERNEL(gather_u32), KERNEL(gather_f32), KERNEL(gather_states), KERNEL(gather_batch), KERNEL(per_update_pa),
    KERNEL(store_rows), KERNEL(link_steps), KERNEL(per_insert), KERNEL(per_set_beta), KERNEL(per_reset), KERNEL(per_take_status),
    KERNEL(her_relabel),
};

}  // namespace

int main() {
    std::vector<std::pair<char*, size_t>> buffers(read_number());
    for (auto& [bytes, length] : buffers) {
        length = read_number();
        // Of exact length, so that AddressSanitizer sees the first byte behind it; aligned as the driver's memory.
        void* memory = nullptr;
        if (posix_memalign(&memory, 256, length)) return 2;
        bytes = static_cast<char*>(memory);
        read_exactly(bytes, length);
    }
    for (uint64_t n = read_number(); n > 0; --n) {
        std::string name(read_number(), ' ');
        read_exactly(name.data(), name.size());
        const dim3 grid{unsigned(read_number())};
        const dim3 block{unsigned(read_number())};
        Arguments arguments;
        arguments.values.resize(read_number());
        for (auto& value : arguments.values) {
            value.resize(read_number());
            read_exactly(value.data(), value.size());
            for (uint64_t addresses = read_number(); addresses > 0; --addresses) {
                const uint64_t place = read_number();
                const uint64_t address = reinterpret_cast<uint64_t>(buffers.at(read_number()).first);
                memcpy(value.data() + place, &address, sizeof address);
            }
        }
        const auto found = kernels.find(name);
        if (found == kernels.end()) {
            fprintf(stderr, "driver: no kernel `%s`\n", name.c_str());
            return 2;
        }
        found->second(grid, block, arguments);
    }
    for (auto& [bytes, length] : buffers) fwrite(bytes, 1, length, stdout);
    return 0;
}
