#include "metrics/exposition.h"

#include <prometheus/text_serializer.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "metrics/families.h"

namespace ringfeed {
namespace {

// As OpenMetrics requires in labels and in help.
void AppendEscaped(std::string_view text, std::string* to) {
  for (const char c : text) {
    if (c == '\n') {
      *to += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') *to += '\\';
    *to += c;
  }
}

void AppendNumber(double value, std::string* to) {
  constexpr double kWhole = 1e15;  // numbers below are written out: 1000000, not 1e+06
  char digits[32];
  char* const last = digits + sizeof(digits);
  const bool is_whole = std::abs(value) < kWhole && value == std::floor(value);
  const auto [end, error] = is_whole ? std::to_chars(digits, last, static_cast<std::int64_t>(value))
                                     : std::to_chars(digits, last, value);
  to->append(digits, end);
}

void AppendHead(const MetricInfo& info, std::string_view family, std::string* to) {
  const bool counts = info.type == prometheus::MetricType::Counter;
  *to += "# TYPE ";
  *to += family;
  *to += counts ? " counter\n" : " gauge\n";
  if (!info.unit().empty()) {
    *to += "# UNIT ";
    *to += family;
    *to += ' ';
    *to += info.unit();
    *to += '\n';
  }
  *to += "# HELP ";
  *to += family;
  *to += ' ';
  AppendEscaped(info.help, to);
  *to += '\n';
}

void AppendSample(const MetricInfo& info, const prometheus::ClientMetric& metric, std::string* to) {
  *to += info.name;
  char separator = '{';
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    *to += separator;
    *to += label.name;
    *to += "=\"";
    AppendEscaped(label.value, to);
    *to += '"';
    separator = ',';
  }
  if (!metric.label.empty()) *to += '}';
  *to += ' ';
  const bool counts = info.type == prometheus::MetricType::Counter;
  AppendNumber(counts ? metric.counter.value : metric.gauge.value, to);
  *to += '\n';
}

}  // namespace

std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families) {
  std::string text;
  for (const prometheus::MetricFamily& family : families) {
    const MetricInfo* const info = FindMetric(family.name);
    if (info == nullptr) continue;
    AppendHead(*info, info->family(), &text);
    for (const prometheus::ClientMetric& metric : family.metric) AppendSample(*info, metric, &text);
  }
  return text + "# EOF\n";
}

std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families) {
  const prometheus::TextSerializer serializer;
  return static_cast<const prometheus::Serializer&>(serializer).Serialize(families);
}

}  // namespace ringfeed
