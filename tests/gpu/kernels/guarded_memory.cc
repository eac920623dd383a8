#include "tests/gpu/kernels/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <new>

namespace ringfeed {

GuardedMemory::GuardedMemory(std::size_t bytes, Edge edge) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t inner = (bytes + page - 1) / page * page;
  void* mapped = ::mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapping_ = {static_cast<std::byte*>(mapped), inner + 2 * page};
  inner_ = mapping_.subspan(page, inner);
  bytes_ = edge == Edge::kBegin ? inner_.first(bytes) : inner_.last(bytes);
  if (inner > 0 && ::mprotect(inner_.data(), inner, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(mapped, mapping_.size());
    throw std::bad_alloc();
  }
}

GuardedMemory::~GuardedMemory() { ::munmap(mapping_.data(), mapping_.size()); }

void GuardedMemory::MakeReadOnly() {
  [[maybe_unused]] const int failed =
      inner_.empty() ? 0 : ::mprotect(inner_.data(), inner_.size(), PROT_READ);
  assert(failed == 0);
}

}  // namespace ringfeed
