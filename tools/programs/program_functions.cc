#include "tools/programs/program_functions.h"

#include <span>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed::tools {
namespace {

std::string TextOf(const Scope& scope, const std::string& name) {
  if (const auto* tensor = scope.Find<Tensor>(name)) {
    return std::string(DTypeName(tensor->dtype)) + ShapeToString(tensor->shape) + ", " +
           std::to_string(tensor->bytes) + " bytes";
  }
  if (const auto* counter = scope.Find<std::int64_t>(name)) return std::to_string(*counter);
  if (const auto* condition = scope.Find<bool>(name)) return *condition ? "true" : "false";
  return "no tensor, counter or condition";
}

}  // namespace

void ProgramFunctions::RegisterIn(FeedProgram* program) {
  program->RegisterFunction(
      "count", [this](Scope* scope, const Names& inputs, const Names&) { Count(*scope, inputs); });
  program->RegisterFunction("digest", [this](Scope* scope, const Names& inputs, const Names&) {
    Digest(*scope, inputs);
  });
  program->RegisterFunction(
      "print", [this](Scope* scope, const Names& inputs, const Names&) { Print(*scope, inputs); });
}

void ProgramFunctions::Count(const Scope& scope, const Names& inputs) {
  ++instances_;
  if (inputs.empty()) return;
  const Tensor& tensor = scope.Get<Tensor>(inputs.front());
  // The first dimension of ragged rows is their joined steps: the rows are what the LoD counts.
  if (!tensor.lod.empty()) {
    rows_ += tensor.lod.front().size() - 1;
  } else if (!tensor.shape.empty()) {
    rows_ += static_cast<std::uint64_t>(tensor.shape.front());
  }
}

void ProgramFunctions::Digest(const Scope& scope, const Names& inputs) {
  for (const std::string& input : inputs) {
    const Tensor& tensor = scope.Get<Tensor>(input);
    digest_.Add({tensor.data, tensor.bytes});
    for (const auto& level : tensor.lod) digest_.Add(std::as_bytes(level));
  }
}

void ProgramFunctions::Print(const Scope& scope, const Names& inputs) const {
  for (const std::string& input : inputs) {
    std::fprintf(lines_, "%s: %s\n", input.c_str(), TextOf(scope, input).c_str());
  }
}

}  // namespace ringfeed::tools
