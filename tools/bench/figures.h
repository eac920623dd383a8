#pragma once

#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// The spread of samples.
struct SampleSpread {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// Zeros if there are none.
SampleSpread SpreadOf(std::vector<double> samples);

/// The target of a figure.
struct GpuTarget {
  std::string relation{};  ///< ">=", "<="; "": there is none
  double bound = 0;

  bool is_set() const { return !relation.empty(); }
};
inline GpuTarget AtLeast(double bound) { return {">=", bound}; }
inline GpuTarget AtMost(double bound) { return {"<=", bound}; }

/// One quantity that was measured a few times.
struct GpuFigure {
  std::string name;  ///< "efficiency at 4 MiB"
  std::string unit;  ///< "of the peak"
  std::vector<double> samples;
  GpuTarget target{};

  double Median() const;
  /// "met", "missed", "" without a target; "not comparable" for emulated devices: their speed is
  /// that of a model and of this machine's CPU.
  std::string Verdict(bool emulated) const;
};

/// The results of one kind of measurement, or why there are none.
struct GpuSection {
  std::string name;
  std::vector<GpuFigure> figures{};
  Json details = Json::object();
  Status status{};

  /// Adds a sample to the figure of that name; without one it adds the figure.
  void Add(const std::string& figure, const std::string& unit, double sample,
           const GpuTarget& target = {});
};

/// {figures: [{name, unit, median, min, max, samples, target, verdict}], details, error}.
Json SectionJson(const GpuSection& section, bool emulated);
/// Lines for a person.
void PrintSection(const GpuSection& section, bool emulated);

}  // namespace ringfeed::tools
