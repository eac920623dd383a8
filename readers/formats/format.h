#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/compression/decompressor.h"
#include "readers/formats/mistaken_file.h"
#include "readers/formats/record_index.h"
#include "readers/formats/writing/output_file.h"
#include "readers/formats/writing/row_encoder.h"
#include "ringfeed/formats.h"
#include "ringfeed/record.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Size of an input whose end is not known yet (a stream).
inline constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

/// How long a record may be, as the user says it. It is limited so that sums with the bytes around
/// a record never wrap in 64 bits.
class RecordLimit {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 62;

  // NOLINTNEXTLINE(google-explicit-constructor): it stands for the number.
  RecordLimit(std::size_t bytes) : bytes_(std::min(bytes, kMost)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator std::size_t() const { return bytes_; }

 private:
  std::size_t bytes_;
};

/// What a file says of the elements that its records are made of.
struct FileElements {
  std::string name;                 ///< as the file has it: "<f4", "u2"
  std::vector<DType> types;         ///< that they are, unconverted; none: a parser has no such type
  Shape shape{};                    ///< of a record; {-1}: records have any number of elements
  std::vector<FieldSpec> fields{};  ///< if a record is several arrays: each after the one before
};
/// Whether the reader of a file accepts its elements for what they are; else why not.
using ElementCheck = std::function<Status(const FileElements&)>;

/// Whether the reader of a file accepts records of that format; else why not.
using FormatCheck = std::function<Status(std::string_view format)>;

/// What a framer is told about the file that it frames.
struct FramerOptions {
  std::string file;                         ///< for messages
  std::uint64_t file_bytes = kUnknownSize;  ///< promised lengths are checked against it
  OnDamage on_damage = OnDamage::kFail;
  RecordLimit max_record_bytes = std::size_t{1} << 30;
  /// Only the places of records are wanted, for an index. Checksums of payloads are skipped if
  /// nothing depends on them, and FrameOutput::records need not be filled. Records get the same
  /// numbers either way.
  bool units_only = false;
  /// Called before the first record if the file says what its elements are; may be null. A failure
  /// is the program's mistake and ends the file, whatever on_damage says.
  ElementCheck check_elements{};
  /// The file was opened again and is longer than file_bytes now. No pass reads the rest.
  bool has_grown = false;
};

/// Memory for records that are not in the file as they are: those of a compressed chunk.
class FrameMemory {
 public:
  virtual ~FrameMemory() = default;
  /// `bytes` (at least one) that live as long as the records of this call. Null if there is no
  /// more, which the framer reports as kResourceExhausted. Never more than a size in the file
  /// promises, checked against max_record_bytes, or than was really decompressed.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
};

/// Pieces of the heap, for framing outside of a pipeline. They live until Clear.
class HeapFrameMemory final : public FrameMemory {
 public:
  std::byte* Allocate(std::size_t bytes) override {
    pieces_.push_back(std::make_unique<std::byte[]>(bytes));
    return pieces_.back().get();
  }
  void Clear() { pieces_.clear(); }

 private:
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

/// The bytes at hand in memory: contiguous, from `offset` in the file.
struct FrameInput {
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;
  std::uint64_t limit = 0;        ///< only records that start before this offset are framed
  bool at_end = false;            ///< `bytes` reach the end of the file
  FrameMemory* memory = nullptr;  ///< for formats with compressed records; never null to those
  /// The framer may leave the checksum of a payload of so many bytes or more to a later reader of
  /// the payload. It may do so only if nothing that is framed depends on the checksum: the sum
  /// follows the payload, as in TFRecord.
  std::size_t leaves_sums_from = kLeavesNone;

  static constexpr std::size_t kLeavesNone = ~std::size_t{0};
};

/// Records that are read together: one record, or those of a chunk. An index is made of units.
struct FramedUnit {
  std::uint64_t begin = 0;  ///< in the file; the unit belongs to the stripe that it begins in
  std::uint64_t end = 0;    ///< of what its records need; not used if they are lost
  std::uint32_t records = 1;
  bool lost = false;       ///< its records are null spans, whatever is read again
  bool dependent = false;  ///< its records depend on what is in front of the unit
};

/// Frame appends to it. Spans point into the input's bytes or into what its memory gave (even for
/// an empty record: never null).
struct FrameOutput {
  std::vector<RecordSpan> records;    ///< a damaged record with a known length is a null span
  std::vector<DamagedRange> damage;   ///< under kSkip: what was passed over, in order
  std::vector<DataWarning> warnings;  ///< at the end of the file, under either policy
  std::uint64_t more_holes = 0;       ///< null spans beyond the first one of each range of damage
  /// Not 0 for records whose payload's checksum is still to be checked
  /// (FrameInput::leaves_sums_from). Records past its end are checked.
  std::vector<std::uint8_t> unchecked;
  /// Set by unit framers: all later records of the unit are lost, too.
  bool rest_lost = false;
  /// Not null: gets the units of the records that are appended. (Formats with Format::OwnIndex
  /// leave it.)
  std::vector<FramedUnit>* units = nullptr;

  /// Notes that the checksum of that record's payload is still to be checked.
  void LeaveSum(std::size_t record) {
    if (unchecked.size() <= record) unchecked.resize(record + 1);
    unchecked[record] = 1;
  }
  void EraseRecord(std::size_t record) {
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(record));
    if (record < unchecked.size()) {
      unchecked.erase(unchecked.begin() + static_cast<std::ptrdiff_t>(record));
    }
  }
  /// Keeps the first records.
  void CutRecords(std::size_t count) {
    records.resize(count);
    if (unchecked.size() > count) unchecked.resize(count);
  }
};

/// How far a call of Frame got.
struct FrameResult {
  std::size_t consumed = 0;    ///< the next call starts at offset + consumed
  std::size_t need_bytes = 0;  ///< 0: at the limit or the end; else call again with at least this
                               ///< many contiguous bytes from offset + consumed (or at_end)
  Status status;               ///< under kFail, the damage; what precedes it was appended
};

/// Cuts one file's bytes into records and checks them, from its start to its end, in order. Keeps
/// what it must remember between calls (ordinals, a resynchronisation in progress). One thread at a
/// time.
class Framer {
 public:
  virtual ~Framer() = default;
  virtual FrameResult Frame(const FrameInput& input, FrameOutput* output) = 0;
};

/// Reads units that an index lists, in any order. One thread at a time.
class UnitFramer {
 public:
  explicit UnitFramer(const FramerOptions& options) : options_(options) {}
  virtual ~UnitFramer() = default;
  /// Checks the unit in unit.bytes, which starts at unit.offset, and appends as many records as the
  /// index counted in it. A damaged record becomes a null span, with its range in output->damage.
  /// Under kFail it becomes a failure instead, after the records before it. unit.limit and at_end
  /// are not used. A unit without bytes, in a format whose records have some, was lost when the
  /// index was made: it gives null spans. If they are very many it gives some (rest_lost).
  virtual Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) = 0;

 protected:
  /// The unit's records cannot be had: under kSkip, null spans and a range, under kFail a failure.
  /// `problem` may be empty if only their number is unexpected.
  Status Lose(const FrameInput& unit, std::uint32_t records, std::string_view problem,
              FrameOutput* output) const;

  const FramerOptions options_;
};

/// Why a unit that has no bytes in the index is lost.
inline constexpr std::string_view kLostBefore = "it was damaged when the file was indexed";

/// Under kSkip, appends null spans for a unit of so many lost records. An index may claim very
/// many: then it appends the first ones, and sets rest_lost for the others.
void AppendHoles(std::uint32_t records, FrameOutput* output);

class Format;

/// What indexes other programs make of a format's files.
enum class ForeignIndex : std::uint8_t { kNone, kOfTfRecord, kOfTar };

/// Reads a file: as much of `to` as it has from `offset` on.
using ReadPart =
    std::function<Status(std::uint64_t offset, std::span<std::byte> to, std::size_t* got)>;

/// An index that needs no scan.
struct OwnIndexResult {
  Status status;  ///< why there is none, if the file is not what it should be
  std::shared_ptr<const RecordIndex> index;  ///< null with an OK status: only a scan can tell
  std::size_t need_bytes = 0;                ///< not 0: the head must have as many
};

/// Says in which file the records of a format of two files are. `data_file` is empty if they are in
/// the named file itself. If there is a `source`, its bytes are read in place of that file's.
struct CompanionResult {
  Status status;
  std::string data_file;
  std::shared_ptr<const Format> format;  ///< the format for that file: it knows the other one
  std::shared_ptr<Source> source{};
};

/// One file format: how it is recognised, how its stream is cut into stripes and records.
/// Stateless; all methods thread safe.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;
  /// True if the file's name (its ending) or its first bytes (up to kHeadBytes of them) are this
  /// format's.
  virtual bool MatchesName(std::string_view file_name) const = 0;
  virtual bool MatchesBytes(std::span<const std::byte> head) const = 0;
  /// How many stripes of the order a file of this size has: one for each stripe_bytes begun, unless
  /// the format says otherwise (a raw file is one).
  virtual std::uint64_t Stripes(std::uint64_t file_bytes, std::uint64_t stripe_bytes) const;
  virtual std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const = 0;
  /// The format of a file that begins so, if it needs one of its own: its columns stand in another
  /// order. Null: this one.
  virtual std::shared_ptr<const Format> OfFile(Compression /*compression*/,
                                               std::span<const std::byte> /*head*/) const {
    return nullptr;
  }
  /// A framer for the bytes from `offset` on, after a loss of unknown length. It finds the next
  /// whole record, which may start in the middle of its input. Null if the format cannot tell a
  /// record from other bytes, so that nothing after a loss can be believed.
  virtual std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& /*options*/,
                                                     std::uint64_t /*offset*/) const {
    return nullptr;
  }
  /// Reads units that an index of a file of this format lists. Null if records cannot be read by
  /// themselves.
  virtual std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& /*options*/) const {
    return nullptr;
  }
  /// The places of the records in a file of this format, if its size (options.file_bytes), its
  /// first bytes or a companion tell them. `head` is the whole file if that has fewer bytes than
  /// were asked for.
  virtual OwnIndexResult OwnIndex(const FramerOptions& /*options*/,
                                  std::span<const std::byte> /*head*/) const {
    return {};
  }
  /// Whether a compressed file of this format is decompressed. False if the format hands the file's
  /// bytes to the user as they are. If true, Stripes must be as above, and framers must take a
  /// file of unknown size.
  virtual bool decompresses() const { return true; }
  /// How many of a file's last bytes FindEnd looks at.
  static constexpr std::size_t kTailBytes = 1024;
  /// What a file of this format with these last bytes lacks at its end: a warning, as a framer
  /// gives it. Empty if it lacks nothing, or if only reading the file tells.
  virtual std::string FindEnd(std::span<const std::byte> /*tail*/) const { return {}; }
  /// For a format of two files: opens the one beside `file`.
  virtual CompanionResult FindCompanion(const std::string& /*file*/) const { return {}; }
  /// All files that hold the data that `file` names, by names alone: both files of a format of two,
  /// the one with the records last.
  virtual std::vector<std::string> FilesOf(const std::string& file) const { return {file}; }
  /// Whether what is framed after a damaged record is the same wherever the parts of a stripe end.
  /// False of tar: a sample is put together of members, some of them before the damaged one.
  virtual bool records_stand_alone() const { return true; }
  /// Whether the places of units are told by headers alone: a scan then touches few of the file's
  /// pages.
  virtual bool units_by_headers() const { return false; }
  /// Whether a record's number alone, with the file's head, gives its place: then bytes that cannot
  /// be read cost only the records that they are part of.
  virtual bool has_fixed_places() const { return false; }
  /// The indexes that are read if they lie beside files of this format.
  virtual ForeignIndex foreign_index() const { return ForeignIndex::kNone; }
  /// Whether a file that begins as that mistake may hold data of this format all the same. `asked`:
  /// the user named the format.
  virtual bool MayHold(Mistake mistake, bool /*asked*/) const { return mistake == Mistake::kNone; }
  /// A writer of this format to `file`, which is open. Fails if the format can only be read, or
  /// lacks a parameter.
  virtual RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const;
  /// What OpenRecordWriter takes to write a file's records as they stand in it; empty: name().
  virtual std::string CopyFormat() const { return {}; }
  /// Whether a record is the columns of a sample, which mean nothing without the file's head.
  virtual bool has_columns() const { return false; }
  /// Makes records of rows with these fields. Fails if a writer of the format has no place for
  /// them.
  virtual RowEncoderResult NewRowEncoder(const std::vector<FieldSpec>& fields) const;
  /// Whether a writer only appends: then what it writes can be compressed.
  virtual bool writes_in_order() const { return true; }
  /// For a format whose files say at their end where their records are: sets *own to the format of
  /// the file of so many bytes that `read` reads. (FindCompanion's format is asked if there is
  /// one.) Fails if it cannot be read, or is of a kind that is not; a damaged end is for the
  /// framers to report. Blocks.
  virtual Status ReadEnd(std::uint64_t /*file_bytes*/, const ReadPart& /*read*/,
                         std::shared_ptr<const Format>* /*own*/) const {
    return {};
  }
};

/// The format of that name with its parameters ("tfrecord", "rows:160",
/// "rows:160,header=128,stride=192", "raw"), and how it is compressed ("tfrecord+gzip"). Null and a
/// message that lists the known formats if the name is unknown or its parameters are wrong.
struct FormatResult {
  Status status;
  std::shared_ptr<const Format> format;
  Compression compression = Compression::kNone;  ///< what the format's bytes are wrapped in
  std::string data_file{};           ///< what is read in place of the named file; empty: that
  std::shared_ptr<Source> source{};  ///< read in place of data_file, if not null
};
FormatResult FindFormat(std::string_view name);
/// The names that FindFormat knows, for messages and helps: "tfrecord, recordio, …; some take …".
std::string KnownFormats();

/// Either file of a format of two files names all of the data. kInvalidArgument if a list of files
/// of the format `asked` names both. (Without a format the data file alone is refused.)
Status CheckPairs(std::string_view asked, std::span<const std::string> names);

/// So many of a file's first bytes are enough to detect its format, except for zstd.
inline constexpr std::size_t kHeadBytes = 4096;
/// The same for a file that begins as this head: zstd gives nothing before a block is complete, and
/// a block may have 128 KiB.
std::size_t HeadBytesOf(std::span<const std::byte> head);
/// The first bytes of a compressed file's content, at most `most`, as far as its own first bytes
/// hold them. *failure gets the reason for the end: usually the end of the head, which reading the
/// file meets again.
std::vector<std::byte> HeadOfContent(Compression compression, std::span<const std::byte> head,
                                     std::size_t most, Status* failure);
/// By the file's first bytes (decompressed, if it is compressed), else by its name. The message of
/// a failure says what was looked for.
FormatResult DetectFormat(std::string_view file_name, std::span<const std::byte> head);
/// Whether a stream's first bytes are enough for ChooseFormat: it then says the same however the
/// stream goes on. A name alone is enough if they are lines of text: the writer of the stream may
/// wait for an answer.
bool IsFormatTold(std::string_view asked, std::string_view file_name,
                  std::span<const std::byte> head);
/// FindFormat, or DetectFormat if `asked` is empty. In either case also says how the file is
/// compressed and which file is read. Blocks if it opens the companion of a format of two files.
FormatResult ChooseFormat(std::string_view asked, std::string_view file_name,
                          std::span<const std::byte> head);

/// What becomes of what has the name of an output.
struct OutputRules {
  bool replaces_link = false;  ///< not its target: the user did not give the name
  bool keeps_object = false;   ///< an object of a store stays, and is a failure
};
/// As the public one, by these rules.
RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format,
                                    const OutputRules& rules);

}  // namespace ringfeed
