#include "tools/convert/conversion_plan.h"

#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "tools/convert/output_names.h"
#include "tools/given_files.h"

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, why));
}

std::vector<std::string> OutputsInFolder(const ConversionPlan& plan) {
  std::vector<std::string> outputs;
  std::map<std::string, std::string> input_of;
  for (const std::string& input : plan.inputs) {
    if (IsStreamName(input)) Refuse(input + " has no name for a file in a folder");
    outputs.push_back(NameInFolder(input, plan.output, plan.options.to));
    const auto [place, is_new] = input_of.emplace(outputs.back(), input);
    if (!is_new) Refuse(place->second + " and " + input + " would both become " + place->first);
  }
  return outputs;
}

void RefuseInputAsOutput(const std::vector<std::string>& inputs, const std::string& output) {
  for (const std::string& input : inputs) {
    std::error_code missing;
    if (fs::equivalent(input, output, missing)) Refuse(output + " is an input too");
  }
}

void RefuseInputAsPart(const std::vector<std::string>& inputs, const std::string& output) {
  const fs::path path(output);
  for (const std::string& input : inputs) {
    std::error_code missing;
    const fs::path sibling = path.parent_path() / fs::path(input).filename();
    if (IsPartName(path.filename().string(), fs::path(input).filename().string()) &&
        fs::equivalent(input, sibling, missing)) {
      Refuse(input + " is an input and has the name of a part");
    }
  }
}

}  // namespace

ConversionPlan PlanConversion(std::vector<std::string> paths, std::uint64_t records_per_file,
                              ConversionOptions options) {
  ConversionPlan plan;
  plan.output = paths.back();
  paths.pop_back();
  plan.inputs = ExpandNames(paths);
  plan.records_per_file = records_per_file;
  plan.options = std::move(options);
  CheckFormat(plan.options.from);
  const bool into_folder = fs::is_directory(plan.output) || plan.output.ends_with('/');
  if (!into_folder) {
    plan.options.to = OutputFormat(plan.output, plan.options.to);
    RefuseInputAsOutput(plan.inputs, plan.output);
    if (records_per_file > 0) RefuseInputAsPart(plan.inputs, plan.output);
    return plan;
  }
  if (plan.options.to.empty()) Refuse("the name of a folder does not tell the format: add --to");
  if (records_per_file > 0) {
    Refuse("--records-per-file needs the name of a file, which its parts are named after");
  }
  CheckFormat(plan.options.to);
  plan.outputs = OutputsInFolder(plan);
  for (const std::string& output : plan.outputs) RefuseInputAsOutput(plan.inputs, output);
  return plan;
}

void PrepareFolder(const ConversionPlan& plan) {
  const std::string folder =
      plan.into_folder() ? plan.output : fs::path(plan.output).parent_path().string();
  std::error_code failure;
  if (!folder.empty()) fs::create_directories(folder, failure);
  if (failure) throw Error(StatusFromErrno(failure.value(), "make the folder " + folder));
  const std::string name = fs::path(plan.output).filename().string();
  std::set<std::string> names = {name};
  for (const std::string& output : plan.outputs) {
    names.insert(fs::path(output).filename().string());
  }
  RemoveStalePartials(folder, [&](const std::string& ours) {
    return plan.records_per_file > 0 ? IsPartName(name, ours) : names.contains(ours);
  });
}

}  // namespace ringfeed::tools
