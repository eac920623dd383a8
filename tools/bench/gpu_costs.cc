#include "tools/bench/gpu_costs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/machine/cpu_time.h"
#include "gpu/work_time.h"
#include "ringfeed/status.h"
#include "tools/bench/gpu_device.h"
#include "tools/bench/gpu_runs.h"

namespace ringfeed::tools {
namespace {

constexpr double kKiB = 1024;
constexpr std::size_t kBatchBytes = std::size_t{16} << 20;
constexpr std::size_t kStagingBytes = std::size_t{1} << 20;

constexpr std::size_t kCopiedRow = std::size_t{16} << 10;
constexpr std::size_t kMembers = 256;

// Rows as they are in a file: short ones, with other bytes between them.
constexpr std::size_t kGatheredRows = 1024;
constexpr std::size_t kGatheredRow = std::size_t{2} << 10;
constexpr std::size_t kGatheredStep = 3 * kGatheredRow / 2;

std::vector<PendingCopy> GatheredRows(std::byte* to, const std::byte* from) {
  std::vector<PendingCopy> rows;
  for (std::size_t r = 0; r < kGatheredRows; ++r) {
    rows.push_back({to + r * kGatheredRow, from + r * kGatheredStep, kGatheredRow, from});
  }
  return rows;
}

// Their payloads: each row, and bytes after it that are no part of it.
std::vector<PendingSum> SumsOf(std::vector<PendingCopy>* rows) {
  constexpr std::size_t kBeside = 64;
  std::vector<PendingSum> sums;
  for (PendingCopy& row : *rows) {
    row.sum = static_cast<std::uint32_t>(sums.size());
    sums.push_back({row.from, row.bytes + kBeside, 0, 0});
  }
  return sums;
}

// What the CPU adds to the sums of the rows: of the bytes beside them, and of the parts.
std::uint32_t JoinedSums(std::span<const PendingCopy> rows, std::span<const PendingSum> sums) {
  std::uint32_t joined = 0;
  for (const PendingCopy& row : rows) {
    const std::size_t behind = sums[row.sum].BytesBehind(row);
    const std::uint32_t beside = Crc32c({row.from + row.bytes, behind});
    joined ^= ShiftCrc32c(beside, row.bytes) ^ ShiftCrc32c(joined, behind);
  }
  return joined;
}

Tensor RowsOf(std::byte* data) {
  Tensor tensor;
  tensor.shape = {static_cast<std::int64_t>(kGatheredRows),
                  static_cast<std::int64_t>(kGatheredRow)};
  tensor.data = data;
  tensor.bytes = kGatheredRows * kGatheredRow;
  return tensor;
}

}  // namespace

CostRows::CostRows(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches)
    : device_(device),
      pins_(pins),
      batches_(batches),
      arena_(Arena::Create({.bytes = kBatchBytes + kStagingBytes})),
      run_(arena_->Allocate(kBatchBytes + kStagingBytes)) {
  if (!run_ || batches.batch_bytes() < kBatchBytes) {
    throw Error(Status(StatusCode::kResourceExhausted, "no pinned memory for a batch of 16 MiB"));
  }
}

CostRows::~CostRows() { arena_->Free(run_); }

double CostRows::CopyNsPerKib() const {
  const std::size_t in_batch = batches_.batch_bytes() / kCopiedRow;
  const std::size_t rows = in_batch * batches_.size();
  // From batch to batch, so that no row comes after the one before it in memory. The target wraps
  // around.
  const auto copy = [&](std::size_t i) {
    const std::byte* const from = batches_.batch(i % batches_.size()).front().data;
    std::memcpy(run_.data + i * kCopiedRow % kBatchBytes, from + i / batches_.size() * kCopiedRow,
                kCopiedRow);
  };
  for (std::size_t i = 0; i < kBatchBytes / kCopiedRow; ++i) copy(i);  // maps its pages
  const std::int64_t begin_ns = ThreadCpuNanos();
  for (std::size_t i = 0; i < rows; ++i) copy(i);
  const std::int64_t copy_ns = ThreadCpuNanos() - begin_ns;
  return static_cast<double>(copy_ns) / (static_cast<double>(rows * kCopiedRow) / kKiB);
}

double CostRows::MemberNs(std::size_t bytes, double link_ns_per_kib, double seconds) const {
  const OwnedMemory to(device_, 2 * kMembers * bytes);
  const OwnedStream stream(device_);
  std::vector<CopyPiece> pieces;
  for (std::size_t i = 0; i < kMembers; ++i) {
    const std::size_t at = 2 * i * bytes;  // none is adjacent to another
    const std::byte* const from = batches_.batch(0).front().data + at;
    const auto parts = PinnedPieces(pins_, from, bytes, to.data() + at);
    pieces.insert(pieces.end(), parts.begin(), parts.end());
  }
  // Few in a row: the stream must have room for their members while it is held back.
  const WorkPlan plan{.in_row = 2, .seconds = seconds};
  const WorkTime time = MeasureWork(device_, stream, plan, [&](std::size_t) {
    Require(device_.backend->CopyBatchToDevice(stream.get(), pieces));
  });
  constexpr double kNs = 1e9 / static_cast<double>(kMembers);
  const double link_ns = link_ns_per_kib * static_cast<double>(bytes) / kKiB;
  return std::max(time.device_s * kNs - link_ns, 0.0) + time.cpu_s * kNs;
}

double CostRows::PlanNs(Sums which, CopyPlan* plan, double seconds) const {
  const Instance batch{RowsOf(run_.data)};
  auto rows = GatheredRows(run_.data, batches_.batch(0).front().data);
  std::vector<PendingSum> sums = SumsOf(&rows);
  CopyPlan::Input input{.pending = rows, .left_rows = LeftRows::kTogether};
  if (which == Sums::kOfDevice) input.sums = sums;
  Require(plan->Make(batch, input));  // allocates its memory
  std::int64_t plans = 0;
  const std::int64_t begin_ns = ThreadCpuNanos();
  std::int64_t plan_ns = 0;
  do {
    (void)pins_->PinAll(rows);  // as a feed asks
    Require(plan->Make(batch, input));
    if (which == Sums::kOfDevice) sums.front().of_copies = JoinedSums(rows, sums);
    ++plans;
    plan_ns = ThreadCpuNanos() - begin_ns;
  } while (static_cast<double>(plan_ns) < seconds * 1e9);
  return static_cast<double>(plan_ns) / static_cast<double>(plans);
}

void CostRows::Copy(const CopyPlan& plan, const OwnedStream& stream, std::byte* slot) const {
  std::vector<CopyPiece> pieces;
  for (const PlannedPiece& piece : plan.layout().pieces()) {
    const std::byte* from = piece.from;
    if (piece.staged) {
      std::byte* const staging = run_.data + kBatchBytes + piece.staging_at;
      std::memcpy(staging, from, piece.bytes);
      from = staging;
    }
    const auto parts = PinnedPieces(pins_, from, piece.bytes, slot + piece.to);
    pieces.insert(pieces.end(), parts.begin(), parts.end());
  }
  Require(device_.backend->CopyBatchToDevice(stream.get(), pieces));
}

double CostRows::KernelNs(const DeviceKernel& kernel, const OwnedStream& stream,
                          double seconds) const {
  const WorkPlan work{.in_row = 16, .seconds = seconds};
  const WorkTime time = MeasureWork(device_, stream, work, [&](std::size_t) {
    Require(device_.backend->Launch(stream.get(), kernel));
  });
  return (time.device_s + time.cpu_s) * 1e9;
}

double CostRows::SumNs(double seconds) const {
  CopyPlan plan;
  const double bare_ns = PlanNs(Sums::kNone, &plan, seconds / 3);
  const double plan_ns = PlanNs(Sums::kOfDevice, &plan, seconds / 3);
  const OwnedMemory slot(device_, plan.layout().slot_bytes());
  const OwnedStream stream(device_);
  Copy(plan, stream, slot.data());
  std::vector<DeviceKernel> kernels;
  plan.AddKernels(slot.data(), &kernels);
  const double kernel_ns = KernelNs(kernels.back(), stream, seconds / 3);
  return (plan_ns - bare_ns + kernel_ns) / static_cast<double>(kGatheredRows);
}

double CostRows::RowNs(double seconds) const {
  CopyPlan plan;
  const double plan_ns = PlanNs(Sums::kNone, &plan, seconds / 2);
  const OwnedMemory slot(device_, plan.layout().slot_bytes());
  CheckedSums sums(device_, 1);
  const OwnedStream stream(device_);
  Copy(plan, stream, slot.data());
  std::vector<DeviceKernel> kernels;
  plan.AddKernels(slot.data(), &kernels);
  const double kernel_ns = KernelNs(kernels.front(), stream, seconds / 2);
  for (const PendingCopy& row : GatheredRows(run_.data, batches_.batch(0).front().data)) {
    std::memcpy(row.to, row.from, row.bytes);
  }
  const Tensor host = RowsOf(run_.data);
  std::uint64_t expected = 0;
  RunKernelOnHost(Checksum{host.data, host.bytes, &expected});
  sums.Add(stream, RowsOf(slot.data()));
  if (sums.Collect(stream).front() != expected) {
    throw Error(Status(StatusCode::kInternal, "the device put rows to wrong places"));
  }
  return (plan_ns + kernel_ns) / static_cast<double>(kGatheredRows);
}

}  // namespace ringfeed::tools
