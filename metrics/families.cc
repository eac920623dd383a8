#include "metrics/families.h"

#include <ctime>
#include <initializer_list>
#include <string>
#include <utility>

#include "gpu/feed/live_feeds.h"
#include "metrics/label_text.h"
#include "queue/live_queues.h"
#include "readers/chain/live_chains.h"
#include "ringfeed/io_options.h"

namespace ringfeed {
namespace {

// Bytes of names in labels.
constexpr std::size_t kMostName = 60;
constexpr std::size_t kMostSource = 200;

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// Families in the order of AllMetrics, only those that have a sample.
class Families {
 public:
  Families() : families_(AllMetrics().size()) {}

  void Add(std::string_view name, const Labels& labels, double value) {
    const MetricInfo* const info = FindMetric(name);
    if (info == nullptr) return;  // tests/metrics reports it
    prometheus::MetricFamily& family =
        families_[static_cast<std::size_t>(info - AllMetrics().data())];
    if (family.metric.empty()) {
      family.name = info->name;
      family.help = info->help;
      family.type = info->type;
    }
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    (info->type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        value;
  }
  template <typename Number>
  void Count(std::string_view name, const Labels& labels, Number count) {
    Add(name, labels, static_cast<double>(count));
  }

  std::vector<prometheus::MetricFamily> Take() {
    std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
    return std::move(families_);
  }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

Labels With(const Labels& labels, std::initializer_list<prometheus::ClientMetric::Label> more) {
  Labels all = labels;
  all.insert(all.end(), more);
  return all;
}

std::string ChainName(std::size_t number, const std::string& source) {
  const std::size_t slash = source.rfind('/');
  const std::string name = slash == std::string::npos ? source : source.substr(slash + 1);
  return std::to_string(number) + ":" + LabelText(name, kMostName);
}

void AddChainCounters(const PipelineStats& stats, const Labels& chain, Families* to) {
  to->Count("ringfeed_chain_records_total", chain, stats.records);
  to->Count("ringfeed_chain_payload_bytes_total", chain, stats.payload_bytes);
  to->Count("ringfeed_chain_batches_total", chain, stats.batches);
  to->Count("ringfeed_chain_batch_payload_bytes_total", chain, stats.batch_payload_bytes);
  to->Count("ringfeed_chain_passes_total", chain, stats.passes_ended);
  to->Count("ringfeed_chain_read_bytes_total", chain, stats.read_bytes);
  to->Count("ringfeed_chain_damaged_records_total", chain, stats.damaged_records);
  to->Count("ringfeed_chain_lost_ranges_total", chain, stats.lost_ranges);
  to->Count("ringfeed_chain_dropped_records_total", chain, stats.dropped_records);
  to->Count("ringfeed_chain_filtered_records_total", chain, stats.filtered_records);
  to->Count("ringfeed_chain_truncated_records_total", chain, stats.truncated_records);
  to->Count("ringfeed_chain_reopened_streams_total", chain, stats.reopened_streams);
  to->Count("ringfeed_chain_grown_batches_total", chain, stats.grown_batches);
  to->Count("ringfeed_chain_late_wakes_total", chain, stats.late_wakes);
  const std::pair<const char*, std::uint64_t> fates[] = {{"read", stats.files_read},
                                                         {"refused", stats.files_refused},
                                                         {"missing", stats.files_missing}};
  for (const auto& [fate, files] : fates) {
    to->Count("ringfeed_chain_files_total", With(chain, {{"fate", fate}}), files);
  }
  for (const StageStats& stage : stats.stages) {
    const Labels labels = With(chain, {{"stage", stage.name}});
    to->Add("ringfeed_stage_busy_seconds_total", labels, stage.busy_s);
    to->Add("ringfeed_stage_wait_seconds_total", labels, stage.wait_s);
  }
}

void AddChainGauges(const ChainCounts& counts, const Labels& chain, Families* to) {
  for (std::size_t path = 0; path < counts.paths.size(); ++path) {
    for (const bool cached : {false, true}) {
      const std::uint64_t files = counts.paths[path][cached ? 1 : 0];
      if (files == 0) continue;
      const std::string name(IoPathName(static_cast<IoPath>(path)));
      to->Count("ringfeed_chain_file_paths",
                With(chain, {{"path", name}, {"cached", cached ? "yes" : "no"}}), files);
    }
  }
  to->Add("ringfeed_chain_first_batch_seconds", chain, counts.stats.first_batch_s);
  const RunCounts& run = counts.run;
  to->Count("ringfeed_chain_threads", chain, run.threads);
  to->Count("ringfeed_chain_lanes", chain, run.lane_count);
  to->Count("ringfeed_chain_batches_ready", chain, run.ready);
  to->Count("ringfeed_chain_batches_held", chain, run.held);
  to->Count("ringfeed_chain_held_bytes", chain, run.held_bytes);
  to->Count("ringfeed_chain_limit_bytes", chain, run.memory_limit_bytes);
  to->Count("ringfeed_chain_arena_bytes", chain, counts.stats.arena_bytes);
  to->Count("ringfeed_chain_arena_used_bytes", chain, counts.arena_used_bytes);
  to->Count("ringfeed_chain_arena_peak_bytes", chain, counts.stats.arena_peak_bytes);
  for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
    const Labels labels = With(chain, {{"lane", std::to_string(lane)}});
    to->Count("ringfeed_lane_ready_blocks", labels, run.lanes[lane].ready_blocks);
    to->Count("ringfeed_lane_credits", labels, run.lanes[lane].credits);
  }
}

void AddChains(Families* to) {
  const std::size_t all = LiveChains().ForEach(kMostShown, [to](const auto& seen) {
    const Labels chain = {{"chain", ChainName(seen.number, seen.name)}};
    to->Add("ringfeed_chain_info",
            With(chain, {{"source", LabelText(seen.name, kMostSource)},
                         {"rank", LabelText(seen.counts.stats.ranks, kMostName)}}),
            1);
    to->Add("ringfeed_chain_ended", chain, seen.ended ? 1 : 0);
    AddChainCounters(seen.counts.stats, chain, to);
    AddChainGauges(seen.counts, chain, to);
  });
  to->Count("ringfeed_chains", {}, all);
}

void AddQueues(Families* to) {
  const std::size_t all = LiveQueues().ForEach(kMostShown, [to](const auto& seen) {
    const Labels queue = {{"queue", std::to_string(seen.number)}};
    const QueueCounts& counts = seen.counts;
    to->Add("ringfeed_queue_info", With(queue, {{"slot", LabelText(seen.name, kMostName)}}), 1);
    to->Count("ringfeed_queue_items", queue, counts.items);
    to->Count("ringfeed_queue_capacity", queue, counts.capacity);
    to->Add("ringfeed_queue_closed", queue, counts.closed || seen.ended ? 1 : 0);
    to->Count("ringfeed_queue_push_waits_total", queue, counts.waits.push.waits);
    to->Count("ringfeed_queue_pop_waits_total", queue, counts.waits.pop.waits);
    to->Add("ringfeed_queue_push_wait_seconds_total", queue,
            1e-9 * static_cast<double>(counts.waits.push.wait_ns));
    to->Add("ringfeed_queue_pop_wait_seconds_total", queue,
            1e-9 * static_cast<double>(counts.waits.pop.wait_ns));
  });
  to->Count("ringfeed_queues", {}, all);
}

void AddDevice(const FeedCounts::Device& device, const Labels& labels, Families* to) {
  const DeviceFeedStats& stats = device.stats;
  to->Count("ringfeed_device_slots", labels, stats.slots);
  to->Count("ringfeed_device_batches_ahead", labels, device.ahead);
  to->Count("ringfeed_device_leases", labels, device.leased);
  to->Count("ringfeed_device_batches_total", labels, stats.batches);
  to->Add("ringfeed_device_wait_seconds_total", labels, stats.wait_s);
  to->Count("ringfeed_device_copied_bytes_total", labels, stats.copied_bytes);
  to->Count("ringfeed_device_delivered_bytes_total", labels, stats.delivered_bytes);
  to->Count("ringfeed_device_packed_bytes_total", labels, stats.packed_bytes);
  to->Count("ringfeed_device_member_bytes_total", labels, stats.member_bytes);
  to->Count("ringfeed_device_slab_bytes_total", labels, stats.slab_bytes);
  to->Count("ringfeed_device_direct_bytes_total", labels, stats.direct_bytes);
  to->Count("ringfeed_device_unpinned_bytes_total", labels, stats.unpinned_bytes);
  to->Count("ringfeed_device_grown_slots_total", labels, stats.grown_slots);
}

void AddFeeds(Families* to) {
  const std::size_t all = LiveFeeds().ForEach(kMostShown, [to](const auto& seen) {
    const Labels feed = {{"feed", std::to_string(seen.number)}};
    to->Add("ringfeed_feed_info",
            With(feed, {{"backend", LabelText(seen.counts.backend, kMostName)}}), 1);
    to->Add("ringfeed_feed_ended", feed, seen.ended ? 1 : 0);
    to->Count("ringfeed_feed_dropped_rows_total", feed, seen.counts.dropped_rows);
    to->Count("ringfeed_feed_repeated_rows_total", feed, seen.counts.repeated_rows);
    for (const FeedCounts::Device& device : seen.counts.devices) {
      AddDevice(device, With(feed, {{"device", std::to_string(device.stats.device)}}), to);
    }
  });
  to->Count("ringfeed_feeds", {}, all);
}

double Now() {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double StartTime() {
  static const double start = Now();
  return start;
}

}  // namespace

std::vector<prometheus::MetricFamily> CollectMetrics(const ShowingCounts& showing) {
  Families families;
  families.Add("ringfeed_build_info", {{"version", RINGFEED_VERSION}}, 1);
  families.Add("ringfeed_start_time_seconds", {}, StartTime());
  families.Add("ringfeed_counted_time_seconds", {}, Now());
  families.Count("ringfeed_looks_total", {}, showing.looks);
  families.Add("ringfeed_metrics_cpu_seconds_total", {}, showing.cpu_s);
  AddChains(&families);
  AddQueues(&families);
  AddFeeds(&families);
  return families.Take();
}

}  // namespace ringfeed
