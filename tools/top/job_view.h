#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/report.h"
#include "tools/top/job_metrics.h"

namespace ringfeed::tools {

/// A job at two moments: the difference between them.
class JobView {
 public:
  /// Both must outlive it.
  JobView(const JobMetrics& before, const JobMetrics& now) : before_(before), now_(now) {}

  std::string Text() const;
  Json ToJson() const;

 private:
  using Labels = MetricSample::Labels;
  /// How much a counter rose in a second; none if that is not known.
  std::optional<double> Rate(std::string_view name, const Labels& labels) const;
  /// Mean wait in milliseconds for each step.
  std::optional<double> WaitMs(std::string_view waited, const Labels& of_wait,
                               std::string_view steps, const Labels& of_steps) const;
  double Now(std::string_view name, const Labels& labels) const {
    return now_.Value(name, labels).value_or(0);
  }
  std::string ChainText(const std::string& chain) const;
  std::string FeedText(const std::string& feed) const;
  std::string QueuesText() const;
  Json ChainJson(const std::string& chain) const;
  Json FeedJson(const std::string& feed) const;

  const JobMetrics& before_;
  const JobMetrics& now_;
};

}  // namespace ringfeed::tools
