#include "tests/support/pattern_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "io/page_cache.h"

namespace ringfeed {

namespace {

// The pattern's bytes are the highest of numbers that are this far apart. (Loops step by pointers
// and add: a sanitizer's build has a call for each operator [].)
constexpr std::uint64_t kPatternStep = 0x9E3779B97F4A7C15;

/// So often the kernel is asked to drop a file, or to keep it.
constexpr int kTries = 5;

std::uint64_t PatternNumber(std::uint64_t offset, std::uint64_t seed) {
  return (offset + seed * 977) * kPatternStep;
}

void Require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

TempDir::TempDir(const std::string& parent) {
  std::string where = parent;
  if (where.empty()) {
    const char* const variable = std::getenv("TMPDIR");
    where = variable != nullptr ? variable : "/tmp";
  }
  std::string name = where + "/ringfeed-test-XXXXXX";
  Require(mkdtemp(name.data()) != nullptr, "mkdtemp " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::byte PatternByte(std::uint64_t offset, std::uint64_t seed) {
  return static_cast<std::byte>(PatternNumber(offset, seed) >> 56);
}

void WritePatternFile(const std::string& path, std::uint64_t bytes, std::uint64_t seed) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  Require(descriptor >= 0, "open " + path);
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::uint64_t offset = 0; offset < bytes; offset += block.size()) {
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), bytes - offset));
    const std::byte* const end = block.data() + count;
    std::uint64_t number = PatternNumber(offset, seed);
    for (std::byte* to = block.data(); to != end; ++to, number += kPatternStep) {
      *to = static_cast<std::byte>(number >> 56);
    }
    Require(write(descriptor, block.data(), count) == static_cast<ssize_t>(count), "write");
  }
  Require(fsync(descriptor) == 0, "fsync");
  close(descriptor);
}

std::size_t FirstDifference(std::span<const std::byte> bytes, std::uint64_t offset,
                            std::uint64_t seed) {
  const std::byte* const end = bytes.data() + bytes.size();
  const std::byte* at = bytes.data();
  for (std::uint64_t number = PatternNumber(offset, seed); at != end;
       ++at, number += kPatternStep) {
    if (*at != static_cast<std::byte>(number >> 56)) break;
  }
  return static_cast<std::size_t>(at - bytes.data());
}

bool MakeCold(const std::string& path) {
  double share = 1;
  for (int tried = 0; share > 0 && tried < kTries; ++tried) {
    const Status status = DropFromPageCache(path);
    Require(status.ok(), status.ToString());
    share = CachedShare(path);
  }
  return share < 0.5;
}

bool MakeWarm(const std::string& path) {
  double share = 0;
  for (int tried = 0; share < 1 && tried < kTries; ++tried) {
    const Status status = BringIntoPageCache(path);
    Require(status.ok(), status.ToString());
    share = CachedShare(path);
  }
  return share == 1;
}

bool IsMappedHere(const std::string& path) {
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    if (line.find(" " + path) != std::string::npos) return true;
  }
  return false;
}

AlignedBuffer::AlignedBuffer(std::size_t bytes, std::byte fill) : bytes_(bytes) {
  constexpr std::size_t kAlignment = 4096;
  const std::size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) & ~(kAlignment - 1));
  data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  Require(data_ != nullptr, "aligned_alloc");
  std::memset(data_, static_cast<int>(fill), bytes);
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

}  // namespace ringfeed
