#include "tools/top/job_metrics.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "metrics/label_text.h"
#include "tools/command.h"

namespace ringfeed::tools {
namespace {

// A job shows some ten thousand at most; a peer that is no job must not keep `top` busy.
constexpr std::size_t kMostSamples = 50'000;
constexpr std::size_t kMostNames = 256;  // of chains, devices, stages: a job shows 64
constexpr char kTooMany[] = "these are more figures than a job shows";

bool HasAll(const MetricSample::Labels& labels, const MetricSample::Labels& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& each) {
    const auto found = labels.find(each.first);
    return found != labels.end() && found->second == each.second;
  });
}

// Reads name="value" pairs up to the closing brace; false if they are not such pairs.
bool TakeLabels(std::string_view* rest, MetricSample::Labels* labels) {
  while (!rest->starts_with('}')) {
    const std::size_t equals = rest->find("=\"");
    if (equals == std::string_view::npos) return false;
    std::string& value = (*labels)[std::string(rest->substr(0, equals))];
    rest->remove_prefix(equals + 2);
    while (!rest->starts_with('"')) {
      if (rest->starts_with('\\')) rest->remove_prefix(1);
      if (rest->empty()) return false;
      value += rest->front();
      rest->remove_prefix(1);
    }
    rest->remove_prefix(1);
    if (rest->starts_with(',')) rest->remove_prefix(1);
  }
  rest->remove_prefix(1);
  return true;
}

bool ParseLine(std::string_view line, MetricSample* sample) {
  const std::size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos || name_end == 0) return false;
  sample->name = line.substr(0, name_end);
  line.remove_prefix(name_end);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    if (!TakeLabels(&line, &sample->labels)) return false;
  }
  if (!line.starts_with(' ')) return false;
  line = line.substr(1, line.find(' ', 1) - 1);
  const char* const end = line.data() + line.size();
  const auto [stopped, error] = std::from_chars(line.data(), end, sample->value);
  return error == std::errc() && stopped == end;
}

}  // namespace

JobMetrics JobMetrics::Parse(std::string_view text) {
  JobMetrics metrics;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || line.starts_with('#')) continue;
    MetricSample sample;
    if (!ParseLine(line, &sample)) {
      throw Refuse("this is no text of metrics: " +
                   LabelText(line.substr(0, kMostTold), kMostTold));
    }
    if (metrics.samples_.size() == kMostSamples) throw Refuse(kTooMany);
    metrics.samples_.push_back(std::move(sample));
  }
  if (!metrics.Value("ringfeed_counted_time_seconds")) {
    throw Refuse("these are no metrics of ringfeed's");
  }
  return metrics;
}

const MetricSample* JobMetrics::Find(std::string_view name,
                                     const MetricSample::Labels& labels) const {
  const auto found = std::ranges::find_if(samples_, [&](const MetricSample& sample) {
    return sample.name == name && HasAll(sample.labels, labels);
  });
  return found == samples_.end() ? nullptr : &*found;
}

std::optional<double> JobMetrics::Value(std::string_view name,
                                        const MetricSample::Labels& labels) const {
  const MetricSample* const sample = Find(name, labels);
  return sample == nullptr ? std::nullopt : std::optional(sample->value);
}

std::string JobMetrics::Label(std::string_view name, const std::string& label,
                              const MetricSample::Labels& labels) const {
  const MetricSample* const sample = Find(name, labels);
  if (sample == nullptr || !sample->labels.contains(label)) return {};
  return sample->labels.at(label);
}

std::vector<std::string> JobMetrics::LabelsOf(std::string_view name, const std::string& label,
                                              const MetricSample::Labels& labels) const {
  std::vector<std::string> found;
  for (const MetricSample& sample : samples_) {
    if (sample.name != name || !HasAll(sample.labels, labels)) continue;
    const auto value = sample.labels.find(label);
    if (value == sample.labels.end()) continue;
    if (std::ranges::find(found, value->second) != found.end()) continue;
    if (found.size() == kMostNames) throw Refuse(kTooMany);
    found.push_back(value->second);
  }
  return found;
}

}  // namespace ringfeed::tools
