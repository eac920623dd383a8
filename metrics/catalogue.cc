#include <string_view>
#include <unordered_map>

#include "metrics/families.h"

namespace ringfeed {
namespace {

constexpr prometheus::MetricType kCounter = prometheus::MetricType::Counter;
constexpr prometheus::MetricType kGauge = prometheus::MetricType::Gauge;

// A counter only grows; a gauge is the value at the moment. docs/METRICS.md has the same list, and
// tests/metrics compares the two.
constexpr MetricInfo kMetrics[] = {
    {"ringfeed_build_info", kGauge, "version", "1, with the version"},
    {"ringfeed_start_time_seconds", kGauge, "", "When the metrics were turned on, since 1970"},
    {"ringfeed_counted_time_seconds", kGauge, "", "When all of this was counted, since 1970"},
    {"ringfeed_looks_total", kCounter, "", "Times that all of this was counted"},
    {"ringfeed_metrics_cpu_seconds_total", kCounter, "", "CPU time of the thread that shows it"},
    {"ringfeed_chains", kGauge, "", "Chains that were read, ended ones that are shown too"},
    {"ringfeed_feeds", kGauge, "", "Device feeds, ended ones that are shown too"},
    {"ringfeed_queues", kGauge, "", "Queues of instances, ended ones that are shown too"},

    {"ringfeed_chain_info", kGauge, "chain source rank", "1, with what the chain reads"},
    {"ringfeed_chain_ended", kGauge, "chain", "1 once the chain was closed"},
    {"ringfeed_chain_records_total", kCounter, "chain", "Records planned for delivery"},
    {"ringfeed_chain_payload_bytes_total", kCounter, "chain", "Bytes of these records"},
    {"ringfeed_chain_batches_total", kCounter, "chain", "Batches, or blocks, handed out"},
    {"ringfeed_chain_batch_payload_bytes_total", kCounter, "chain",
     "Bytes of the records in batches that were handed out"},
    {"ringfeed_chain_passes_total", kCounter, "chain", "Passes over the data that have ended"},
    {"ringfeed_chain_read_bytes_total", kCounter, "chain",
     "Bytes asked of the medium or the page cache"},
    {"ringfeed_chain_damaged_records_total", kCounter, "chain",
     "Records and ranges that are damaged"},
    {"ringfeed_chain_lost_ranges_total", kCounter, "chain",
     "Damaged ranges of which no record is known"},
    {"ringfeed_chain_dropped_records_total", kCounter, "chain",
     "Records of rests that Batch was told to drop"},
    {"ringfeed_chain_filtered_records_total", kCounter, "chain", "Records that Filter dropped"},
    {"ringfeed_chain_truncated_records_total", kCounter, "chain", "Rows that Truncate or Pack cut"},
    {"ringfeed_chain_reopened_streams_total", kCounter, "chain", "Streams opened again"},
    {"ringfeed_chain_grown_batches_total", kCounter, "chain", "Batches that outgrew their slot"},
    {"ringfeed_chain_late_wakes_total", kCounter, "chain",
     "Wakes that came late: not 0 is a defect of ringfeed"},
    {"ringfeed_chain_files_total", kCounter, "chain fate",
     "Different files that were read, refused, missing"},
    {"ringfeed_chain_file_paths", kGauge, "chain path cached",
     "Files by how they were last opened, and whether the page cache had them"},
    {"ringfeed_chain_first_batch_seconds", kGauge, "chain",
     "From the last start to its first batch"},
    {"ringfeed_chain_threads", kGauge, "chain", "Threads that read and write"},
    {"ringfeed_chain_lanes", kGauge, "chain", "Inputs that take turns; the first 64 are shown"},
    {"ringfeed_chain_batches_ready", kGauge, "chain",
     "Batches, or blocks, that are planned or finished and not taken"},
    {"ringfeed_chain_batches_held", kGauge, "chain", "Batches, or blocks, that the consumer holds"},
    {"ringfeed_chain_held_bytes", kGauge, "chain", "Bytes of records that the order holds back"},
    {"ringfeed_chain_limit_bytes", kGauge, "chain", "Pinned memory that the chain may grow to"},
    {"ringfeed_chain_arena_bytes", kGauge, "chain", "Size of the arena that the chain shares"},
    {"ringfeed_chain_arena_used_bytes", kGauge, "chain", "Of the arena: handed out, to all chains"},
    {"ringfeed_chain_arena_peak_bytes", kGauge, "chain", "The most that was handed out at a time"},
    {"ringfeed_stage_busy_seconds_total", kCounter, "chain stage",
     "Time at the stage's work, summed over its threads"},
    {"ringfeed_stage_wait_seconds_total", kCounter, "chain stage",
     "Time waiting for what the stage needs, summed over its threads"},
    {"ringfeed_lane_ready_blocks", kGauge, "chain lane", "Blocks framed and not planned yet"},
    {"ringfeed_lane_credits", kGauge, "chain lane",
     "What the lane may still begin: parts of 128 KiB of a file, else blocks"},

    {"ringfeed_queue_info", kGauge, "queue slot", "1, with the queue's first slot"},
    {"ringfeed_queue_items", kGauge, "queue", "Instances in the queue"},
    {"ringfeed_queue_capacity", kGauge, "queue", "Instances that it can hold"},
    {"ringfeed_queue_closed", kGauge, "queue", "1 once it was closed"},
    {"ringfeed_queue_push_waits_total", kCounter, "queue", "Pushes that found it full"},
    {"ringfeed_queue_pop_waits_total", kCounter, "queue", "Pops that found it empty"},
    {"ringfeed_queue_push_wait_seconds_total", kCounter, "queue", "Time that pushes waited"},
    {"ringfeed_queue_pop_wait_seconds_total", kCounter, "queue", "Time that pops waited"},

    {"ringfeed_feed_info", kGauge, "feed backend", "1, with the kind of the devices"},
    {"ringfeed_feed_ended", kGauge, "feed", "1 once the feed was closed"},
    {"ringfeed_feed_dropped_rows_total", kCounter, "feed", "Rows left out of a last step"},
    {"ringfeed_feed_repeated_rows_total", kCounter, "feed", "Rows repeated in a last step"},
    {"ringfeed_device_slots", kGauge, "feed device", "Batches that the device has room for"},
    {"ringfeed_device_batches_ahead", kGauge, "feed device",
     "Batches given to the device, in a slot or on their way, that the loop has not taken"},
    {"ringfeed_device_leases", kGauge, "feed device", "Batches that the loop holds"},
    {"ringfeed_device_batches_total", kCounter, "feed device", "Batches that the loop took"},
    {"ringfeed_device_wait_seconds_total", kCounter, "feed device",
     "Time that the loop waited for its batch"},
    {"ringfeed_device_copied_bytes_total", kCounter, "feed device", "Bytes over the link"},
    {"ringfeed_device_delivered_bytes_total", kCounter, "feed device", "Bytes of the tensors"},
    {"ringfeed_device_packed_bytes_total", kCounter, "feed device",
     "Of these: copied by the CPU first"},
    {"ringfeed_device_member_bytes_total", kCounter, "feed device",
     "Of these: copied one by one from where they were read"},
    {"ringfeed_device_slab_bytes_total", kCounter, "feed device",
     "Of these: copied together from where they were read"},
    {"ringfeed_device_direct_bytes_total", kCounter, "feed device",
     "Of these: read into the device's memory"},
    {"ringfeed_device_unpinned_bytes_total", kCounter, "feed device",
     "Of these: from memory that is not registered"},
    {"ringfeed_device_grown_slots_total", kCounter, "feed device", "Slots that became bigger"},
};

constexpr std::string_view kTotal = "_total";

}  // namespace

std::string_view MetricInfo::family() const {
  return name.ends_with(kTotal) ? name.substr(0, name.size() - kTotal.size()) : name;
}

std::string_view MetricInfo::unit() const {
  for (const std::string_view unit : {"seconds", "bytes"}) {
    const std::string_view family_name = family();
    if (family_name.ends_with(unit) && family_name[family_name.size() - unit.size() - 1] == '_') {
      return unit;
    }
  }
  return "";
}

std::span<const MetricInfo> AllMetrics() { return kMetrics; }

const MetricInfo* FindMetric(std::string_view name) {
  static const auto* const by_name = [] {
    auto* const all = new std::unordered_map<std::string_view, const MetricInfo*>;
    for (const MetricInfo& info : kMetrics) all->emplace(info.name, &info);
    return all;  // never destroyed: the serving thread may outlive static objects
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

}  // namespace ringfeed
