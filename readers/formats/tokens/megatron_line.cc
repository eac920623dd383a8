#include "readers/formats/tokens/megatron_line.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <utility>

#include "base/log.h"

namespace ringfeed {
namespace {

/// So that no product of them with a window's bytes comes near the largest number.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 56;
constexpr std::uint64_t kSmallFile = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostCut = 16;
/// Megatron-LM numbers documents and, here, windows in 32 bits.
constexpr std::uint64_t kMostShuffled = (std::uint64_t{1} << 32) - 3;

// As NumPy's RandomState.shuffle: from the last one on, each changes places with one of those up to
// it, drawn by masking 32 bits and drawing again while the number is too large.
void ShuffleAsNumPy(std::span<std::uint32_t> numbers, std::mt19937* draws) {
  for (std::size_t i = numbers.size(); i-- > 1;) {
    const auto mask = static_cast<std::uint32_t>(std::bit_ceil(i + 1) - 1);
    auto other = static_cast<std::uint32_t>((*draws)()) & mask;
    while (other > i) other = static_cast<std::uint32_t>((*draws)()) & mask;
    std::swap(numbers[i], numbers[other]);
  }
}

std::string SequenceText(std::uint64_t sequence) { return "sequence " + std::to_string(sequence); }

Status TooMany(const std::string& what) {
  return Status(StatusCode::kUnsupported,
                "the windows of Megatron's documents: " + what + "; ask for fewer");
}

}  // namespace

Status MegatronLine::Make(const std::string& file, const MegatronIndex& index,
                          std::uint64_t data_bytes, const MegatronLineOptions& options,
                          std::shared_ptr<const MegatronLine>* line) {
  auto made = std::make_shared<MegatronLine>();
  made->element_type_ = index.element_type();
  made->options_ = options;
  made->data_bytes_ = data_bytes;
  const std::uint64_t sequences = index.sequences();
  if (options.end == MegatronLineOptions::kToLast) made->options_.end = sequences;
  if (made->options_.end > sequences || options.first > made->options_.end) {
    return Status(StatusCode::kInvalidArgument,
                  "documents=" + std::to_string(options.first) + ":" +
                      std::to_string(made->options_.end) + " of an index that has " +
                      std::to_string(sequences) + " sequences",
                  {file, -1, -1});
  }
  Status status = made->CountElements(index);
  if (status.ok()) status = made->CountWindows();
  if (!status.ok()) return status.WithPlace({file, -1, -1});
  if (made->windows_ == 0 && made->elements_ > 0) {
    Tell(LogLevel::kWarn, "no window of " + file,
         file + " gives no window: its " + std::to_string(made->elements_) +
             " tokens are fewer than the " + std::to_string(options.window + 1) + " of one");
  }
  made->part_ = std::make_unique<Part[]>(made->parts_);
  *line = std::move(made);
  return {};
}

Status MegatronLine::CountElements(const MegatronIndex& index) {
  std::uint64_t end = 0;  // of the sequences so far, in bytes
  lengths_.reserve(index.sequences());
  for (std::uint64_t i = 0; i < index.sequences(); ++i) {
    const std::int64_t elements = index.elements(i);
    if (elements < 0) {
      return Status(StatusCode::kDamaged, "the index gives " + SequenceText(i) + " " +
                                              std::to_string(elements) +
                                              " elements: what follows it cannot be found");
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * element_bytes();
    const bool is_used = i >= options_.first && i < options_.end;
    const std::int64_t begin = index.begin(i);
    const bool is_whole = static_cast<std::uint64_t>(begin) == end && end + bytes <= data_bytes_;
    if (is_used && !is_whole) lost_.push_back({i, begin});
    if (i % kStep == 0) begins_.push_back(end);
    lengths_.push_back(static_cast<std::uint32_t>(elements));
    if (is_used) elements_ += static_cast<std::uint64_t>(elements);
    end += bytes;
    // What is made of the numbers of the index takes memory: they must not promise far more than
    // there is. A file that was cut lost less.
    if (end > kSmallFile && end / kMostCut > data_bytes_) {
      return Status(StatusCode::kDamaged,
                    "the lengths of the index sum up to " + std::to_string(end) +
                        " bytes or more, the .bin file has " + std::to_string(data_bytes_) +
                        ": they are not of one data set");
    }
  }
  if (index.shrunk()) return Status(StatusCode::kTruncated, MegatronIndex::kShrunk);
  return {};
}

std::uint64_t MegatronLine::BeginOf(std::uint64_t sequence) const {
  std::uint64_t elements = 0;
  for (std::uint64_t i = sequence / kStep * kStep; i < sequence; ++i) elements += lengths_[i];
  return begins_[sequence / kStep] + elements * element_bytes();
}

Status MegatronLine::CountWindows() {
  if (options_.order == MegatronLineOptions::Order::kMegatron) return CountSamples();
  epochs_ = parts_ = options_.epochs;
  if (elements_ > kMostElements / epochs_) return TooMany("they have more than 2^56 elements");
  if (elements_ > 0) windows_ = (epochs_ * elements_ - 1) / options_.window;
  return {};
}

// GPTDataset's rules: as many epochs as the samples that are asked for need; if fewer than 80 % of
// the last one are used, it is shuffled apart from the others.
Status MegatronLine::CountSamples() {
  if (elements_ == 0) return {};
  const std::uint64_t window = options_.window;
  const std::uint64_t asked = options_.samples;
  if (elements_ > kMostElements) return TooMany("they have more than 2^56 elements");
  if (asked > 0) epochs_ = std::max<std::uint64_t>(1, asked * window / elements_ + 1);
  if (epochs_ > kMostShuffled / documents()) {
    return TooMany("Megatron-LM's order would take " + std::to_string(epochs_) + " epochs of " +
                   std::to_string(documents()) + " documents");
  }
  windows_ = (epochs_ * elements_ - 1) / window;
  if (windows_ > kMostShuffled) return TooMany("Megatron-LM's order has at most 2^32 of them here");
  if (epochs_ == 1) return {};
  const std::uint64_t before = ((epochs_ - 1) * elements_ - 1) / window;
  const std::uint64_t of_last = (elements_ - 1) / window;
  const auto enough = static_cast<std::uint64_t>(0.80 * static_cast<double>(of_last));
  if (asked - before < enough) apart_ = before;
  return {};
}

void MegatronLine::ShuffleAsMegatron() const {
  std::mt19937 draws(static_cast<std::uint32_t>(options_.seed));
  const std::uint64_t each = documents();
  entries_.resize(epochs_ * each);
  for (std::uint64_t i = 0; i < entries_.size(); ++i) {
    entries_[i] = static_cast<std::uint32_t>(options_.first + i % each);
  }
  places_.resize(windows_);
  std::iota(places_.begin(), places_.end(), 0U);
  const auto shuffle = [&draws](std::span<std::uint32_t> numbers, std::uint64_t first) {
    ShuffleAsNumPy(numbers.first(first), &draws);
    ShuffleAsNumPy(numbers.subspan(first), &draws);
  };
  shuffle(entries_, apart_ ? entries_.size() - each : entries_.size());
  shuffle(places_, apart_.value_or(windows_));
}

void MegatronLine::Prepare(std::uint64_t number, Part* part) const {
  using Order = MegatronLineOptions::Order;
  if (options_.order == Order::kMegatron) ShuffleAsMegatron();
  if (options_.order == Order::kShuffled) {
    part->permutation.emplace(documents(), options_.seed, static_cast<std::uint32_t>(number),
                              DrawPurpose::kDocumentOrder);
  }
  const std::uint64_t entries = entries_of_part();
  std::array<std::uint64_t, kStep> sequences;
  part->sums.reserve(entries / kStep + 1);
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < entries; first += kStep) {
    part->sums.push_back(sum);
    const auto some = std::span(sequences).first(std::min(kStep, entries - first));
    Sequences(*part, first, some);
    for (const std::uint64_t sequence : some) sum += ElementsOf(sequence);
  }
}

const MegatronLine::Part& MegatronLine::PartAt(std::uint64_t number) const {
  Part& part = part_[number];
  std::call_once(part.made, [&] { Prepare(number, &part); });
  return part;
}

void MegatronLine::Sequences(const Part& part, std::uint64_t first,
                             std::span<std::uint64_t> sequences) const {
  if (options_.order == MegatronLineOptions::Order::kMegatron) {
    std::copy_n(entries_.begin() + static_cast<std::ptrdiff_t>(first), sequences.size(),
                sequences.begin());
    return;
  }
  if (part.permutation) {
    part.permutation->Range(first, sequences);
  } else {
    std::iota(sequences.begin(), sequences.end(), first);
  }
  for (std::uint64_t& sequence : sequences) sequence += options_.first;
}

/// Sequences of neighbouring entries, several looked up at a time.
class MegatronLine::Walk {
 public:
  explicit Walk(const MegatronLine* line) : line_(*line) {}
  std::uint64_t At(std::uint64_t entry) {
    if (entry < begin_ || entry >= end_) Load(entry);
    return sequences_[entry - begin_];
  }

 private:
  void Load(std::uint64_t entry) {
    const std::uint64_t entries = line_.entries_of_part();
    const std::uint64_t first = entry % entries / kStep * kStep;
    const auto some = std::span(sequences_).first(std::min(kStep, entries - first));
    line_.Sequences(line_.PartAt(entry / entries), first, some);
    begin_ = entry / entries * entries + first;
    end_ = begin_ + some.size();
  }

  const MegatronLine& line_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::array<std::uint64_t, kStep> sequences_;
};

MegatronLine::Place MegatronLine::Find(std::uint64_t element, Walk* walk) const {
  const std::uint64_t of_part = elements_ * epochs_ / parts_;
  const std::uint64_t part = element / of_part;
  const std::vector<std::uint64_t>& sums = PartAt(part).sums;
  const auto behind = std::upper_bound(sums.begin(), sums.end(), element % of_part);
  const auto step = static_cast<std::uint64_t>(behind - sums.begin()) - 1;
  Place place{part * entries_of_part() + step * kStep, element % of_part - sums[step]};
  for (; place.entry < documents() * epochs_; ++place.entry) {
    const std::uint64_t elements = ElementsOf(walk->At(place.entry));
    if (place.offset < elements) break;
    place.offset -= elements;
  }
  return place;
}

MegatronLine::Place MegatronLine::Find(std::uint64_t element) const {
  Walk walk(this);
  return Find(element, &walk);
}

std::uint64_t MegatronLine::SequenceAt(std::uint64_t entry) const { return Walk(this).At(entry); }

std::uint64_t MegatronLine::PlaceOfWindow(std::uint64_t window) const {
  if (options_.order != MegatronLineOptions::Order::kMegatron) return window;
  (void)PartAt(0);
  return places_[window];
}

std::vector<MegatronLine::Piece> MegatronLine::Pieces(std::uint64_t window) const {
  std::vector<Piece> pieces;
  Walk walk(this);
  std::uint64_t left = elements_of_window();
  Place at = Find(PlaceOfWindow(window) * options_.window, &walk);
  for (; left > 0; ++at.entry) {
    const std::uint64_t sequence = walk.At(at.entry);
    const std::uint64_t elements = ElementsOf(sequence);
    const std::uint64_t here = std::min(left, elements - at.offset);
    if (here > 0) pieces.push_back({sequence, at.offset, here, at.offset + here == elements});
    left -= here;
    at.offset = 0;
  }
  return pieces;
}

Status MegatronLine::WhyLost(std::uint64_t window) const {
  if (!any_lost()) return {};
  for (const Piece& piece : Pieces(window)) {
    const auto lost = std::ranges::lower_bound(lost_, piece.sequence, {}, &Lost::sequence);
    if (lost == lost_.end() || lost->sequence != piece.sequence) continue;
    const std::int64_t begin = lost->begin;
    const std::uint64_t bytes = ElementsOf(piece.sequence) * element_bytes();
    const std::string place = "window " + std::to_string(window) + " has elements of " +
                              SequenceText(piece.sequence) + ", of which the index says " +
                              std::to_string(bytes) + " bytes at " + std::to_string(begin);
    if (begin >= 0 && static_cast<std::uint64_t>(begin) + bytes > data_bytes_) {
      return Status(StatusCode::kTruncated,
                    place + ": the .bin file has " + std::to_string(data_bytes_) + " bytes");
    }
    return Status(StatusCode::kDamaged, place + ", which is not where the one before it ends");
  }
  return {};
}

}  // namespace ringfeed
