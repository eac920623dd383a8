#include "ringfeed/status.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

namespace ringfeed {

struct Status::Rep {
  StatusCode code;
  std::string message;
  DataPlace place;
};

std::string_view StatusCodeName(StatusCode code) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "ok",          "invalid_argument",  "not_found", "permission_denied",
      "io_error",    "damaged",           "truncated", "resource_exhausted",
      "unsupported", "deadline_exceeded", "cancelled", "user_error",
      "device_lost", "internal"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Status::Status(StatusCode code, std::string message) : Status(code, std::move(message), {}) {}

Status::Status(StatusCode code, std::string message, DataPlace place) {
  if (code == StatusCode::kOk) return;
  rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), std::move(place)});
}

StatusCode Status::code() const noexcept { return ok() ? StatusCode::kOk : rep_->code; }

const std::string& Status::message() const noexcept {
  static const std::string kEmpty;
  return ok() ? kEmpty : rep_->message;
}

const DataPlace& Status::place() const noexcept {
  static const DataPlace kNowhere;
  return ok() ? kNowhere : rep_->place;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text(StatusCodeName(rep_->code));
  const DataPlace& at = rep_->place;
  if (!at.file.empty()) text += ": " + at.file;
  if (at.offset >= 0) text += ": offset " + std::to_string(at.offset);
  if (at.record >= 0) text += ": record " + std::to_string(at.record);
  return text + ": " + rep_->message;
}

Status Status::WithPlace(const DataPlace& place) const {
  if (ok()) return *this;
  DataPlace merged = rep_->place;
  if (merged.file.empty()) merged.file = place.file;
  if (merged.offset < 0) merged.offset = place.offset;
  if (merged.record < 0) merged.record = place.record;
  return Status(rep_->code, rep_->message, std::move(merged));
}

namespace {

StatusCode CodeFromErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
      return StatusCode::kPermissionDenied;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    case EAGAIN:
    case EBUSY:
    case ENOBUFS:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
      return StatusCode::kResourceExhausted;
    case ENOSYS:
    case EOPNOTSUPP:
      return StatusCode::kUnsupported;
    case ECANCELED:
      return StatusCode::kCancelled;
    case ETIMEDOUT:
      return StatusCode::kDeadlineExceeded;
    default:
      return StatusCode::kIoError;
  }
}

}  // namespace

Status StatusFromErrno(int error_number, std::string_view what) {
  std::string message(what);
  message += ": " + std::generic_category().message(error_number);
  return Status(CodeFromErrno(error_number), std::move(message));
}

Error::Error(Status status) : std::runtime_error(status.ToString()), status_(std::move(status)) {}

}  // namespace ringfeed
