#include "gpu/work_time.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "base/quantile.h"

namespace ringfeed {
namespace {

// A stream is held back for that long, and twice the time that the host takes to enqueue the row.
constexpr double kHoldBackS = 100e-6;
constexpr double kMostHoldBackS = 20e-3;
constexpr std::size_t kFewestRows = 3;

struct RowTime {
  double device_s = 0;
  double cpu_s = 0;
};

RowTime MeasureRow(const OwnedDevice& device, const OwnedStream& stream, std::size_t in_row,
                   double hold_s, const std::function<void(std::size_t)>& enqueue) {
  OwnedEvent begin(device);
  OwnedEvent end(device);
  if (hold_s > 0) {
    Require(device.backend->Busy(stream.get(), static_cast<std::int64_t>(hold_s * 1e9)));
  }
  begin.Record(stream);
  const std::int64_t begin_ns = ThreadCpuNanos();
  for (std::size_t i = 0; i < in_row; ++i) enqueue(i);
  const std::int64_t cpu_ns = ThreadCpuNanos() - begin_ns;
  end.Record(stream);
  stream.Sync();
  const auto pieces = static_cast<double>(in_row);
  return {end.SecondsSince(begin) / pieces, static_cast<double>(cpu_ns) / 1e9 / pieces};
}

}  // namespace

WorkTime MeasureWork(const OwnedDevice& device, const OwnedStream& stream, const WorkPlan& plan,
                     const std::function<void(std::size_t)>& enqueue) {
  (void)MeasureRow(device, stream, 1, 0, enqueue);
  const RowTime one = MeasureRow(device, stream, 1, plan.queued ? kHoldBackS : 0, enqueue);
  // A row that takes longer than the whole time would be the only one.
  const double fit = plan.seconds / static_cast<double>(kFewestRows) / std::max(one.device_s, 1e-9);
  WorkTime time;
  time.in_row = static_cast<std::size_t>(
      std::clamp(fit, 1.0, static_cast<double>(std::max<std::size_t>(plan.in_row, 1))));
  const double row_cpu_s = one.cpu_s * static_cast<double>(time.in_row);
  const double hold_s = plan.queued ? std::min(kHoldBackS + 2 * row_cpu_s, kMostHoldBackS) : 0;
  std::vector<double> device_s;
  std::vector<double> cpu_s;
  const std::int64_t begin_ns = device.backend->NowNanos();
  const auto length_ns = static_cast<std::int64_t>(plan.seconds * 1e9);
  while (device_s.size() < kFewestRows || device.backend->NowNanos() - begin_ns < length_ns) {
    const RowTime row = MeasureRow(device, stream, time.in_row, hold_s, enqueue);
    device_s.push_back(row.device_s);
    cpu_s.push_back(row.cpu_s);
  }
  time.device_s = QuantileOf(std::move(device_s), 0.5);
  time.cpu_s = QuantileOf(std::move(cpu_s), 0.5);
  return time;
}

}  // namespace ringfeed
