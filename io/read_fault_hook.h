#pragma once

#include <cstdint>

namespace ringfeed {

class InputFile;

/// Stands, in tests, between the system and every engine: may turn the result of a read into
/// another one (fewer bytes, or a negative errno). Called from any thread that reads.
class ReadFaultHook {
 public:
  virtual ~ReadFaultHook() = default;
  /// The result to go on with, instead of `result`: never more than it, where that is not negative.
  virtual std::int64_t OnResult(const InputFile& file, std::uint64_t offset, std::uint32_t bytes,
                                std::int64_t result) = 0;
};

/// Puts a hook in the place of the one before it; null for none. It must outlive every read that
/// is under way.
void SetReadFaultHook(ReadFaultHook* hook);
ReadFaultHook* GetReadFaultHook();

}  // namespace ringfeed
