#include "readers/formats/tokens/megatron_windows.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/scoped_descriptor.h"
#include "base/user_call.h"
#include "io/data_file.h"
#include "io/file_state.h"
#include "io/input_file.h"
#include "io/remote/address.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/stepped_framer.h"
#include "ringfeed/source.h"

namespace ringfeed {
namespace {

using Piece = MegatronLine::Piece;
using Order = MegatronLineOptions::Order;

constexpr std::uint64_t kMostWindow = std::uint64_t{1} << 24;
constexpr std::uint64_t kMostEpochs = 65'536;
constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostSeed = std::numeric_limits<std::uint64_t>::max();

/// A field of a row.
struct WindowField {
  enum class Kind : std::uint8_t { kTokens, kPositions, kSegments, kMask };
  Kind kind = Kind::kTokens;
  FieldSpec spec;
  std::uint64_t begin = 0;  ///< in the row
  std::uint64_t bytes = 0;
};

/// Where the fields of a window stand in its row.
struct WindowRow {
  WindowRow(const MegatronWindows& windows, const MegatronLine& line) {
    using Kind = WindowField::Kind;
    const Shape shape = {static_cast<std::int64_t>(line.elements_of_window())};
    const auto add = [&](bool asked, Kind kind, const char* name, DType type) {
      if (!asked) return;
      const std::uint64_t size = line.elements_of_window() * DTypeBytes(type);
      fields.push_back({kind, {name, type, shape}, bytes, size});
      bytes += size;
    };
    add(true, Kind::kTokens, "tokens", line.element_type());
    add(windows.positions, Kind::kPositions, "position_ids", DType::kInt32);
    add(windows.segments, Kind::kSegments, "segment_ids", DType::kInt32);
    add(windows.mask, Kind::kMask, "loss_mask", DType::kUInt8);
  }
  std::vector<WindowField> fields;
  std::uint64_t bytes = 0;
};

/// What the lines of a file are cut into, shared by its source, its framers and its index.
struct WindowLayout {
  std::shared_ptr<const MegatronLine> line;
  WindowRow row;
};

/// The descriptors of the process's .bin files that were opened last: a blend of hundreds of sets
/// holds no more of them than these: a quarter of what the process may have, 1024 at most. They are
/// in no order of use, so that a read of an open file takes no lock that all share.
class LastOpened {
 public:
  using Descriptor = std::shared_ptr<const ScopedDescriptor>;
  static LastOpened* Shared() {
    static auto* const shared = new LastOpened;  // sources may outlive what ends with the process
    return shared;
  }
  void Add(Descriptor descriptor) {
    Descriptor closed;  // outside of the mutex
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(descriptor));
    if (kept_.size() <= PartOfDescriptors(4, 1024)) return;
    closed = std::move(kept_.front());
    kept_.pop_front();
  }
  void Drop(const Descriptor& descriptor) {
    const std::lock_guard lock(mutex_);
    std::erase(kept_, descriptor);
  }
  void DropAll() {
    std::deque<Descriptor> closed;
    const std::lock_guard lock(mutex_);
    kept_.swap(closed);
  }

 private:
  std::mutex mutex_;
  std::deque<Descriptor> kept_;
};

/// The rows of all windows, one after the other. Reads of the .bin file are those of the tokens
/// that are asked for; nothing is kept. It is opened as it is read.
class WindowSource final : public OwnSource {
 public:
  /// `state`: of the .bin file, when its size was found.
  WindowSource(std::string name, const FileState& state, std::shared_ptr<const WindowLayout> layout)
      : name_(std::move(name)), state_(state), layout_(std::move(layout)) {}
  ~WindowSource() override {
    if (const auto data = data_.lock()) LastOpened::Shared()->Drop(data);
  }

  std::string name() const override { return name_; }
  const char* origin() const override { return "windows made of the tokens that are asked for"; }
  std::uint64_t Size() const override { return layout_->line->windows() * layout_->row.bytes; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;

 private:
  Status Open(LastOpened::Descriptor* data);
  Status ReadRow(std::uint64_t window, std::uint64_t begin, std::span<std::byte> to);
  /// Fills `to` with the bytes of the field from `begin` on.
  Status ReadTokens(std::span<const Piece> pieces, std::uint64_t begin, std::span<std::byte> to);
  static void Count(const WindowField& field, std::span<const Piece> pieces, std::uint64_t begin,
                    std::span<std::byte> to);

  const std::string name_;
  const FileState state_;
  const std::shared_ptr<const WindowLayout> layout_;
  std::mutex mutex_;
  std::weak_ptr<const ScopedDescriptor> data_;  ///< guarded by mutex_
};

Status WindowSource::Open(LastOpened::Descriptor* data) {
  const std::lock_guard lock(mutex_);
  *data = data_.lock();
  if (*data != nullptr) return {};
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(name_, &descriptor, &facts);
  if (status.code() == StatusCode::kResourceExhausted) {
    LastOpened::Shared()->DropAll();
    status = OpenDataFile(name_, &descriptor, &facts);
  }
  if (!status.ok()) return status;
  *data = std::make_shared<const ScopedDescriptor>(descriptor);
  const FileState now = FileState::Of(facts);
  if (now.device != state_.device || now.inode != state_.inode ||
      now.modified_ns != state_.modified_ns) {
    return Status(StatusCode::kDamaged, "the .bin file was written or replaced since it was found");
  }
  data_ = *data;
  LastOpened::Shared()->Add(*data);
  return {};
}

Status WindowSource::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                            std::size_t* bytes_read) {
  *bytes_read = 0;
  const std::uint64_t row = layout_->row.bytes;
  const std::uint64_t left = Size() - std::min(offset, Size());
  buffer = buffer.first(std::min<std::uint64_t>(buffer.size(), left));
  try {
    while (*bytes_read < buffer.size()) {
      const std::uint64_t at = offset + *bytes_read;
      std::span<std::byte> to = buffer.subspan(*bytes_read);
      to = to.first(std::min<std::uint64_t>(to.size(), row - at % row));
      Status status = ReadRow(at / row, at % row, to);
      if (!status.ok()) return status;
      *bytes_read += to.size();
    }
  } catch (...) {
    return StatusOfThrown("a window of Megatron's documents");  // no memory
  }
  return {};
}

Status WindowSource::ReadRow(std::uint64_t window, std::uint64_t begin, std::span<std::byte> to) {
  const std::vector<Piece> pieces = layout_->line->Pieces(window);
  Status status;
  for (const WindowField& field : layout_->row.fields) {
    const std::uint64_t from = std::max(begin, field.begin);
    const std::uint64_t end = std::min(begin + to.size(), field.begin + field.bytes);
    if (!status.ok() || from >= end) continue;
    const std::span<std::byte> part = to.subspan(from - begin, end - from);
    if (field.kind == WindowField::Kind::kTokens) {
      status = ReadTokens(pieces, from, part);
    } else {
      Count(field, pieces, from - field.begin, part);
    }
  }
  return status;
}

Status WindowSource::ReadTokens(std::span<const Piece> pieces, std::uint64_t begin,
                                std::span<std::byte> to) {
  const MegatronLine& line = *layout_->line;
  LastOpened::Descriptor data;
  if (Status status = Open(&data); !status.ok()) return status;
  const std::uint64_t width = line.element_bytes();
  std::uint64_t piece_begin = 0;
  std::uint64_t due = 0;    // in the .bin file, where the bytes of `to` that are not read yet are
  std::size_t waiting = 0;  // so many of them, which one call reads
  std::size_t done = 0;
  const auto read = [&]() -> Status {
    if (waiting == 0) return {};
    std::size_t got = 0;
    Status status = ReadWhole(data->get(), due, to.subspan(done, waiting), &got);
    if (status.ok() && got < waiting) {
      status = Status(StatusCode::kTruncated, "the .bin file ends at " + std::to_string(due + got) +
                                                  ", it was longer when it was opened");
    }
    done += std::exchange(waiting, 0);
    return status;
  };
  for (const Piece& piece : pieces) {
    const std::uint64_t piece_end = piece_begin + piece.elements * width;
    const std::uint64_t from = std::max(piece_begin, begin);
    const std::uint64_t end = std::min(piece_end, begin + to.size());
    if (from < end) {
      const bool lost = line.IsLost(piece.sequence);
      const std::uint64_t at =
          line.BeginOf(piece.sequence) + piece.element * width + (from - piece_begin);
      if (lost || at != due + waiting) {
        if (Status status = read(); !status.ok()) return status;
        due = at;
      }
      if (lost) {  // no record has these bytes
        std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(done), end - from, std::byte{0});
        done += end - from;
      } else {
        waiting += end - from;
      }
    }
    piece_begin = piece_end;
  }
  return read();
}

void WindowSource::Count(const WindowField& field, std::span<const Piece> pieces,
                         std::uint64_t begin, std::span<std::byte> to) {
  const std::uint64_t width = DTypeBytes(field.spec.dtype);
  std::uint64_t piece_begin = 0;
  std::int32_t segment = 0;
  for (const Piece& piece : pieces) {
    const std::uint64_t piece_end = piece_begin + piece.elements;
    const std::uint64_t first = std::max(piece_begin, begin / width);
    const std::uint64_t end = std::min(piece_end, (begin + to.size() + width - 1) / width);
    for (std::uint64_t i = first; i < end; ++i) {
      auto value = static_cast<std::int32_t>(i - piece_begin);
      if (field.kind == WindowField::Kind::kSegments) value = segment;
      if (field.kind == WindowField::Kind::kMask) value = i + 1 == piece_end && piece.ends ? 0 : 1;
      // Little-endian, as all of the row; the first and the last one may be cut.
      std::byte bytes[sizeof(value)];
      std::memcpy(bytes, &value, sizeof(value));
      const std::uint64_t low = std::max(begin, i * width);
      const std::uint64_t high = std::min(begin + to.size(), (i + 1) * width);
      std::memcpy(to.data() + (low - begin), bytes + (low - i * width), high - low);
    }
    piece_begin = piece_end;
    ++segment;
  }
}

/// Rows of the source; those that have lost elements are damaged.
class WindowFramer final : public SteppedFramer {
 public:
  WindowFramer(const FramerOptions& options, std::shared_ptr<const WindowLayout> layout)
      : SteppedFramer(options), layout_(std::move(layout)) {}

 private:
  void Run(FrameCall* call) override;
  FrameStep LoseRow(std::uint64_t at, std::size_t record, FrameCall* call);

  const std::shared_ptr<const WindowLayout> layout_;
};

/// What the reader refuses, whatever the policy.
Status CheckWindows(const WindowLayout& layout, const FramerOptions& options) {
  const std::vector<WindowField>& fields = layout.row.fields;
  Status status = CheckRowBytes(layout.row.bytes, options);
  if (status.ok() && options.check_elements != nullptr) {
    const FieldSpec& tokens = fields.front().spec;
    FileElements elements{std::string(DTypeName(tokens.dtype)), {tokens.dtype}, tokens.shape};
    for (const WindowField& field : fields) elements.fields.push_back(field.spec);
    if (fields.size() == 1) elements.fields.clear();
    status = options.check_elements(elements);
  }
  return status.WithPlace({options.file, -1, -1});
}

void WindowFramer::Run(FrameCall* call) {
  const FrameInput& input = call->input;
  const std::uint64_t row = layout_->row.bytes;
  if (Status refused = CheckWindows(*layout_, options_); !refused.ok()) {
    (void)Fail(std::move(refused), call);
    return;
  }
  const std::size_t before = call->output->records.size();
  const std::uint64_t first = (input.offset + row - 1) / row;
  const std::uint64_t at = AppendRows({row, row}, first * row, call->end(), call);
  next_record_ = static_cast<std::int64_t>(first);
  const std::size_t rows = call->output->records.size() - before;
  for (std::size_t i = 0; layout_->line->any_lost() && i < rows; ++i, ++next_record_) {
    if (LoseRow((first + i) * row, before + i, call) == FrameStep::kStop) return;
  }
  call->pos = static_cast<std::size_t>(std::min(at, call->end()) - input.offset);
  if (at >= input.limit || at >= FileEnd(input)) return;
  (void)call->Need(at > call->end() ? 1 : row);
}

FrameStep WindowFramer::LoseRow(std::uint64_t at, std::size_t record, FrameCall* call) {
  const Status why = layout_->line->WhyLost(at / layout_->row.bytes);
  if (why.ok()) return FrameStep::kGoOn;
  const FrameStep step = Damaged(why.code(), why.message(), at, at + layout_->row.bytes, call);
  if (step == FrameStep::kStop) {
    call->output->CutRecords(record);
    call->pos = static_cast<std::size_t>(at - call->input.offset);
  } else {
    call->output->records[record] = {};
  }
  return step;
}

class WindowUnitFramer final : public UnitFramer {
 public:
  WindowUnitFramer(const FramerOptions& options, std::shared_ptr<const WindowLayout> layout)
      : UnitFramer(options), layout_(std::move(layout)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    const std::uint64_t row = layout_->row.bytes;
    if (records != 1 || unit.bytes.size() != row) return Lose(unit, records, {}, output);
    const Status why = layout_->line->WhyLost(unit.offset / row);
    if (!why.ok()) return Lose(unit, records, why.message(), output);
    output->records.push_back({unit.bytes.data(), unit.bytes.size()});
    return {};
  }

 private:
  const std::shared_ptr<const WindowLayout> layout_;
};

class WindowsOfMegatron final : public Format {
 public:
  WindowsOfMegatron(const MegatronWindows& windows, std::shared_ptr<const WindowLayout> layout)
      : windows_(windows), layout_(std::move(layout)) {}

  std::string_view name() const override { return "megatron"; }
  bool has_fixed_places() const override { return true; }
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  bool decompresses() const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    if (layout_ == nullptr) return MegatronFormat({})->NewFramer(options);  // which says why not
    return std::make_unique<WindowFramer>(options, layout_);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return layout_ == nullptr ? nullptr : std::make_unique<WindowUnitFramer>(options, layout_);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override {
    if (layout_ == nullptr) return MegatronFormat({})->OwnIndex(options, head);
    Status refused = CheckWindows(*layout_, options);
    if (!refused.ok()) return {std::move(refused), nullptr};
    FixedIndex::Layout rows;
    rows.units = {0, layout_->row.bytes, layout_->row.bytes};
    rows.records = layout_->line->windows();
    rows.file_bytes = rows.records * layout_->row.bytes;
    rows.framed = layout_->line->any_lost();
    return {Status(), std::make_shared<const FixedIndex>(std::move(rows))};
  }
  CompanionResult FindCompanion(const std::string& file) const override;
  std::vector<std::string> FilesOf(const std::string& file) const override {
    return MegatronFiles(file);
  }

 private:
  const MegatronWindows windows_;
  const std::shared_ptr<const WindowLayout> layout_;  ///< null before the files are known
};

CompanionResult WindowsOfMegatron::FindCompanion(const std::string& file) const {
  CompanionResult found;
  std::shared_ptr<const MegatronIndex> index;
  std::shared_ptr<const MegatronLine> line;
  int descriptor = -1;
  struct stat facts {};
  Status& status = found.status;
  if (IsRemote(file)) {
    status = Status(StatusCode::kUnsupported,
                    "windows are read from two files on a disk: copy both of them to one; from a "
                    "store \"megatron\" gives the sequences");
    return found;
  }
  status = LoadMegatronPair(file, &index, &found.data_file);
  if (status.ok()) status = OpenDataFile(found.data_file, &descriptor, &facts);
  const ScopedDescriptor closed(descriptor);
  if (!status.ok()) return found;
  status = MegatronLine::Make(MegatronFiles(file)[0], *index,
                              static_cast<std::uint64_t>(facts.st_size), windows_.line, &line);
  if (!status.ok()) return found;
  WindowRow row(windows_, *line);
  auto layout = std::make_shared<const WindowLayout>(WindowLayout{std::move(line), std::move(row)});
  found.source = std::make_shared<WindowSource>(found.data_file, FileState::Of(facts), layout);
  found.format = std::make_shared<const WindowsOfMegatron>(windows_, std::move(layout));
  return found;
}

bool ReadNumber(std::string_view text, std::uint64_t least, std::uint64_t most,
                std::uint64_t* number) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, *number);
  return error == std::errc() && end == last && *number >= least && *number <= most;
}

bool ReadDocuments(std::string_view text, MegatronLineOptions* line) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos &&
         ReadNumber(text.substr(0, colon), 0, kMostSamples, &line->first) &&
         ReadNumber(text.substr(colon + 1), line->first, kMostSamples, &line->end);
}

bool ReadOrder(std::string_view text, Order* order) {
  constexpr std::pair<std::string_view, Order> kOrders[] = {
      {"shuffled", Order::kShuffled}, {"file", Order::kFile}, {"megatron", Order::kMegatron}};
  const auto* const found = std::find_if(std::begin(kOrders), std::end(kOrders),
                                         [text](const auto& each) { return each.first == text; });
  if (found == std::end(kOrders)) return false;
  *order = found->second;
  return true;
}

bool ReadWindowWord(std::string_view word, MegatronWindows* windows) {
  MegatronLineOptions& line = windows->line;
  if (word == "positions") return windows->positions = true;
  if (word == "segments") return windows->segments = true;
  if (word == "mask") return windows->mask = true;
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (key == "window") return ReadNumber(value, 1, kMostWindow, &line.window);
  if (key == "order") return ReadOrder(value, &line.order);
  if (key == "seed") return ReadNumber(value, 0, kMostSeed, &line.seed);
  if (key == "epochs") return ReadNumber(value, 1, kMostEpochs, &line.epochs);
  if (key == "samples") return ReadNumber(value, 1, kMostSamples, &line.samples);
  return key == "documents" && ReadDocuments(value, &line);
}

/// Why the options do not go together; empty if they do.
std::string Discord(const MegatronLineOptions& line) {
  const bool as_megatron = line.order == Order::kMegatron;
  if (line.window == 0) return "window=TOKENS is missing";
  if (as_megatron && line.epochs != 1) {
    return "Megatron-LM's order makes epochs of what is asked for: samples= in place of epochs=";
  }
  if (!as_megatron && line.samples != 0) return "samples= goes with order=megatron alone";
  if (as_megatron && line.seed >> 32 != 0) return "a seed of Megatron-LM has 32 bits";
  return {};
}

}  // namespace

Status ParseMegatronWindows(std::string_view text, MegatronWindows* windows) {
  const auto bad = [&](const std::string& why) {
    return Status(StatusCode::kInvalidArgument,
                  "format \"megatron:" + std::string(text) + "\": " + why);
  };
  *windows = {};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    if (!ReadWindowWord(word, windows)) {
      const std::string words[] = {"window=",    "order=",    "seed=",    "epochs=", "samples=",
                                   "documents=", "positions", "segments", "mask"};
      return bad("\"" + std::string(word) +
                 "\" is none of window=TOKENS (1 to 2^24), order=shuffled, order=file, "
                 "order=megatron, seed=NUMBER, epochs=NUMBER (to 65536), samples=NUMBER (to 2^32), "
                 "documents=FIRST:END, positions, segments, mask" +
                 DidYouMeanWord(word, words));
    }
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  const std::string discord = Discord(windows->line);
  return discord.empty() ? Status() : bad(discord);
}

std::shared_ptr<const Format> MegatronWindowsFormat(const MegatronWindows& windows) {
  return std::make_shared<const WindowsOfMegatron>(windows, nullptr);
}

}  // namespace ringfeed
