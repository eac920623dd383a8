#include "tools/top/job_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "metrics/label_text.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kMostName = 100;

std::string Shown(const std::string& name) { return LabelText(name, kMostName); }

std::string NumberText(std::optional<double> number, int decimals) {
  return number ? FixedText(*number, decimals) : "-";
}

std::string WholeText(double number) {
  constexpr double kMost = 1e18;  // another process may send any number, or none
  return CountText(static_cast<std::uint64_t>(number > 0 ? std::min(number, kMost) : 0.0));
}

std::string BytesRateText(std::optional<double> rate) { return rate ? RateText(*rate) : "-"; }

Json JsonOf(std::optional<double> number) { return number ? Json(*number) : Json(nullptr); }

}  // namespace

std::optional<double> JobView::Rate(std::string_view name, const Labels& labels) const {
  const std::optional<double> before = before_.Value(name, labels);
  const std::optional<double> now = now_.Value(name, labels);
  const double seconds = now_.time() - before_.time();
  if (!before || !now || *now < *before || seconds <= 0) return std::nullopt;
  return (*now - *before) / seconds;
}

std::optional<double> JobView::WaitMs(std::string_view waited, const Labels& of_wait,
                                      std::string_view steps, const Labels& of_steps) const {
  const std::optional<double> time = Rate(waited, of_wait);
  const std::optional<double> count = Rate(steps, of_steps);
  if (!time || !count || *count <= 0) return std::nullopt;
  return 1000 * *time / *count;
}

std::string JobView::ChainText(const std::string& chain) const {
  const Labels wanted = {{"chain", chain}};
  const bool ended = Now("ringfeed_chain_ended", wanted) == 1;
  std::string text = "\nchain " + Shown(chain) + (ended ? " (closed)" : "") + "\n";
  text += "  " + NumberText(Rate("ringfeed_chain_records_total", wanted), 0) + " records/s, " +
          NumberText(Rate("ringfeed_chain_batches_total", wanted), 1) + " batches/s, " +
          BytesRateText(Rate("ringfeed_chain_read_bytes_total", wanted)) + " read; in all " +
          WholeText(Now("ringfeed_chain_records_total", wanted)) + " records, " +
          WholeText(Now("ringfeed_chain_passes_total", wanted)) + " passes\n";
  text += "  " + WholeText(Now("ringfeed_chain_batches_ready", wanted)) + " batches ready, " +
          WholeText(Now("ringfeed_chain_batches_held", wanted)) + " held; damaged " +
          WholeText(Now("ringfeed_chain_damaged_records_total", wanted)) + ", late wakes " +
          WholeText(Now("ringfeed_chain_late_wakes_total", wanted)) + "\n";
  TableRows rows = {{"  stage", "threads at work", "threads that wait"}};
  for (const std::string& stage :
       now_.LabelsOf("ringfeed_stage_busy_seconds_total", "stage", wanted)) {
    const Labels of_stage = {{"chain", chain}, {"stage", stage}};
    rows.push_back({"  " + Shown(stage),
                    NumberText(Rate("ringfeed_stage_busy_seconds_total", of_stage), 2),
                    NumberText(Rate("ringfeed_stage_wait_seconds_total", of_stage), 2)});
  }
  return text + TableText(rows);
}

std::string JobView::FeedText(const std::string& feed) const {
  const bool ended = Now("ringfeed_feed_ended", {{"feed", feed}}) == 1;
  const std::string backend = now_.Label("ringfeed_feed_info", "backend", {{"feed", feed}});
  std::string text =
      "\nfeed " + Shown(feed) + " to " + Shown(backend) + (ended ? " (closed)" : "") + "\n";
  TableRows rows = {
      {"  device", "batches/s", "copied", "ahead", "held", "slots", "stall, ms/step"}};
  for (const std::string& device :
       now_.LabelsOf("ringfeed_device_slots", "device", {{"feed", feed}})) {
    const Labels wanted = {{"feed", feed}, {"device", device}};
    rows.push_back({"  " + Shown(device),
                    NumberText(Rate("ringfeed_device_batches_total", wanted), 1),
                    BytesRateText(Rate("ringfeed_device_copied_bytes_total", wanted)),
                    WholeText(Now("ringfeed_device_batches_ahead", wanted)),
                    WholeText(Now("ringfeed_device_leases", wanted)),
                    WholeText(Now("ringfeed_device_slots", wanted)),
                    NumberText(WaitMs("ringfeed_device_wait_seconds_total", wanted,
                                      "ringfeed_device_batches_total", wanted),
                               2)});
  }
  return text + TableText(rows);
}

std::string JobView::QueuesText() const {
  const std::vector<std::string> queues = now_.LabelsOf("ringfeed_queue_items", "queue");
  if (queues.empty()) return {};
  TableRows rows = {{"queue", "items", "room for", "pushes wait", "pops wait"}};
  for (const std::string& queue : queues) {
    const Labels wanted = {{"queue", queue}};
    rows.push_back({Shown(queue), WholeText(Now("ringfeed_queue_items", wanted)),
                    WholeText(Now("ringfeed_queue_capacity", wanted)),
                    NumberText(Rate("ringfeed_queue_push_wait_seconds_total", wanted), 2),
                    NumberText(Rate("ringfeed_queue_pop_wait_seconds_total", wanted), 2)});
  }
  return "\n" + TableText(rows);
}

std::string JobView::Text() const {
  std::string text;
  for (const std::string& feed : now_.LabelsOf("ringfeed_feed_info", "feed")) {
    text += FeedText(feed);
  }
  for (const std::string& chain : now_.LabelsOf("ringfeed_chain_info", "chain")) {
    text += ChainText(chain);
  }
  text += QueuesText();
  return text.empty() ? "\nnothing was read yet\n" : text;
}

Json JobView::ChainJson(const std::string& chain) const {
  const Labels wanted = {{"chain", chain}};
  Json stages = Json::array();
  for (const std::string& stage :
       now_.LabelsOf("ringfeed_stage_busy_seconds_total", "stage", wanted)) {
    const Labels of_stage = {{"chain", chain}, {"stage", stage}};
    stages.push_back(
        {{"stage", stage},
         {"busy_threads", JsonOf(Rate("ringfeed_stage_busy_seconds_total", of_stage))},
         {"waiting_threads", JsonOf(Rate("ringfeed_stage_wait_seconds_total", of_stage))}});
  }
  return {{"chain", chain},
          {"source", now_.Label("ringfeed_chain_info", "source", wanted)},
          {"ended", Now("ringfeed_chain_ended", wanted) == 1},
          {"records", Now("ringfeed_chain_records_total", wanted)},
          {"batches", Now("ringfeed_chain_batches_total", wanted)},
          {"passes", Now("ringfeed_chain_passes_total", wanted)},
          {"damaged_records", Now("ringfeed_chain_damaged_records_total", wanted)},
          {"late_wakes", Now("ringfeed_chain_late_wakes_total", wanted)},
          {"batches_ready", Now("ringfeed_chain_batches_ready", wanted)},
          {"records_per_s", JsonOf(Rate("ringfeed_chain_records_total", wanted))},
          {"batches_per_s", JsonOf(Rate("ringfeed_chain_batches_total", wanted))},
          {"read_bytes_per_s", JsonOf(Rate("ringfeed_chain_read_bytes_total", wanted))},
          {"stages", stages}};
}

Json JobView::FeedJson(const std::string& feed) const {
  Json devices = Json::array();
  for (const std::string& device :
       now_.LabelsOf("ringfeed_device_slots", "device", {{"feed", feed}})) {
    const Labels wanted = {{"feed", feed}, {"device", device}};
    devices.push_back(
        {{"device", device},
         {"batches", Now("ringfeed_device_batches_total", wanted)},
         {"batches_ahead", Now("ringfeed_device_batches_ahead", wanted)},
         {"leases", Now("ringfeed_device_leases", wanted)},
         {"slots", Now("ringfeed_device_slots", wanted)},
         {"batches_per_s", JsonOf(Rate("ringfeed_device_batches_total", wanted))},
         {"copied_bytes_per_s", JsonOf(Rate("ringfeed_device_copied_bytes_total", wanted))},
         {"stall_ms_per_step", JsonOf(WaitMs("ringfeed_device_wait_seconds_total", wanted,
                                             "ringfeed_device_batches_total", wanted))}});
  }
  return {{"feed", feed},
          {"backend", now_.Label("ringfeed_feed_info", "backend", {{"feed", feed}})},
          {"ended", Now("ringfeed_feed_ended", {{"feed", feed}}) == 1},
          {"devices", devices}};
}

Json JobView::ToJson() const {
  Json chains = Json::array();
  for (const std::string& chain : now_.LabelsOf("ringfeed_chain_info", "chain")) {
    chains.push_back(ChainJson(chain));
  }
  Json feeds = Json::array();
  for (const std::string& feed : now_.LabelsOf("ringfeed_feed_info", "feed")) {
    feeds.push_back(FeedJson(feed));
  }
  Json queues = Json::array();
  for (const std::string& queue : now_.LabelsOf("ringfeed_queue_items", "queue")) {
    const Labels wanted = {{"queue", queue}};
    queues.push_back({{"queue", queue},
                      {"items", Now("ringfeed_queue_items", wanted)},
                      {"capacity", Now("ringfeed_queue_capacity", wanted)}});
  }
  return {{"seconds", now_.time() - before_.time()},
          {"chains", chains},
          {"feeds", feeds},
          {"queues", queues}};
}

}  // namespace ringfeed::tools
