#include "tools/convert/conversion_report.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "tools/command.h"
#include "tools/report.h"

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

}  // namespace

void ConversionReport::Note(const Conversion& conversion) {
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
                CountText(conversion.records).c_str(), BytesText(conversion.payload_bytes).c_str());
  } else {
    std::printf("%-10s %s\n", outcome, conversion.output.c_str());
  }
  (void)FlushOutput();  // main() sees to its failure
  Note(conversion.damage, conversion.status);
}

void ConversionReport::Note(const std::vector<DamagedRange>& damage, const Status& status) {
  damage_.insert(damage_.end(), damage.begin(), damage.end());
  if (!damage.empty()) exit_status_ = std::max<int>(exit_status_, kExitData);
  if (!status.ok()) {
    // Once interrupted, every output that is left says so.
    if (status.code() == StatusCode::kCancelled && std::exchange(cancelled_, true)) return;
    exit_status_ =
        std::max(exit_status_, damage.empty() ? ExitStatusOfConversion(status) : kExitData);
    std::fprintf(stderr, "ringfeed: %s\n", status.ToString().c_str());
    return;
  }
  for (const DamagedRange& range : damage) {
    std::fprintf(stderr, "ringfeed: %s\n", SkippedText(range).c_str());
  }
}

void ConversionReport::PrintTotal(double seconds) const {
  if (json_) {
    PrintJson({{"written", written_},
               {"up_to_date", up_to_date_},
               {"failed", failed_},
               {"records", records_},
               {"payload_bytes", payload_bytes_},
               {"outputs", outputs_},
               {"damaged", DamageJson(damage_)},
               {"wall_s", seconds}});
    return;
  }
  std::printf("total      %zu written, %zu up to date, %zu failed; %s records, %s, %s\n", written_,
              up_to_date_, failed_, CountText(records_).c_str(), BytesText(payload_bytes_).c_str(),
              RateText(static_cast<double>(payload_bytes_) / seconds).c_str());
}

}  // namespace ringfeed::tools
