#include "tools/trace/trace_merge.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <utility>

#include "tools/trace/trace_writer.h"

namespace ringfeed::tools {
namespace {

/// A file and its next event.
struct Input {
  explicit Input(std::string path) : file(std::move(path)) {}
  TraceFile file;
  std::optional<TraceEvent> next;
  MergedTrace told;
};
using Inputs = std::vector<std::unique_ptr<Input>>;

Status OpenAll(const std::vector<std::string>& files, Inputs* inputs) {
  for (const std::string& file : files) {
    Input& input = *inputs->emplace_back(std::make_unique<Input>(file));
    Status status = input.file.Open();
    if (status.ok()) status = input.file.Next(&input.next);
    if (!status.ok()) return status;
    input.told.file = file;
    input.told.header = input.file.header();
  }
  std::stable_sort(inputs->begin(), inputs->end(), [](const auto& one, const auto& other) {
    return one->told.header.rank < other->told.header.rank;
  });
  return {};
}

// The file name tells apart two runs of one rank.
std::string ProcessName(const Inputs& inputs, const Input& input) {
  const TraceHeader& header = input.told.header;
  std::string name = "rank " + std::to_string(header.rank);
  if (!header.host.empty()) name += " on " + header.host;
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](const auto& other) {
    return other->told.header.rank == header.rank && other->told.header.host == header.host;
  });
  return same > 1 ? name + " (" + input.told.file + ")" : name;
}

Status WriteNames(const Inputs& inputs, TraceWriter* writer) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto process = static_cast<std::int64_t>(i) + 1;
    Status status = writer->AddProcess(process, ProcessName(inputs, *inputs[i]));
    for (const TraceRow& row : inputs[i]->file.rows()) {
      if (!status.ok()) return status;
      status = writer->AddRow(process, row);
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status WriteSpans(const Inputs& inputs, TraceWriter* writer) {
  using Turn = std::pair<std::int64_t, std::size_t>;  // the earliest, of those the lowest rank
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->next) turns.emplace(inputs[i]->next->begin_ns, i);
  }
  while (!turns.empty()) {
    const std::size_t i = turns.top().second;
    turns.pop();
    Input& input = *inputs[i];
    Status status = writer->AddSpan(static_cast<std::int64_t>(i) + 1, *input.next);
    ++input.told.events;
    if (status.ok()) status = input.file.Next(&input.next);
    if (!status.ok()) return status;
    if (input.next) turns.emplace(input.next->begin_ns, i);
  }
  return {};
}

}  // namespace

Status MergeTraces(const std::vector<std::string>& files, const std::string& out,
                   std::vector<MergedTrace>* merged) {
  Inputs inputs;
  if (Status status = OpenAll(files, &inputs); !status.ok()) return status;
  if (inputs.empty()) return Status(StatusCode::kInvalidArgument, "there is no trace to merge");
  // A trace without a span has no begin.
  std::int64_t since_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& input : inputs) {
    if (input->next) since_ns = std::min(since_ns, input->told.header.start_realtime_ns);
  }
  if (since_ns == std::numeric_limits<std::int64_t>::max()) since_ns = 0;
  TraceWriter writer(out);
  Status status = writer.Begin(since_ns);
  if (status.ok()) status = WriteNames(inputs, &writer);
  if (status.ok()) status = WriteSpans(inputs, &writer);
  if (status.ok()) status = writer.End();
  if (!status.ok()) return status;
  merged->clear();
  for (const auto& input : inputs) {
    merged->push_back(std::move(input->told));
    MergedTrace& told = merged->back();
    if (told.events > 0) told.offset_ns = told.header.start_realtime_ns - since_ns;
  }
  return {};
}

}  // namespace ringfeed::tools
