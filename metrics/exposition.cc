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

bool Counts(const prometheus::MetricFamily& family) {
  return family.type == prometheus::MetricType::Counter;
}

void AppendHead(const prometheus::MetricFamily& family, std::string* to) {
  const std::string name(BaseNameOf(family.name));
  const std::string unit(UnitOf(family.name));
  *to += "# TYPE " + name + (Counts(family) ? " counter\n" : " gauge\n");
  if (!unit.empty()) *to += "# UNIT " + name + " " + unit + "\n";
  *to += "# HELP " + name + " ";
  AppendEscaped(family.help, to);
  *to += '\n';
}

void AppendSample(const prometheus::MetricFamily& family, const prometheus::ClientMetric& metric,
                  std::string* to) {
  *to += family.name;
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
  AppendNumber(Counts(family) ? metric.counter.value : metric.gauge.value, to);
  *to += '\n';
}

}  // namespace

std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families) {
  std::string text;
  for (const prometheus::MetricFamily& family : families) {
    AppendHead(family, &text);
    for (const prometheus::ClientMetric& metric : family.metric) {
      AppendSample(family, metric, &text);
    }
  }
  return text + "# EOF\n";
}

std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families) {
  const prometheus::TextSerializer serializer;
  return static_cast<const prometheus::Serializer&>(serializer).Serialize(families);
}

}  // namespace ringfeed
