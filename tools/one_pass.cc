#include "tools/one_pass.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/crc32c.h"
#include "base/scoped_descriptor.h"
#include "io/file_mapping.h"
#include "io/input_file.h"
#include "ringfeed/source.h"

namespace ringfeed::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Each way reads so much, from different parts of the file: the second try would find the same part
// in the processor's cache.
constexpr std::size_t kTriedBytes = std::size_t{4} << 20;
constexpr std::size_t kBlockBytes = std::size_t{512} << 10;

std::uint32_t CopyAndSum(int descriptor, off_t at, std::span<std::byte> block) {
  std::uint32_t sum = 0;
  for (std::size_t done = 0; done < kTriedBytes; done += block.size()) {
    const auto place = at + static_cast<off_t>(done);
    if (pread(descriptor, block.data(), block.size(), place) <= 0) break;
    sum ^= Crc32c(block);
  }
  return sum;
}

std::uint32_t MapAndSum(int descriptor, off_t at) {
  void* const mapped = mmap(nullptr, kTriedBytes, PROT_READ, MAP_SHARED, descriptor, at);
  if (mapped == MAP_FAILED) return 0;
  std::uint32_t sum = 0;
  {
    const SigbusGuard guard(mapped, kTriedBytes);  // another process may cut the file meanwhile
    sum = Crc32c({static_cast<const std::byte*>(mapped), kTriedBytes});
  }
  munmap(mapped, kTriedBytes);
  return sum;
}

bool MappingPays(const std::string& file) {
  const ScopedDescriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) return true;
  std::vector<std::byte> block(kBlockBytes);
  std::array<Clock::duration, 2> took{};
  for (off_t time = 0; time < 2; ++time) {  // the first time brings code and memory
    const off_t at = 2 * time * static_cast<off_t>(kTriedBytes);
    const auto begin = Clock::now();
    const std::uint32_t copied = CopyAndSum(opened.get(), at, block);
    const auto middle = Clock::now();
    const std::uint32_t mapped = MapAndSum(opened.get(), at + static_cast<off_t>(kTriedBytes));
    took = {middle - begin, Clock::now() - middle};
    [[maybe_unused]] const volatile std::uint32_t taken = copied ^ mapped;
  }
  return took[1] < took[0];
}

}  // namespace

IoPath PathOfOnePass(const std::string& file) {
  std::error_code ignored;
  if (IsStreamName(file) || !std::filesystem::is_regular_file(file, ignored)) return IoPath::kAuto;
  IoOptions options;
  const OpenInputResult chosen = OpenInput(file, options);
  if (!chosen.status.ok() || !chosen.file->choice().resident) return IoPath::kAuto;
  if (std::filesystem::file_size(file, ignored) < 4 * kTriedBytes) return IoPath::kAuto;
  static const bool maps = MappingPays(file);  // depends on the machine alone
  if (!maps) return IoPath::kPread;
  options.path = IoPath::kMmap;
  return OpenInput(file, options, {.may_map = true}).status.ok() ? IoPath::kMmap : IoPath::kAuto;
}

}  // namespace ringfeed::tools
