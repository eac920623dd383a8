#pragma once

#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// Where samples lie.
struct SampleSpread {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// Zeros where there are none.
SampleSpread SpreadOf(std::vector<double> samples);

/// What a figure is to come to.
struct GpuTarget {
  enum class Kind : unsigned char { kNone, kAtLeast, kAtMost };
  Kind kind = Kind::kNone;
  double bound = 0;
};
inline GpuTarget AtLeast(double bound) { return {GpuTarget::Kind::kAtLeast, bound}; }
inline GpuTarget AtMost(double bound) { return {GpuTarget::Kind::kAtMost, bound}; }

/// One thing that was measured a few times.
struct GpuFigure {
  std::string name;  ///< "efficiency at 4 MiB"
  std::string unit;  ///< "of the peak"
  std::vector<double> samples;
  GpuTarget target{};

  double Median() const;
  /// "met", "missed", "" without a target; "not comparable" of emulated devices, whose speed is
  /// that of a model and of this machine's CPU.
  std::string Verdict(bool emulated) const;
};

/// What one kind of measurement gave, or why it gave nothing.
struct GpuSection {
  std::string name;
  std::vector<GpuFigure> figures{};
  Json details = Json::object();
  Status status{};
};

/// {figures: [{name, unit, median, min, max, samples, target, verdict}], details, error}.
Json SectionJson(const GpuSection& section, bool emulated);
/// Lines for a person.
void PrintSection(const GpuSection& section, bool emulated);

}  // namespace ringfeed::tools
