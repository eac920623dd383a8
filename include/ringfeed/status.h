#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringfeed {

/// What kind of thing went wrong. End of data, full and empty are results, never codes.
enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,    ///< an option or a call that cannot work; the message names the remedy
  kNotFound,           ///< a file, a format or a name that does not exist
  kPermissionDenied,   ///< the system refuses; the message names what was asked
  kIoError,            ///< the medium or the system failed while reading or writing
  kDamaged,            ///< a checksum, a length or a structure in the data is wrong
  kTruncated,          ///< the data ends inside a record
  kResourceExhausted,  ///< memory, descriptors or slots ran out against a stated limit
  kUnsupported,        ///< valid, but not something this build or machine can do
  kDeadlineExceeded,   ///< a wait reached its deadline
  kCancelled,          ///< stopped by Close, Kill, a stop token or a destructor
  kUserError,          ///< a function or a reader of the user's threw
  kDeviceLost,         ///< a device failed for good, or its driver did
  kInternal,           ///< a broken invariant of ringfeed itself
};

/// The name of a code in lower case with underscores, e.g. "damaged". Never fails.
std::string_view StatusCodeName(StatusCode code);

/// The place of a failure in the input. Unknown parts keep their defaults.
struct DataPlace {
  std::string file;
  std::int64_t offset = -1;  ///< bytes from the start of the file
  std::int64_t record = -1;  ///< number of the record in its file, from 0
};

/// The outcome of an operation that can fail: OK, or a code with a message and, for data, its
/// place. It is two pointers in size, and OK costs nothing. Copies share; any thread may read a
/// const Status.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message);
  Status(StatusCode code, std::string message, DataPlace place);

  bool ok() const noexcept { return rep_ == nullptr; }
  StatusCode code() const noexcept;
  /// The message without the place. Empty when ok().
  const std::string& message() const noexcept;
  const DataPlace& place() const noexcept;
  /// "damaged: a.tfrecord: offset 12: record 3: ...", or "ok".
  std::string ToString() const;

  /// This failure, with the place filled in if it was unknown. OK stays OK.
  Status WithPlace(const DataPlace& place) const;

 private:
  struct Rep;
  std::shared_ptr<const Rep> rep_;
};

/// A Status from an errno value: `what` names the operation, e.g. "open a.tfrecord". Only here
/// errno becomes a Status.
Status StatusFromErrno(int error_number, std::string_view what);

/// Thrown by set-up and by the calls whose contract says so (ReadNext); carries the Status.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status);
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace ringfeed
