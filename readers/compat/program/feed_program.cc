#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/refuse.h"
#include "base/small_text.h"
#include "readers/compat/program/grammar.h"
#include "readers/compat/program/program_tree.h"
#include "ringfeed/compat/program.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/reader.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The readers that a program's startup made, by scope and name. Other things in a scope are its
/// owner's. If a name was given to another reader since, that reader is not among them.
class MadeReaders {
 public:
  void Add(const Scope* scope, const std::string& name, const Reader& reader) {
    made_[{scope, name}] = reader.id();
  }
  /// Whether the scope's reader of that name is one of them. If so, removes it.
  bool Take(const Scope* scope, const std::string& name, const Reader& reader) {
    const auto found = made_.find({scope, name});
    if (found == made_.end()) return false;
    const bool same = found->second == reader.id();
    made_.erase(found);
    return same;
  }

 private:
  std::map<std::pair<const Scope*, std::string>, const void*> made_;
};

namespace {

/// Does one thing of the step at `place`: failures name it.
template <typename Function>
auto At(const std::string& place, Function function) {
  try {
    return function();
  } catch (const EndOfData& end) {
    throw EndOfData(place + ": " + end.what());
  } catch (const Error& error) {
    const Status& status = error.status();
    throw Error(Status(status.code(), place + ": " + status.message(), status.place()));
  }
}

constexpr std::chrono::milliseconds kTick{50};

using ProgramFunctions = std::map<std::string, FeedProgram::Function>;

/// Whether main can run on `scope`: its readers are there and have as many tensors as their
/// outputs, its functions are known, and each variable is in the scope or set by a step before.
/// (Steps of loops and branches count as done for later steps. If they were not done, the step that
/// needs the variable fails.) Throws Error at the first step that cannot. Walks the steps in
/// their order and gathers what is set.
class MainCheck {
 public:
  MainCheck(const Scope& scope, const ProgramFunctions& functions)
      : scope_(scope), functions_(functions) {}

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
    if (!functions_.contains(step.function)) {
      Refuse(StatusCode::kNotFound, "no function \"" + step.function +
                                        "\" is registered: RegisterFunction gives the program one");
    }
    for (const std::string& input : step.inputs) NeedVariable("input", input);
    set_.insert(step.outputs.begin(), step.outputs.end());
  }

 private:
  [[noreturn]] void Refuse(StatusCode code, const std::string& what) const {
    ringfeed::Refuse(code, *place_ + ": " + what);
  }
  Reader NeedReader(const std::string& name) const {
    const auto* holder = scope_.Find<ReaderHolder>(name);
    if (holder == nullptr || holder->empty()) {
      Refuse(StatusCode::kNotFound,
             "reader: there is no reader \"" + name + "\": the startup creates them");
    }
    return holder->Get();
  }
  /// How many tensors the reader delivers. A chain that C++ put into the scope may not work.
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
  const ProgramFunctions& functions_;
  const std::string* place_ = nullptr;
  std::set<std::string> set_;
};

/// Creates the reader if `scope` does not hold it yet.
void Create(const Creation& creation, Scope* scope, MadeReaders* made) {
  const auto* present = scope->Find<ReaderHolder>(creation.name);
  if (present != nullptr && !present->empty()) return;
  std::vector<Reader> inputs;
  for (const std::string& input : creation.inputs) {
    const auto* holder = scope->Find<ReaderHolder>(input);
    if (holder == nullptr || holder->empty()) {
      Refuse(StatusCode::kNotFound,
             "input: there is no reader \"" + input + "\": it must be created before");
    }
    inputs.push_back(holder->Get());
  }
  auto& holder = scope->Var<ReaderHolder>(creation.name);
  holder.Reset(CreateReader(creation.reader, creation.attributes, inputs, scope));
  made->Add(scope, creation.name, holder.Get());
}

/// Executes steps that were checked; one overload per kind. Adds to `closed` the statistics of each
/// reader that it closed.
class MainRun {
 public:
  MainRun(const ProgramTree& program, const ProgramFunctions& functions, Scope* scope,
          const std::function<void()>& tick, MadeReaders* made, std::vector<PipelineStats>* closed)
      : program_(program),
        functions_(functions),
        scope_(scope),
        tick_(tick),
        made_(made),
        closed_(closed) {}

  void Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) Run(step);
  }

 private:
  void Run(const Step& step) {
    Tick();
    if (const auto* loop = std::get_if<WhileStep>(&step.kind)) {
      for (; Holds(step.place, loop->condition); Tick()) Run(loop->body);
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
    Instance instance;
    if (!ReadOf(step.reader, &instance)) throw EndOfData();
    if (instance.size() != step.outputs.size()) {
      Refuse("output names " + std::to_string(step.outputs.size()) + " tensors, \"" + step.reader +
             "\" delivered " + std::to_string(instance.size()));
    }
    for (std::size_t slot = 0; slot < instance.size(); ++slot) {
      scope_->Var<Tensor>(step.outputs[slot]) = std::move(instance[slot]);
    }
  }
  void Do(const HasNextStep& step) {
    Reader reader = ReaderOf(step.reader).Get();
    const ReadResult found = Await([&](Deadline until) { return reader.TryHasNext(until); });
    scope_->Var<bool>(step.output) = found == ReadResult::kRecord;
  }
  void Do(const ResetStep& step) { ReaderOf(step.reader).ResetAll(); }
  void Do(const ReadRecordIoStep& step) {
    std::vector<Instance> read;
    const auto give = [&] { scope_->Var<std::vector<Instance>>(step.output) = std::move(read); };
    Instance instance;
    try {
      while (std::cmp_less(read.size(), step.count) && ReadOf(step.reader, &instance)) {
        read.push_back(std::move(instance));
      }
    } catch (...) {
      if (!read.empty()) give();  // good rows are kept, though the step fails
      throw;
    }
    give();
  }
  void Do(const CloseReaderStep& step) {
    Reader reader = ReaderOf(step.reader).Get();
    reader.Close();
    closed_->push_back(reader.Stats());
    (void)made_->Take(scope_, step.reader, reader);
    ReaderOf(step.reader).Clear();
    ForgetInputs(step.reader);
  }
  // Forgets what it was made of, too, which is only its own: the next startup makes that again.
  // But not what the program found in the scope: others may read that, and no startup makes it.
  void ForgetInputs(const std::string& name) {
    for (const Creation& creation : program_.startup) {
      if (creation.name != name) continue;
      for (const std::string& input : creation.inputs) {
        ReaderHolder& holder = ReaderOf(input);
        if (holder.empty() || !made_->Take(scope_, input, holder.Get())) continue;
        holder.Clear();
        ForgetInputs(input);
      }
    }
  }
  void Do(const FillConstantStep& step) { scope_->Var<std::int64_t>(step.output) = step.value; }
  void Do(const IncreaseStep& step) {
    auto& counter = scope_->Get<std::int64_t>(step.counter);
    if (__builtin_add_overflow(counter, step.by, &counter)) {
      Refuse("\"" + step.counter + "\" leaves the range of 64-bit integers");
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

  // Whether there was an instance.
  bool ReadOf(const std::string& name, Instance* instance) {
    Reader reader = ReaderOf(name).Get();
    const ReadResult result =
        Await([&](Deadline until) { return reader.TryReadNext(instance, {.deadline = until}); });
    if (result == ReadResult::kFailed) throw Error(reader.status());
    return result == ReadResult::kRecord;
  }
  // The first result of attempt(deadline) that is not kTimeout.
  template <typename Attempt>
  ReadResult Await(Attempt&& attempt) {
    if (!tick_) return attempt(kNoDeadline);
    ReadResult result;
    while ((result = attempt(next_tick_)) == ReadResult::kTimeout) Tick();
    return result;
  }
  void Tick() {
    if (!tick_ || QueueClock::now() < next_tick_) return;
    tick_();
    next_tick_ = DeadlineAfter(kTick);
  }

  ReaderHolder& ReaderOf(const std::string& name) const { return scope_->Get<ReaderHolder>(name); }

  const ProgramTree& program_;
  const ProgramFunctions& functions_;
  Scope* const scope_;
  const std::function<void()>& tick_;
  Deadline next_tick_ = DeadlineAfter(kTick);
  MadeReaders* const made_;
  std::vector<PipelineStats>* const closed_;
};

std::string TextOfFile(const std::string& path) {
  constexpr std::size_t kMostText = std::size_t{1} << 20;
  std::string text = ReadSmallText(path, "program", kMostText);
  if (text.size() <= kMostText) return text;
  Refuse(path + " is no program: it is longer than 1 MiB");
}

}  // namespace

struct FeedProgram::Parts {
  ProgramTree tree;
  ProgramFunctions functions;
  MadeReaders made;
  std::vector<PipelineStats> closed;
};

FeedProgram::FeedProgram(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
FeedProgram::FeedProgram(FeedProgram&&) noexcept = default;
FeedProgram& FeedProgram::operator=(FeedProgram&&) noexcept = default;
FeedProgram::~FeedProgram() = default;

FeedProgram FeedProgram::Load(const std::string& path) { return FromText(TextOfFile(path), path); }

FeedProgram FeedProgram::FromText(const std::string& text, const std::string& name) {
  auto parts = std::make_unique<Parts>();
  parts->tree = ParseProgram(text, name);
  return FeedProgram(std::move(parts));
}

std::string FeedProgram::Grammar() { return ringfeed::Grammar().ProtoText(); }

void FeedProgram::RegisterFunction(const std::string& name, Function function) {
  if (!function) Refuse("the function \"" + name + "\" is empty");
  if (!parts_->functions.emplace(name, std::move(function)).second) {
    Refuse("the program has a function \"" + name + "\" already");
  }
}

void FeedProgram::RunStartup(Scope* scope) {
  for (const Creation& creation : parts_->tree.startup) {
    At(creation.place, [&] { Create(creation, scope, &parts_->made); });
  }
}

void FeedProgram::RunMain(Scope* scope, const std::function<void()>& tick) {
  const std::vector<Step>& main = parts_->tree.main;
  MainCheck(*scope, parts_->functions).Check(main);
  MainRun(parts_->tree, parts_->functions, scope, tick, &parts_->made, &parts_->closed).Run(main);
}

const std::vector<PipelineStats>& FeedProgram::closed_readers() const { return parts_->closed; }

}  // namespace ringfeed
