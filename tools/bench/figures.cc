#include "tools/bench/figures.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ringfeed::tools {
namespace {

std::string TargetText(const GpuTarget& target) {
  if (!target.is_set()) return "";
  char bound[32];
  std::snprintf(bound, sizeof bound, "%g", target.bound);
  return target.relation + " " + bound;
}

}  // namespace

SampleSpread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back()};
}

double GpuFigure::Median() const { return SpreadOf(samples).median; }

std::string GpuFigure::Verdict(bool emulated) const {
  if (!target.is_set()) return "";
  if (emulated || samples.empty()) return "not comparable";
  const double median = Median();
  const bool met = target.relation == ">=" ? median >= target.bound : median <= target.bound;
  return met ? "met" : "missed";
}

void GpuSection::Add(const std::string& figure, const std::string& unit, double sample,
                     const GpuTarget& target) {
  auto found = std::ranges::find(figures, figure, &GpuFigure::name);
  if (found == figures.end()) found = figures.insert(found, {figure, unit, {}, target});
  found->samples.push_back(sample);
}

Json SectionJson(const GpuSection& section, bool emulated) {
  Json figures = Json::array();
  for (const GpuFigure& figure : section.figures) {
    const SampleSpread spread = SpreadOf(figure.samples);
    Json json = {{"name", figure.name}, {"unit", figure.unit}, {"median", spread.median},
                 {"min", spread.min},   {"max", spread.max},   {"samples", figure.samples}};
    if (figure.target.is_set()) {
      json["target"] = TargetText(figure.target);
      json["verdict"] = figure.Verdict(emulated);
    }
    figures.push_back(std::move(json));
  }
  Json json = {{"figures", std::move(figures)}, {"details", section.details}};
  if (!section.status.ok()) json["error"] = section.status.ToString();
  return json;
}

void PrintSection(const GpuSection& section, bool emulated) {
  std::printf("\n%s%s\n", section.name.c_str(), emulated ? " (emulated)" : "");
  TableRows table;
  for (const GpuFigure& figure : section.figures) {
    const SampleSpread spread = SpreadOf(figure.samples);
    table.push_back({"  " + figure.name, FixedText(spread.median, 4), figure.unit,
                     "(" + FixedText(spread.min, 4) + " to " + FixedText(spread.max, 4) + ")",
                     TargetText(figure.target), figure.Verdict(emulated)});
  }
  if (!table.empty()) std::fputs(TableText(table).c_str(), stdout);
  if (!section.status.ok()) std::printf("  not measured: %s\n", section.status.ToString().c_str());
}

}  // namespace ringfeed::tools
