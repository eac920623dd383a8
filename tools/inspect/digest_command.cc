#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/remote/address.h"
#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "tools/command.h"
#include "tools/digests.h"
#include "tools/file_records.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/one_pass.h"
#include "tools/option_values.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kDigestHelp[] =
    "What is in record files: how many records, and digests of them.\n\n"
    "sha256 is over, for each record in file order, its length as u64 little endian and its "
    "payload;\n"
    "multiset is the sum modulo 2^256 of each payload's SHA-256 read as a little-endian number:\n"
    "it does not depend on the order, and the sums of files add up to that of the data set.\n\n"
    "  ringfeed digest train-*.tfrecord\n"
    "  ringfeed digest damaged.tfrecord --on-damage=skip --json";

struct FileDigest {
  std::string file;
  RecordDigest digest;
  std::string sha256;
  std::vector<DamagedRange> damage;
  std::uint64_t damaged_records = 0;
  Status status;
};

Json FileDigestJson(const FileDigest& result) {
  Json json = {{"file", result.file},
               {"records", result.digest.records()},
               {"payload_bytes", result.digest.payload_bytes()},
               {"damaged_records", result.damaged_records},
               {"damaged", DamageJson(result.damage)},
               {"sha256", result.sha256},
               {"multiset", result.digest.multiset().Hex()}};
  if (!result.status.ok()) json["error"] = result.status.ToString();
  return json;
}

void PrintFileDigest(const FileDigest& result) {
  const TableRows rows = {{"file", result.file},
                          {"records", CountText(result.digest.records())},
                          {"payload", BytesText(result.digest.payload_bytes())},
                          {"sha256", result.sha256},
                          {"multiset", result.digest.multiset().Hex()}};
  for (const auto& row : rows) std::printf("%-9s %s\n", row[0].c_str(), row[1].c_str());
  for (const DamagedRange& range : result.damage) {
    std::printf("damaged   bytes %llu to %llu: %s\n", static_cast<unsigned long long>(range.begin),
                static_cast<unsigned long long>(range.end), range.reason.c_str());
  }
}

class DigestCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("digest", kDigestHelp);
    sub->add_option("FILE", names_, "record files, folders, globs in quotes, or - for stdin")
        ->required();
    sub->add_option("--format", options_.format, FormatText());
    AddRecordOptions(sub, &options_);
    AddPartOption(sub, &part_);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    const std::vector<std::string> files = TakePart(NamedFiles(names_, options_.format), part_);
    RefuseStreamTwice(files);
    std::stop_source stop;
    const Interrupt interrupt([&] { stop.request_stop(); });
    std::vector<FileDigest> digests(files.size());
    FilesWork work{.label = "digesting", .files = files};
    work.job = [&](std::size_t i, std::size_t arena_bytes, const ByteProgress& progress) {
      digests[i] = Digest(files[i], arena_bytes, progress, stop.get_token());
      return digests[i].status;
    };
    work.done = [&](std::size_t i) {
      Tell(digests[i]);
      digests[i] = {};
    };
    ProcessFiles(work);
    if (json_) PrintJson("digest", {{"files", list_}});
    return exit_status_;
  }

 private:
  void Tell(const FileDigest& result) {
    const bool cancelled = result.status.code() == StatusCode::kCancelled;
    // After an interrupt, every file not yet done would say so.
    if (cancelled && std::exchange(cancelled_, true) && result.damage.empty()) return;
    TellFailure(result.status);
    const int of_file = result.damage.empty() ? ExitStatusOf(result.status) : kExitData;
    exit_status_ = std::max(exit_status_, of_file);
    if (json_) {
      list_.push_back(FileDigestJson(result));
    } else if (of_file != kExitUsage) {
      PrintFileDigest(result);
      (void)FlushOutput();  // main() reports its failure
    }
  }

  FileDigest Digest(const std::string& file, std::size_t arena_bytes, const ByteProgress& progress,
                    const std::stop_token& stop) const {
    FileDigest result;
    result.file = ShownAddress(file);
    try {
      OpenOptions options = options_;
      options.arena_bytes = arena_bytes;
      options.io.path = PathOfOnePass(file);
      FileRecords records(file, options);
      const std::stop_callback close_at_stop(stop, [&records] { records.Close(); });
      ReadResult read;
      std::span<const RecordSpan> some;
      while ((read = records.Next(&some)) == ReadResult::kRecord) {
        std::uint64_t more = 0;
        for (const RecordSpan& record : some) {
          more += record.size;
          if (!record.damaged()) result.digest.Add(record.bytes());
        }
        progress(more);
      }
      if (read == ReadResult::kFailed) result.status = records.status();
      const MetDamage damage = records.Damage();
      result.damage = damage.ranges;
      result.damaged_records = damage.records;
    } catch (const Error& error) {
      result.status = error.status();
    }
    result.sha256 = HexText(result.digest.FinishSequence());
    return result;
  }

  std::vector<std::string> names_;
  FilesPart part_;
  OpenOptions options_;
  bool json_ = false;
  // The entries of the files so far, in their order.
  Json list_ = Json::array();
  int exit_status_ = kExitFine;
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDigestCommand() { return std::make_unique<DigestCommand>(); }

}  // namespace ringfeed::tools
