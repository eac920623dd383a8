#pragma once

#include <cstdint>
#include <memory>

#include "io/read_engine.h"
#include "io/read_progress.h"

namespace ringfeed {

/// An engine over `inner` that has the kernel refuse, from some call of Submit on, what its thread
/// hands to io_uring: reads that were handed in before still end. That thread, and those that it
/// starts, never get io_uring back. `calls`: how many go well.
std::unique_ptr<ReadEngine> MakeSubmitFaultEngine(std::unique_ptr<ReadEngine> inner,
                                                  std::uint64_t calls);

/// Lets reads come back short on the threads whose kernel refuses. In place from construction to
/// destruction.
class ShortAfterRefusal final : public ReadFaultHook {
 public:
  ShortAfterRefusal() { SetReadFaultHook(this); }
  ~ShortAfterRefusal() override { SetReadFaultHook(nullptr); }
  ShortAfterRefusal(const ShortAfterRefusal&) = delete;
  ShortAfterRefusal& operator=(const ShortAfterRefusal&) = delete;

  std::int64_t OnResult(const InputFile& file, std::uint64_t offset, std::uint32_t bytes,
                        std::int64_t result) override;
};

}  // namespace ringfeed
