#include "tools/tune/tune_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/bench/bench_runs.h"
#include "tools/bench/figures.h"

namespace ringfeed::tools {
namespace {

std::string Percent(double share) { return FixedText(100 * share, 0) + " %"; }

std::string SpreadText(const SampleSpread& spread) {
  return FixedText(spread.median, 2) + " (" + FixedText(spread.min, 2) + " to " +
         FixedText(spread.max, 2) + ")";
}

std::string GainSentence(const TuneReport& report) {
  const TuneResult& result = report.result;
  const std::string options = result.best.Options();
  if (options.empty()) return "The defaults stay: " + result.verdict + ".";
  return "With " + options + " the feed is " + SpreadText(result.gain) +
         " times as fast as with the defaults, in " + std::to_string(result.pairs) +
         " pairs of runs: " + result.verdict + ".";
}

// "read 5.10 GB/s, copy 20.00 GB/s".
std::string LimitNames(const TuneReport& report) {
  std::string names;
  for (const MachineLimit& limit : report.limits) {
    if (!limit.status.ok()) continue;
    names +=
        (names.empty() ? "" : ", ") + limit.name + " " + FixedText(limit.gb_per_s, 2) + " GB/s";
  }
  return names;
}

// "4.00 MiB of 8.00 MiB of tfrecord, warm, on …".
std::string SampleText(const TuneReport& report) {
  return BytesText(report.sample_bytes) + " of " + BytesText(report.bytes) + " of " +
         report.format + ", " + (report.cold ? "cold" : "warm") + ", on " + report.machine;
}

Json SpreadJson(const SampleSpread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Json TriedJson(const TriedSettings& tried) {
  Json json = {{"option", tried.what.option},
               {"value", tried.what.value},
               {"options", tried.what.settings.Options()},
               {"ratio", SpreadJson(tried.spread())},
               {"ratios", tried.ratios}};
  if (!tried.status.ok()) json["error"] = tried.status.ToString();
  return json;
}

}  // namespace

double MachineRate(const TuneReport& report) {
  double seconds_per_gb = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const MachineLimit& limit : report.limits) {
    if (!limit.status.ok() || limit.gb_per_s <= 0) continue;
    if (limit.name == "link" || (report.cold && limit.name == "read")) {
      least = std::min(least, limit.gb_per_s);
    } else {
      seconds_per_gb += 1 / limit.gb_per_s;
    }
  }
  if (seconds_per_gb > 0) least = std::min(least, 1 / seconds_per_gb);
  return std::isfinite(least) ? least : 0;
}

std::vector<std::string> Findings(const TuneReport& report) {
  const BenchFigure& after = report.result.after;
  std::vector<std::string> findings = {GainSentence(report)};
  if (after.gb_per_s <= 0) return findings;  // it was stopped before
  findings.push_back("The feed comes to " + FixedText(after.gb_per_s, 2) + " GB/s and takes " +
                     FixedText(after.cpu_s_per_gb, 3) + " CPU seconds per GB.");
  if (const double rate = MachineRate(report); rate > 0) {
    findings.push_back(
        "That is " + Percent(after.gb_per_s / rate) + " of the " + FixedText(rate, 2) +
        " GB/s that this machine comes to by plain loops: " + LimitNames(report) + ".");
  }
  if (!after.advice.empty()) findings.push_back(after.advice);
  if (report.emulated()) {
    findings.push_back("The devices were emulated: their speed is a model's and this CPU's.");
  }
  return findings;
}

std::string TuneText(const TuneReport& report) {
  std::string text = SampleText(report) + "\n\n";
  TableRows table = {{"option", "value", "of the defaults", "min", "max", ""}};
  for (const std::vector<TriedSettings>* list : {&report.result.values, &report.result.together}) {
    for (const TriedSettings& tried : *list) {
      const bool is_value = !tried.what.value.empty();
      const SampleSpread spread = tried.spread();
      table.push_back(
          {is_value ? tried.what.option : tried.what.settings.Options(), tried.what.value});
      auto& row = table.back();
      if (tried.ratios.empty()) {
        row.insert(row.end(), {"-", "-", "-", tried.status.ToString()});
      } else {
        row.insert(row.end(), {FixedText(spread.median, 2), FixedText(spread.min, 2),
                               FixedText(spread.max, 2), ""});
      }
    }
  }
  text += TableText(table) + "\n";
  for (const std::string& sentence : Findings(report)) text += sentence + "\n";
  if (!report.written.empty()) {
    text += "\nwritten to " + report.written + ": " + report.command + " --tuned " +
            report.written + "\n";
  }
  return text;
}

Json TuneJson(const TuneReport& report) {
  const auto list = [](const std::vector<TriedSettings>& all) {
    Json json = Json::array();
    for (const TriedSettings& tried : all) json.push_back(TriedJson(tried));
    return json;
  };
  Json limits = Json::array();
  for (const MachineLimit& limit : report.limits) {
    Json json = {{"name", limit.name}, {"what", limit.what}, {"gb_per_s", limit.gb_per_s}};
    if (!limit.status.ok()) json["error"] = limit.status.ToString();
    limits.push_back(std::move(json));
  }
  const TuneResult& result = report.result;
  return {{"machine", report.machine},
          {"format", report.format},
          {"cache", report.cold ? "cold" : "warm"},
          {"devices", report.devices},
          {"device_count", report.device_count},
          {"emulated", report.emulated()},
          {"files", report.files},
          {"bytes", report.bytes},
          {"sample_bytes", report.sample_bytes},
          {"seconds", report.seconds},
          {"interrupted", result.interrupted},
          {"time_was_up", result.time_was_up},
          {"options", result.best.Options()},
          {"gain", SpreadJson(result.gain)},
          {"pairs", result.pairs},
          {"verdict", result.verdict},
          {"before", FigureJson(result.before)},
          {"after", FigureJson(result.after)},
          {"values", list(result.values)},
          {"together", list(result.together)},
          {"limits", std::move(limits)},
          {"findings", Findings(report)},
          {"written", report.written}};
}

std::string TunePage(const TuneReport& report) {
  constexpr std::string_view kPlace = "@REPORT@";
  Json json = TuneJson(report);
  json["command"] = report.command;
  json["sample"] = SampleText(report);
  json["plain_loops"] = MachineRate(report);
  std::string data = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  // No name in it may end the script that it stands in.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) {
    data.replace(at, 1, "\\u003c");
  }
  std::string page(TunePageTemplate());
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

}  // namespace ringfeed::tools
