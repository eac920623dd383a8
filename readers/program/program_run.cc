#include "readers/program/program_run.h"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "readers/program/at_place.h"
#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

void Create(const Creation& creation, Scope* scope) {
  const auto* present = scope->Find<ReaderHolder>(creation.name);
  if (present != nullptr && !present->empty()) return;
  std::vector<Reader> inputs;
  for (const std::string& input : creation.inputs) {
    const auto* holder = scope->Find<ReaderHolder>(input);
    if (holder == nullptr || holder->empty()) {
      throw Error(Status(StatusCode::kNotFound,
                         "input: there is no reader \"" + input + "\": it must be created before"));
    }
    inputs.push_back(holder->Get());
  }
  auto& holder = scope->Var<ReaderHolder>(creation.name);
  holder.Reset(CreateReader(creation.reader, creation.attributes, inputs, scope));
}

/// Executes steps; one overload per kind.
class MainRun {
 public:
  MainRun(const ProgramTree& program, const ProgramFunctions& functions, Scope* scope,
          std::vector<PipelineStats>* closed)
      : program_(program), functions_(functions), scope_(scope), closed_(closed) {}

  void Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) Run(step);
  }

 private:
  void Run(const Step& step) {
    if (const auto* loop = std::get_if<WhileStep>(&step.kind)) {
      while (Holds(step.place, loop->condition)) Run(loop->body);
    } else if (const auto* branch = std::get_if<IfElseStep>(&step.kind)) {
      Run(Holds(step.place, branch->condition) ? branch->then_steps : branch->else_steps);
    } else {
      At(step.place, [&] { std::visit([this](const auto& kind) { Do(kind); }, step.kind); });
    }
  }
  bool Holds(const std::string& place, const std::string& condition) const {
    return At(place, [&] { return scope_->Get<bool>(condition); });
  }

  void Do(const ReadStep& step) {
    Instance instance = ReaderOf(step.reader).ReadNext();
    if (instance.size() != step.outputs.size()) {
      throw Error(Status(StatusCode::kInvalidArgument,
                         "output names " + std::to_string(step.outputs.size()) + " tensors, \"" +
                             step.reader + "\" delivered " + std::to_string(instance.size())));
    }
    for (std::size_t slot = 0; slot < instance.size(); ++slot) {
      scope_->Var<Tensor>(step.outputs[slot]) = std::move(instance[slot]);
    }
  }
  void Do(const HasNextStep& step) {
    scope_->Var<bool>(step.output) = ReaderOf(step.reader).HasNext();
  }
  void Do(const ResetStep& step) { ReaderOf(step.reader).ResetAll(); }
  void Do(const ReadRecordIoStep& step) {
    scope_->Var<std::vector<Instance>>(step.output) =
        ReadRecordIo(ReaderOf(step.reader).Get(), static_cast<std::size_t>(step.count));
  }
  void Do(const CloseReaderStep& step) {
    Reader reader = ReaderOf(step.reader).Get();
    reader.Close();
    closed_->push_back(reader.Stats());
    Forget(step.reader);
  }
  // With what it was made of, which nobody else can read: the next startup makes all of them again.
  void Forget(const std::string& name) {
    ReaderOf(name).Clear();
    for (const Creation& creation : program_.startup) {
      if (creation.name != name) continue;
      for (const std::string& input : creation.inputs) Forget(input);
    }
  }
  void Do(const FillConstantStep& step) { scope_->Var<std::int64_t>(step.output) = step.value; }
  void Do(const IncreaseStep& step) {
    auto& counter = scope_->Get<std::int64_t>(step.counter);
    if (__builtin_add_overflow(counter, step.by, &counter)) {
      throw Error(Status(StatusCode::kInvalidArgument,
                         "\"" + step.counter + "\" leaves the range of 64-bit integers"));
    }
  }
  void Do(const LessThanStep& step) {
    const std::int64_t y = step.y ? scope_->Get<std::int64_t>(*step.y) : step.value;
    scope_->Var<bool>(step.output) = scope_->Get<std::int64_t>(step.x) < y;
  }
  void Do(const CallStep& step) { functions_.at(step.function)(scope_, step.inputs, step.outputs); }
  // Run does these itself: their steps have places of their own.
  void Do(const WhileStep&) {}
  void Do(const IfElseStep&) {}

  ReaderHolder& ReaderOf(const std::string& name) const { return scope_->Get<ReaderHolder>(name); }

  const ProgramTree& program_;
  const ProgramFunctions& functions_;
  Scope* const scope_;
  std::vector<PipelineStats>* const closed_;
};

}  // namespace

void RunStartup(const ProgramTree& program, Scope* scope) {
  for (const Creation& creation : program.startup) {
    At(creation.place, [&] { Create(creation, scope); });
  }
}

void RunMain(const ProgramTree& program, const ProgramFunctions& functions, Scope* scope,
             std::vector<PipelineStats>* closed) {
  MainRun(program, functions, scope, closed).Run(program.main);
}

}  // namespace ringfeed
