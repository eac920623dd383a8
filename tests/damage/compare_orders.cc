// Reads variants of one file in the order of files and by number, under both policies, and prints
// what came of it: usage: compare_orders FOLDER FORMAT < VARIANTS > LINES
//
// VARIANTS are files one behind the other, each behind its length (u64, little-endian); megatron's
// two files are the length of the index (u16), the index and the data. A line of JSON for each:
// {"skip": {"files": SEEN, "numbers": SEEN}, "fail": …}, where SEEN has "records" ([length, CRC-32]
// of each, sorted), "ranges" ([begin, end] of what was reported, sorted), "damaged" and, of an
// error, "code" and "message". Whole chains, in one process: the files are the program's own
// sources, megatron's stand in FOLDER.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32.h"
#include "base/little_endian.h"
#include "ringfeed/ringfeed.h"

namespace ringfeed {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class TextSource final : public Source {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  std::string name() const override { return "file"; }
  std::uint64_t Size() const override { return text_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> to, std::size_t* got) override {
    const auto at = std::min<std::size_t>(text_.size(), static_cast<std::size_t>(offset));
    *got = std::min(to.size(), text_.size() - at);
    std::copy_n(BytesOf(text_).data() + at, *got, to.data());
    return {};
  }

 private:
  const std::string text_;
};

class Variants {
 public:
  Variants(std::string folder, std::string format)
      : folder_(std::move(folder)), format_(std::move(format)) {
    options_.format = format_;
    options_.threads = 1;
    options_.cycle = 1;
    options_.stripe_bytes = 4096;
    options_.arena = std::make_shared<PinnedArena>(std::size_t{128} << 20);
  }

  nlohmann::json Compare(const std::string& file) {
    nlohmann::json both;
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      options_.on_damage = policy;
      nlohmann::json& seen = both[policy == OnDamage::kFail ? "fail" : "skip"];
      seen["files"] = Read(Open(file));
      seen["numbers"] = Read(Shuffle(Open(file), {.seed = 3, .mode = ShuffleMode::kGlobal}));
    }
    return both;
  }

 private:
  Reader Open(const std::string& file) {
    const bool is_litdata = format_ == "litdata";
    if (format_ != "megatron" && !is_litdata) {
      return OpenSources({std::make_shared<TextSource>(file)}, options_);
    }
    const std::size_t index_bytes = LoadLe<std::uint16_t>(BytesOf(file).data());
    if (is_litdata) {
      const std::string chunk = folder_ + "/chunk-0-0.bin";
      std::ofstream(folder_ + "/index.json", std::ios::binary) << file.substr(2, index_bytes);
      std::ofstream(chunk, std::ios::binary) << file.substr(2 + index_bytes);
      return OpenFiles({chunk}, options_);
    }
    const std::string index = folder_ + "/variant.idx";
    std::ofstream(index, std::ios::binary) << file.substr(2, index_bytes);
    std::ofstream(folder_ + "/variant.bin", std::ios::binary) << file.substr(2 + index_bytes);
    return OpenFiles({index}, options_);
  }

  static nlohmann::json Read(Reader reader) {
    nlohmann::json seen;
    std::vector<std::pair<std::size_t, std::uint32_t>> records;
    Status status;
    try {
      RecordBlock block;
      ReadResult result;
      while ((result = reader.TryReadBlock(&block)) == ReadResult::kRecord) {
        for (const RecordSpan& record : block.records()) {
          records.emplace_back(record.size, Crc32(record.bytes()));
        }
      }
      if (result == ReadResult::kFailed) status = reader.status();
    } catch (const Error& error) {
      status = error.status();
    }
    std::sort(records.begin(), records.end());
    seen["records"] = records;
    const PipelineStats stats = reader.Stats();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const DamagedRange& range : stats.damage) ranges.emplace_back(range.begin, range.end);
    std::sort(ranges.begin(), ranges.end());
    seen["ranges"] = ranges;
    seen["damaged"] = stats.damaged_records;
    if (!status.ok()) {
      seen["code"] = StatusCodeName(status.code());
      seen["message"] = status.ToString();
    }
    return seen;
  }

  const std::string folder_;
  const std::string format_;
  OpenOptions options_;
};

void Main(const std::string& folder, const std::string& format) {
  Variants variants(folder, format);
  const std::string all((std::istreambuf_iterator<char>(std::cin)), {});
  std::string_view rest = all;
  while (rest.size() >= 8) {
    const auto bytes = static_cast<std::size_t>(LoadLe<std::uint64_t>(BytesOf(rest).data()));
    const std::string file(rest.substr(8, bytes));
    rest.remove_prefix(8 + file.size());
    std::puts(variants.Compare(file)
                  .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
                  .c_str());
  }
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: compare_orders FOLDER FORMAT < VARIANTS > LINES\n";
    return 2;
  }
  ringfeed::Main(argv[1], argv[2]);
  return 0;
}
