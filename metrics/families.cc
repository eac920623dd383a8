#include "metrics/families.h"

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
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

constexpr std::string_view kTotal = "_total";

using Labels = std::vector<prometheus::ClientMetric::Label>;

bool IsCounter(std::string_view name) { return name.ends_with(kTotal); }

/// Families in the order in which they got their first samples.
class Families {
 public:
  void Add(std::string_view name, std::string_view help, const Labels& labels, double value) {
    const auto [at, is_new] = places_.try_emplace(name, families_.size());
    if (is_new) {
      prometheus::MetricFamily& family = families_.emplace_back();
      family.name = name;
      family.help = help;
      family.type =
          IsCounter(name) ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    }
    prometheus::MetricFamily& family = families_[at->second];
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    (IsCounter(name) ? metric.counter.value : metric.gauge.value) = value;
  }
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
  std::unordered_map<std::string_view, std::size_t> places_;  // by names, which are literals
};

/// What samples are of: a chain, a stage of it.
class Subject {
 public:
  Subject(Families* to, Labels labels) : to_(to), labels_(std::move(labels)) {}
  /// A counter only grows; a gauge is the value at the moment. docs/METRICS.md has the same list,
  /// and tests/metrics compares the two.
  template <typename Number>
  void Add(std::string_view name, std::string_view help, Number value) const {
    to_->Add(name, help, labels_, static_cast<double>(value));
  }
  Subject With(std::initializer_list<prometheus::ClientMetric::Label> more) const {
    Labels all = labels_;
    all.insert(all.end(), more);
    return {to_, std::move(all)};
  }

 private:
  Families* const to_;
  const Labels labels_;
};

std::string ChainName(std::size_t number, const std::string& source) {
  const std::size_t slash = source.rfind('/');
  const std::string name = slash == std::string::npos ? source : source.substr(slash + 1);
  return std::to_string(number) + ":" + LabelText(name, kMostName);
}

void AddStepWaits(const StepWaits& waits, std::string_view name, const Subject& of) {
  const std::pair<const char*, double> quantiles[] = {
      {"0.5", waits.p50_s}, {"0.99", waits.p99_s}, {"1", waits.max_s}};
  for (const auto& [quantile, seconds] : quantiles) {
    of.With({{"quantile", quantile}})
        .Add(name, "What this part of the loop's steps waited no longer for", seconds);
  }
}

void AddChainCounters(const PipelineStats& stats, const Subject& chain) {
  chain.Add("ringfeed_chain_records_total", "Records planned for delivery", stats.records);
  chain.Add("ringfeed_chain_payload_bytes_total", "Bytes of these records", stats.payload_bytes);
  chain.Add("ringfeed_chain_batches_total", "Batches, or blocks, handed out", stats.batches);
  chain.Add("ringfeed_chain_batch_payload_bytes_total",
            "Bytes of the records in batches that were handed out", stats.batch_payload_bytes);
  chain.Add("ringfeed_chain_passes_total", "Passes over the data that have ended",
            stats.passes_ended);
  chain.Add("ringfeed_chain_read_bytes_total", "Bytes asked of the medium or the page cache",
            stats.read_bytes);
  chain.Add("ringfeed_chain_damaged_records_total", "Records and ranges that are damaged",
            stats.damaged_records);
  chain.Add("ringfeed_chain_lost_ranges_total", "Damaged ranges of which no record is known",
            stats.lost_ranges);
  chain.Add("ringfeed_chain_dropped_records_total", "Records of rests that Batch was told to drop",
            stats.dropped_records);
  chain.Add("ringfeed_chain_filtered_records_total", "Records that Filter dropped",
            stats.filtered_records);
  chain.Add("ringfeed_chain_truncated_records_total", "Rows that Truncate or Pack cut",
            stats.truncated_records);
  chain.Add("ringfeed_chain_reopened_streams_total", "Streams opened again",
            stats.reopened_streams);
  chain.Add("ringfeed_chain_grown_batches_total", "Batches that outgrew their slot",
            stats.grown_batches);
  chain.Add("ringfeed_chain_step_units_total", "Units of the records of planned steps",
            stats.planned.units);
  chain.Add("ringfeed_chain_padding_units_total", "Empty places of the packed rows of these steps",
            stats.planned.padding_units);
  chain.Add("ringfeed_chain_empty_records_total",
            "Records without a unit, which planned batches leave out", stats.planned.empty_records);
  chain.Add("ringfeed_chain_late_wakes_total",
            "Wakes that came late: not 0 is a defect of ringfeed", stats.late_wakes);
  const std::pair<const char*, std::uint64_t> fates[] = {{"read", stats.files_read},
                                                         {"refused", stats.files_refused},
                                                         {"missing", stats.files_missing}};
  for (const auto& [fate, files] : fates) {
    chain.With({{"fate", fate}})
        .Add("ringfeed_chain_files_total", "Different files that were read, refused, missing",
             files);
  }
  for (const StageStats& stage : stats.stages) {
    const Subject of_stage = chain.With({{"stage", stage.name}});
    of_stage.Add("ringfeed_stage_busy_seconds_total",
                 "Time at the stage's work, summed over its threads", stage.busy_s);
    of_stage.Add("ringfeed_stage_wait_seconds_total",
                 "Time waiting for what the stage needs, summed over its threads", stage.wait_s);
  }
}

void AddChainGauges(const ChainCounts& counts, const Subject& chain) {
  for (std::size_t path = 0; path < counts.paths.size(); ++path) {
    for (const bool cached : {false, true}) {
      const std::uint64_t files = counts.paths[path][cached ? 1 : 0];
      if (files == 0) continue;
      const std::string name(IoPathName(static_cast<IoPath>(path)));
      chain.With({{"path", name}, {"cached", cached ? "yes" : "no"}})
          .Add("ringfeed_chain_file_paths",
               "Files by how they were last opened, and whether the page cache had them", files);
    }
  }
  AddStepWaits(counts.stats.step_waits, "ringfeed_chain_step_wait_seconds", chain);
  chain.Add("ringfeed_chain_first_batch_seconds", "From the last start to its first batch",
            counts.stats.first_batch_s);
  chain.Add("ringfeed_chain_step_imbalance",
            "The largest load of a rank over the mean of all ranks, on average over planned steps",
            counts.stats.planned.imbalance);
  const RunCounts& run = counts.run;
  chain.Add("ringfeed_chain_threads", "Threads that read and write", run.threads);
  chain.Add("ringfeed_chain_lanes", "Inputs that take turns; the first 64 are shown",
            run.lane_count);
  chain.Add("ringfeed_chain_batches_ready",
            "Batches, or blocks, that are planned or finished and not taken", run.ready);
  chain.Add("ringfeed_chain_batches_held", "Batches, or blocks, that the consumer holds", run.held);
  chain.Add("ringfeed_chain_held_bytes", "Bytes of records that the order holds back",
            run.held_bytes);
  chain.Add("ringfeed_chain_limit_bytes", "Pinned memory that the chain may grow to",
            run.memory_limit_bytes);
  chain.Add("ringfeed_chain_arena_bytes", "Size of the arena that the chain shares",
            counts.stats.arena_bytes);
  chain.Add("ringfeed_chain_arena_used_bytes", "Of the arena: handed out, to all chains",
            counts.arena_used_bytes);
  chain.Add("ringfeed_chain_arena_peak_bytes", "The most that was handed out at a time",
            counts.stats.arena_peak_bytes);
  for (std::size_t lane = 0; lane < run.lanes.size(); ++lane) {
    const Subject of_lane = chain.With({{"lane", std::to_string(lane)}});
    of_lane.Add("ringfeed_lane_ready_blocks", "Blocks framed and not planned yet",
                run.lanes[lane].ready_blocks);
    of_lane.Add("ringfeed_lane_credits",
                "What the lane may still begin: parts of 128 KiB of a file, else blocks",
                run.lanes[lane].credits);
  }
}

void AddChains(const Subject& process) {
  const std::size_t all = LiveChains().ForEach(kMostShown, [&](const auto& seen) {
    const Subject chain = process.With({{"chain", ChainName(seen.number, seen.name)}});
    chain
        .With({{"source", LabelText(seen.name, kMostSource)},
               {"rank", LabelText(seen.counts.stats.ranks, kMostName)}})
        .Add("ringfeed_chain_info", "1, with what the chain reads", 1);
    chain.Add("ringfeed_chain_ended", "1 once the chain was closed", seen.ended ? 1 : 0);
    AddChainCounters(seen.counts.stats, chain);
    AddChainGauges(seen.counts, chain);
  });
  process.Add("ringfeed_chains", "Chains that were read, ended ones that are shown too", all);
}

void AddQueues(const Subject& process) {
  const std::size_t all = LiveQueues().ForEach(kMostShown, [&](const auto& seen) {
    const Subject queue = process.With({{"queue", std::to_string(seen.number)}});
    const QueueCounts& counts = seen.counts;
    queue.With({{"slot", LabelText(seen.name, kMostName)}})
        .Add("ringfeed_queue_info", "1, with the queue's first slot", 1);
    queue.Add("ringfeed_queue_items", "Instances in the queue", counts.items);
    queue.Add("ringfeed_queue_capacity", "Instances that it can hold", counts.capacity);
    queue.Add("ringfeed_queue_closed", "1 once it was closed", counts.closed || seen.ended ? 1 : 0);
    queue.Add("ringfeed_queue_push_waits_total", "Pushes that found it full",
              counts.waits.push.waits);
    queue.Add("ringfeed_queue_pop_waits_total", "Pops that found it empty", counts.waits.pop.waits);
    queue.Add("ringfeed_queue_push_wait_seconds_total", "Time that pushes waited",
              1e-9 * static_cast<double>(counts.waits.push.wait_ns));
    queue.Add("ringfeed_queue_pop_wait_seconds_total", "Time that pops waited",
              1e-9 * static_cast<double>(counts.waits.pop.wait_ns));
  });
  process.Add("ringfeed_queues", "Queues of instances, ended ones that are shown too", all);
}

void AddDevice(const FeedCounts::Device& counts, const Subject& device) {
  const DeviceFeedStats& stats = counts.stats;
  device.Add("ringfeed_device_slots", "Batches that the device has room for", stats.slots);
  device.Add("ringfeed_device_batches_ahead",
             "Batches given to the device, in a slot or on their way, that the loop has not taken",
             counts.ahead);
  device.Add("ringfeed_device_leases", "Batches that the loop holds", counts.leased);
  device.Add("ringfeed_device_batches_total", "Batches that the loop took", stats.batches);
  device.Add("ringfeed_device_wait_seconds_total", "Time that the loop waited for its batch",
             stats.wait_s);
  AddStepWaits(stats.step_waits, "ringfeed_device_step_wait_seconds", device);
  device.Add("ringfeed_device_copied_bytes_total", "Bytes over the link", stats.copied_bytes);
  device.Add("ringfeed_device_delivered_bytes_total", "Bytes of the tensors",
             stats.delivered_bytes);
  device.Add("ringfeed_device_packed_bytes_total", "Of these: copied by the CPU first",
             stats.packed_bytes);
  device.Add("ringfeed_device_member_bytes_total",
             "Of these: copied one by one from where they were read", stats.member_bytes);
  device.Add("ringfeed_device_slab_bytes_total",
             "Of these: copied together from where they were read", stats.slab_bytes);
  device.Add("ringfeed_device_direct_bytes_total", "Of these: read into the device's memory",
             stats.direct_bytes);
  device.Add("ringfeed_device_unpinned_bytes_total", "Of these: from memory that is not registered",
             stats.unpinned_bytes);
  device.Add("ringfeed_device_grown_slots_total", "Slots that became bigger", stats.grown_slots);
}

void AddFeeds(const Subject& process) {
  const std::size_t all = LiveFeeds().ForEach(kMostShown, [&](const auto& seen) {
    const Subject feed = process.With({{"feed", std::to_string(seen.number)}});
    feed.With({{"backend", LabelText(seen.counts.backend, kMostName)}})
        .Add("ringfeed_feed_info", "1, with the kind of the devices", 1);
    feed.Add("ringfeed_feed_ended", "1 once the feed was closed", seen.ended ? 1 : 0);
    feed.Add("ringfeed_feed_dropped_rows_total", "Rows left out of a last step",
             seen.counts.dropped_rows);
    feed.Add("ringfeed_feed_repeated_rows_total", "Rows repeated in a last step",
             seen.counts.repeated_rows);
    for (const FeedCounts::Device& device : seen.counts.devices) {
      AddDevice(device, feed.With({{"device", std::to_string(device.stats.device)}}));
    }
  });
  process.Add("ringfeed_feeds", "Device feeds, ended ones that are shown too", all);
}

double Now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_1970).count();
}

double StartTime() {
  static const double start = Now();
  return start;
}

}  // namespace

std::string_view BaseNameOf(std::string_view name) {
  return IsCounter(name) ? name.substr(0, name.size() - kTotal.size()) : name;
}

std::string_view UnitOf(std::string_view name) {
  name = BaseNameOf(name);
  for (const std::string_view unit : {"seconds", "bytes"}) {
    if (name.ends_with(unit) && name[name.size() - unit.size() - 1] == '_') return unit;
  }
  return "";
}

std::vector<prometheus::MetricFamily> CollectMetrics(const ShowingCounts& showing) {
  Families families;
  const Subject process(&families, {});
  process.With({{"version", RINGFEED_VERSION}})
      .Add("ringfeed_build_info", "1, with the version", 1);
  process.Add("ringfeed_start_time_seconds", "When the metrics were turned on, since 1970",
              StartTime());
  process.Add("ringfeed_counted_time_seconds", "When all of this was counted, since 1970", Now());
  process.Add("ringfeed_looks_total", "Times that all of this was counted", showing.looks);
  process.Add("ringfeed_metrics_cpu_seconds_total", "CPU time of the thread that shows it",
              showing.cpu_s);
  AddChains(process);
  AddQueues(process);
  AddFeeds(process);
  return families.Take();
}

}  // namespace ringfeed
