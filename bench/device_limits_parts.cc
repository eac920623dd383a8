#include "bench/device_limits_parts.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <span>
#include <utility>

#include "base/random_bits.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = 2 * kMiB;

}  // namespace

LimitsRun::LimitsRun(OwnedDevice device, double seconds, std::FILE* shown)
    : device_(std::move(device)),
      emulated_(device_.backend->name() == "emu"),
      seconds_(seconds),
      shown_(shown) {}

void LimitsRun::Section(const std::string& name, const std::function<void()>& measure) {
  section_ = name;
  sections_[name] = Json::array();
  std::fprintf(shown_, "%s\n", name.c_str());
  try {
    measure();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    Row("set_up", [&what](Json* row) { (*row)["failed"] = what; });
    ++failures_;
  }
}

void LimitsRun::Row(const std::string& name, const std::function<void(Json*)>& measure) {
  Json row;
  row["name"] = name;
  try {
    measure(&row);
  } catch (const Error& error) {
    row["failed"] = error.status().ToString();
    ++failures_;
  } catch (const std::exception& error) {
    row["failed"] = error.what();
    ++failures_;
  }
  if (row.contains("failed")) row["verified"] = false;
  Show(row);
  sections_[section_].push_back(std::move(row));
}

void LimitsRun::Show(const Json& row) const {
  std::fprintf(shown_, "  %-24s", row["name"].get<std::string>().c_str());
  for (const auto& [key, value] : row.items()) {
    if (key == "name") continue;
    if (value.is_number_float()) {
      std::fprintf(shown_, "  %s %.4g", key.c_str(), value.get<double>());
    } else {
      std::fprintf(shown_, "  %s %s", key.c_str(), value.dump().c_str());
    }
  }
  std::fputc('\n', shown_);
  std::fflush(shown_);
}

HostMemory::HostMemory(std::size_t bytes, Pages pages)
    : bytes_(bytes),
      mapped_bytes_(bytes + kHugePageBytes),
      mapped_(mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0)) {
  if (mapped_ == MAP_FAILED) throw Error(StatusFromErrno(errno, "map host memory"));
  const auto start = reinterpret_cast<std::uintptr_t>(mapped_);
  data_ = static_cast<std::byte*>(mapped_) + (kHugePageBytes - start % kHugePageBytes);
  // A kernel without huge pages refuses both; HugeMiB tells what became of it.
  (void)madvise(mapped_, mapped_bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HostMemory::~HostMemory() { munmap(mapped_, mapped_bytes_); }

void HostMemory::Populate() const {
  // Each byte is written through volatile: the compiler must not see that nobody reads them.
  volatile std::byte* const data = data_;
  for (std::size_t place = 0; place < bytes_; place += kPageBytes) data[place] = std::byte{1};
}

void HostMemory::FillRandom(std::uint64_t seed) const { RandomBits(seed).Fill({data_, bytes_}); }

double HostMemory::HugeMiB() const {
  const auto first = reinterpret_cast<std::uintptr_t>(data_);
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  double kib = -1;
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long huge_kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin < first + bytes_ && first < end;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu", &huge_kib) == 1) {
      kib = std::max(kib, 0.0) + static_cast<double>(huge_kib);
    }
  }
  return kib < 0 ? -1 : kib / 1024;
}

Registered::Registered(const LimitsRun& run, std::byte* data, std::size_t bytes)
    : backend_(&run.backend()), data_(data) {
  Require(backend_->RegisterHost(data, bytes));
}

Registered::~Registered() {
  if (data_ != nullptr) (void)backend_->UnregisterHost(data_);
}

Registered::Registered(Registered&& other) noexcept
    : backend_(other.backend_), data_(std::exchange(other.data_, nullptr)) {}

void Registered::End() { Require(backend_->UnregisterHost(std::exchange(data_, nullptr))); }

double GbPerS(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / 1e9 / std::max(seconds, 1e-12);
}

std::uint64_t HostChecksum(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  RunKernelOnHost(Checksum{data, bytes, &sum});
  return sum;
}

void RequireChecksum(const LimitsRun& run, const OwnedStream& stream, const std::byte* data,
                     std::size_t bytes, std::uint64_t expected) {
  const OwnedMemory sum(run.device(), sizeof(std::uint64_t));
  auto* const place = reinterpret_cast<std::uint64_t*>(sum.data());
  std::uint64_t found = ~expected;
  Require(run.backend().Launch(stream.get(), Checksum{data, bytes, place}));
  Require(run.backend().CopyToHost(stream.get(), reinterpret_cast<std::byte*>(&found), sum.data(),
                                   sizeof(found)));
  stream.Sync();
  if (found != expected) FailVerification("the device has other bytes than the host");
}

void FailVerification(const std::string& what) { throw Error(Status(StatusCode::kDamaged, what)); }

}  // namespace ringfeed::bench
