#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "readers/formats/litdata/chunk.h"
#include "readers/formats/tokens/megatron.h"
#include "readers/formats/tokens/megatron_line.h"
#include "tests/fuzz/frame_run.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/index_run.h"
#include "tests/fuzz/repair.h"

namespace ringfeed {
namespace {

/// What the first two bytes of an input say.
struct Control {
  FrameControl whole;
  FrameControl split;
  OnDamage policy = OnDamage::kSkip;  ///< of the split run
  bool repair = false;
  bool gap = false;  ///< what stands in front of the file is lost
};

Control TakeControl(std::span<const std::byte>* input) {
  constexpr std::array<std::uint64_t, 8> kSteps = {0, 0, 0, 1, 7, 64, 512, 1000};
  const unsigned first = TakeByte(input);
  Control control;
  control.whole.known_size = (first & 1) == 0;
  control.policy = (first & 2) == 0 ? OnDamage::kSkip : OnDamage::kFail;
  control.repair = (first & 4) != 0;
  if ((first & 24) == 24) control.whole.max_record_bytes = 40;
  control.gap = (first & 24) == 16;
  control.split = control.whole;
  control.split.limit_step = kSteps[first >> 5];
  control.split.pieces = 1 + TakeByte(input);
  return control;
}

// What is reported, each byte once.
std::vector<std::uint64_t> EdgesOf(const std::vector<DamagedRange>& damage) {
  std::vector<std::uint64_t> edges;
  for (const DamagedRange& range : damage) {
    if (range.begin == range.end) continue;
    if (!edges.empty() && edges.back() == range.begin) {
      edges.back() = range.end;
    } else {
      edges.insert(edges.end(), {range.begin, range.end});
    }
  }
  return edges;
}

bool SameDamage(const FrameRun& a, const FrameRun& b) {
  const auto same_range = [](const DamagedRange& x, const DamagedRange& y) {
    return x.begin == y.begin && x.end == y.end && x.reason == y.reason;
  };
  return std::equal(a.damage.begin(), a.damage.end(), b.damage.begin(), b.damage.end(),
                    same_range) &&
         a.status.ToString() == b.status.ToString();
}

// The records that are there, without the places that damaged ones keep.
bool SameIntact(const FrameRun& a, const FrameRun& b) {
  const auto intact = [](const FrameRun& run) {
    std::vector<FrameRun::Record> records = run.records;
    std::erase_if(records, [](const auto& record) { return record.bytes == FrameRun::kDamaged; });
    return records;
  };
  return intact(a) == intact(b);
}

// Where the size of the file is not known, what is said of damage may depend on how much of it was
// there; what is delivered, and what is not, must not.
void ExpectSame(const FrameRun& whole, const FrameRun& split, bool known_size) {
  bool same = whole.payload == split.payload;
  if (known_size) {
    same = same && whole.records == split.records && SameDamage(whole, split);
  } else {
    same = same && SameIntact(whole, split) && EdgesOf(whole.damage) == EdgesOf(split.damage) &&
           whole.status.ok() == split.status.ok();
  }
  FuzzExpect(same, "a file gives the same in one call and in several",
             [&] { return "In one:" + Described(whole) + "\nin several:" + Described(split); });
}

// kFail delivers what kSkip delivers before the first damage, and then says what that is.
void ExpectPrefix(const FrameRun& failed, const FrameRun& skipped, std::size_t file_bytes,
                  bool keeps_neighbours) {
  const auto seen = [&] { return "kFail:" + Described(failed) + "\nkSkip:" + Described(skipped); };
  if (failed.status.ok()) {
    FuzzExpect(skipped.damage.empty() && skipped.records == failed.records &&
                   skipped.payload == failed.payload,
               "where kFail finds no damage kSkip finds none", seen);
    return;
  }
  FuzzExpect(failed.damage.empty(), "kFail reports no ranges", seen);
  std::size_t common = 0;
  const std::size_t most = std::min(failed.records.size(), skipped.records.size());
  while (common < most && failed.records[common] == skipped.records[common]) ++common;
  // A sample in front of a lost tar header may have lost a member: kSkip leaves it out where nobody
  // can tell, kFail may have delivered it.
  const std::size_t spare = keeps_neighbours ? 0 : 1;
  FuzzExpect(common + spare >= failed.records.size(), "kFail delivers what kSkip does at first",
             seen);
  FuzzExpect(skipped.payload.starts_with(failed.payload) || spare != 0,
             "kFail delivers what kSkip does at first", seen);
  // Nothing is passed over of a file of no bytes that lacks its header.
  const bool given_up = !skipped.status.ok() || file_bytes == 0;
  FuzzExpect(given_up || !skipped.damage.empty(), "what kFail fails at kSkip reports", seen);
  if (given_up || spare != 0 || skipped.damage.empty()) return;
  const std::uint64_t first = skipped.damage.front().begin;
  std::size_t before = 0;
  for (const FrameRun::Record& record : skipped.records) {
    if (record.at == FrameRun::kNoPlace || record.at >= first) break;
    ++before;
  }
  FuzzExpect(before <= failed.records.size(), "kFail delivers all that precedes the damage", seen);
}

// Only where damage is skipped something may be lost before.
void FrameBehindGap(const Format& format, std::span<const std::byte> file, const Control& control) {
  const MakeFramer make_framer = [&format](const FramerOptions& options) {
    return format.NewFramerBehindGap(options, 0);
  };
  if (make_framer({}) == nullptr) return;
  ExpectSame(RunFramer(make_framer, file, OnDamage::kSkip, control.whole),
             RunFramer(make_framer, file, OnDamage::kSkip, control.split),
             control.whole.known_size);
}

// Returns what comes of it where damage is skipped.
FrameRun FrameBoth(const MakeFramer& make_framer, std::span<const std::byte> file,
                   const Control& control, bool keeps_neighbours) {
  const FrameRun skipped = RunFramer(make_framer, file, OnDamage::kSkip, control.whole);
  const FrameRun failed = RunFramer(make_framer, file, OnDamage::kFail, control.whole);
  ExpectPrefix(failed, skipped, file.size(), keeps_neighbours);
  ExpectSame(control.policy == OnDamage::kSkip ? skipped : failed,
             RunFramer(make_framer, file, control.policy, control.split), control.whole.known_size);
  return skipped;
}

// An ArrayRecord file without most of its zeros: its last bytes begin the last block.
std::vector<std::byte> Unfolded(std::span<const std::byte> input) {
  constexpr std::size_t kBlock = 65536;
  constexpr std::size_t kLastBytes = 160;
  const std::size_t front = input.size() - std::min(input.size(), kLastBytes);
  std::vector<std::byte> file(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(front));
  file.resize((front + kBlock - 1) / kBlock * kBlock);
  file.insert(file.end(), input.begin() + static_cast<std::ptrdiff_t>(front), input.end());
  file.resize((file.size() + kBlock - 1) / kBlock * kBlock);
  return file;
}

// What the end of a file says of it.
std::shared_ptr<const Format> OfEnd(const Format& format, std::span<const std::byte> file) {
  std::shared_ptr<const Format> own;
  const ReadPart read = [&](std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
    FuzzExpect(offset <= file.size() && to.size() <= file.size() - offset,
               "what is read of a file's end is inside of the file");
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    *got = to.size();
    return Status();
  };
  return format.ReadEnd(file.size(), read, &own).ok() ? own : nullptr;
}

}  // namespace

FuzzTarget FrameTarget(const char* format) {
  const FormatResult found = FindFormat(format);
  FuzzExpect(found.status.ok(), "there is such a format", [&] { return found.status.ToString(); });
  const bool keeps_neighbours = found.format->name() != "tar";
  const std::string name(found.format->name());
  return [=, asked = found.format](std::span<const std::byte> input) {
    Control control = TakeControl(&input);
    std::vector<std::byte> unfolded;
    if (name == "arrayrecord") {
      unfolded = Unfolded(input);
      input = unfolded;
      control.split.limit_step *= 64;
    }
    std::vector<std::byte> repaired;
    if (control.repair) {
      repaired.assign(input.begin(), input.end());
      RepairChecksums(name, &repaired);
      input = repaired;
    }
    std::shared_ptr<const Format> own = asked->OfFile(Compression::kNone, input);
    if (own == nullptr) own = OfEnd(*asked, input);
    if (own == nullptr) own = asked;
    const MakeFramer make_framer = [&own](const FramerOptions& options) {
      return own->NewFramer(options);
    };
    // A sample that is too long is passed over to where it says that it ends, unless that is known
    // to be past the end of the file.
    if (name == "tar" && !control.whole.known_size) {
      control.whole.max_record_bytes = control.split.max_record_bytes = std::size_t{1} << 40;
    }
    if (control.gap) return FrameBehindGap(*own, input, control);
    const FrameRun skipped = FrameBoth(make_framer, input, control, keeps_neighbours);
    if (control.whole.known_size) ExpectSameByIndex(own, input, control.whole, skipped);
  };
}

namespace {

// Windows of what an index claims: as many elements as they should have, none of them beyond the
// data unless the window is lost.
void CheckWindows(const std::shared_ptr<const MegatronIndex>& index, std::size_t data_bytes,
                  bool as_megatron) {
  MegatronLineOptions options;
  options.window = 1 + index->sequences() % 7;
  options.order =
      as_megatron ? MegatronLineOptions::Order::kMegatron : MegatronLineOptions::Order::kShuffled;
  std::shared_ptr<const MegatronLine> line;
  const Status status = MegatronLine::Make("file.idx", *index, data_bytes, options, &line);
  FuzzExpect(status.ok() == (line != nullptr), "windows are made, or refused");
  const std::uint64_t windows = line == nullptr ? 0 : line->windows();
  for (std::uint64_t window = 0; window < windows; window += 1 + windows / 64) {
    const bool lost = !line->WhyLost(window).ok();
    std::uint64_t elements = 0;
    for (const MegatronLine::Piece& piece : line->Pieces(window)) {
      elements += piece.elements;
      const std::uint64_t end = static_cast<std::uint64_t>(index->begin(piece.sequence)) +
                                (piece.element + piece.elements) * index->element_bytes();
      FuzzExpect(lost || end <= data_bytes, "a window that is not lost is within the data");
    }
    FuzzExpect(elements == options.window + 1, "a window is whole");
  }
}

}  // namespace

FuzzTarget MegatronTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    Control control = TakeControl(&input);
    // It is a file beside another one, of which the index speaks.
    control.whole.known_size = true;
    control.split.known_size = true;
    const std::size_t wanted = TakeByte(&input) + 256 * std::size_t{TakeByte(&input)};
    const std::size_t index_bytes = std::min(wanted, input.size());
    const auto copy = std::make_shared<const ExactCopy>(input.first(index_bytes));
    std::shared_ptr<const MegatronIndex> index;
    const Status status = MegatronIndex::Read("file.idx", copy->bytes(), copy, &index);
    FuzzExpect(status.ok() == (index != nullptr), "an index is read, or refused");
    if (index == nullptr) return;
    CheckWindows(index, input.size() - index_bytes, wanted % 2 != 0);
    const MakeFramer make_framer = [&index](const FramerOptions& options) {
      return NewMegatronFramer(options, index);
    };
    FrameBoth(make_framer, input.subspan(index_bytes), control, true);
  };
}

FuzzTarget LitDataTarget(const char* /*unused*/) {
  auto index = std::make_shared<LitDataIndex>();
  index->leaves = {{{"id"}, "int"}, {{"b"}, "bytes"}, {{"l"}, "json"}};
  for (const LitDataIndex::Leaf& leaf : index->leaves) {
    const SampleColumn column{leaf.path.back(), leaf.encoding};
    index->layout.columns += ColumnsText({&column, 1});
    index->layout.sizes_bytes += SampleTable::kNumberBytes;
  }
  index->layout.may_be_frames = true;
  return [known = KnownChunk{std::move(index)}](std::span<const std::byte> input) {
    Control control = TakeControl(&input);
    // It is a file beside another one, of which the index speaks.
    control.whole.known_size = control.split.known_size = true;
    const auto read = [input](std::uint64_t offset, std::span<std::byte> to) {
      FuzzExpect(offset <= input.size() && to.size() <= input.size() - offset,
                 "nothing outside of the file is read");
      std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
      return Status();
    };
    std::shared_ptr<const Format> format;
    const Status status = MakeLitDataFormat(read, input.size(), known, &format);
    FuzzExpect(status.ok(), "a chunk that can be read has a format");
    const MakeFramer make_framer = [&format](const FramerOptions& options) {
      return format->NewFramer(options);
    };
    const FrameRun skipped = FrameBoth(make_framer, input, control, true);
    ExpectSameByIndex(format, input, control.whole, skipped);
  };
}

FuzzTarget DetectTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const ExactCopy head(input);
    const FormatResult found = DetectFormat("file", head.bytes());
    FuzzExpect(found.status.ok() == (found.format != nullptr), "a format is found, or refused");
  };
}

}  // namespace ringfeed
