#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Turns samples into fields, by one function that you override; Map does that by a function
/// object.
class SampleParser {
 public:
  virtual ~SampleParser() = default;
  /// What Parse writes; the same at every call.
  virtual std::vector<FieldSpec> fields() const = 0;
  /// Writes the fields of one sample to their places in the batch, all of them. Called by several
  /// threads at once. What it throws becomes the stream's failure at that sample, and so does a
  /// field that it did not write.
  virtual void Parse(std::string_view sample, RowWriter& row) const = 0;
};
/// Parses the records of `samples` into the parser's fields, in parallel and in order. Throws Error
/// for a null parser.
Reader ParseSamples(Reader samples, std::shared_ptr<const SampleParser> parser);

/// How a DataReader makes batches.
struct DataReaderOptions {
  std::size_t batch_size = 1;
  bool drop_remainder = false;
  /// Batches that are ready or made while one is used; at least 1. Of a data set of your own no
  /// more samples are made ahead than they have.
  std::size_t prefetch = 4;
};

/// A loader and a parser, read batch by batch: OneFlow's DataReader, whose load thread and buffer
/// of batches are the chain's own. Starts at the first Read. Thread safe but for moves.
class DataReader {
 public:
  DataReader(Reader loader, std::shared_ptr<const SampleParser> parser,
             const DataReaderOptions& options);
  /// Reads samples that need no parser, or have been through one.
  DataReader(Reader samples, const DataReaderOptions& options);

  /// Reads the next batch into *batch; false at the end of the data. Blocks. Throws Error on
  /// failure. A batch's memory is filled again once every copy of its tensors is gone.
  bool Read(Instance* batch);
  /// Ends the threads and wakes a thread that waits in Read, which then throws.
  void Close() { batches_.Close(); }
  /// For everything else: ReInit, Stats, fields.
  const Reader& batches() const { return batches_; }

 private:
  Reader batches_;
};

// OneFlow's decorators of data sets, under their names.

/// Shuffle by a window of so many samples.
inline Reader RandomShuffleDataset(Reader samples, std::size_t shuffle_buffer_size = 1024,
                                   std::uint64_t seed = 0) {
  return Shuffle(std::move(samples), {.window = shuffle_buffer_size, .block = 0, .seed = seed});
}
/// Batches of so many samples; the last one may be short.
inline Reader BatchDataset(Reader samples, std::size_t batch_size) {
  return Batch(std::move(samples), {.size = batch_size, .drop_remainder = false, .slots = 0});
}
/// Batches of samples of one group each: GroupBatch.
inline Reader GroupBatchDataset(Reader samples, std::size_t batch_size, GroupFunction group_of) {
  GroupBatchOptions options;
  options.size = batch_size;
  options.group_of = std::move(group_of);
  return GroupBatch(std::move(samples), options);
}

/// Calls function(i) once for each i from 0 to count - 1, in `threads` consecutive ranges at once
/// (0: one per core that this process may use, at most 16), and returns when all are done. For work
/// of a program's own over a batch, of a millisecond or more: the threads are started for each
/// call. What belongs to one sample is cheaper in Map or a SampleParser. A range ends at what it
/// throws; the first range's exception is thrown on.
void MultiThreadLoop(std::size_t count, const std::function<void(std::size_t index)>& function,
                     int threads = 0);

}  // namespace ringfeed
