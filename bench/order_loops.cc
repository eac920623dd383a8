#include "bench/order_loops.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/keyed_permutation.h"
#include "bench/bare_stores.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kFloatBytes = 13 * 4;
constexpr std::size_t kIntBytes = 26 * 4;
constexpr std::size_t kRowBytes = kFloatBytes + kIntBytes + 4;
constexpr std::size_t kLineBytes = 64;
/// A row comes from memory in about the time that so many others take.
constexpr std::size_t kFetchRows = 16;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(StatusFromErrno(errno, "open " + path));
  }
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

void ReadRow(const OpenFile& file, std::uint64_t offset, std::byte* to, std::size_t bytes) {
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got =
        pread(file.descriptor(), to + have, bytes - have, static_cast<off_t>(offset + have));
    if (got <= 0) Die("a row cannot be read");
    have += static_cast<std::size_t>(got);
  }
}

void Fetch(const std::byte* row) {
  for (std::size_t at = 0; at < kRowBytes; at += kLineBytes) __builtin_prefetch(row + at);
  __builtin_prefetch(row + kRowBytes - 1);
}

// Calls take(number) for each place in turn, and goes to the next row of `batches` behind it.
template <typename Take>
LoopResult EachPlace(std::size_t places, std::size_t row_bytes, FixedBatches* batches, Take take) {
  LoopResult result;
  const LoopTimer timer;
  for (std::size_t number = 0; number < places; ++number) {
    take(number);
    batches->NextRow();
  }
  batches->Finish();
  timer.Stop(&result);
  result.records = places;
  result.bytes = places * row_bytes;
  result.digest = batches->digest();
  return result;
}

}  // namespace

std::vector<RowPlace> GlobalPlaces(const std::vector<std::string>& files, std::size_t row_bytes,
                                   std::uint64_t seed, std::uint32_t epoch) {
  std::vector<RowPlace> rows;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t bytes = std::filesystem::file_size(files[file]);
    for (std::uint64_t at = 0; at + row_bytes <= bytes; at += row_bytes) rows.push_back({file, at});
  }
  std::vector<std::uint64_t> order(rows.size());
  KeyedPermutation(rows.size(), seed, epoch, DrawPurpose::kGlobalOrder).Range(0, order);
  std::vector<RowPlace> places(rows.size());
  std::transform(order.begin(), order.end(), places.begin(),
                 [&rows](std::uint64_t row) { return rows[row]; });
  return places;
}

MappedFiles::MappedFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const OpenFile file(path);
    const auto bytes = static_cast<std::size_t>(std::filesystem::file_size(path));
    void* const mapping =
        mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.descriptor(), 0);
    if (mapping == MAP_FAILED) throw Error(StatusFromErrno(errno, "map " + path));
    files_.emplace_back(static_cast<const std::byte*>(mapping), bytes);
  }
}

MappedFiles::~MappedFiles() {
  for (const std::span<const std::byte> file : files_) {
    munmap(const_cast<std::byte*>(file.data()), file.size());
  }
}

LoopResult BareReadGather(const std::vector<std::string>& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options) {
  const std::vector<OpenFile> opened(files.begin(), files.end());
  FixedBatches batches({row_bytes}, options);
  return EachPlace(places.size(), row_bytes, &batches, [&](std::size_t number) {
    const RowPlace place = places[number];
    ReadRow(opened[place.file], place.offset, batches.at(0), row_bytes);
  });
}

LoopResult BareRowGather(const MappedFiles& files, std::span<const RowPlace> places,
                         const LoopOptions& options) {
  FixedBatches batches({kFloatBytes, kIntBytes, 4}, options);
  return EachPlace(places.size(), kRowBytes, &batches, [&](std::size_t number) {
    if (number + kFetchRows < places.size()) Fetch(files.at(places[number + kFetchRows]));
    const std::byte* const row = files.at(places[number]);
    StreamWords(batches.at(0), row, kFloatBytes);
    StreamWords(batches.at(1), row + kFloatBytes, kIntBytes);
    StreamWords(batches.at(2), row + kFloatBytes + kIntBytes, 4);
  });
}

LoopResult BareCopyGather(const MappedFiles& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options) {
  FixedBatches batches({row_bytes}, options);
  return EachPlace(places.size(), row_bytes, &batches, [&](std::size_t number) {
    std::memcpy(batches.at(0), files.at(places[number]), row_bytes);
  });
}

}  // namespace ringfeed::bench
