#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
      for (const auto& [field, name] : step.names) CheckName(step, field, name);
      Check(step.body);
      Check(step.other);
    }
  }

 private:
  /// By what the language means with a field of that name.
  void CheckName(const Step& step, const std::string& field, const std::string& name) {
    if (field == "output") {
      set_.insert(name);
    } else if (field == "reader") {
      CheckReader(step, name);
    } else if (field == "function") {
      if (functions_.contains(name)) return;
      RefuseMissing(step, "no function \"" + name +
                              "\" is registered: RegisterFunction gives the program one");
    } else if (!set_.contains(name) && !scope_.Has(name)) {
      RefuseMissing(step, field + ": the variable \"" + name + "\" is not set by any step before");
    }
  }
  void CheckReader(const Step& step, const std::string& name) const {
    const auto* holder = scope_.Find<ReaderHolder>(name);
    if (holder == nullptr || holder->empty()) {
      RefuseMissing(step, "reader: there is no reader \"" + name + "\": the startup creates them");
    }
    if (step.operation != "read") return;
    const std::size_t outputs = step.NamesOf("output").size();
    // A chain that C++ put into the scope may not work.
    const std::size_t tensors = At(step.place, [&] { return holder->Get().fields().size(); });
    if (tensors == outputs) return;
    Refuse(step.place + ": output names " + std::to_string(outputs) + " tensors, \"" + name +
           "\" delivers " + std::to_string(tensors));
  }
  [[noreturn]] static void RefuseMissing(const Step& step, const std::string& what) {
    Refuse(StatusCode::kNotFound, step.place + ": " + what);
  }

  const Scope& scope_;
  const ProgramFunctions& functions_;
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

/// Executes steps that were checked. Adds to `closed` the statistics of each reader that it closed.
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
    if (step.operation == "while") {
      for (; Holds(step); Tick()) Run(step.body);
    } else if (step.operation == "if_else") {
      Run(Holds(step) ? step.body : step.other);
    } else {
      At(step.place, [&] { (this->*Operations().at(step.operation))(step); });
    }
  }
  bool Holds(const Step& step) const {
    return At(step.place, [&] { return scope_->Get<bool>(step.Name("condition")); });
  }

  // What does one step; loops and branches aside.
  using Operation = void (MainRun::*)(const Step&);
  static const std::map<std::string_view, Operation>& Operations();

  void Read(const Step& step) {
    Instance instance;
    if (!ReadOf(step.Name("reader"), &instance)) throw EndOfData();
    const std::vector<std::string> outputs = step.NamesOf("output");
    if (instance.size() != outputs.size()) {
      Refuse("output names " + std::to_string(outputs.size()) + " tensors, \"" +
             step.Name("reader") + "\" delivered " + std::to_string(instance.size()));
    }
    for (std::size_t slot = 0; slot < instance.size(); ++slot) {
      scope_->Var<Tensor>(outputs[slot]) = std::move(instance[slot]);
    }
  }
  void FindNext(const Step& step) {
    Reader reader = ReaderOf(step.Name("reader")).Get();
    const ReadResult found = Await([&](Deadline until) { return reader.TryHasNext(until); });
    scope_->Var<bool>(step.Name("output")) = found == ReadResult::kRecord;
  }
  void Reset(const Step& step) { ReaderOf(step.Name("reader")).ResetAll(); }
  void ReadSome(const Step& step) {
    std::vector<Instance> read;
    const auto give = [&] {
      scope_->Var<std::vector<Instance>>(step.Name("output")) = std::move(read);
    };
    Instance instance;
    try {
      while (std::cmp_less(read.size(), step.number) && ReadOf(step.Name("reader"), &instance)) {
        read.push_back(std::move(instance));
      }
    } catch (...) {
      if (!read.empty()) give();  // good rows are kept, though the step fails
      throw;
    }
    give();
  }
  void Close(const Step& step) {
    const std::string& name = step.Name("reader");
    Reader reader = ReaderOf(name).Get();
    reader.Close();
    closed_->push_back(reader.Stats());
    (void)made_->Take(scope_, name, reader);
    ReaderOf(name).Clear();
    ForgetInputs(name);
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
  void Fill(const Step& step) { scope_->Var<std::int64_t>(step.Name("output")) = step.number; }
  void Increase(const Step& step) {
    auto& counter = scope_->Get<std::int64_t>(step.Name("x"));
    if (__builtin_add_overflow(counter, step.number, &counter)) {
      Refuse("\"" + step.Name("x") + "\" leaves the range of 64-bit integers");
    }
  }
  void Compare(const Step& step) {
    const std::string* y = step.FindName("y");
    const std::int64_t limit = y != nullptr ? scope_->Get<std::int64_t>(*y) : step.number;
    scope_->Var<bool>(step.Name("output")) = scope_->Get<std::int64_t>(step.Name("x")) < limit;
  }
  void Call(const Step& step) {
    functions_.at(step.Name("function"))(scope_, step.NamesOf("input"), step.NamesOf("output"));
  }

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

const std::map<std::string_view, MainRun::Operation>& MainRun::Operations() {
  static const std::map<std::string_view, Operation> all = {
      {"read", &MainRun::Read},          {"has_next", &MainRun::FindNext},
      {"reset", &MainRun::Reset},        {"fill_constant", &MainRun::Fill},
      {"increase", &MainRun::Increase},  {"less_than", &MainRun::Compare},
      {"call", &MainRun::Call},          {"read_recordio", &MainRun::ReadSome},
      {"close_reader", &MainRun::Close},
  };
  return all;
}

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
