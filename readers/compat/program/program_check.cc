#include "readers/compat/program/program_check.h"

#include <set>
#include <variant>
#include <vector>

#include "readers/compat/program/at_place.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

/// Walks the steps in their order and gathers what is set.
class MainCheck {
 public:
  MainCheck(const Scope& scope, const std::function<bool(const std::string&)>& is_function)
      : scope_(scope), is_function_(is_function) {}

  void Check(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      place_ = &step.place;
      std::visit(*this, step.kind);
    }
  }

  void operator()(const ReadStep& step) {
    const std::size_t tensors = TensorsOf(step.reader);
    if (tensors != step.outputs.size()) {
      Refuse(StatusCode::kInvalidArgument, "output names " + std::to_string(step.outputs.size()) +
                                               " tensors, \"" + step.reader + "\" delivers " +
                                               std::to_string(tensors));
    }
    set_.insert(step.outputs.begin(), step.outputs.end());
  }
  void operator()(const HasNextStep& step) {
    NeedReader(step.reader);
    set_.insert(step.output);
  }
  void operator()(const ResetStep& step) { NeedReader(step.reader); }
  void operator()(const ReadRecordIoStep& step) {
    NeedReader(step.reader);
    set_.insert(step.output);
  }
  void operator()(const CloseReaderStep& step) { NeedReader(step.reader); }
  void operator()(const WhileStep& step) {
    NeedVariable("condition", step.condition);
    Check(step.body);
  }
  void operator()(const IfElseStep& step) {
    NeedVariable("condition", step.condition);
    Check(step.then_steps);
    Check(step.else_steps);
  }
  void operator()(const FillConstantStep& step) { set_.insert(step.output); }
  void operator()(const IncreaseStep& step) { NeedVariable("x", step.counter); }
  void operator()(const LessThanStep& step) {
    NeedVariable("x", step.x);
    if (step.y) NeedVariable("y", *step.y);
    set_.insert(step.output);
  }
  void operator()(const CallStep& step) {
    if (!is_function_(step.function)) {
      Refuse(StatusCode::kNotFound, "no function \"" + step.function +
                                        "\" is registered: RegisterFunction gives the program one");
    }
    for (const std::string& input : step.inputs) NeedVariable("input", input);
    set_.insert(step.outputs.begin(), step.outputs.end());
  }

 private:
  [[noreturn]] void Refuse(StatusCode code, const std::string& what) const {
    throw Error(Status(code, *place_ + ": " + what));
  }
  Reader NeedReader(const std::string& name) const {
    const auto* holder = scope_.Find<ReaderHolder>(name);
    if (holder == nullptr || holder->empty()) {
      Refuse(StatusCode::kNotFound,
             "reader: there is no reader \"" + name + "\": the startup creates them");
    }
    return holder->Get();
  }
  /// How many the reader delivers at a time. A chain that C++ put into the scope may not work.
  std::size_t TensorsOf(const std::string& name) const {
    const Reader reader = NeedReader(name);
    return At(*place_, [&] { return reader.fields().size(); });
  }
  void NeedVariable(const std::string& field, const std::string& name) const {
    if (set_.contains(name) || scope_.Has(name)) return;
    Refuse(StatusCode::kNotFound,
           field + ": the variable \"" + name + "\" is not set by any step before");
  }

  const Scope& scope_;
  const std::function<bool(const std::string&)>& is_function_;
  const std::string* place_ = nullptr;
  std::set<std::string> set_;
};

}  // namespace

void CheckMain(const ProgramTree& program, const Scope& scope,
               const std::function<bool(const std::string&)>& is_function) {
  MainCheck(scope, is_function).Check(program.main);
}

}  // namespace ringfeed
