#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace ringfeed::checker {

// Where a fiber, or the thread that runs fibers, stands while it does not run.
struct FiberContext {
  void* stack_pointer = nullptr;
  // What AddressSanitizer is told of the stack; unused without it.
  const void* stack_bottom = nullptr;
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;
};

#if defined(__SANITIZE_THREAD__)
#define RINGFEED_NO_FIBERS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGFEED_NO_FIBERS
#endif
#endif

// A function on a stack of its own, switched to and from by hand, all on one thread. x86-64 only,
// and not under ThreadSanitizer, which follows the calls of a thread: elsewhere Fiber::kSupported
// is false and the programs that need it are skipped.
class Fiber {
 public:
#if defined(__x86_64__) && !defined(RINGFEED_NO_FIBERS)
  static constexpr bool kSupported = true;
#else
  static constexpr bool kSupported = false;
#endif

  Fiber();
  // Makes the fiber start `entry` at the next switch to it. `entry` never returns. What stood on
  // the stack before is forgotten without running destructors.
  void Prepare(void (*entry)(void*), void* argument);
  FiberContext& context() { return context_; }
  // Where a fresh fiber begins, on its own stack.
  void Run();

 private:
  static constexpr std::size_t kStackBytes = 64 * 1024;
  std::unique_ptr<std::byte[]> stack_;
  FiberContext context_;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
};

// Leaves `from` where it stands and carries on `to`.
void SwitchFiber(FiberContext& from, FiberContext& to);

}  // namespace ringfeed::checker
