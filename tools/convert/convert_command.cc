#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "readers/formats/data_set.h"
#include "tools/command.h"
#include "tools/convert/conversion.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/report.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

const char* OutcomeText(Conversion::Outcome outcome) {
  switch (outcome) {
    case Conversion::Outcome::kWritten:
      return "written";
    case Conversion::Outcome::kUpToDate:
      return "up to date";
    case Conversion::Outcome::kFailed:
      break;
  }
  return "failed";
}

// A record that the format refuses is the data's fault, whatever the code of the refusal.
int ExitStatusOfConversion(const Status& status) {
  return status.place().record >= 0 ? kExitData : ExitStatusOf(status);
}

/// Reports each output as it is done, and all of them at the end.
class ConversionReport {
 public:
  ConversionReport(OnDamage on_damage, bool json) : on_damage_(on_damage), json_(json) {}

  void Note(const Conversion& conversion) {
    const char* outcome = OutcomeText(conversion.outcome);
    const bool written = conversion.outcome == Conversion::Outcome::kWritten;
    written_ += written ? 1 : 0;
    up_to_date_ += conversion.outcome == Conversion::Outcome::kUpToDate ? 1 : 0;
    failed_ += conversion.outcome == Conversion::Outcome::kFailed ? 1 : 0;
    records_ += written ? conversion.records : 0;
    payload_bytes_ += written ? conversion.payload_bytes : 0;
    if (json_) {
      Json json = {{"output", conversion.output}, {"outcome", outcome}};
      if (written) json["records"] = conversion.records;
      if (written) json["payload_bytes"] = conversion.payload_bytes;
      if (!conversion.status.ok()) json["error"] = conversion.status.ToString();
      outputs_.push_back(json);
    } else if (written) {
      std::printf("%-10s %s: %s records, %s\n", outcome, conversion.output.c_str(),
                  CountText(conversion.records).c_str(),
                  BytesText(conversion.payload_bytes).c_str());
    } else {
      std::printf("%-10s %s\n", outcome, conversion.output.c_str());
    }
    (void)FlushOutput();  // main() reports its failure
    Note(conversion.damage, conversion.status);
  }
  /// Damage and failures that belong to no single output.
  void Note(const std::vector<DamagedRange>& damage, const Status& status) {
    damage_.insert(damage_.end(), damage.begin(), damage.end());
    if (!damage.empty()) exit_status_ = std::max<int>(exit_status_, kExitData);
    if (on_damage_ == OnDamage::kSkip) TellSkipped(damage, status);
    if (status.ok()) return;
    is_complete_ = false;
    // After an interrupt, every output not yet done would say so.
    if (status.code() == StatusCode::kCancelled && std::exchange(cancelled_, true)) return;
    exit_status_ =
        std::max(exit_status_, damage.empty() ? ExitStatusOfConversion(status) : kExitData);
    TellFailure(status);
  }
  void PrintTotal(double seconds) const {
    if (json_) {
      PrintJson("convert", {{"written", written_},
                            {"up_to_date", up_to_date_},
                            {"failed", failed_},
                            {"records", records_},
                            {"payload_bytes", payload_bytes_},
                            {"outputs", outputs_},
                            {"damaged", DamageJson(damage_)},
                            {"wall_s", seconds}});
      return;
    }
    std::printf("total      %zu written, %zu up to date, %zu failed; %s records, %s, %s\n",
                written_, up_to_date_, failed_, CountText(records_).c_str(),
                BytesText(payload_bytes_).c_str(),
                RateText(static_cast<double>(payload_bytes_) / seconds).c_str());
  }
  int exit_status() const { return exit_status_; }
  /// Whether every output is there.
  bool is_complete() const { return is_complete_; }

 private:
  const OnDamage on_damage_;
  const bool json_;
  int exit_status_ = 0;
  bool cancelled_ = false;
  bool is_complete_ = true;
  std::size_t written_ = 0;
  std::size_t up_to_date_ = 0;
  std::size_t failed_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::vector<DamagedRange> damage_;
  Json outputs_ = Json::array();
};

constexpr char kConvertHelp[] =
    "Writes the records of files in another format, byte for byte. Rows of tables (Parquet, "
    "Arrow), of\nMDS and of LitData, and records that --parse makes rows, become tf.Examples, "
    "samples "
    "of tar or\ncolumns of MDS. Into a folder: a file for each input, under its name with the "
    "format's "
    "ending,\nseveral at a time; else all into one file, or into parts of so many records "
    "(out-00000.tfrecord, …).\n\n"
    "A file appears under its name when it is complete. What is there, in the format that is asked "
    "for, of\nthe same inputs and no older than these, is left as it is: the same command goes on "
    "where it was stopped.\nWhere the file system has no extended attributes, which keep what a "
    "file was made of, say --force\nafter a change of the list of inputs. A file in which damage "
    "was skipped (no part of several) is\ndated before its inputs, and made again each time. In a "
    "store (docs/REMOTE.md) what is there is a\n"
    "failure without --force.\n\n"
    "  ringfeed convert old/*.recordio new/ --to tfrecord\n"
    "  ringfeed convert a.tfrecord b.tfrecord all.recordio --to recordio:go,gzip\n"
    "  ringfeed convert big.tfrecord part.tfrecord --records-per-file 10000\n"
    "  ringfeed convert old/*.recordio s3://bucket/new/ --to tfrecord\n"
    "  ringfeed convert big.tfrecord mds/shard.mds --records-per-file 10000   # and "
    "mds/index.json\n"
    "  ringfeed convert 'tar/*.tar' mds/ --to mds --parse 'tar: jpg=u1[] cls=i8'";

class ConvertCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("convert", kConvertHelp);
    sub->add_option("FILE", paths_,
                    "inputs (files, folders, globs in quotes, - for stdin) and, last, the output: "
                    "a file, or "
                    "a folder (FOLDER/ is made)")
        ->required()
        ->expected(2, CLI::detail::expected_max_vector_size);
    sub->add_option("--from", options_.open.format, "of the inputs: " + FormatText());
    sub->add_option("--to", options_.to,
                    "of the output: " + KnownFormats() + "; default: by its name");
    sub->add_option("--parse", options_.parse, ParseText());
    sub->add_option("--records-per-file", records_per_file_, "cut the output into parts")
        ->check(AboveZero());
    AddRecordOptions(sub, &options_.open);
    AddTableOptions(sub, &options_.tables);
    AddPartOption(sub, &part_);
    sub->add_flag("--force", options_.force,
                  "write also what is up to date, and over objects of stores");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    ConversionPlan plan = PlanConversion(paths_, records_per_file_, options_);
    std::stop_source stop;
    const Interrupt interrupt([&] { stop.request_stop(); });
    ConversionReport report(options_.open.on_damage, json_);
    std::vector<std::string> all = plan.outputs;
    const double start_s = NowSeconds();
    if (!part_.is_all()) {
      if (!plan.into_folder()) {
        throw Refuse("--part shares out the inputs of a conversion into a folder: name a folder");
      }
      plan.inputs = TakePart(std::move(plan.inputs), part_);
      plan.outputs = TakePart(std::move(plan.outputs), part_);
      if (plan.inputs.empty()) {
        report.PrintTotal(NowSeconds() - start_s);
        return kExitFine;
      }
    }
    PrepareFolder(plan);
    FilesWork work{.label = "converting", .files = plan.inputs, .together = !plan.into_folder()};
    std::vector<Result> results(work.together ? 1 : plan.inputs.size());
    work.job = [&](std::size_t i, std::size_t arena_bytes, const ByteProgress& progress) {
      results[i] = Convert(plan, i, arena_bytes, {progress, stop.get_token()});
      return results[i].outputs.empty() ? Status() : results[i].outputs.front().status;
    };
    work.done = [&](std::size_t i) {
      for (const Conversion& output : results[i].outputs) {
        if (!plan.into_folder()) all.push_back(output.output);
        report.Note(output);
      }
      report.Note(results[i].rest.damage, results[i].rest.status);
    };
    ProcessFiles(work);
    if (report.is_complete()) report.Note({}, WriteTable(plan, all));
    report.PrintTotal(NowSeconds() - start_s);
    return report.exit_status();
  }

 private:
  /// Writes the index of a format that has one, when all its files are there: other parts of the
  /// work (--part) may still be at it.
  static Status WriteTable(const ConversionPlan& plan, const std::vector<std::string>& outputs) {
    const std::string_view format = plan.options.to;
    const bool all_there = std::ranges::all_of(outputs, [](const std::string& output) {
      std::error_code missing;
      return std::filesystem::exists(output, missing);
    });
    return all_there ? WriteDataSet(format.substr(0, format.find(':')), outputs) : Status();
  }

  /// Of one input that goes into a folder, or of all inputs.
  struct Result {
    std::vector<Conversion> outputs;
    PartsResult rest;
  };

  static Result Convert(const ConversionPlan& plan, std::size_t number, std::size_t arena_bytes,
                        const ConversionWatch& watch) {
    Result result;
    if (plan.into_folder()) {
      ConversionOptions options = plan.options;
      options.open.arena_bytes = arena_bytes;
      options.derived_name = true;
      result.outputs.push_back(
          tools::Convert({plan.inputs[number]}, plan.outputs[number], options, watch));
    } else if (plan.records_per_file == 0) {
      result.outputs.push_back(tools::Convert(plan.inputs, plan.output, plan.options, watch));
    } else {
      result.rest =
          ConvertToParts(plan.inputs, plan.output, plan.records_per_file, plan.options, watch,
                         [&](const Conversion& part) { result.outputs.push_back(part); });
    }
    return result;
  }

  std::vector<std::string> paths_;
  FilesPart part_;
  std::uint64_t records_per_file_ = 0;
  ConversionOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewConvertCommand() { return std::make_unique<ConvertCommand>(); }

}  // namespace ringfeed::tools
