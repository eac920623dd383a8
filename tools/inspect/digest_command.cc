#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "tools/command.h"
#include "tools/digests.h"
#include "tools/file_records.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/progress_bar.h"
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
    sub->add_option("FILE", files_, "record files, or - for stdin")->required();
    sub->add_option("--format", format_, kFormatText);
    AddDamageOption(sub, &on_damage_);
    sub->add_flag("--json", json_, "an object for one file, a list for several");
    return sub;
  }

  int Run() override {
    Json list = Json::array();
    int exit_status = kExitFine;
    for (const std::string& file : files_) {
      const FileDigest result = Digest(file);
      TellFailure(result.status);
      const int of_file = result.damage.empty() ? ExitStatusOf(result.status) : kExitData;
      exit_status = std::max(exit_status, of_file);
      if (json_) {
        list.push_back(FileDigestJson(result));
      } else {
        PrintFileDigest(result);
      }
      if (result.status.code() == StatusCode::kCancelled) break;
    }
    if (json_) PrintJson(files_.size() == 1 ? list[0] : list);
    return exit_status;
  }

 private:
  FileDigest Digest(const std::string& file) const {
    FileDigest result;
    result.file = file;
    try {
      FileRecords records(file, format_, on_damage_);
      const Interrupt interrupt([&] { records.Close(); });
      ProgressBar progress(file, 0);
      ReadResult read;
      std::span<const RecordSpan> some;
      while ((read = records.Next(&some)) == ReadResult::kRecord) {
        for (const RecordSpan& record : some) {
          if (!record.damaged()) result.digest.Add(record.bytes());
        }
        progress.Update(result.digest.records(), result.digest.payload_bytes());
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

  std::vector<std::string> files_;
  std::string format_;
  OnDamage on_damage_ = OnDamage::kFail;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDigestCommand() { return std::make_unique<DigestCommand>(); }

}  // namespace ringfeed::tools
