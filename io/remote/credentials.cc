#include "io/remote/credentials.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string_view>
#include <utility>

#include "base/strict_json.h"
#include "io/remote/urls.h"
#include "io/remote/xml.h"

namespace ringfeed {
namespace {

/// Of a request for instance metadata: off the cloud nobody answers.
constexpr std::int64_t kMetadataMs = 1000;

constexpr std::chrono::minutes kAskBefore{5};
constexpr std::chrono::seconds kBetweenAsks{30};
constexpr std::chrono::seconds kLateAnswers{60};
constexpr int kMostLateRefusals = 1000;
constexpr std::size_t kMostAnswerBytes = 1 << 16;
constexpr std::size_t kMostSecretBytes = 1 << 14;

/// Nothing: the place is not set up, and the next one is asked.
using Found = std::optional<Status>;

Status Damaged(const std::string& message) { return {StatusCode::kDamaged, message}; }

/// A value that goes into a header: one line of what can be printed.
bool IsHeaderText(std::string_view text) {
  return text.size() <= kMostSecretBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Status Checked(const std::string& place, Credentials read, Credentials* credentials) {
  if (read.access_key.empty() || read.secret_key.empty()) {
    return {StatusCode::kPermissionDenied,
            place + ": the access key or its secret is missing; set both"};
  }
  if (!IsHeaderText(read.access_key) || !IsHeaderText(read.session_token) ||
      read.secret_key.size() > kMostSecretBytes) {
    return {StatusCode::kPermissionDenied,
            place + ": a key or a token there is no line of printable characters; set it again"};
  }
  *credentials = std::move(read);
  return {};
}

/// "2026-12-01T10:00:00Z", also with a fraction.
bool ReadTime(const std::string& text, std::optional<SystemTime>* time) {
  tm parts = {};
  int used = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used) != 6 ||
      parts.tm_year < 1970 || parts.tm_year > 2200) {
    return false;
  }
  std::string_view rest = std::string_view(text).substr(static_cast<std::size_t>(used));
  if (rest.starts_with('.')) {
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  }
  if (rest != "Z" && rest != "+00:00") return false;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  *time = std::chrono::system_clock::from_time_t(timegm(&parts));
  return true;
}

/// Sends a request for credentials. The answer's text is in no message: it may have secrets.
Status Call(const HttpCall& call, const std::string& place, const HttpRequest& request,
            HttpResponse* response) {
  Status status = call(request, response);
  if (!status.ok()) return {status.code(), place + ": " + status.message()};
  if (response->body.size() > kMostAnswerBytes) {
    return Damaged(place + ": the answer is longer than 64 KiB");
  }
  if (response->status == 200) return {};
  const StatusCode code = response->status >= 500 || response->status == 429
                              ? StatusCode::kIoError
                              : StatusCode::kPermissionDenied;
  return {code, place + ": the answer is " + std::to_string(response->status)};
}

Found FromEnvironment(const AwsSettings& settings, Credentials* credentials) {
  if (settings.Variable("RINGFEED_S3_ANONYMOUS") == "1") {
    *credentials = {};
    return Status();
  }
  if (settings.Variable("AWS_ACCESS_KEY_ID").empty()) return std::nullopt;
  return Checked(
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
      {settings.Variable("AWS_ACCESS_KEY_ID"), settings.Variable("AWS_SECRET_ACCESS_KEY"),
       settings.Variable("AWS_SESSION_TOKEN"), std::nullopt},
      credentials);
}

/// Where STS is; regions of China have a domain of their own.
Status StsEndpoint(const AwsSettings& settings, std::string* endpoint) {
  std::string from;
  const std::string given = settings.Endpoint("STS", &from);
  if (!given.empty()) return ReadEndpoint(given, from, endpoint);
  const std::string region = settings.Region();
  *endpoint = region.empty() ? "https://sts.amazonaws.com"
                             : "https://sts." + region + ".amazonaws.com" +
                                   (region.starts_with("cn-") ? ".cn" : "");
  return ReadEndpoint(*endpoint, "the region", endpoint);
}

Found FromWebIdentity(const AwsSettings& settings, const HttpCall& call, Credentials* credentials) {
  std::string file = settings.Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  std::string role = settings.Variable("AWS_ROLE_ARN");
  if (file.empty() || role.empty()) {
    file = settings.ProfileValue("web_identity_token_file");
    role = settings.ProfileValue("role_arn");
  }
  if (file.empty() || role.empty()) return std::nullopt;
  std::string token;
  HttpRequest request;
  Status status = ReadSecretFile(file, "token of the web identity", &token);
  if (status.ok()) status = StsEndpoint(settings, &request.url);
  if (!status.ok()) return status;
  std::string session = settings.Variable("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "ringfeed";
  request.method = "POST";
  request.url += "/";
  SetHeader(&request, "Content-Type", "application/x-www-form-urlencoded");
  request.body = EncodedQuery({{"Action", "AssumeRoleWithWebIdentity"},
                               {"Version", "2011-06-15"},
                               {"RoleArn", role},
                               {"RoleSessionName", session},
                               {"WebIdentityToken", std::string(Trimmed(token))}});
  HttpResponse response;
  status = Call(call, "the web identity's role (STS)", request, &response);
  if (!status.ok()) {
    const std::string code = ReadStoreError(response.body).code;
    return code.empty() ? status : Status(status.code(), status.message() + ", " + code);
  }
  return ReadCredentialsXml(response.body, credentials);
}

Found FromProfile(const AwsSettings& settings, Credentials* credentials) {
  for (const char* const name :
       {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
    const bool has_keys = !settings.ProfileValue("aws_access_key_id").empty();
    if (settings.ProfileValue(name).empty() || (has_keys && name != std::string_view("role_arn"))) {
      continue;
    }
    return Status(StatusCode::kUnsupported,
                  "the AWS profile " + ShownText(settings.profile_name) + " has " + name +
                      ", which ringfeed does not follow: eval \"$(aws configure "
                      "export-credentials --format env)\" sets what it gives");
  }
  if (settings.ProfileValue("aws_access_key_id").empty()) return std::nullopt;
  return Checked(
      "the AWS profile " + ShownText(settings.profile_name),
      {settings.ProfileValue("aws_access_key_id"), settings.ProfileValue("aws_secret_access_key"),
       settings.ProfileValue("aws_session_token"), std::nullopt},
      credentials);
}

/// Without TLS only this machine and the addresses of ECS and EKS are asked.
bool MayBeAsked(std::string_view url) {
  const UrlParts parts = PartsOf(url);
  if (parts.scheme == "https") return true;
  std::string_view host = parts.host;
  const std::size_t port = host.find_last_not_of("0123456789");
  if (port != std::string_view::npos && host[port] == ':') host = host.substr(0, port);
  constexpr std::string_view kHosts[] = {"localhost",     "127.0.0.1",      "[::1]",
                                         "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
  return parts.scheme == "http" &&
         std::find(std::begin(kHosts), std::end(kHosts), host) != std::end(kHosts);
}

Found FromContainer(const AwsSettings& settings, const HttpCall& call, Credentials* credentials) {
  const std::string relative = settings.Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  HttpRequest request;
  request.url = relative.empty() ? settings.Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                                 : "http://169.254.170.2" + relative;
  if (request.url.empty()) return std::nullopt;
  if (!MayBeAsked(request.url) || !IsHeaderText(request.url)) {
    return Status(StatusCode::kInvalidArgument,
                  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI is neither https:// nor an "
                  "address of this machine or its container service: set it right");
  }
  std::string token = settings.Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string file = settings.Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!file.empty()) {
    Status status = ReadSecretFile(file, "token for the container's credentials", &token);
    if (!status.ok()) return status;
  }
  token = std::string(Trimmed(token));
  if (token.find_first_of("\r\n") != std::string::npos) {
    return Status(StatusCode::kInvalidArgument,
                  "the token for the container's credentials has several lines");
  }
  if (!token.empty()) SetHeader(&request, "Authorization", token);
  HttpResponse response;
  Status status = Call(call, "the container's credentials", request, &response);
  return status.ok() ? ReadCredentialsJson(response.body, credentials) : status;
}

/// `why` is told if the instance has none, or if this is no instance of EC2.
Found FromInstance(const AwsSettings& settings, const HttpCall& call, Credentials* credentials,
                   std::string* why) {
  const std::string place = "the instance's metadata";
  *why = "AWS_EC2_METADATA_DISABLED is set";
  if (LowerCase(settings.Variable("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  const std::string name = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
  std::string endpoint = "http://169.254.169.254";
  if (const std::string given = settings.Variable(name); !given.empty()) {
    Status status = ReadEndpoint(given, name, &endpoint);
    if (!status.ok()) return status;
  }
  HttpRequest request;
  request.timeout_ms = kMetadataMs;
  HttpResponse response;
  request.method = "PUT";
  request.url = endpoint + "/latest/api/token";
  SetHeader(&request, "X-aws-ec2-metadata-token-ttl-seconds", "21600");
  Status status = Call(call, place, request, &response);
  *why = status.message();
  // An instance that cannot answer now is one all the same.
  if (status.code() == StatusCode::kIoError && response.status != 0) return status;
  const std::string token(Trimmed(response.body));
  if (!status.ok() || token.empty() || !IsHeaderText(token)) return std::nullopt;

  request = {};
  response = {};
  SetHeader(&request, "X-aws-ec2-metadata-token", token);
  const std::string roles = endpoint + "/latest/meta-data/iam/security-credentials/";
  request.url = roles;
  status = Call(call, place, request, &response);
  *why = "the instance has no role";
  if (response.status == 404 || (status.ok() && Trimmed(response.body).empty()))
    return std::nullopt;
  if (!status.ok()) return status;
  const std::string_view role = Trimmed(response.body);
  request.url = roles + EncodedText(Trimmed(role.substr(0, role.find('\n'))));
  response = {};
  status = Call(call, place, request, &response);
  return status.ok() ? ReadCredentialsJson(response.body, credentials) : status;
}

}  // namespace

Status ReadCredentialsJson(const std::string& text, Credentials* credentials) {
  const std::string place = "the answer with credentials";
  if (text.size() > kMostAnswerBytes) return Damaged(place + " is longer than 64 KiB");
  Credentials read;
  std::string expiration;
  try {
    const nlohmann::ordered_json json = ParseStrictJson(text, 4);
    const std::string code = json.value("Code", "Success");
    if (code != "Success") {
      return {StatusCode::kPermissionDenied, place + " says " + ShownText(code)};
    }
    read.access_key = json.value("AccessKeyId", "");
    read.secret_key = json.value("SecretAccessKey", "");
    read.session_token = json.value("Token", "");
    expiration = json.value("Expiration", "");
  } catch (const std::exception&) {  // whose words quote the text
    return Damaged(place + " is no JSON of that form");
  }
  if (!expiration.empty() && !ReadTime(expiration, &read.expires)) {
    return Damaged(place + " has an end that is no time");
  }
  return Checked(place, std::move(read), credentials);
}

Status ReadCredentialsXml(std::string_view text, Credentials* credentials) {
  const std::string place = "the answer of STS";
  if (text.size() > kMostAnswerBytes) return Damaged(place + " is longer than 64 KiB");
  Credentials read;
  std::string expiration;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    const std::string_view in =
        "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/"
        "Credentials/";
    if (!element.path.starts_with(in)) return Status();
    const std::string_view name = element.path.substr(in.size());
    if (name == "AccessKeyId") read.access_key = element.text;
    if (name == "SecretAccessKey") read.secret_key = element.text;
    if (name == "SessionToken") read.session_token = element.text;
    if (name == "Expiration") expiration = element.text;
    return Status();
  });
  if (!status.ok() || (!expiration.empty() && !ReadTime(expiration, &read.expires))) {
    return Damaged(place + " is no XML of that form");
  }
  return Checked(place, std::move(read), credentials);
}

Status AskForCredentials(AwsSettings settings, const HttpCall& call, Credentials* credentials) {
  if (Found found = FromEnvironment(settings, credentials)) return *found;
  Status status = ReadAwsProfile(&settings);
  if (!status.ok()) return status;
  if (Found found = FromWebIdentity(settings, call, credentials)) return *found;
  if (Found found = FromProfile(settings, credentials)) return *found;
  if (Found found = FromContainer(settings, call, credentials)) return *found;
  std::string why;
  if (Found found = FromInstance(settings, call, credentials, &why)) return *found;
  return {StatusCode::kPermissionDenied,
          "there are no credentials for S3. Looked at: AWS_ACCESS_KEY_ID; "
          "AWS_WEB_IDENTITY_TOKEN_FILE; the profile " +
              ShownText(settings.profile_name) + " of " + settings.files +
              "; AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI; the instance's metadata (" +
              why +
              "). Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or RINGFEED_S3_ANONYMOUS=1 "
              "for what is public"};
}

Status KeptCredentials::Get(std::shared_ptr<const Credentials>* credentials) {
  std::unique_lock lock(mutex_);
  bool waited = false;
  for (;;) {
    const SystemTime now = now_();
    const bool good = current_ != nullptr && (!current_->expires || now < *current_->expires);
    const bool soon = good && current_->expires && now + kAskBefore >= *current_->expires;
    // What was just asked for and ends soon is not asked for again at each request.
    if (good && (!soon || asking_ || now < asked_at_ + kBetweenAsks)) {
      *credentials = current_;
      return {};
    }
    if (!asking_ && waited && !failure_.ok()) return failure_;
    if (!asking_) break;
    asked_.wait(lock, [&] { return !asking_; });
    waited = true;
  }
  asking_ = true;
  lock.unlock();
  auto asked = std::make_shared<Credentials>();
  Status status;
  try {
    status = ask_(asked.get());
  } catch (const std::exception&) {  // others wait for the outcome
    status = {StatusCode::kInternal, "asking for credentials threw"};
  }
  if (status.ok() && asked->expires && *asked->expires <= now_()) {
    status = {StatusCode::kPermissionDenied, "the credentials that were given have expired"};
  }
  lock.lock();
  asking_ = false;
  asked_at_ = now_();
  failure_ = status;
  if (status.ok()) current_ = std::move(asked);
  asked_.notify_all();
  const bool old_ones_do =
      current_ != nullptr && (!current_->expires || asked_at_ < *current_->expires);
  if (!status.ok() && !old_ones_do) return status;
  *credentials = current_;
  return {};
}

bool KeptCredentials::Refuse() {
  const std::lock_guard lock(mutex_);
  if (current_ == nullptr) return true;
  if (current_->session_token.empty() || current_->session_token == refused_token_) return false;
  // Requests that had the ones before are answered late. Bounded, so that nobody goes in circles.
  if (!refused_token_.empty() && now_() < asked_at_ + kLateAnswers &&
      late_refusals_ < kMostLateRefusals) {
    ++late_refusals_;
    return true;
  }
  refused_token_ = current_->session_token;
  late_refusals_ = 0;
  current_ = nullptr;
  return true;
}

}  // namespace ringfeed
