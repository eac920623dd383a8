#include "tests/queue/fiber.h"

#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ringfeed::checker {

#if defined(__x86_64__)

// RingfeedSwitchFiber(void** save, void* load): pushes the callee-saved registers, swaps the
// stack pointer and pops those of the other side. RingfeedEnterFiber: the first return of a
// fresh fiber arrives here with the entry in r12 and its argument in r13.
asm(R"(
.text
.globl RingfeedSwitchFiber
.type RingfeedSwitchFiber, @function
RingfeedSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size RingfeedSwitchFiber, .-RingfeedSwitchFiber
.globl RingfeedEnterFiber
.type RingfeedEnterFiber, @function
RingfeedEnterFiber:
  movq %r13, %rdi
  callq *%r12
  ud2
.size RingfeedEnterFiber, .-RingfeedEnterFiber
)");

extern "C" void RingfeedSwitchFiber(void** save, void* load);
extern "C" void RingfeedEnterFiber();

namespace {

// AddressSanitizer takes a stack that it was not told of for an overflow of the one it knows.
#if defined(__SANITIZE_ADDRESS__)
FiberContext* left = nullptr;

void Leave(FiberContext& from, const FiberContext& to) {
  left = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
}
void Arrive(void* fake_stack) {
  __sanitizer_finish_switch_fiber(fake_stack, &left->stack_bottom, &left->stack_bytes);
}
void ForgetFrames(const void* stack, std::size_t bytes) {
  __asan_unpoison_memory_region(stack, bytes);
}
#else
void Leave(FiberContext&, const FiberContext&) {}
void Arrive(void*) {}
void ForgetFrames(const void*, std::size_t) {}
#endif

void Enter(void* fiber) { static_cast<Fiber*>(fiber)->Run(); }

}  // namespace

void Fiber::Run() {
  Arrive(nullptr);
  entry_(argument_);
}

void Fiber::Prepare(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  ForgetFrames(stack_.get(), kStackBytes);
  context_.stack_bottom = stack_.get();
  context_.stack_bytes = kStackBytes;
  const auto end = reinterpret_cast<std::uintptr_t>(stack_.get() + kStackBytes);
  // From the top: a gap, the return address, then rbp rbx r12 r13 r14 r15.
  auto* top = reinterpret_cast<std::uintptr_t*>(end & ~std::uintptr_t{63}) - 8;
  *--top = reinterpret_cast<std::uintptr_t>(&RingfeedEnterFiber);
  *--top = 0;
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Enter);
  *--top = reinterpret_cast<std::uintptr_t>(this);
  *--top = 0;
  *--top = 0;
  context_.stack_pointer = top;
}

void SwitchFiber(FiberContext& from, FiberContext& to) {
  Leave(from, to);
  RingfeedSwitchFiber(&from.stack_pointer, to.stack_pointer);
  Arrive(from.fake_stack);
}

#else

void Fiber::Prepare(void (*)(void*), void*) { std::abort(); }
void Fiber::Run() { std::abort(); }
void SwitchFiber(FiberContext&, FiberContext&) { std::abort(); }

#endif

Fiber::Fiber() : stack_(std::make_unique<std::byte[]>(kStackBytes)) {}

}  // namespace ringfeed::checker
