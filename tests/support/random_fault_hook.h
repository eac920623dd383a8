#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <random>

#include "io/read_progress.h"

namespace ringfeed {

/// How often a read's result is replaced, each between 0 and 1.
struct ReadFaults {
  double short_read = 0;   ///< fewer bytes than there were
  double interrupted = 0;  ///< EINTR
  double again = 0;        ///< EAGAIN
  double io_error = 0;     ///< EIO, at most twice in a row at one place
};

/// Replaces results by chance, by seed; in place from construction to destruction. Every read still
/// ends well: the faults are those that an engine has to get over.
class RandomFaultHook final : public ReadFaultHook {
 public:
  RandomFaultHook(std::uint64_t seed, const ReadFaults& faults);
  ~RandomFaultHook() override;
  RandomFaultHook(const RandomFaultHook&) = delete;
  RandomFaultHook& operator=(const RandomFaultHook&) = delete;

  std::int64_t OnResult(const InputFile& file, std::uint64_t offset, std::uint32_t bytes,
                        std::int64_t result) override;
  std::uint64_t injected() const;

 private:
  std::int64_t Shortened(std::uint32_t alignment, std::int64_t result);

  const ReadFaults faults_;
  mutable std::mutex mutex_;  // guards what follows
  std::mt19937_64 random_;
  std::map<std::pair<const InputFile*, std::uint64_t>, int> io_errors_;  // in a row, by place
  std::uint64_t injected_ = 0;
};

}  // namespace ringfeed
