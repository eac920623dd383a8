#include "stats_dict.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "text.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

void Fill(const StageStats& stage, nb::dict entry) {
  entry["name"] = stage.name;
  entry["busy_s"] = stage.busy_s;
  entry["wait_s"] = stage.wait_s;
  entry["waits_for"] = ReadableText(stage.waits_for);
}

}  // namespace

nb::dict StepWaitsDict(const StepWaits& waits) {
  nb::dict dict;
  dict["steps"] = waits.steps;
  dict["p50_s"] = waits.p50_s;
  dict["p99_s"] = waits.p99_s;
  dict["max_s"] = waits.max_s;
  return dict;
}

namespace {

void Fill(const DamagedRange& range, nb::dict entry) {
  entry["file"] = FileNameText(range.file);
  entry["begin"] = range.begin;
  entry["end"] = range.end;
  entry["reason"] = ReadableText(range.reason);
}

void Fill(const DataWarning& warning, nb::dict entry) {
  entry["file"] = FileNameText(warning.file);
  entry["text"] = ReadableText(warning.text);
}

void Fill(const SlowRow& row, nb::dict entry) {
  entry["file"] = FileNameText(row.file);
  entry["record"] = row.record;
  entry["seconds"] = row.seconds;
}

void Fill(const IoChoice& choice, nb::dict entry) {
  entry["file"] = FileNameText(choice.file);
  entry["path"] = std::string(IoPathName(choice.path));
  entry["direct"] = choice.direct;
  entry["resident"] = choice.resident;
  entry["reason"] = ReadableText(choice.reason);
}

/// A dict of each.
template <typename Entry>
nb::list ListOf(const std::vector<Entry>& entries) {
  nb::list list;
  for (const Entry& each : entries) {
    nb::dict entry;
    Fill(each, entry);
    list.append(entry);
  }
  return list;
}

}  // namespace

nb::dict StatsDict(const PipelineStats& stats) {
  nb::dict dict;
  dict["records"] = stats.records;
  dict["payload_bytes"] = stats.payload_bytes;
  dict["batches"] = stats.batches;
  dict["batch_payload_bytes"] = stats.batch_payload_bytes;
  dict["passes_ended"] = stats.passes_ended;
  dict["reopened_streams"] = stats.reopened_streams;
  dict["damaged_records"] = stats.damaged_records;
  dict["lost_ranges"] = stats.lost_ranges;
  dict["damage"] = ListOf(stats.damage);
  dict["warnings"] = ListOf(stats.warnings);
  dict["files_read"] = stats.files_read;
  dict["files_refused"] = stats.files_refused;
  dict["files_missing"] = stats.files_missing;
  dict["dropped_records"] = stats.dropped_records;
  dict["filtered_records"] = stats.filtered_records;
  dict["truncated_records"] = stats.truncated_records;
  nb::dict remote;
  remote["requests"] = stats.remote.requests;
  remote["bytes"] = stats.remote.bytes;
  remote["retries"] = stats.remote.retries;
  remote["hedges"] = stats.remote.hedges;
  remote["throttled"] = stats.remote.throttled;
  remote["by_library"] = stats.remote.by_library;
  remote["cached_bytes"] = stats.remote.cached_bytes;
  dict["remote"] = remote;
  nb::dict tables;
  tables["opened_groups"] = stats.tables.opened_groups;
  tables["decoded_rows"] = stats.tables.decoded_rows;
  tables["taken_rows"] = stats.tables.taken_rows;
  dict["tables"] = tables;
  nb::dict planned;
  planned["steps"] = stats.planned.steps;
  planned["units"] = stats.planned.units;
  planned["padding_units"] = stats.planned.padding_units;
  planned["imbalance"] = stats.planned.imbalance;
  planned["worst_imbalance"] = stats.planned.worst_imbalance;
  planned["empty_records"] = stats.planned.empty_records;
  planned["dropped_records"] = stats.planned.dropped_records;
  planned["plan_s"] = stats.planned.plan_s;
  dict["planned"] = planned;
  dict["given_up_reads"] = stats.given_up_reads;
  dict["given_up_rows"] = stats.given_up_rows;
  dict["slowest_rows"] = ListOf(stats.slowest_rows);
  dict["grown_batches"] = stats.grown_batches;
  dict["late_wakes"] = stats.late_wakes;
  dict["read_bytes"] = stats.read_bytes;
  dict["read_per_byte"] = stats.read_per_byte;
  dict["first_batch_s"] = stats.first_batch_s;
  dict["wall_s"] = stats.wall_s;
  dict["stages"] = ListOf(stats.stages);
  dict["step_waits"] = StepWaitsDict(stats.step_waits);
  dict["bottleneck"] = ReadableText(stats.bottleneck);
  dict["advice"] = ReadableText(stats.advice);
  dict["io"] = ListOf(stats.io);
  dict["arena_bytes"] = stats.arena_bytes;
  dict["arena_peak_bytes"] = stats.arena_peak_bytes;
  dict["pages"] = stats.pages;
  dict["seeds"] = stats.seeds;
  dict["order"] = ReadableText(stats.order);
  dict["restored"] = ReadableText(stats.restored);
  dict["ranks"] = ReadableText(stats.ranks);
  return dict;
}

}  // namespace ringfeed::python
