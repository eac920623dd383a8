#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/decorated_reader.h"
#include "ringfeed/decorators.h"
#include "ringfeed/detail/paddle_overrides.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// @file
/// @details The readers of Paddle's C++ Data Feeding under the names that they had there: each is a
/// handle on the chain that the function named beside it builds. docs/ANCESTORS.md lists the
/// differences.

/// Any reader. Not the base of one that you write, which is InstanceSource (docs/PORTING.md).
class ReaderBase : public Reader, private detail::PaddleSourceOverrides {
 public:
  ReaderBase() = default;
  ReaderBase(Reader reader) : Reader(std::move(reader)) {}  // NOLINT(google-explicit-constructor)
  using Reader::HasNext;
  using Reader::ReadNext;
};

/// Fills a buffer of so many instances, permutes it, drains it: Shuffle by blocks.
class ShuffleReader : public Reader {
 public:
  ShuffleReader(Reader input, std::size_t buffer_size, std::uint64_t seed = 0)
      : Reader(Shuffle(std::move(input), {.block = buffer_size, .seed = seed})) {}
};

/// Batch. Without discard_leftover the rest of a pass is a short batch.
class BatchReader : public Reader {
 public:
  BatchReader(Reader input, std::size_t batch_size, bool discard_leftover = false)
      : Reader(Batch(std::move(input), {.size = batch_size, .drop_remainder = discard_leftover})) {}
};

/// MultiPass: HasNext is true until the last pass ends; NextPass tells where one begins.
class MultiPassReader : public Reader {
 public:
  MultiPassReader(Reader input, std::uint64_t pass_num)
      : Reader(MultiPass(std::move(input), pass_num)) {}
};

/// DoubleBuffer, in pinned memory of the host, or on a device (DoubleBufferOn).
class DoubleBufferReader : public Reader {
 public:
  explicit DoubleBufferReader(Reader input, std::size_t slots = 2)
      : Reader(DoubleBuffer(std::move(input), slots)) {}
  DoubleBufferReader(Reader input, Place place, std::size_t slots = 2)
      : Reader(DoubleBufferOn(std::move(input), place, slots)) {}
};

/// Preprocess: `function` is the block, `slots` are its outputs. Their LoD is kept.
class Preprocessor : public Reader {
 public:
  Preprocessor(Reader input, std::vector<SlotSpec> slots, PreprocessFunction function)
      : Reader(Preprocess(std::move(input), std::move(slots), std::move(function))) {}
};

/// read_recordio: the next `count` instances; fewer, or none, at the end of the data. What comes
/// before a failure is returned, and the next call throws that as an Error.
inline std::vector<Instance> ReadRecordIo(Reader reader, std::size_t count) {
  std::vector<Instance> instances;
  Instance instance;
  while (instances.size() < count) {
    const ReadResult result = reader.TryReadNext(&instance);
    if (result == ReadResult::kFailed && instances.empty()) throw Error(reader.status());
    if (result != ReadResult::kRecord) break;
    instances.push_back(std::move(instance));
  }
  return instances;
}

/// OpenFiles: each free thread takes the next of the files, or, in test mode, one after another in
/// their order. At most thread_num files are open at a time; 0 leaves that to `options`.
class MultipleReader : public Reader {
 public:
  explicit MultipleReader(const std::vector<std::string>& file_names, bool is_test = false,
                          std::size_t thread_num = 0, OpenOptions options = {})
      : Reader(OpenFiles(file_names, Ordered(is_test, thread_num, std::move(options)))) {}

 private:
  static OpenOptions Ordered(bool is_test, std::size_t thread_num, OpenOptions options) {
    options.unordered = !is_test;
    if (thread_num != 0) options.cycle = thread_num;
    if (is_test) options.cycle = 1;
    return options;
  }
};

}  // namespace ringfeed
