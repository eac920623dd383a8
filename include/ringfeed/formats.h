#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Writes records to one file or stream. A file appears under its name when Close succeeds, so that
/// no reader sees half of it; a writer that is destroyed without Close leaves no file. One thread
/// at a time. After a failure every call returns it. A child of fork that writes to its parent's
/// file gets a failure, and the file stays the parent's.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  /// Appends one record; its bytes are copied or written before this returns.
  virtual Status Write(std::span<const std::byte> record) = 0;
  /// Writes out what is buffered; in a format of chunks it ends the present chunk: a reader of a
  /// pipe waits for that.
  virtual Status Flush() = 0;
  /// Writes out what is buffered and gives the file its name.
  virtual Status Close() = 0;
};

/// A writer, or why there is none.
struct RecordWriterResult {
  Status status;                         ///< OK if there is one
  std::unique_ptr<RecordWriter> writer;  ///< else null
};
/// Creates a writer of `format`: "tfrecord", "rows:160", "rows:160,header=128,stride=192" (a record
/// is a row; header and padding are zeros), "raw" (exactly one record), "tar:ext=jpg" (a record
/// becomes a sample of one member of that extension, its number is the key), "recordio",
/// "recordio:go,gzip", "ofrecord", "lines", "jsonl", "csv". docs/FORMATS.md has them all. A format
/// that can only be read is kUnsupported. Does not throw.
RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format);
/// A writer to an open descriptor (a pipe, a socket, stdout), which stays the caller's. Written
/// bytes cannot be taken back. `name` is for messages. kUnsupported for formats whose header is
/// written last. Writes block while the other side takes nothing; SIGPIPE is the caller's business.
/// Else as OpenRecordWriter.
RecordWriterResult OpenRecordStreamWriter(int descriptor, const std::string& name,
                                          const std::string& format);

/// The place of a chunk in a RecordIO file.
struct RecordIoChunkPlace {
  std::uint64_t offset = 0;   ///< of its header
  std::uint64_t bytes = 0;    ///< the header and the stored bytes
  std::uint64_t records = 0;  ///< as the header counts them
};

/// The chunks of a RecordIO file, in their order, by their headers alone: it reads no payload and
/// checks no checksum. At a damaged header it ends with the failure and its place.
struct RecordIoIndex {
  Status status;
  std::vector<RecordIoChunkPlace> chunks;
};
/// Blocks while it reads 20 bytes a chunk. Throws Error if the file cannot be opened.
RecordIoIndex LoadRecordIoIndex(const std::string& path);

/// `count` chunks of a RecordIO file (kToEnd: the rest) from number `first` on, to be read through
/// OpenSources; fewer, or none, if the file has no more. Throws Error if the file cannot be
/// opened, or if damage hides their places.
std::unique_ptr<Source> OpenRecordIoChunks(const std::string& path, std::uint64_t first,
                                           std::uint64_t count);

/// The values of a list of bytes; each is any bytes.
using BytesValues = std::span<const std::span<const std::byte>>;

/// Builds the bytes of one tf.Example (TensorFlow's example.proto) in the order of the calls. A
/// name that is added twice makes a record that readers take differently: don't. One thread at a
/// time.
class ExampleBuilder {
 public:
  // Each adds a feature of that name; the values are copied.
  ExampleBuilder& AddBytes(std::string_view name, std::span<const std::byte> value);
  ExampleBuilder& AddBytes(std::string_view name, std::string_view value);
  ExampleBuilder& AddBytesList(std::string_view name, BytesValues values);
  ExampleBuilder& AddFloats(std::string_view name, std::span<const float> values);
  ExampleBuilder& AddInts(std::string_view name, std::span<const std::int64_t> values);
  /// The record; valid until the next call of anything. Starts over at the next Add.
  std::span<const std::byte> Finish();

 private:
  std::vector<std::byte>* Features();

  std::vector<std::byte> features_;
  std::vector<std::byte> values_;
  std::vector<std::byte> record_;
  bool finished_ = false;
};

/// Builds the bytes of one OFRecord (OneFlow's record.proto) in the order of the calls; numbers are
/// packed, as OneFlow writes them. A name that is added twice makes a record in which the last one
/// counts. A record without a feature has no bytes, and no OFRecord file can hold it. One thread at
/// a time.
class OFRecordBuilder {
 public:
  // Each adds a feature of that name; the values are copied.
  OFRecordBuilder& AddBytes(std::string_view name, std::span<const std::byte> value);
  OFRecordBuilder& AddBytes(std::string_view name, std::string_view value);
  OFRecordBuilder& AddBytesList(std::string_view name, BytesValues values);
  OFRecordBuilder& AddFloats(std::string_view name, std::span<const float> values);
  OFRecordBuilder& AddDoubles(std::string_view name, std::span<const double> values);
  OFRecordBuilder& AddInt32s(std::string_view name, std::span<const std::int32_t> values);
  OFRecordBuilder& AddInts(std::string_view name, std::span<const std::int64_t> values);
  /// The record; valid until the next call of anything. Starts over at the next Add.
  std::span<const std::byte> Finish();

 private:
  std::vector<std::byte>* Features();

  std::vector<std::byte> record_;
  std::vector<std::byte> values_;
  bool finished_ = false;
};

/// Builds the bytes of one LoDTensor record, as PaddlePaddle's Fluid wrote them into RecordIO
/// files: the tensors in the order of the calls. One thread at a time.
class LoDTensorBuilder {
 public:
  /// Adds a tensor. `values` are the elements, row-major, as many as `shape` has; `lod` the levels
  /// in offset form, the top one first. Both are copied. Throws Error(kInvalidArgument) if they do
  /// not fit together, a dimension is negative, offsets do not ascend from 0 to the number of
  /// things that they count, or Paddle has no tensors of the type (uint16, uint32).
  LoDTensorBuilder& Add(DType dtype, const Shape& shape, std::span<const std::byte> values,
                        const std::vector<std::vector<std::int64_t>>& lod = {});
  /// Adds a tensor as a reader delivers it, with its LoD; it must lie in host memory. Throws as
  /// above.
  LoDTensorBuilder& Add(const Tensor& tensor);
  /// The record; valid until the next call of anything. Starts over at the next Add.
  std::span<const std::byte> Finish();

 private:
  using Levels = std::span<const std::span<const std::int64_t>>;
  void Append(DType dtype, const Shape& shape, std::span<const std::byte> values, Levels lod);

  std::vector<std::byte> record_;
  std::uint32_t tensors_ = 0;
  bool finished_ = false;
};

/// Builds the bytes of one Instance (ringfeed/instance.proto): its fields in the order of the
/// calls. One thread at a time.
class InstanceBuilder {
 public:
  /// Adds the tensor of that name, UTF-8 and not empty; one that was there is dropped. `values` are
  /// the elements, row-major, as many as `shape` has; `lod` the levels in offset form, the top one
  /// first. All are copied. Throws Error(kInvalidArgument) if they do not fit together, a dimension
  /// is negative or offsets do not ascend from 0 to the number of things that they count; then
  /// nothing has changed.
  InstanceBuilder& Add(std::string_view name, DType dtype, const Shape& shape,
                       std::span<const std::byte> values,
                       const std::vector<std::vector<std::int64_t>>& lod = {});
  /// Adds a tensor as a reader delivers it, with its LoD; it must lie in host memory. Throws as
  /// above.
  InstanceBuilder& Add(std::string_view name, const Tensor& tensor);
  /// Drops all added tensors and goes on from a record: fields that no Add replaces stay in it byte
  /// for byte, unknown fields too. (Those inside of a replaced field go with it.) kDamaged if it is
  /// no Instance; then nothing has changed.
  Status StartFrom(std::span<const std::byte> record);
  /// The record; valid until the next call of anything. Starts over at the next Add.
  std::span<const std::byte> Finish();

 private:
  using Levels = std::span<const std::span<const std::int64_t>>;
  void Append(std::string_view name, DType dtype, const Shape& shape,
              std::span<const std::byte> values, Levels lod);
  void Drop(std::string_view name);

  std::vector<std::byte> record_;
  bool finished_ = false;
};

/// One member of a sample: the extension after the key's dot ("jpg", "seg.png"), and its bytes.
struct TarMember {
  std::string extension;
  std::span<const std::byte> bytes;  ///< a view into the record
};

/// A sample of a tar file as WebDataset cuts them: the members, in their order, whose paths are the
/// same up to the first dot of the base name, which is the key.
struct TarSample {
  std::string key;
  std::vector<TarMember> members;

  /// The first member of that extension. If there is none, the one whose extension differs in the
  /// case of its ASCII letters alone ("JPG"); null if that are none or several. Valid as long as
  /// the sample.
  const TarMember* Find(std::string_view extension) const;
};

/// Splits a record of format "tar". Replaces the contents of *sample (and uses its memory again);
/// its bytes are views into the record and live as long as the record. Members that belong to no
/// sample (folders, links, hidden files) are left out. Fails with kDamaged if the record is no
/// piece of a tar file. Does not block; thread safe for different samples.
Status SplitTarSample(std::span<const std::byte> record, TarSample* sample);

/// What stands at the start of some bytes of a file.
struct FoundRecord {
  /// The record is `bytes` bytes from `begin` on; the next one begins at `end`. All count from the
  /// start of the bytes that were given.
  std::size_t begin = 0;
  std::size_t bytes = 0;
  std::size_t end = 0;
  bool is_record = true;  ///< false: [0, end) is a header or padding
  /// Not 0: the bytes given are too few to tell; so many are needed, more than were given.
  std::size_t need_bytes = 0;
  /// Why these bytes are no record (kDamaged). With `end` this record alone is lost, and keeps its
  /// number; with end == 0 the rest of the file is.
  Status status{};
};

/// A format of your own, by the one thing that ringfeed cannot know: where a record ends. ringfeed
/// reads the files, frames and numbers the records and indexes them. So every order, position,
/// rank, policy, parser and compression works as with its own formats. RegisterRecordFormat makes
/// it known.
class RecordFormat {
 public:
  virtual ~RecordFormat() = default;
  /// Finds the record at the start of `bytes`, which are at `offset` in the (decompressed) file;
  /// the first call of a file has offset 0. There is at least one byte. `at_end`: they reach the
  /// end of the file. The answer must depend on these arguments alone. Called by several threads at
  /// once. What it throws fails the chain (kUserError), and so does an answer that reaches past the
  /// bytes or goes nowhere.
  virtual FoundRecord Find(std::span<const std::byte> bytes, std::uint64_t offset,
                           bool at_end) const = 0;
};

/// Makes files of that format readable by OpenFiles and OpenSources: those whose
/// OpenOptions::format is `tag`, or whose first bytes are `magic` (if that is not empty), or whose
/// names end in ".tag". Registrations stay for the life of the process. Thread safe. Throws Error
/// if there is such a tag already, or it is none ([a-z0-9_]+).
void RegisterRecordFormat(const std::string& tag, std::shared_ptr<const RecordFormat> format,
                          const std::string& magic = {});

}  // namespace ringfeed
