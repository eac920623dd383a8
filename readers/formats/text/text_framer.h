#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/fetch_ahead.h"
#include "readers/formats/format.h"
#include "readers/formats/text/text_start.h"

namespace ringfeed {

/// An end of a row has so many bytes at most.
inline constexpr std::size_t kMostEndBytes = 2;
/// The result of a search that found no end of a row.
inline constexpr std::size_t kNoRowEnd = ~std::size_t{0};

/// A first row that is not a record.
struct HeaderRow {
  bool is_due = false;
  std::string expected{};  ///< what it has to be; empty: anything
};

/// Frames text: rows that end in LF or CRLF, the last one perhaps in neither. The Scanner defines a
/// row:
///   kPassesByteOrderMark     whether U+FEFF at the file's start is no part of the first row
///   IsNoRow(row, size)       whether the bytes between two ends are passed over
///   HasBareReturn(row, size) whether a CR in the row is in the place of an end
///   Start()                  a row starts
///   FindEnd(row, size)       the index of the LF that ends the row, or kNoRowEnd. It goes on from
///                            the place at which the call before, with fewer bytes of the row,
///                            stopped
///   DropScanned()            the next call gets the row without the bytes that this one got
///   OpenReason()             why the row cannot end here, or empty
template <typename Scanner>
class TextFramer final : public Framer {
 public:
  TextFramer(const FramerOptions& options, HeaderRow header, Scanner scanner)
      : options_(options), header_(std::move(header)), scanner_(std::move(scanner)) {
    scanner_.Start();
  }

  /// Passes over the bytes from `begin` up to the next row as damage.
  void PassRestOfRow(std::uint64_t begin, std::string reason) {
    passing_ = true;
    passing_begin_ = begin;
    passing_reason_ = std::move(reason);
    scanner_.Start();
  }

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override {
    FrameResult result;
    result.status = failed_;
    if (!failed_.ok()) return result;
    std::size_t pos = 0;
    if (ended_) {
      pos = input.bytes.size();
    } else if (PassStart(input, &pos, &result) == FrameStep::kGoOn) {
      while (Next(input, &pos, output, &result) == FrameStep::kGoOn) {
      }
    }
    result.consumed = pos;
    return result;
  }

 private:
  bool known_size() const { return options_.file_bytes != kUnknownSize; }
  bool AtEnd(const FrameInput& input) const {
    return input.at_end || input.offset + input.bytes.size() >= options_.file_bytes;
  }

  FrameStep PassStart(const FrameInput& input, std::size_t* pos, FrameResult* result) {
    if (input.offset != 0 || passing_) return FrameStep::kGoOn;
    TextStart start = LookAtTextStart(input.bytes, AtEnd(input));
    if (!start.other.empty()) return Unsupported(std::move(start.other), 0, result);
    result->need_bytes = start.need_bytes;
    if (start.need_bytes != 0) return FrameStep::kStop;
    if (Scanner::kPassesByteOrderMark) *pos = start.mark_bytes;
    first_row_ = start.mark_bytes;
    return FrameStep::kGoOn;
  }

  // The file is not damaged, so no policy passes over it.
  FrameStep Unsupported(std::string reason, std::uint64_t at, FrameResult* result) {
    failed_ = Status(StatusCode::kUnsupported, std::move(reason),
                     {options_.file, static_cast<std::int64_t>(at), next_record_});
    result->status = failed_;
    return FrameStep::kStop;
  }

  FrameStep Next(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                 FrameResult* result) {
    const std::uint64_t at = input.offset + *pos;
    if (at >= input.limit) return FrameStep::kStop;
    if (passing_) return PassOver(input, pos, output, result);
    const std::size_t left = input.bytes.size() - *pos;
    const std::byte* row = input.bytes.data() + *pos;
    // A row and its end of two bytes. A longer row is too long, whatever it goes on with.
    const std::size_t most = std::min(left, options_.max_record_bytes + 2);
    const std::size_t end = scanner_.FindEnd(row, most);
    if (end == kNoRowEnd) return Unended(input, pos, output, result);
    const std::size_t size = end - (end != 0 && row[end - 1] == std::byte{'\r'} ? 1 : 0);
    if (size > options_.max_record_bytes) [[unlikely]] {
      return TooLong(input, pos, output, result);
    }
    FetchAhead(row, end + 1);
    if (header_.is_due) [[unlikely]] {
      if (scanner_.HasBareReturn(row, size)) return BadHeader(end + 1, input, pos, output, result);
      if (!HasColumns({row, size})) return OtherColumns({row, size}, input, pos, output, result);
    }
    *pos += end + 1;
    scanner_.Start();
    Append({row, size}, at, output);
    return FrameStep::kGoOn;
  }

  bool HasColumns(const RecordSpan& row) const {
    if (header_.expected.empty() || Scanner::IsNoRow(row.data, row.size)) return true;
    return TextOf(row) == header_.expected;
  }
  // Whether the file has a row so far that begins at `at`, and no other.
  bool IsAll(std::uint64_t at) const { return at <= first_row_ && next_record_ == 0; }
  static std::string_view TextOf(const RecordSpan& row) {
    return {reinterpret_cast<const char*>(row.data), row.size};
  }

  // All of a file with other columns is lost: the values of its rows would go to the wrong fields.
  FrameStep OtherColumns(const RecordSpan& row, const FrameInput& input, std::size_t* pos,
                         FrameOutput* output, FrameResult* result) {
    const auto shown = [](std::string_view text) {
      constexpr std::size_t kMost = 80;
      const std::string whole(text.substr(0, kMost));
      return "\"" + whole + (text.size() > kMost ? "\"…" : "\"");
    };
    return LoseFile("the first row is " + shown(TextOf(row)) + " where the columns " +
                        shown(header_.expected) + " are expected",
                    input, pos, output, result);
  }

  // A first row of so many bytes may hold other rows: its LF is another byte, or most rows of the
  // file end in CR alone.
  FrameStep BadHeader(std::size_t bytes, const FrameInput& input, std::size_t* pos,
                      FrameOutput* output, FrameResult* result) {
    std::string reason = "the row of the columns' names holds a CR, and a CR alone ends no row";
    if (!header_.expected.empty()) return LoseFile(std::move(reason), input, pos, output, result);
    const std::uint64_t at = input.offset + *pos;
    (void)Damaged(StatusCode::kDamaged, std::move(reason), at, at + bytes, output, result);
    if (!result->status.ok()) return FrameStep::kStop;
    header_.is_due = false;
    *pos += bytes;
    scanner_.Start();
    return FrameStep::kGoOn;
  }

  FrameStep LoseFile(std::string reason, const FrameInput& input, std::size_t* pos,
                     FrameOutput* output, FrameResult* result) {
    const std::uint64_t here = input.offset + input.bytes.size();
    ended_ = true;
    const FrameStep step = Damaged(StatusCode::kDamaged, std::move(reason), input.offset + *pos,
                                   known_size() ? options_.file_bytes : here, output, result);
    if (result->status.ok()) *pos = input.bytes.size();
    return step;
  }

  void Append(RecordSpan row, std::uint64_t at, FrameOutput* output) {
    if (Scanner::IsNoRow(row.data, row.size)) return;
    if (header_.is_due) [[unlikely]] {
      header_.is_due = false;
      return;
    }
    output->records.push_back(row);
    if (output->units != nullptr) output->units->push_back({at, at + row.size + kMostEndBytes});
    ++next_record_;
  }

  // The bytes at hand do not hold the end of the row.
  FrameStep Unended(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                    FrameResult* result) {
    const std::uint64_t at = input.offset + *pos;
    const std::size_t left = input.bytes.size() - *pos;
    if (left > options_.max_record_bytes + 1) return TooLong(input, pos, output, result);
    if (!AtEnd(input)) {
      result->need_bytes = NeedBytes(at, left);
      return FrameStep::kStop;
    }
    return LastRow(input, pos, output, result);
  }

  // How far to read for a row of which `left` bytes are here. In a file: so far that a long row is
  // asked for only a few times. In a stream: as few bytes as may bring the row's end, since that
  // may take any time, unless the row is long.
  std::size_t NeedBytes(std::uint64_t at, std::size_t left) const {
    constexpr std::size_t kFewest = 4096;
    constexpr std::size_t kLong = 64 * 1024;
    // So many bytes tell that it is too long.
    const std::size_t most = options_.max_record_bytes + kMostEndBytes;
    if (!known_size()) return left < kLong ? left + 1 : std::min(2 * left, most);
    const std::size_t more = std::min(left + std::max(left, kFewest), most);
    return static_cast<std::size_t>(std::min<std::uint64_t>(more, options_.file_bytes - at));
  }

  FrameStep LastRow(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                    FrameResult* result) {
    const std::uint64_t at = input.offset + *pos;
    const std::size_t left = input.bytes.size() - *pos;
    const std::uint64_t end = input.offset + input.bytes.size();
    const std::string_view open = scanner_.OpenReason();
    ended_ = true;
    FrameStep step = FrameStep::kStop;
    if (known_size() && end < options_.file_bytes) {
      step = Damaged(StatusCode::kTruncated,
                     "the file shrank from " + std::to_string(options_.file_bytes) + " to " +
                         std::to_string(end) + " bytes",
                     at, options_.file_bytes, output, result);
    } else if (left != 0 && options_.has_grown) {
      step = Damaged(StatusCode::kDamaged,
                     "the file had " + std::to_string(options_.file_bytes) +
                         " bytes when it was first opened and is longer now: its last row is cut",
                     at, end, output, result);
    } else if (left != 0 && !open.empty()) {
      step = Damaged(StatusCode::kTruncated, std::string(open), at, end, output, result);
    } else if (left > 1 && IsAll(at) &&
               scanner_.HasBareReturn(input.bytes.data() + *pos, left - 1)) {
      return Unsupported(CarriageReturnsAlone(), at, result);
    } else if (left > options_.max_record_bytes) {
      return TooLong(input, pos, output, result);
    } else if (left != 0 && header_.is_due && !HasColumns({input.bytes.data() + *pos, left})) {
      return OtherColumns({input.bytes.data() + *pos, left}, input, pos, output, result);
    } else if (left != 0) {
      Append({input.bytes.data() + *pos, left}, at, output);
    }
    if (step == FrameStep::kStop && result->status.ok()) *pos = input.bytes.size();
    return FrameStep::kStop;
  }

  FrameStep TooLong(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                    FrameResult* result) {
    const std::uint64_t at = input.offset + *pos;
    constexpr std::size_t kLooked = 64 * 1024;
    const std::size_t seen =
        std::min({input.bytes.size() - *pos, options_.max_record_bytes + 1, kLooked});
    const bool returns = IsAll(at) && scanner_.HasBareReturn(input.bytes.data() + *pos, seen);
    const std::string reason = "a row is longer than max_record_bytes (" +
                               std::to_string(options_.max_record_bytes) +
                               (returns ? "), and no row ends in the CR that it holds" : ")");
    if (options_.on_damage == OnDamage::kFail) {
      return Damaged(StatusCode::kResourceExhausted, reason, at, at, output, result);
    }
    if (header_.is_due && !header_.expected.empty()) {
      return LoseFile(reason + ", of the columns' names", input, pos, output, result);
    }
    ended_ = false;
    PassRestOfRow(at, reason);
    if (header_.is_due) {
      header_.is_due = false;
    } else {
      output->records.push_back({});
      if (output->units != nullptr) output->units->push_back({at, at, 1, true});
      ++next_record_;
    }
    return FrameStep::kGoOn;
  }

  // Goes on to the end of a row that is too long.
  FrameStep PassOver(const FrameInput& input, std::size_t* pos, FrameOutput* output,
                     FrameResult* result) {
    const std::uint64_t at = input.offset + *pos;
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(input.bytes.size() - *pos, input.limit - at));
    const std::size_t end = scanner_.FindEnd(input.bytes.data() + *pos, wanted);
    if (end != kNoRowEnd) {
      *pos += end + 1;
      scanner_.Start();
    } else {
      *pos += wanted;
      scanner_.DropScanned();
      if (*pos < input.bytes.size()) return FrameStep::kStop;  // at the limit
      if (!AtEnd(input)) {
        result->need_bytes = input.offset + *pos < input.limit ? 1 : 0;
        return FrameStep::kStop;
      }
      ended_ = true;
    }
    passing_ = false;
    output->damage.push_back(
        {options_.file, passing_begin_, input.offset + *pos, std::move(passing_reason_)});
    return ended_ ? FrameStep::kStop : FrameStep::kGoOn;
  }

  FrameStep Damaged(StatusCode code, std::string reason, std::uint64_t begin, std::uint64_t end,
                    FrameOutput* output, FrameResult* result) {
    if (options_.on_damage == OnDamage::kFail) {
      const DataPlace place{options_.file, static_cast<std::int64_t>(begin), next_record_};
      failed_ = Status(code, std::move(reason), place);
      result->status = failed_;
    } else {
      output->damage.push_back({options_.file, begin, end, std::move(reason)});
    }
    return FrameStep::kStop;
  }

  const FramerOptions options_;
  HeaderRow header_;
  Scanner scanner_;
  std::int64_t next_record_ = 0;
  std::uint64_t first_row_ = 0;  // the place of the first row, after a byte order mark
  bool passing_ = false;         // the row at passing_begin_ is too long, or no row
  std::uint64_t passing_begin_ = 0;
  std::string passing_reason_;
  bool ended_ = false;
  Status failed_;
};

/// Takes rows by themselves: each up to its end. Bytes after it must hold no other record.
template <typename Scanner>
class TextUnitFramer final : public UnitFramer {
 public:
  TextUnitFramer(const FramerOptions& options, Scanner scanner)
      : lost_(options),
        most_(options.max_record_bytes),
        file_bytes_(options.file_bytes),
        scanner_(std::move(scanner)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return lost_.Lose(unit, records, kLostBefore, output);
    const std::byte* const row = unit.bytes.data();
    scanner_.Start();
    const std::size_t end = scanner_.FindEnd(row, unit.bytes.size());
    const bool open = end == kNoRowEnd;
    std::size_t size = open ? unit.bytes.size() : end;
    if (!open && size != 0 && row[size - 1] == std::byte{'\r'}) --size;
    std::string_view problem = open ? scanner_.OpenReason() : std::string_view();
    const bool ends = file_bytes_ == kUnknownSize || unit.offset + size >= file_bytes_;
    if (open && problem.empty() && !ends) problem = "the row goes on behind its unit";
    if (!open && HasRow(unit.bytes.subspan(end + 1))) {
      problem = "another row stands after it that the index does not know";
    }
    if (size > most_) problem = "a row is longer than max_record_bytes";
    if (Scanner::IsNoRow(row, size)) problem = "the row is empty";
    if (!problem.empty() || records != 1) return lost_.Lose(unit, records, problem, output);
    output->records.push_back({row, size});
    return {};
  }

 private:
  // A unit may end one byte after the end of its row, which has two bytes at most: in a lost row.
  static bool HasRow(std::span<const std::byte> rest) {
    const bool empty_rows_count = !Scanner::IsNoRow(rest.data(), 0);
    if (rest.size() < kMostEndBytes) {
      return empty_rows_count && !rest.empty() && rest.front() == std::byte{'\n'};
    }
    const auto is_blank = [](std::byte byte) {
      return byte == std::byte{'\n'} || byte == std::byte{'\r'} || byte == std::byte{' '} ||
             byte == std::byte{'\t'};
    };
    return empty_rows_count || !std::all_of(rest.begin(), rest.end(), is_blank);
  }

  const LostUnits lost_;
  const std::size_t most_;
  const std::uint64_t file_bytes_;
  Scanner scanner_;
};

}  // namespace ringfeed
