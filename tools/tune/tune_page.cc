// The report of `ringfeed tune` as one page of HTML. Every figure is also written as a number, so
// that the page says the same on paper and without colours.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report.h"
#include "tools/tune/tune_report.h"

namespace ringfeed::tools {
namespace {

constexpr int kWidth = 640;   // of a drawing, in its own units
constexpr int kLabel = 170;   // of a row's name
constexpr int kFigure = 150;  // of a row's figure
constexpr int kRow = 26;

constexpr std::string_view kStyle = R"(
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
code { background: #f0f0f0; padding: .1em .3em; overflow-wrap: anywhere }
svg { width: 100%; height: auto } svg text { font: 13px system-ui, sans-serif; fill: currentColor }
.bar { fill: #2a6f97 } .wait { fill: none; stroke: #2a6f97; stroke-dasharray: 3 2 }
.mark { fill: #2a6f97 } .spread { stroke: #2a6f97; stroke-width: 2 }
.one { stroke: #888; stroke-dasharray: 4 3 } .muted { color: #555 }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 }
  code { background: #2a2a2a } .muted { color: #aaa } .bar, .mark { fill: #6fb3d6 }
  .wait, .spread { stroke: #6fb3d6 } }
@media print { body { color: #000; background: #fff; max-width: none } svg { break-inside: avoid } }
)";

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Text(double x, double y, std::string_view text, std::string_view anchor = "start") {
  return "<text x=\"" + FixedText(x, 1) + "\" y=\"" + FixedText(y, 1) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + Escaped(text) + "</text>\n";
}

std::string Line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + FixedText(x1, 1) + "\" y1=\"" +
         FixedText(y1, 1) + "\" x2=\"" + FixedText(x2, 1) + "\" y2=\"" + FixedText(y2, 1) +
         "\"/>\n";
}

std::string Box(std::string_view kind, double x, double y, double width) {
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + FixedText(x, 1) + "\" y=\"" +
         FixedText(y, 1) + "\" width=\"" + FixedText(std::max(width, 0.5), 1) +
         "\" height=\"14\"/>\n";
}

std::string Drawing(std::size_t rows, std::string_view title, const std::string& content) {
  return "<svg role=\"img\" viewBox=\"0 0 " + std::to_string(kWidth) + " " +
         std::to_string(static_cast<int>(rows) * kRow + 8) + "\"><title>" + Escaped(title) +
         "</title>\n" + content + "</svg>\n";
}

constexpr double kPlot = kWidth - kLabel - kFigure;

/// Ratios to the defaults' rate: a mark for the median on a line from the least to the most.
class RatioPlot {
 public:
  explicit RatioPlot(const std::vector<const TriedSettings*>& rows) : rows_(rows) {
    for (const TriedSettings* row : rows_) {
      low_ = std::min(low_, row->spread().min);
      high_ = std::max(high_, row->spread().max);
    }
    const double margin = 0.05 * (high_ - low_) + 0.01;
    low_ -= margin;
    high_ += margin;
  }
  std::string Draw(std::string_view title) const {
    std::string content = Line("one", At(1), 0, At(1), kRow * static_cast<double>(rows_.size()));
    double y = 0;
    for (const TriedSettings* row : rows_) {
      const SampleSpread spread = row->spread();
      const double middle = y + kRow / 2.0;
      content += Text(0, middle + 4, row->what.value);
      content += Line("spread", At(spread.min), middle, At(spread.max), middle);
      content += "<circle class=\"mark\" r=\"5\" cx=\"" + FixedText(At(spread.median), 1) +
                 "\" cy=\"" + FixedText(middle, 1) + "\"/>\n";
      content += Text(kWidth, middle + 4,
                      FixedText(spread.median, 2) + " (" + FixedText(spread.min, 2) + " to " +
                          FixedText(spread.max, 2) + ")",
                      "end");
      y += kRow;
    }
    return Drawing(rows_.size(), title, content);
  }

 private:
  double At(double ratio) const { return kLabel + kPlot * (ratio - low_) / (high_ - low_); }

  const std::vector<const TriedSettings*> rows_;
  double low_ = 1;
  double high_ = 1;
};

std::string OptionPlots(const TuneReport& report) {
  std::string html;
  const std::vector<TriedSettings>& values = report.result.values;
  std::string failed;
  for (auto begin = values.begin(); begin != values.end();) {
    const std::string& option = begin->what.option;
    const auto end = std::find_if(begin, values.end(), [&](const TriedSettings& tried) {
      return tried.what.option != option;
    });
    std::vector<const TriedSettings*> rows;
    for (auto tried = begin; tried != end; ++tried) {
      if (!tried->ratios.empty()) rows.push_back(&*tried);
      if (!tried->status.ok()) {
        failed += "<li><code>--" + Escaped(option) + " " + Escaped(tried->what.value) +
                  "</code>: " + Escaped(tried->status.ToString()) + "</li>\n";
      }
    }
    if (!rows.empty()) {
      html += "<h3><code>--" + Escaped(option) + "</code></h3>\n" + RatioPlot(rows).Draw(option);
    }
    begin = end;
  }
  if (!failed.empty()) html += "<p>Could not be measured:</p><ul>\n" + failed + "</ul>\n";
  return html;
}

std::string TogetherTable(const TuneReport& report) {
  if (report.result.together.empty()) return {};
  std::string html =
      "<h2>Together</h2>\n<table><tr><th>options</th><th>of the defaults</th></tr>\n";
  for (const TriedSettings& tried : report.result.together) {
    const SampleSpread spread = tried.spread();
    html += "<tr><td><code>" + Escaped(tried.what.settings.Options()) + "</code></td><td>" +
            FixedText(spread.median, 2) + " (" + FixedText(spread.min, 2) + " to " +
            FixedText(spread.max, 2) + ")</td></tr>\n";
  }
  return html + "</table>\n";
}

// A second of the run in each stage: full for work, dashed for waiting.
std::string StagePlot(const BenchFigure& figure) {
  double longest = 1e-9;
  for (const StageStats& stage : figure.stages) {
    longest = std::max(longest, stage.busy_s + stage.wait_s);
  }
  std::string content;
  double y = 0;
  for (const StageStats& stage : figure.stages) {
    const double busy = kPlot * stage.busy_s / longest;
    content += Text(0, y + kRow / 2.0 + 4, stage.name);
    content += Box("bar", kLabel, y + 6, busy);
    if (stage.wait_s > 0)
      content += Box("wait", kLabel + busy, y + 6, kPlot * stage.wait_s / longest);
    content +=
        Text(kWidth, y + kRow / 2.0 + 4,
             FixedText(stage.busy_s, 2) + " s, waits " + FixedText(stage.wait_s, 2) + " s", "end");
    y += kRow;
  }
  return Drawing(figure.stages.size(), "time in each stage", content);
}

std::string LimitPlot(const TuneReport& report) {
  std::vector<std::pair<std::string, double>> rows = {
      {"this feed", report.result.after.gb_per_s},
      {"with the defaults", report.result.before.gb_per_s}};
  for (const MachineLimit& limit : report.limits) {
    if (limit.status.ok()) rows.emplace_back(limit.name, limit.gb_per_s);
  }
  if (const double rate = MachineRate(report); rate > 0) rows.emplace_back("plain loops", rate);
  double most = 1e-9;
  for (const auto& [name, rate] : rows) most = std::max(most, rate);
  std::string content;
  double y = 0;
  for (const auto& [name, rate] : rows) {
    content += Text(0, y + kRow / 2.0 + 4, name) + Box("bar", kLabel, y + 6, kPlot * rate / most) +
               Text(kWidth, y + kRow / 2.0 + 4, FixedText(rate, 2) + " GB/s", "end");
    y += kRow;
  }
  std::string html = Drawing(rows.size(), "rates", content) + "<ul class=\"muted\">\n";
  for (const MachineLimit& limit : report.limits) {
    const std::string why = limit.status.ok() ? "" : ": " + limit.status.ToString();
    html += "<li>" + Escaped(limit.name + ": " + limit.what + why) + "</li>\n";
  }
  return html + "</ul>\n";
}

std::string Summary(const TuneReport& report) {
  std::string html = "<ul>\n";
  for (const std::string& sentence : Findings(report))
    html += "<li>" + Escaped(sentence) + "</li>\n";
  html += "</ul>\n<p class=\"muted\">" + BytesText(report.sample_bytes) + " of " +
          BytesText(report.bytes) + " of " + Escaped(report.format) + ", " +
          (report.cold ? "cold" : "warm") + ", on " + Escaped(report.machine) + "; " +
          FixedText(report.seconds, 0) + " s of measuring.</p>\n";
  if (!report.written.empty()) {
    html += "<p>To use it: <code>" + Escaped(report.command + " --tuned " + report.written) +
            "</code></p>\n";
  }
  return html;
}

}  // namespace

std::string TunePage(const TuneReport& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>ringfeed tune</title>\n<style>" +
         std::string(kStyle) + "</style></head><body>\n<h1>What is fast here</h1>\n<p><code>" +
         Escaped(report.command) + "</code></p>\n" + Summary(report) +
         "<h2>How far from this machine's limits</h2>\n" + LimitPlot(report) +
         "<h2>Where a run's time went</h2>\n<p class=\"muted\">Summed over the threads of each "
         "stage. Full: at work; dashed: waiting.</p>\n" +
         StagePlot(report.result.after) +
         "<h2>One option at a time</h2>\n<p class=\"muted\">Rate over that of the defaults: "
         "median, "
         "and least to most of the pairs of runs. The dashed line is 1.</p>\n" +
         OptionPlots(report) + TogetherTable(report) + "</body></html>\n";
}

}  // namespace ringfeed::tools
