#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// Writes records to one file. The file appears under its name when Close succeeds, so that nobody
/// reads half of it; a writer that is destroyed without Close leaves nothing behind. One thread at
/// a time. After a failure every call returns it.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  /// Appends one record.
  virtual Status Write(std::span<const std::byte> record) = 0;
  /// Writes out what is buffered and gives the file its name.
  virtual Status Close() = 0;
};

/// Creates a writer of `format`: "tfrecord", "rows:160", "rows:160,header=128,stride=192" (a record
/// is a row; header and padding are zeros), "raw" (exactly one record).
struct RecordWriterResult {
  Status status;
  std::unique_ptr<RecordWriter> writer;
};
RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format);

/// Builds the bytes of one tf.Example (TensorFlow's example.proto) in the order of the calls.
/// A name that is added twice makes a record that readers take differently: don't.
class ExampleBuilder {
 public:
  ExampleBuilder& AddBytes(std::string_view name, std::span<const std::byte> value);
  ExampleBuilder& AddBytes(std::string_view name, std::string_view value);
  ExampleBuilder& AddFloats(std::string_view name, std::span<const float> values);
  ExampleBuilder& AddInts(std::string_view name, std::span<const std::int64_t> values);
  /// The record; valid until the next call of anything. Starts over at the next Add.
  std::span<const std::byte> Finish();

 private:
  void AddFeature(std::string_view name, unsigned kind, std::span<const std::byte> values);

  std::vector<std::byte> features_;
  std::vector<std::byte> values_;
  std::vector<std::byte> record_;
  bool finished_ = false;
};

}  // namespace ringfeed
