#include "readers/engine/blocks/failures.h"

namespace ringfeed {

namespace {

constexpr char kMistake[] = "the parser fits no record, which is a mistake of the program";

}  // namespace

Status Refusals::Refuse(const std::vector<RefusedRow>& rows) {
  for (const RefusedRow& row : rows) {
    if (!open()) break;
    if (refused_ == 0) first_ = row;
    if (row.why.reason != first_.why.reason) {
      Close();
      break;
    }
    if (++refused_ == kEnough) return Mistake("the first " + std::to_string(kEnough) + " records");
  }
  return {};
}

Status Refusals::End() {
  if (!open() || refused_ == 0) return {};
  return Mistake(refused_ == 1 ? "the only record"
                               : "all " + std::to_string(refused_) + " records");
}

Status Refusals::Mistake(const std::string& which) {
  Close();
  return Status(StatusCode::kInvalidArgument,
                std::string(kMistake) + " and no damage: " + which +
                    " could not be parsed for the same reason: " + first_.why.message,
                first_.place);
}

bool Refusals::IsMistake(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument && status.message().starts_with(kMistake);
}

}  // namespace ringfeed
