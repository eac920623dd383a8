// Runs the chains that random_configurations.py describes, one a line of standard input, and prints
// the numbers of the records (their first 8 bytes, hex digits) in the order of their delivery.
//
// A line is words KEY=VALUE. Of the whole: sets=N (more than one, or mix=1: Mix), epoch=N and
// damage=fail|skip of the mixture, chain=STEP;STEP… behind it, threads=N io=PATH block=N, rank=N
// ranks=N of a batch, and what is done with the chain: restore=HEX of a position, seek=N, skip=AT:N
// leaves N batches out after AT deliveries, reinit=N starts again after N deliveries, stop=N ends
// after N deliveries. Of set I, behind "I.": files=A,B order=SEED:FROM:RANK:RANKS format=F cycle=N
// stripe=N damage=fail|skip index=as_needed|never epoch=N chain=…, in a mixture weight=W passes=N
// most=N, and kept=N,N of the rows of a subset. Steps: parse, rows:BYTES, window:W:SEED,
// block:N:SEED, blocks:W:SEED, global:0:SEED, multipass:N, filter:N drops the multiples of N; then
// one of
//   batch:N:drop|keep|pad
//   group:N:SEGMENT:GROUPS:drop|keep, of the groups number mod GROUPS
//   bucket:N:SEGMENT:BOUND:drop|keep, of up to BOUND bytes, twice and four times as many
//   tokens:N:ROWS, bytes:N:ROWS, of at most ROWS rows
//   pack:LENGTH:N:SEGMENT:drop|keep
//   planned:pack|tokens|bucket|batch:N:SEGMENT:AMOUNT:first|best|padded:MULTIPLE:MOST:
//     short|drop|pad|repeat:LINEAR,SQUARE|none:ALIKE:SEED, of steps of N; AMOUNT is the length of a
//     packed row, the tokens of a batch, or the first bound
// SEED none: the list of files is not permuted.
//
// The answer: each delivery as "NUMBER:ID ID … ", a row whose mask is 0 as 0, a packed one as
// "ID+ID+",
// deliveries joined by "|"; then a tab, "ok" (the end), "stopped" or the failure; then a tab and
// the position as hex digits, or "!" and why there is none.

#include <charconv>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/ringfeed.h"
#include "ringfeed/sequences.h"

namespace ringfeed {
namespace {

using Words = std::map<std::string, std::string>;

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator)) parts.push_back(part);
  return parts;
}

Words WordsOf(const std::string& line) {
  Words words;
  for (const std::string& word : Split(line, ' ')) {
    const std::size_t at = word.find('=');
    words[word.substr(0, at)] = word.substr(at + 1);
  }
  return words;
}

std::uint64_t NumberAt(const Words& words, const std::string& key, std::uint64_t otherwise = 0) {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : std::stoull(found->second);
}

std::string ToHex(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string FromHex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return text;
}

IoPath PathOf(const std::string& name) {
  for (const IoPath path : {IoPath::kAuto, IoPath::kUring, IoPath::kPread, IoPath::kMmap}) {
    if (IoPathName(path) == name) return path;
  }
  throw std::runtime_error("no I/O path " + name);
}

/// The number that a record begins with.
std::uint64_t IdOf(const std::byte* data, std::size_t size) {
  constexpr std::size_t kDigits = 8;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::uint64_t id = 0;
  if (size >= kDigits) {
    const auto result = std::from_chars(text.data(), text.data() + kDigits, id, 16);
    if (result.ec == std::errc() && result.ptr == text.data() + kDigits) return id;
  }
  throw std::runtime_error("a record of " + std::to_string(size) +
                           " bytes that begins with no number");
}

Reader AddGroups(Reader reader, const std::vector<std::string>& words) {
  GroupBatchOptions options;
  options.size = std::stoull(words.at(1));
  options.segment = std::stoull(words.at(2));
  const std::uint64_t groups = std::stoull(words.at(3));
  options.group_of = [groups](const RecordSpan& record) {
    return static_cast<std::int64_t>(IdOf(record.data, record.size) % groups);
  };
  options.drop_remainder = words.at(4) == "drop";
  return GroupBatch(std::move(reader), options);
}

/// The field of RawParser.
constexpr char kField[] = "bytes";

Reader AddSequences(Reader reader, const std::vector<std::string>& words) {
  const std::uint64_t amount = std::stoull(words.at(1));
  if (words[0] == "filter") {
    return Filter(std::move(reader), [amount](const RecordSpan& record) {
      return IdOf(record.data, record.size) % amount != 0;
    });
  }
  if (words[0] == "bucket") {
    BucketBatchOptions options;
    options.size = amount;
    options.field = kField;
    options.segment = std::stoull(words.at(2));
    const std::uint64_t bound = std::stoull(words.at(3));
    options.bounds = {bound, 2 * bound, 4 * bound};
    options.drop_remainder = words.at(4) == "drop";
    return BucketBatch(std::move(reader), options);
  }
  if (words[0] == "pack") {
    PackOptions options;
    options.field = kField;
    options.length = amount;
    options.rows = std::stoull(words.at(2));
    options.segment = std::stoull(words.at(3));
    options.drop_remainder = words.at(4) == "drop";
    return Pack(std::move(reader), options);
  }
  TokenBatchOptions options;
  options.field = words[0] == "tokens" ? kField : "";
  (words[0] == "tokens" ? options.tokens : options.bytes) = amount;
  options.most_rows = std::stoull(words.at(2));
  return TokenBatch(std::move(reader), options);
}

StepOptions StepsOf(const std::vector<std::string>& words, const Rank& rank) {
  static const std::map<std::string, Rest> kRests = {{"short", Rest::kShort},
                                                     {"drop", Rest::kDrop},
                                                     {"pad", Rest::kPad},
                                                     {"repeat", Rest::kRepeat}};
  StepOptions steps;
  steps.rank = rank;
  steps.rest = kRests.at(words.at(8));
  steps.seed = std::stoull(words.at(11));
  if (words.at(9) == "none") return steps;
  const std::vector<std::string> cost = Split(words.at(9), ',');
  steps.balance =
      Balance{std::stoull(cost.at(0)), std::stoull(cost.at(1)), std::stoull(words.at(10))};
  return steps;
}

Reader AddPlanned(Reader reader, const std::vector<std::string>& words, const Rank& rank) {
  const StepOptions steps = StepsOf(words, rank);
  const std::string& kind = words.at(1);
  const std::size_t size = std::stoull(words.at(2));
  const std::size_t segment = std::stoull(words.at(3));
  const std::size_t amount = std::stoull(words.at(4));
  const bool best = words.at(5) != "first";
  const std::size_t most = std::stoull(words.at(7));
  if (kind == "pack") {
    PackOptions options{.field = kField, .length = amount, .rows = size, .segment = segment};
    options.fit = best ? PackFit::kBest : PackFit::kFirst;
    options.multiple = std::stoull(words.at(6));
    options.most_records = most;
    options.steps = steps;
    return Pack(std::move(reader), options);
  }
  if (kind == "tokens") {
    TokenBatchOptions options{.field = kField, .tokens = amount, .most_rows = most};
    options.shares = size;
    options.segment = segment;
    options.best_fit = best;
    options.padded = words.at(5) == "padded";
    options.steps = steps;
    return TokenBatch(std::move(reader), options);
  }
  if (kind == "bucket") {
    BucketBatchOptions options{.size = size, .field = kField, .segment = segment};
    options.bounds = {amount, 2 * amount, 4 * amount};
    options.steps = steps;
    return BucketBatch(std::move(reader), options);
  }
  BatchOptions options{.size = size};
  options.steps = steps;
  if (amount != 0) options.field = kField;
  return Batch(std::move(reader), options);
}

Reader AddShuffle(Reader reader, const std::vector<std::string>& words) {
  static const std::map<std::string, ShuffleMode> kModes = {{"window", ShuffleMode::kWindow},
                                                            {"block", ShuffleMode::kBlock},
                                                            {"blocks", ShuffleMode::kStripes},
                                                            {"global", ShuffleMode::kGlobal}};
  ShuffleOptions options;
  options.mode = kModes.at(words[0]);
  options.seed = std::stoull(words.at(2));
  (words[0] == "block" ? options.block : options.window) = std::stoull(words.at(1));
  return Shuffle(std::move(reader), options);
}

Reader AddStep(Reader reader, const std::string& step, const Rank& rank) {
  const std::vector<std::string> words = Split(step, ':');
  if (words[0] == "parse") return Parse(std::move(reader), RawParser());
  if (words[0] == "group") return AddGroups(std::move(reader), words);
  if (words[0] == "planned") return AddPlanned(std::move(reader), words, rank);
  if (words[0] == "rows") {
    return Parse(std::move(reader),
                 RowsParser({{"row", DType::kUInt8, {std::stoll(words.at(1))}}}));
  }
  if (words[0] == "multipass") return MultiPass(std::move(reader), std::stoull(words.at(1)));
  static const std::set<std::string> kSequences = {"filter", "bucket", "pack", "tokens", "bytes"};
  if (kSequences.contains(words[0])) return AddSequences(std::move(reader), words);
  if (words[0] != "batch") return AddShuffle(std::move(reader), words);
  BatchOptions options;
  options.size = std::stoull(words.at(1));
  options.drop_remainder = words.at(2) == "drop";
  options.pad = words.at(2) == "pad";
  options.rank = rank;
  return Batch(std::move(reader), options);
}

FileOrder OrderOf(const std::string& text) {
  const std::vector<std::string> words = Split(text, ':');
  FileOrder order;
  order.shuffle = words.at(0) != "none";
  if (order.shuffle) order.seed = std::stoull(words[0]);
  order.from_pass = std::stoull(words.at(1));
  order.rank = std::stoul(words.at(2));
  order.ranks = std::stoul(words.at(3));
  return order;
}

OpenOptions SpeedOf(const Words& words, const std::shared_ptr<PinnedArena>& arena) {
  OpenOptions options;
  options.threads = std::stoi(words.at("threads"));
  options.io.path = PathOf(words.at("io"));
  options.io.block_bytes = std::stoul(words.at("block"));
  options.arena = arena;
  return options;
}

/// A file of the subset of these rows.
std::string SubsetOf(const std::string& kept, const std::string& set,
                     const std::vector<std::string>& files, OpenOptions options) {
  std::vector<std::uint64_t> rows;
  for (const std::string& row : Split(kept, ',')) rows.push_back(std::stoull(row));
  const std::string path = files.front() + "." + set + ".rfs";
  options.on_damage = OnDamage::kSkip;
  WriteSubset(OpenFiles(files, options), rows, path);
  return path;
}

/// FROM:W,W,…/FROM:W,W,… of all steps and their weights.
MixOptions ScheduleOf(const std::string& text) {
  MixOptions options;
  for (const std::string& each : Split(text, '/')) {
    const std::size_t colon = each.find(':');
    MixWeights& weights = options.schedule.emplace_back();
    weights.from_step = std::stoull(each.substr(0, colon));
    for (const std::string& weight : Split(each.substr(colon + 1), ',')) {
      weights.weights.push_back(std::stod(weight));
    }
  }
  return options;
}

/// Set number `set`, up to where it is mixed.
Reader OpenSet(const Words& words, const std::string& set, OpenOptions options) {
  const auto word = [&](const std::string& key) -> const std::string& {
    return words.at(set + "." + key);
  };
  options.files = OrderOf(word("order"));
  options.cycle = std::stoul(word("cycle"));
  options.stripe_bytes = std::stoul(word("stripe"));
  options.format = word("format");
  options.on_damage = word("damage") == "skip" ? OnDamage::kSkip : OnDamage::kFail;
  options.index = word("index") == "never" ? IndexUse::kNever : IndexUse::kAsNeeded;
  options.first_epoch = static_cast<std::uint32_t>(std::stoul(word("epoch")));
  const std::vector<std::string> files = Split(word("files"), ',');
  if (const auto kept = words.find(set + ".kept"); kept != words.end()) {
    options.subset = SubsetOf(kept->second, set, files, options);
  }
  Reader reader = OpenFiles(files, options);
  for (const std::string& step : Split(word("chain"), ';')) {
    reader = AddStep(std::move(reader), step, {});
  }
  return reader;
}

Reader Build(const Words& words, const std::shared_ptr<PinnedArena>& arena) {
  OpenOptions options = SpeedOf(words, arena);
  Reader reader;
  if (NumberAt(words, "mix") == 0) {
    reader = OpenSet(words, "0", options);
  } else {
    std::vector<MixSet> sets;
    for (std::uint64_t i = 0; i < NumberAt(words, "sets"); ++i) {
      const std::string set = std::to_string(i);
      sets.push_back({OpenSet(words, set, options), std::stod(words.at(set + ".weight")),
                      NumberAt(words, set + ".passes"), NumberAt(words, set + ".most")});
    }
    options.first_epoch = static_cast<std::uint32_t>(NumberAt(words, "epoch"));
    options.on_damage = words.at("damage") == "skip" ? OnDamage::kSkip : OnDamage::kFail;
    reader = words.contains("schedule") ? Mix(sets, ScheduleOf(words.at("schedule")), options)
                                        : Mix(sets, options);
  }
  Rank rank;
  rank.rank = static_cast<int>(NumberAt(words, "rank"));
  rank.world_size = static_cast<int>(NumberAt(words, "ranks", 1));
  rank.source = "options";
  for (const std::string& step : Split(words.at("chain"), ';')) {
    reader = AddStep(std::move(reader), step, rank);
  }
  return reader;
}

/// Of rows of records that follow each other: field, segments and positions.
void PrintPacked(const Instance& instance, std::uint64_t number) {
  std::cout << number << ':';
  const auto rows = static_cast<std::size_t>(instance[0].shape[0]);
  const auto length = static_cast<std::size_t>(instance[0].shape[1]);
  const std::span<const std::int32_t> segments = instance[1].Values<std::int32_t>();
  const std::span<const std::int32_t> positions = instance[2].Values<std::int32_t>();
  const Tensor* const mask = instance.Find("mask");
  for (std::size_t row = 0; row < rows; ++row) {
    if (mask != nullptr && mask->data[row] == std::byte{0}) {
      std::cout << "0 ";
      continue;
    }
    for (std::size_t begin = row * length; begin < (row + 1) * length;) {
      std::size_t end = begin;
      while (end < (row + 1) * length && segments[end] == segments[begin]) {
        if (segments[begin] != 0 && positions[end] != static_cast<std::int32_t>(end - begin)) {
          throw std::runtime_error("a position that does not count from its record's start");
        }
        ++end;
      }
      if (segments[begin] != 0) std::cout << IdOf(instance[0].data + begin, end - begin) << '+';
      begin = end;
    }
    std::cout << ' ';
  }
  std::cout << '|';
}

/// `repeats`: rows whose mask is 0 may be those of records.
void PrintDelivery(const Instance& instance, std::uint64_t number, bool batched, bool repeats) {
  std::cout << number << ':';
  const Tensor& tensor = instance.front();
  const std::byte* const mask = instance.size() > 1 ? instance.back().data : nullptr;
  const bool ragged = !tensor.lod.empty();
  std::size_t rows = 1;
  if (batched) rows = ragged ? tensor.lod[0].size() - 1 : static_cast<std::size_t>(tensor.shape[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t begin =
        ragged ? static_cast<std::size_t>(tensor.lod[0][row]) : tensor.bytes / rows * row;
    const std::size_t end =
        ragged ? static_cast<std::size_t>(tensor.lod[0][row + 1]) : tensor.bytes / rows * (row + 1);
    if (mask == nullptr || mask[row] == std::byte{1}) {
      std::cout << IdOf(tensor.data + begin, end - begin) << ' ';
      continue;
    }
    for (std::size_t i = begin; i < end && !repeats; ++i) {
      if (tensor.data[i] != std::byte{0}) throw std::runtime_error("a padded row is not zero");
    }
    std::cout << "0 ";
  }
  std::cout << '|';
}

bool Batched(const Words& words) {
  const std::string& chain = words.at("chain");
  for (const char* const step : {"batch:", "group:", "bucket:", "tokens:", "bytes:", "planned:"}) {
    if (chain.find(step) != std::string::npos) return true;
  }
  return false;
}

/// Goes to where the line says before anything is read.
void Start(const Words& words, Reader* reader) {
  if (words.contains("restore")) reader->Restore(FromHex(words.at("restore")));
  if (words.contains("seek")) reader->SeekTo(NumberAt(words, "seek"));
}

/// What is done after so many deliveries.
void Step(const Words& words, std::uint64_t deliveries, Reader* reader) {
  if (words.contains("reinit") && NumberAt(words, "reinit") == deliveries) {
    reader->ReInit();
    std::cout << "again|";
  }
  if (!words.contains("skip")) return;
  const std::vector<std::string> skip = Split(words.at("skip"), ':');
  if (std::stoull(skip.at(0)) == deliveries) reader->SkipBatches(std::stoull(skip.at(1)));
}

std::string Deliver(const Words& words, Reader* reader) {
  const std::uint64_t stop = NumberAt(words, "stop", ~std::uint64_t{0});
  const bool batched = Batched(words);
  const bool packed = words.at("chain").find("pack:") != std::string::npos;
  const bool repeats = words.at("chain").find(":repeat:") != std::string::npos;
  Instance instance;
  BatchOrigin origin;
  for (std::uint64_t deliveries = 0; deliveries < stop; ++deliveries) {
    Step(words, deliveries, reader);
    const ReadResult result = reader->TryReadNext(&instance, {.origin = &origin});
    if (result == ReadResult::kEnd) return "ok";
    if (result == ReadResult::kFailed) return reader->status().ToString();
    if (packed) {
      PrintPacked(instance, origin.batch);
    } else {
      PrintDelivery(instance, origin.batch, batched, repeats);
    }
  }
  return "stopped";
}

std::string PositionOf(const Reader& reader) {
  try {
    return ToHex(reader.Position());
  } catch (const std::exception& error) {
    return std::string("!") + error.what();
  }
}

void RunLine(const std::string& line, const std::shared_ptr<PinnedArena>& arena) {
  std::string result;
  std::string position = "!";
  try {
    const Words words = WordsOf(line);
    Reader reader = Build(words, arena);
    Start(words, &reader);
    result = Deliver(words, &reader);
    position = PositionOf(reader);
  } catch (const std::exception& error) {
    result = error.what();
  }
  for (char& c : result) c = c == '\n' || c == '\t' ? ' ' : c;
  std::cout << '\t' << result << '\t' << position << std::endl;
}

}  // namespace
}  // namespace ringfeed

int main() {
  const auto arena = std::make_shared<ringfeed::PinnedArena>(std::size_t{1} << 30);
  std::string line;
  while (std::getline(std::cin, line)) ringfeed::RunLine(line, arena);
  return 0;
}
