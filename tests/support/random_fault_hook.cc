#include "tests/support/random_fault_hook.h"

#include <cerrno>

#include "io/input_file.h"

namespace ringfeed {

RandomFaultHook::RandomFaultHook(std::uint64_t seed, const ReadFaults& faults)
    : faults_(faults), random_(seed) {
  SetReadFaultHook(this);
}

RandomFaultHook::~RandomFaultHook() { SetReadFaultHook(nullptr); }

std::uint64_t RandomFaultHook::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

std::int64_t RandomFaultHook::OnResult(const InputFile& file, std::uint64_t offset,
                                       std::uint32_t /*bytes*/, std::int64_t result) {
  const std::lock_guard lock(mutex_);
  if (result < 0) return result;
  const double draw = std::uniform_real_distribution<double>(0, 1)(random_);
  double upto = faults_.interrupted;
  ++injected_;
  if (draw < upto) return -EINTR;
  if (draw < (upto += faults_.again)) return -EAGAIN;
  if (draw < (upto += faults_.io_error)) {
    int& in_a_row = io_errors_[{&file, offset}];
    if (++in_a_row <= 2) return -EIO;
    in_a_row = 0;
  } else if (draw < upto + faults_.short_read) {
    const std::int64_t shortened = Shortened(file.alignment(), result);
    if (shortened < result) return shortened;
  }
  --injected_;
  return result;
}

std::int64_t RandomFaultHook::Shortened(std::uint32_t alignment, std::int64_t result) {
  const auto unit = static_cast<std::int64_t>(alignment);
  if (result <= unit) return result;
  // At least one unit, so that the read moves on; on the grid of direct reads and off it.
  std::int64_t shortened = std::uniform_int_distribution<std::int64_t>(unit, result - 1)(random_);
  if (random_() % 2 == 0) shortened -= shortened % unit;
  return shortened;
}

}  // namespace ringfeed
