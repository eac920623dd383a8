// Runs the chains that order_reference.py describes, one a line of standard input, and prints the
// numbers of the records in the order of their delivery.
//
// A line: files=A,B order=SEED:FROM:RANK:RANKS format=F cycle=N stripe=N threads=N io=PATH block=N
// chain=STEP;STEP… with the steps parse, window:W:SEED, block:N:SEED, multipass:N, batch:N:drop,
// batch:N:keep and group:N:SEGMENT:GROUPS:drop or :keep, of the groups number mod GROUPS. SEED
// none: the list of files is not permuted. The answer: each delivery as its numbers joined by
// spaces, deliveries joined by "|", then "=" and "ok" or the failure.

#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "ringfeed/ringfeed.h"

namespace ringfeed {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator)) parts.push_back(part);
  return parts;
}

IoPath PathOf(const std::string& name) {
  for (const IoPath path : {IoPath::kAuto, IoPath::kUring, IoPath::kPread, IoPath::kMmap}) {
    if (IoPathName(path) == name) return path;
  }
  throw std::runtime_error("no I/O path " + name);
}

std::uint64_t NumberOf(const std::byte* data) {
  std::uint64_t number = 0;
  std::memcpy(&number, data, sizeof(number));
  return number;
}

Reader AddStep(Reader reader, const std::string& step) {
  const std::vector<std::string> words = Split(step, ':');
  if (words[0] == "parse") return Parse(std::move(reader), RawParser());
  const std::uint64_t amount = std::stoull(words.at(1));
  if (words[0] == "multipass") return MultiPass(std::move(reader), amount);
  if (words[0] == "batch") {
    return Batch(std::move(reader), {.size = amount, .drop_remainder = words.at(2) == "drop"});
  }
  if (words[0] == "group") {
    GroupBatchOptions options;
    options.size = amount;
    options.segment = std::stoull(words.at(2));
    const std::uint64_t groups = std::stoull(words.at(3));
    options.group_of = [groups](const RecordSpan& record) {
      return static_cast<std::int64_t>(NumberOf(record.data) % groups);
    };
    options.drop_remainder = words.at(4) == "drop";
    return GroupBatch(std::move(reader), options);
  }
  ShuffleOptions options;
  options.seed = std::stoull(words.at(2));
  (words[0] == "window" ? options.window : options.block) = amount;
  return Shuffle(std::move(reader), options);
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

Reader Build(std::map<std::string, std::string>& config,
             const std::shared_ptr<PinnedArena>& arena) {
  OpenOptions options;
  options.files = OrderOf(config["order"]);
  options.cycle = std::stoul(config["cycle"]);
  options.stripe_bytes = std::stoul(config["stripe"]);
  options.threads = std::stoi(config["threads"]);
  options.format = config["format"];
  options.io.path = PathOf(config["io"]);
  options.io.block_bytes = std::stoul(config["block"]);
  options.arena = arena;
  Reader reader = OpenFiles(Split(config["files"], ','), options);
  for (const std::string& step : Split(config["chain"], ';')) {
    reader = AddStep(std::move(reader), step);
  }
  return reader;
}

void PrintNumber(const std::byte* data) { std::cout << NumberOf(data) << ' '; }

void PrintDelivery(const Instance& instance) {
  const Tensor& tensor = instance.front();
  if (tensor.lod.empty()) {
    PrintNumber(tensor.data);
  } else {
    for (std::size_t row = 0; row + 1 < tensor.lod[0].size(); ++row) {
      PrintNumber(tensor.data + tensor.lod[0][row]);
    }
  }
  std::cout << '|';
}

void RunLine(const std::string& line, const std::shared_ptr<PinnedArena>& arena) {
  std::map<std::string, std::string> config;
  for (const std::string& word : Split(line, ' ')) {
    const std::size_t at = word.find('=');
    config[word.substr(0, at)] = word.substr(at + 1);
  }
  try {
    Reader reader = Build(config, arena);
    Instance instance;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&instance)) == ReadResult::kRecord) {
      PrintDelivery(instance);
    }
    std::cout << '='
              << (result == ReadResult::kEnd ? std::string("ok") : reader.status().ToString());
  } catch (const std::exception& error) {
    std::cout << '=' << error.what();
  }
  std::cout << std::endl;
}

}  // namespace
}  // namespace ringfeed

int main() {
  const auto arena = std::make_shared<ringfeed::PinnedArena>(std::size_t{256} << 20);
  std::string line;
  while (std::getline(std::cin, line)) ringfeed::RunLine(line, arena);
  return 0;
}
