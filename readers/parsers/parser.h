#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/format.h"
#include "readers/parsers/refusal.h"
#include "ringfeed/instance.h"
#include "ringfeed/record.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The place of one field in one record, found in the first phase. The parser alone defines `data`,
/// `bytes` and `form`. `units` is the length of the first dimension of a ragged field.
struct FieldLocation {
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t units = 0;
  std::uint32_t form = 0;
};

/// What a field becomes in the tensors that users get.
enum class FieldRole : std::uint8_t {
  kTensor,      ///< a tensor; the LoD of a ragged one is the offsets of its rows
  kLodLevel,    ///< a level of the LoD of the next field that is none: see below
  kLodValues,   ///< a ragged field's rows joined to one tensor; its LoD is the levels before it
  kNestedRows,  ///< a ragged field whose rows are sequences of sequences: its LoD is the rows of
                ///< the first level before it, and these levels
};
// A level is a ragged int64 field of shape [-1]. Its units are the sequences of that level. Its
// values are the ends of these, in units of the next field: the next lower level, or the values.
// Write counts the ends from the batch's start, by that field's offsets. In memory a 0 precedes the
// first end, so that 0 and the ends are a level of LoD in offset form.

/// The place to which a run of rows of one field is written. Fixed fields: row r goes to data + r *
/// unit_bytes. Ragged ones: `data` is the first value of the batch, row r starts at unit
/// offsets[r], and the writer sets offsets[r + 1] (offsets[0] is set). Without `data` the values
/// are not written, only the offsets (see CopiesBytesOf).
struct ColumnTarget {
  std::byte* data = nullptr;
  std::int64_t* offsets = nullptr;
};

/// A row that could not be parsed: its index in the call's rows, and why.
struct RowFailure {
  std::size_t row = 0;
  Status status;
  /// The payload does not match its checksum, which framing left unchecked: the row is damaged, as
  /// if framing had found that.
  bool of_payload = false;
  std::uint64_t pass = 0;  ///< of such a row
};

class Parser;

/// How the lengths of a field are known without the rest of its parser.
struct FieldLengths {
  /// Names them: as ParserFromText takes it, a parser of that field alone. Empty if only the whole
  /// parser can tell, since a function of the user's makes the field.
  std::string key;
  std::shared_ptr<const Parser> parser;  ///< gives that field first; null with an empty key
  /// Not 0: a record has a unit for each so many of its bytes, and no rest.
  std::size_t unit_bytes = 0;
};

/// The failure of a row whose bytes changed after they were located: someone wrote to a mapped
/// file.
inline Status ChangedSinceLocated() {
  return Status(StatusCode::kDamaged, "the record's bytes changed while it was read");
}

/// Turns records into fields of a batch, in one step, or in two if a field is ragged. Locate finds
/// the fields and their lengths while the record is in the cache. Write puts them to their places
/// once those are known. Immutable, shared by threads; a thread's own memory is its Scratch. A
/// parser that changes what another one does derives from ParserDecorator, which forwards every
/// virtual method of this class.
class Parser {
 public:
  /// A thread's memory between calls (the order of keys in the record before, staging lines).
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~Parser() = default;
  virtual std::string name() const = 0;
  /// The user's function that makes the rows, as messages call it; "" without one.
  virtual std::string function_name() const { return {}; }
  const std::vector<FieldSpec>& fields() const { return fields_; }
  FieldRole role(std::size_t field) const {
    return field < roles_.size() ? roles_[field] : FieldRole::kTensor;
  }
  bool has_lod() const { return !roles_.empty(); }
  /// Whether each row is one record for the user, whatever levels its fields have.
  bool gives_records() const { return roles_.empty() || gives_records_; }
  /// True if Locate must precede Write.
  bool two_phase() const { return two_phase_; }
  virtual std::unique_ptr<Scratch> NewScratch() const = 0;

  /// How many locations a row has: one for each field. If no field is ragged, it may be a single
  /// one of the row, which only the parser understands: with many fields they cost more than
  /// the values.
  std::size_t row_locations() const { return locates_rows_ ? 1 : fields_.size(); }
  /// First phase: fills locations[row * row_locations() + field] for every row; appends a failure
  /// for a row that cannot be parsed (its locations are then unspecified). Damaged rows are not
  /// passed.
  virtual void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                      std::vector<RowFailure>* failures) const = 0;
  /// Whether it accepts a file's elements for what the file says they are; else it fails with
  /// kInvalidArgument and both types.
  virtual Status CheckElements(const FileElements& /*elements*/) const { return {}; }
  /// Why it refuses a record that failed with `why`. Slow, and called for few records.
  virtual Refusal Explain(const RecordSpan& /*record*/, const Status& why) const {
    return RefusalOf(why, fields_);
  }
  /// Added to the failure of a file's first record, if the file has no more than `before` in front
  /// of it: what that record may be instead. "" if there is nothing to say. Slow, and called for
  /// few records.
  virtual std::string HintOfFirst(const RecordSpan& /*record*/,
                                  std::span<const std::byte> /*before*/) const {
    return {};
  }
  /// Cuts the location of a ragged field to its first `units` units, fewer than it has. False if a
  /// location cannot tell how: the caller then has all of it written to another place.
  virtual bool Cut(std::size_t /*field*/, std::uint32_t units, FieldLocation* location) const {
    if (!units_alike_ || location->units == 0) return false;
    location->bytes = location->bytes / location->units * units;
    location->units = units;
    return true;
  }
  /// Whether Write may copy a field's bytes to their place just as the record has them. Then Locate
  /// finds fields even if two_phase() is false, and Write knows targets without data.
  virtual bool CopiesBytesOf(std::size_t /*field*/) const { return false; }
  /// The bytes of the record that Write would so copy; none if it would write others. Asked only of
  /// such fields.
  virtual std::span<const std::byte> BytesOf(std::size_t /*field*/, const RecordSpan& /*record*/,
                                             const FieldLocation& /*location*/) const {
    return {};
  }
  /// Whether Locate, or Write of targets without data, reads the bytes of records. If not, it uses
  /// only their addresses and lengths.
  virtual bool ReadsBytes() const { return true; }
  /// What locations point at besides the records, to be kept as long as they are: taken after each
  /// Locate.
  virtual std::shared_ptr<const void> TakeStorage(Scratch* /*scratch*/) const { return nullptr; }
  /// How many rows Locate cut short since the last call: by Truncate or Pack.
  virtual std::uint32_t TakeTruncated(Scratch* /*scratch*/) const { return 0; }
  /// Adds what it knows of the rows that were parsed so far. Thread safe.
  virtual void AddTo(PipelineStats* /*stats*/) const {}
  /// Rows that one Write should get at most: few if a row costs much, so that threads share them.
  virtual std::size_t max_rows_per_write() const { return 1 << 20; }
  /// Second phase, or the only one (`locations` null if two_phase() is false): writes all rows to
  /// targets[field]. Prefers stores that pass the caches, since the batch is not read soon. It
  /// appends a row that fails to `failures`, once or more often; that row's place holds zeros (only
  /// if two_phase() is false). A record of a mapped file may have other bytes than Locate saw.
  /// Whatever they are, exactly the located units of each field are written, and the row fails if
  /// these bytes are no such units.
  virtual void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                     std::span<const ColumnTarget> targets, Scratch* scratch,
                     std::vector<RowFailure>* failures) const = 0;
  /// What tells the lengths of a ragged field apart from those of others; see FieldLengths.
  virtual FieldLengths LengthsOf(std::size_t /*field*/) const { return {}; }
  /// Fills a row's place of a fixed field for a row that a padded batch lacks.
  virtual void WriteMissing(std::size_t /*field*/, std::span<std::byte> row) const {
    std::fill(row.begin(), row.end(), std::byte{0});
  }

 protected:
  /// False if a field of that name exists.
  bool AddField(FieldSpec field) {
    for (const FieldSpec& other : fields_) {
      if (other.name == field.name) return false;
    }
    two_phase_ = two_phase_ || field.ragged();
    fields_.push_back(std::move(field));
    return true;
  }

  std::vector<FieldSpec> fields_;
  std::vector<FieldRole> roles_;  ///< of each field; those without are tensors
  bool gives_records_ = false;    ///< levels are within a row
  bool two_phase_ = false;
  bool locates_rows_ = false;  ///< one location is a row's; no field is ragged then
  bool units_alike_ = false;   ///< every unit of a location takes as many of its bytes
};

/// Parser::CheckElements, for framers; null without a parser.
inline ElementCheck ElementCheckOf(const std::shared_ptr<const Parser>& parser) {
  if (parser == nullptr) return nullptr;
  return [parser](const FileElements& elements) { return parser->CheckElements(elements); };
}

/// For files whose format was detected, not named: whether a parser takes its records. Some formats
/// have one kind of record, and most of this library's parsers refuse all of them: that is a
/// mistake in a list of files (kInvalidArgument), and no damage. Null without a parser.
FormatCheck FormatCheckOf(const std::shared_ptr<const Parser>& parser);

/// The parser that a text describes, as the command takes it: "NAME: FIELDS", or "raw". [] is
/// ragged, [,4] ragged in its first dimension, ?V a default, of an OFRecord ~ cut or filled up, |
/// between the context and the feature lists, @0 a column's number, /1 levels of LoD. A failure
/// says what was expected at which place.
struct ParserResult {
  Status status;
  std::shared_ptr<const Parser> parser;
};
ParserResult ParserFromText(const std::string& text);
/// Such a text for each parser, for helps: "'raw' | 'rows: f4[13] …' | …".
std::string ParserExamples();

/// The number of the parser's ragged field of that name. Throws Error, which says that `who` asks,
/// if there is none, or if levels of LoD join its rows.
std::size_t FindRaggedField(const Parser& parser, const std::string& name, const std::string& who);

/// Bytes in front of a level's values in memory: the 0 that they lack.
inline constexpr std::size_t kLevelLeadBytes = sizeof(std::int64_t);

/// The bytes in front of a field's values: a level's 0, else none.
inline std::size_t LeadBytes(const Parser& parser, std::size_t field) {
  return parser.role(field) == FieldRole::kLodLevel ? kLevelLeadBytes : 0;
}

/// The fields that users see: all but the levels.
std::vector<FieldSpec> TensorFields(const Parser& parser);

/// Turns one tensor for each field, as it is in memory, into the tensors that users see: levels
/// become the LoD of the tensor that they belong to, which keeps their memory alive as well as its
/// own. A level's 0 must be there.
Instance JoinLevels(const Parser& parser, Instance columns);

}  // namespace ringfeed
