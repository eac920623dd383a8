#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/fetch_ahead.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/text/csv_order.h"
#include "readers/formats/text/text_start.h"

namespace ringfeed {

/// An end of a row has so many bytes at most.
inline constexpr std::size_t kMostEndBytes = 2;
/// The result of a search that found no end of a row.
inline constexpr std::size_t kNoRowEnd = ~std::size_t{0};

#ifdef __SSE2__
/// Bytes that EqualBytes looks at.
inline constexpr std::size_t kLookBytes = 64;

/// Which of the kLookBytes from `at` on are `c`: a bit for each.
inline std::uint64_t EqualBytes(const std::byte* at, char c) {
  const __m128i wanted = _mm_set1_epi8(c);
  std::uint64_t equal = 0;
  for (std::size_t i = 0; i < kLookBytes; i += sizeof(wanted)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
    const auto bits = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)));
    equal |= std::uint64_t{bits} << i;
  }
  return equal;
}
#endif

/// A first row that is not a record.
struct HeaderRow {
  bool is_due = false;
  std::string expected{};                   ///< what it has to be; empty: anything
  std::string lacking{};                    ///< a name that the file's own row lacks
  std::shared_ptr<const CsvOrder> order{};  ///< that the rows after it are put in; null: their own
};

/// Frames text: rows that end in LF or CRLF, the last one perhaps in neither. The Scanner defines a
/// row:
///   kPassesByteOrderMark     whether U+FEFF at the file's start is no part of the first row
///   kHasQuotes               whether a row with a quote may hold an LF that does not end it
///   IsNoRow(row, size)       whether the bytes between two ends are passed over
///   HasBareReturn(row, size) whether a CR in the row is in the place of an end
///   Start()                  a row starts
///   IsAtStart()              no byte of the row was looked at
///   FindEnd(row, size)       the index of the LF that ends the row, or kNoRowEnd. It goes on from
///                            the place at which the call before, with fewer bytes of the row,
///                            stopped
///   DropScanned()            the next call gets the row without the bytes that this one got
///   OpenReason()             why the row cannot end here, or empty
template <typename Scanner>
class TextFramer final : public SteppedFramer {
 public:
  TextFramer(const FramerOptions& options, HeaderRow header, Scanner scanner)
      : SteppedFramer(options), header_(std::move(header)), scanner_(std::move(scanner)) {
    scanner_.Start();
  }

  /// Passes over the bytes from `begin` up to the next row as damage.
  void PassRestOfRow(std::uint64_t begin, std::string reason) {
    passing_ = true;
    passing_begin_ = begin;
    passing_reason_ = std::move(reason);
    scanner_.Start();
  }

 private:
  void Run(FrameCall* call) override {
    if (ended_) {
      (void)PassFile(call);
    } else if (PassStart(call) == FrameStep::kGoOn) {
      do {
        TakePlainRows(call);
      } while (Next(call) == FrameStep::kGoOn);
    }
  }

  bool AtEnd(const FrameInput& input) const {
    return input.at_end || input.offset + input.bytes.size() >= options_.file_bytes;
  }

  FrameStep PassStart(FrameCall* call) {
    if (call->input.offset != 0 || passing_) return FrameStep::kGoOn;
    TextStart start = LookAtTextStart(call->input.bytes, AtEnd(call->input));
    if (!start.other.empty())
      return Fail(StatusCode::kUnsupported, std::move(start.other), 0, call);
    if (start.need_bytes != 0) return call->Need(start.need_bytes);
    if (Scanner::kPassesByteOrderMark) call->pos = start.mark_bytes;
    first_row_ = start.mark_bytes;
    return FrameStep::kGoOn;
  }

  // Takes short rows without a quote, of which the bytes at hand hold the end, up to the first
  // other row. Next would take the same rows, with two searches for each.
  void TakePlainRows([[maybe_unused]] FrameCall* call) {
#ifdef __SSE2__
    constexpr std::size_t kLong = 1024;  // memchr finds the end of a longer row in less time
    if (passing_ || header_.is_due || header_.order != nullptr || !scanner_.IsAtStart()) return;
    const std::span<const std::byte> bytes = call->input.bytes;
    for (std::size_t at = call->pos; at + kLookBytes <= bytes.size(); at += kLookBytes) {
      const std::byte* const look = bytes.data() + at;
      std::uint64_t ends = EqualBytes(look, '\n');
      const std::uint64_t quotes = Scanner::kHasQuotes ? EqualBytes(look, '"') : 0;
      if (quotes != 0) ends &= (quotes & -quotes) - 1;  // those before the first quote
      FetchAhead(look, kLookBytes);
      for (; ends != 0; ends &= ends - 1) {
        const std::size_t end = at + static_cast<std::size_t>(std::countr_zero(ends)) - call->pos;
        const std::byte* const row = call->data();
        const std::size_t size = end - (end != 0 && row[end - 1] == std::byte{'\r'} ? 1 : 0);
        if (call->at() >= call->input.limit || size > options_.max_record_bytes) return;
        AppendRow({row, size}, call->at(), call->output);
        call->pos += end + 1;
      }
      if (quotes != 0 || at >= call->pos + kLong) return;
    }
#endif
  }

  FrameStep Next(FrameCall* call) {
    const std::uint64_t at = call->at();
    if (at >= call->input.limit) return FrameStep::kStop;
    if (passing_) return PassOver(call);
    const std::size_t left = call->left();
    const std::byte* row = call->data();
    // A row and its end of two bytes. A longer row is too long, whatever it goes on with.
    const std::size_t most = std::min(left, options_.max_record_bytes + 2);
    const std::size_t end = scanner_.FindEnd(row, most);
    if (end == kNoRowEnd) return Unended(call);
    const std::size_t size = end - (end != 0 && row[end - 1] == std::byte{'\r'} ? 1 : 0);
    if (size > options_.max_record_bytes) [[unlikely]] {
      return TooLong(call);
    }
    FetchAhead(row, end + 1);
    if (header_.is_due) [[unlikely]] {
      if (scanner_.HasBareReturn(row, size)) return BadHeader(end + 1, call);
      if (!HasColumns({row, size})) return OtherColumns({row, size}, call);
    }
    call->pos += end + 1;
    scanner_.Start();
    return TakeRow({row, size}, at, call);
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
  FrameStep OtherColumns(const RecordSpan& row, FrameCall* call) {
    const auto shown = [](std::string_view text) {
      constexpr std::size_t kMost = 80;
      const std::string whole(text.substr(0, kMost));
      return "\"" + whole + (text.size() > kMost ? "\"…" : "\"");
    };
    return LoseFile("the first row is " + shown(TextOf(row)) + " where the columns " +
                        shown(header_.expected) + " are expected" +
                        (header_.lacking.empty() ? "" : ": it lacks " + shown(header_.lacking)),
                    call);
  }

  // A first row of so many bytes may hold other rows: its LF is another byte, or most rows of the
  // file end in CR alone.
  FrameStep BadHeader(std::size_t bytes, FrameCall* call) {
    std::string reason = "the row of the columns' names holds a CR, and a CR alone ends no row";
    if (!header_.expected.empty()) return LoseFile(std::move(reason), call);
    const std::uint64_t at = call->at();
    const FrameStep step = Damaged(StatusCode::kDamaged, std::move(reason), at, at + bytes, call);
    if (step == FrameStep::kStop) return step;
    header_.is_due = false;
    call->pos += bytes;
    scanner_.Start();
    return FrameStep::kGoOn;
  }

  FrameStep LoseFile(std::string reason, FrameCall* call) {
    ended_ = true;
    if (options_.on_damage == OnDamage::kFail) {
      return Fail(StatusCode::kDamaged, std::move(reason), call->at(), call);
    }
    passing_ = true;
    passing_begin_ = call->at();
    passing_reason_ = std::move(reason);
    return PassFile(call);
  }

  // Passes over what is left. If it is lost, that is noted once its end is known.
  FrameStep PassFile(FrameCall* call) {
    if (passing_ && !known_size() && !call->input.at_end) return call->PassRest(1);
    const std::uint64_t end = known_size() ? options_.file_bytes : call->end();
    if (std::exchange(passing_, false)) Note(passing_begin_, end, std::move(passing_reason_), call);
    return call->PassRest(0);
  }

  FrameStep TakeRow(RecordSpan row, std::uint64_t at, FrameCall* call) {
    const bool moves = header_.order != nullptr && !header_.is_due && !options_.units_only;
    if (moves && !Scanner::IsNoRow(row.data, row.size)) [[unlikely]] {
      const std::uint64_t end = at + row.size;
      const Status status = header_.order->Apply(call->input.memory, &row);
      if (status.code() == StatusCode::kResourceExhausted) {
        return Fail(status.code(), status.message(), at, call);
      }
      if (!status.ok()) {
        const FrameStep step = Damaged(status.code(), status.message(), at, end, call);
        if (step == FrameStep::kGoOn) LoseRecord(at, call);
        return step;
      }
    }
    AppendRow(row, at, call->output);
    return FrameStep::kGoOn;
  }

  void AppendRow(RecordSpan row, std::uint64_t at, FrameOutput* output) {
    if (Scanner::IsNoRow(row.data, row.size)) return;
    if (header_.is_due) [[unlikely]] {
      header_.is_due = false;
      return;
    }
    output->records.emplace_back() = row;
    if (output->units != nullptr) output->units->push_back({at, at + row.size + kMostEndBytes});
    ++next_record_;
  }

  // The bytes at hand do not hold the end of the row.
  FrameStep Unended(FrameCall* call) {
    const std::size_t left = call->left();
    if (left > options_.max_record_bytes + 1) return TooLong(call);
    return AtEnd(call->input) ? LastRow(call) : call->Need(NeedBytes(call->at(), left));
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

  FrameStep LastRow(FrameCall* call) {
    const std::uint64_t at = call->at();
    const std::size_t left = call->left();
    const std::uint64_t end = call->end();
    const std::string_view open = scanner_.OpenReason();
    ended_ = true;
    FrameStep step = FrameStep::kGoOn;
    if (known_size() && end < options_.file_bytes) {
      step = Damaged(StatusCode::kTruncated, ShrankTo(end), at, options_.file_bytes, call);
    } else if (left != 0 && options_.has_grown) {
      step = Damaged(StatusCode::kDamaged,
                     "the file had " + std::to_string(options_.file_bytes) +
                         " bytes when it was first opened and is longer now: its last row is cut",
                     at, end, call);
    } else if (left != 0 && !open.empty()) {
      step = Damaged(StatusCode::kTruncated, std::string(open), at, end, call);
    } else if (left > 1 && IsAll(at) && scanner_.HasBareReturn(call->data(), left - 1)) {
      // The file is not damaged, so no policy passes over it.
      return Fail(StatusCode::kUnsupported, CarriageReturnsAlone(), at, call);
    } else if (left > options_.max_record_bytes) {
      return TooLong(call);
    } else if (left != 0 && header_.is_due && !HasColumns({call->data(), left})) {
      return OtherColumns({call->data(), left}, call);
    } else if (left != 0) {
      step = TakeRow({call->data(), left}, at, call);
    }
    return step == FrameStep::kGoOn ? call->PassRest(0) : step;
  }

  FrameStep TooLong(FrameCall* call) {
    const std::uint64_t at = call->at();
    constexpr std::size_t kLooked = 64 * 1024;
    const std::size_t seen = std::min({call->left(), options_.max_record_bytes + 1, kLooked});
    const bool returns = IsAll(at) && scanner_.HasBareReturn(call->data(), seen);
    const std::string reason = "a row is longer than max_record_bytes (" +
                               std::to_string(options_.max_record_bytes) +
                               (returns ? "), and no row ends in the CR that it holds" : ")");
    if (options_.on_damage == OnDamage::kFail) {
      return Fail(StatusCode::kResourceExhausted, reason, at, call);
    }
    if (header_.is_due && !header_.expected.empty()) {
      return LoseFile(reason + ", of the columns' names", call);
    }
    ended_ = false;
    PassRestOfRow(at, reason);
    if (header_.is_due) {
      header_.is_due = false;
    } else {
      LoseRecord(at, call);
    }
    return FrameStep::kGoOn;
  }

  // Goes on to the end of a row that is too long.
  FrameStep PassOver(FrameCall* call) {
    const std::uint64_t at = call->at();
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(call->left(), call->input.limit - at));
    const std::size_t end = scanner_.FindEnd(call->data(), wanted);
    if (end != kNoRowEnd) {
      call->pos += end + 1;
      scanner_.Start();
    } else {
      call->pos += wanted;
      scanner_.DropScanned();
      if (call->pos < call->input.bytes.size()) return FrameStep::kStop;  // at the limit
      if (!AtEnd(call->input)) return call->PassRest(1);
      ended_ = true;
    }
    passing_ = false;
    Note(passing_begin_, call->at(), std::move(passing_reason_), call);
    return ended_ ? FrameStep::kStop : FrameStep::kGoOn;
  }

  HeaderRow header_;
  Scanner scanner_;
  std::uint64_t first_row_ = 0;  // the place of the first row, after a byte order mark
  bool passing_ = false;         // the row at passing_begin_ is too long, or no row
  std::uint64_t passing_begin_ = 0;
  std::string passing_reason_;
  bool ended_ = false;
};

/// Takes rows by themselves: each up to its end. Bytes after it must hold no other record.
template <typename Scanner>
class TextUnitFramer final : public UnitFramer {
 public:
  TextUnitFramer(const FramerOptions& options, Scanner scanner,
                 std::shared_ptr<const CsvOrder> order = nullptr)
      : UnitFramer(options), scanner_(std::move(scanner)), order_(std::move(order)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    const std::byte* const row = unit.bytes.data();
    scanner_.Start();
    const std::size_t end = scanner_.FindEnd(row, unit.bytes.size());
    const bool open = end == kNoRowEnd;
    std::size_t size = open ? unit.bytes.size() : end;
    if (!open && size != 0 && row[size - 1] == std::byte{'\r'}) --size;
    std::string_view problem = open ? scanner_.OpenReason() : std::string_view();
    const bool ends =
        options_.file_bytes == kUnknownSize || unit.offset + size >= options_.file_bytes;
    if (open && problem.empty() && !ends) problem = "the row goes on behind its unit";
    if (!open && HasRow(unit.bytes.subspan(end + 1))) {
      problem = "another row stands after it that the index does not know";
    }
    if (size > options_.max_record_bytes) problem = "a row is longer than max_record_bytes";
    if (Scanner::IsNoRow(row, size)) problem = "the row is empty";
    if (!problem.empty() || records != 1) return Lose(unit, records, problem, output);
    RecordSpan record{row, size};
    const Status status = order_ == nullptr ? Status() : order_->Apply(unit.memory, &record);
    if (status.code() == StatusCode::kResourceExhausted) {
      return status.WithPlace({options_.file, static_cast<std::int64_t>(unit.offset), -1});
    }
    if (!status.ok()) return Lose(unit, records, status.message(), output);
    output->records.push_back(record);
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
  Scanner scanner_;
  const std::shared_ptr<const CsvOrder> order_;
};

}  // namespace ringfeed
