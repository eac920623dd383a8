#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "io/remote/aws_settings.h"
#include "io/remote/http.h"
#include "ringfeed/status.h"

namespace ringfeed {

using SystemTime = std::chrono::system_clock::time_point;

/// What requests are signed with.
struct Credentials {
  std::string access_key;  ///< "": nothing is signed
  std::string secret_key;
  std::string session_token;  ///< "": they are no temporary ones
  std::optional<SystemTime> expires;
};

/// Looks for credentials where the AWS SDKs do, in their order: RINGFEED_S3_ANONYMOUS=1, the
/// environment, a web identity's token (STS), the profile, the container's endpoint, the instance's
/// metadata (version 2). The first place that is set up decides. Reads the profile anew. Blocks.
/// kPermissionDenied, with where it looked, if there are none.
Status AskForCredentials(AwsSettings settings, const HttpCall& call, Credentials* credentials);

/// Reads the answer of a container's endpoint or an instance's metadata. kDamaged if it is none.
Status ReadCredentialsJson(const std::string& text, Credentials* credentials);
/// Reads the answer of STS. kDamaged if it is none.
Status ReadCredentialsXml(std::string_view text, Credentials* credentials);

/// The credentials of a store, asked for anew some minutes before they expire. Thread safe.
class KeptCredentials {
 public:
  using Ask = std::function<Status(Credentials* credentials)>;

  explicit KeptCredentials(Ask ask,
                           std::function<SystemTime()> now = std::chrono::system_clock::now)
      : ask_(std::move(ask)), now_(std::move(now)) {}

  /// Those of now. One thread at a time asks, and blocks. Others go on with the old ones while
  /// these are good, and wait for the new ones if not.
  Status Get(std::shared_ptr<const Credentials>* credentials);
  /// A server says that they have expired. True if others may come of asking again: the next Get
  /// does.
  bool Refuse();

 private:
  const Ask ask_;
  const std::function<SystemTime()> now_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::shared_ptr<const Credentials> current_;
  bool asking_ = false;
  Status failure_;             // of the last time
  SystemTime asked_at_;        // when that was
  std::string refused_token_;  // of those that a server refused
  int late_refusals_ = 0;      // answers to requests that had those
};

}  // namespace ringfeed
