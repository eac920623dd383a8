#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/compat/program.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"
#include "tools/command.h"
#include "tools/digests.h"
#include "tools/interrupt.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

/// The functions that programs of `ringfeed run` may call, and their results.
class ProgramFunctions {
 public:
  /// Print writes to `lines`.
  explicit ProgramFunctions(std::FILE* lines) : lines_(lines) {}

  /// Gives them all to `program`; this must outlive its runs.
  void RegisterIn(FeedProgram* program);

  std::uint64_t instances() const { return instances_; }  ///< calls of count
  std::uint64_t rows() const { return rows_; }            ///< of their first tensors
  RecordDigest& digest() { return digest_; }

 private:
  using Names = std::vector<std::string>;

  void Count(const Scope& scope, const Names& inputs);
  void Digest(const Scope& scope, const Names& inputs);
  void Print(const Scope& scope, const Names& inputs) const;

  std::FILE* const lines_;
  std::uint64_t instances_ = 0;
  std::uint64_t rows_ = 0;
  RecordDigest digest_;
};

std::string TextOf(const Scope& scope, const std::string& name) {
  if (const auto* tensor = scope.Find<Tensor>(name)) {
    return std::string(DTypeName(tensor->dtype)) + ShapeToString(tensor->shape) + ", " +
           std::to_string(tensor->bytes) + " bytes";
  }
  if (const auto* counter = scope.Find<std::int64_t>(name)) return std::to_string(*counter);
  if (const auto* condition = scope.Find<bool>(name)) return *condition ? "true" : "false";
  return "no tensor, counter or condition";
}

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
  // The first dimension of ragged rows counts their joined steps: the LoD counts the rows.
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

constexpr char kRunHelp[] =
    "Runs a program: a text that creates readers (startup) and reads them (main). docs/PROGRAMS.md "
    "has\nthe language.\n\n"
    "Its `call`s may name these functions:\n"
    "  digest  adds the bytes of its tensors, in their order, to sha256 and multiset; over records "
    "that\n          are not parsed these are what `ringfeed digest` gives\n"
    "  count   counts the instances and the rows of their first tensor\n"
    "  print   a line for each variable; with --json on stderr\n\n"
    "  ringfeed run train.program\n"
    "  ringfeed run train.program --json | jq .sha256\n"
    "  ringfeed run --grammar > program.proto\n\n"
    "Ctrl-C ends it with the report so far; a second one kills it.";

/// Calls `function` with each reader that may be read: a reader with a decorator on it refuses.
template <typename Function>
void ForReadableReaders(const Scope& scope, Function function) {
  for (const std::string& name : scope.Names()) {
    const auto* holder = scope.Find<ReaderHolder>(name);
    if (holder == nullptr || holder->empty()) continue;
    try {
      function(holder->Get());
    } catch (const Error&) {
      continue;
    }
  }
}

/// Thrown by Ctrl-C to end a run.
struct Interrupted {};

/// How a run ended.
struct Outcome {
  Status status;  ///< OK too if Ctrl-C ended it
  bool interrupted = false;
  std::vector<DamagedRange> damage;
  std::uint64_t damaged = 0;   ///< records and ranges; `damage` lists the first ones
  std::uint64_t reopened = 0;  ///< so often streams were opened again

  void Add(const PipelineStats& stats) {
    damage.insert(damage.end(), stats.damage.begin(), stats.damage.end());
    damaged += stats.damaged_records;
    reopened += stats.reopened_streams;
  }
};

class RunProgramCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("run", kRunHelp);
    auto* grammar = sub->add_flag("--grammar", grammar_, "print the language as a .proto file");
    sub->add_option("PROGRAM", file_, "a program")->excludes(grammar);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    if (grammar_) {
      std::fputs(FeedProgram::Grammar().c_str(), stdout);
      return kExitFine;
    }
    if (file_.empty()) {
      throw Refuse("name a PROGRAM, or ask for --grammar");
    }
    FeedProgram program = FeedProgram::Load(file_);
    ProgramFunctions functions(json_ ? stderr : stdout);
    functions.RegisterIn(&program);
    Scope scope;
    const Outcome outcome = RunBoth(&program, &scope);
    Print(outcome, &functions);
    return outcome.damaged == 0 || !outcome.status.ok() ? ExitStatusOf(outcome.status) : kExitData;
  }

 private:
  static Outcome RunBoth(FeedProgram* program, Scope* scope) {
    Outcome outcome;
    // The run checks for the interrupt itself: closing its readers from here would miss those that
    // it makes later.
    const Interrupt interrupt([] {});
    const auto look = [&interrupt] {
      if (interrupt.requested()) throw Interrupted();
    };
    try {
      program->RunStartup(scope);
      look();
      program->RunMain(scope, look);
    } catch (const Interrupted&) {  // the outcome says so anyway
    } catch (const Error& error) {
      outcome.status = error.status();
    } catch (const EndOfData& end) {
      outcome.status = Status(StatusCode::kTruncated, end.what());
    }
    outcome.interrupted = interrupt.requested();
    for (const PipelineStats& stats : program->closed_readers()) outcome.Add(stats);
    ForReadableReaders(*scope, [&](const Reader& reader) { outcome.Add(reader.Stats()); });
    return outcome;
  }

  void Print(const Outcome& outcome, ProgramFunctions* functions) const {
    if (json_) {
      PrintJson("run", ReportJson(outcome, functions));
    } else {
      PrintText(outcome, functions);
    }
    (void)FlushOutput();  // main() reports its failure
    TellFailure(outcome.status);
  }

  Json ReportJson(const Outcome& outcome, ProgramFunctions* functions) const {
    RecordDigest& digest = functions->digest();
    Json json = {{"program", file_},
                 {"interrupted", outcome.interrupted},
                 {"instances", functions->instances()},
                 {"rows", functions->rows()},
                 {"digested", digest.records()},
                 {"sha256", HexText(digest.FinishSequence())},
                 {"multiset", digest.multiset().Hex()},
                 {"reopened", outcome.reopened},
                 {"damaged_records", outcome.damaged},
                 {"damaged", DamageJson(outcome.damage)}};
    if (!outcome.status.ok()) json["error"] = outcome.status.ToString();
    return json;
  }

  static void PrintText(const Outcome& outcome, ProgramFunctions* functions) {
    RecordDigest& digest = functions->digest();
    if (functions->instances() > 0) {
      std::printf("counted   %s instances, %s rows\n", CountText(functions->instances()).c_str(),
                  CountText(functions->rows()).c_str());
    }
    if (digest.records() > 0) {
      std::printf("sha256    %s\nmultiset  %s\n", HexText(digest.FinishSequence()).c_str(),
                  digest.multiset().Hex().c_str());
    }
    if (outcome.reopened > 0) {
      std::printf("reopened  streams, %s %s\n", CountText(outcome.reopened).c_str(),
                  outcome.reopened == 1 ? "time" : "times");
    }
    for (const DamagedRange& range : outcome.damage) {
      std::printf("damaged   %s\n", SkippedText(range).c_str());
    }
  }

  std::string file_;
  bool grammar_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewRunCommand() { return std::make_unique<RunProgramCommand>(); }

}  // namespace ringfeed::tools
