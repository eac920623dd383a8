#include "tools/file_records.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ringfeed/decorators.h"

namespace ringfeed::tools {
namespace {

OpenOptions OneFileOptions(const std::string& format, OnDamage on_damage) {
  OpenOptions options;
  options.cycle = 1;
  options.threads = 1;
  options.format = format;
  options.on_damage = on_damage;
  return options;
}

}  // namespace

FileRecords::FileRecords(std::string file, const std::string& format, OnDamage on_damage)
    : file_(std::move(file)), reader_(OpenFiles({file_}, OneFileOptions(format, on_damage))) {}

ReadResult FileRecords::Next(std::span<const RecordSpan>* records) {
  const ReadResult result = reader_.TryReadBlock(&block_);
  *records = result == ReadResult::kRecord ? block_.records() : std::span<const RecordSpan>();
  return result;
}

std::vector<DamagedRange> FileRecords::Damage() const {
  std::vector<DamagedRange> damage = reader_.Stats().damage;
  const Status failure = status();
  const bool is_damage =
      failure.code() == StatusCode::kDamaged || failure.code() == StatusCode::kTruncated;
  if (!damage.empty() || !is_damage || failure.place().offset < 0) return damage;
  const auto begin = static_cast<std::uint64_t>(failure.place().offset);
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(file_, ignored);
  const std::uint64_t end = ignored ? begin : std::max<std::uint64_t>(begin, size);
  return {{file_, begin, end, failure.message()}};
}

}  // namespace ringfeed::tools
