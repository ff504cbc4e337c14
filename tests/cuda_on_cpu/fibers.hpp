// Fibers: stacks that are switched by hand, a few nanoseconds a switch, known to AddressSanitizer.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CUDA_ON_CPU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDA_ON_CPU_ASAN 1
#endif
#endif
#ifdef CUDA_ON_CPU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

// `ucontext` would be portable, but each of its switches makes a system call for the signal mask: 20 times slower.
// Saves the callee-saved registers on the stack, stores the stack pointer in `*from`, goes on at `to`.
extern "C" void cuda_on_cpu_switch(void** from, void* to) __asm__("cuda_on_cpu_switch");
#if defined(__x86_64__)
__asm__(
    ".text\n.p2align 4\ncuda_on_cpu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.p2align 4\ncuda_on_cpu_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#else
#error "cuda_on_cpu: no fiber switch for this processor; add one to fibers.hpp (x86-64 and AArch64 exist)"
#endif

namespace cuda_on_cpu {

// A stack and where it stopped. The scheduler's own stack is one too, with `memory` null.
struct Fiber {
    // Sanitizers make frames several times larger; pages that are never touched cost nothing.
    static constexpr size_t kStackBytes = 256 << 10;
    static constexpr size_t kGuardBytes = 16 << 10;  // covers the largest common page size

    void* stack_pointer = nullptr;
    char* memory = nullptr;
    const void* bottom = nullptr;  // what AddressSanitizer is told
    size_t bytes = 0;
    void* fake_stack = nullptr;

    Fiber() = default;
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // `entry` never returns.
    explicit Fiber(void (*entry)()) {
        void* m = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m == MAP_FAILED) {
            perror("cuda_on_cpu: no memory for the stack of a CUDA thread");
            abort();
        }
        memory = static_cast<char*>(m);
        mprotect(memory, kGuardBytes, PROT_NONE);  // an overflow faults instead of running into a neighbour
        bottom = memory + kGuardBytes;
        bytes = kStackBytes;
        auto** top = reinterpret_cast<void**>(memory + kGuardBytes + kStackBytes);
#if defined(__x86_64__)
        // As after a call: the stack pointer is 8 below a multiple of 16 at the first instruction of `entry`.
        top[-2] = reinterpret_cast<void*>(entry);
        top[-1] = nullptr;
        stack_pointer = top - 8;
#else
        stack_pointer = top - 20;
        static_cast<void**>(stack_pointer)[11] = reinterpret_cast<void*>(entry);  // x30
#endif
    }
    ~Fiber() {
        if (memory) munmap(memory, kStackBytes + kGuardBytes);
    }
};

// Leaves `from`, goes on in `to`; returns when somebody switches back to `from`.
inline void switch_fiber(Fiber& from, Fiber& to) {
#ifdef CUDA_ON_CPU_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
    cuda_on_cpu_switch(&from.stack_pointer, to.stack_pointer);
#ifdef CUDA_ON_CPU_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// The first thing a new fiber does. Learns the bounds of the stack it came from, which is the scheduler's.
inline void fiber_started(Fiber& scheduler) {
#ifdef CUDA_ON_CPU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler.bottom, &scheduler.bytes);
#else
    (void)scheduler;
#endif
}

}  // namespace cuda_on_cpu
