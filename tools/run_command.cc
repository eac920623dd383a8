#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/compat/program.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/program_functions.h"
#include "tools/report_json.h"
#include "tools/report_text.h"
#include "tools/sha256.h"
#include "tools/standard_output.h"

namespace ringfeed::tools {
namespace {

constexpr char kHelp[] =
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

/// Does something with each reader that may be read: those with a decorator behind them refuse.
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

/// How a run ended.
struct Outcome {
  Status status;  ///< OK too where Ctrl-C ended it
  bool interrupted = false;
  std::vector<DamagedRange> damage;
  std::uint64_t damaged = 0;   ///< records and ranges; of `damage` the first ones are listed
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
    CLI::App* sub = app->add_subcommand("run", kHelp);
    auto* grammar = sub->add_flag("--grammar", grammar_, "print the language as a .proto file");
    sub->add_option("PROGRAM", file_, "a program")->excludes(grammar);
    sub->add_flag("--json", json_, "the report for machines");
    return sub;
  }

  int Run() override {
    if (grammar_) {
      std::fputs(FeedProgram::Grammar().c_str(), stdout);
      return kExitFine;
    }
    if (file_.empty()) {
      throw Error(Status(StatusCode::kInvalidArgument, "name a PROGRAM, or ask for --grammar"));
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
    const Interrupt interrupt(
        [scope] { ForReadableReaders(*scope, [](Reader reader) { reader.Close(); }); });
    try {
      program->RunStartup(scope);
      program->RunMain(scope);
    } catch (const Error& error) {
      outcome.status = error.status();
    } catch (const EndOfData& end) {
      outcome.status = Status(StatusCode::kTruncated, end.what());
    }
    outcome.interrupted = interrupt.requested();
    if (outcome.interrupted) outcome.status = Status();  // what it closed failed
    for (const PipelineStats& stats : program->closed_readers()) outcome.Add(stats);
    ForReadableReaders(*scope, [&](const Reader& reader) { outcome.Add(reader.Stats()); });
    return outcome;
  }

  void Print(const Outcome& outcome, ProgramFunctions* functions) const {
    if (json_) {
      PrintJson(ReportJson(outcome, functions));
    } else {
      PrintText(outcome, functions);
    }
    (void)FlushOutput();  // main() sees to its failure
    if (!outcome.status.ok()) {
      std::fprintf(stderr, "ringfeed: %s\n", outcome.status.ToString().c_str());
    }
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
