#include "io/remote/object_store.h"

#include <algorithm>
#include <string_view>

#include "io/remote/aws_settings.h"
#include "io/remote/stores.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

struct Remedy {
  std::string_view code;  // S3's and Google's, Azure's
  StatusCode status;      // kOk: what the number of the answer says
  std::string_view text;
};

constexpr std::string_view kRegion = "the bucket is in another region: set AWS_REGION to it";
constexpr std::string_view kExpired = "the credentials have expired: renew them";
constexpr std::string_view kSecret =
    "the secret does not belong to the key, or the endpoint is another store's: check both";
constexpr Remedy kRemedies[] = {
    {"NoSuchBucket", StatusCode::kNotFound, "check the bucket's name and the endpoint"},
    {"ContainerNotFound", StatusCode::kNotFound, "check the container's name and the account"},
    {"InvalidAccessKeyId", StatusCode::kPermissionDenied,
     "this store does not know the access key: check it and the endpoint"},
    {"SignatureDoesNotMatch", StatusCode::kPermissionDenied, kSecret},
    {"RequestTimeTooSkewed", StatusCode::kPermissionDenied, "set this machine's clock"},
    {"ExpiredToken", StatusCode::kPermissionDenied, kExpired},
    {"InvalidToken", StatusCode::kPermissionDenied, kExpired},
    {"PermanentRedirect", StatusCode::kInvalidArgument, kRegion},
    {"TemporaryRedirect", StatusCode::kIoError, kRegion},
    {"AuthorizationHeaderMalformed", StatusCode::kInvalidArgument, kRegion},
    {"NoSuchUpload", StatusCode::kIoError,
     "the upload was ended by others, as a rule of the bucket may do: write it again"},
    {"InvalidObjectState", StatusCode::kPermissionDenied,
     "the object is archived: restore it first"},
};

class HttpStore : public ObjectStore {
 public:
  explicit HttpStore(std::string server) : server_(std::move(server)) {}

  Status Prepare(const std::string& key, const Query& query, HttpRequest* request) override {
    request->url = server_ + "/" + WithoutGaps(key);
    if (!query.empty()) {
      request->url += key.find('?') == std::string::npos ? '?' : '&';
      request->url += EncodedQuery(query);
    }
    request->follow = true;
    return {};
  }

  Status PrepareListing(const std::string& /*prefix*/, const std::string& /*next*/,
                        HttpRequest* /*request*/) override {
    return {StatusCode::kUnsupported,
            "a web server has no listing of its files: name each, or make a manifest"};
  }

  Status ReadListing(const HttpResponse& /*response*/, ListingPage* /*page*/) override {
    return {StatusCode::kUnsupported, "a web server has no listing of its files"};
  }

  bool Learn(const HttpResponse& /*response*/) override { return false; }

  Status Explain(const HttpResponse& response) override {
    return FailureOf("the server", response.status, {},
                     "a signed address may have expired, or it is not public");
  }

 private:
  /// A URL that the user encoded, or did not: what cannot stand in one is.
  static std::string WithoutGaps(std::string_view key) {
    std::string text;
    for (const char c : key) {
      const bool cannot = static_cast<unsigned char>(c) <= ' ' ||
                          static_cast<unsigned char>(c) > '~' ||
                          std::string_view("\"<>\\^`{|}").find(c) != std::string_view::npos;
      if (cannot) {
        text += EncodedText({&c, 1});
      } else {
        text += c;
      }
    }
    return text;
  }

  const std::string server_;
};

StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 401:
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
    case 410:
      return StatusCode::kNotFound;
    case 412:
    case 416:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kIoError;
  }
}

}  // namespace

Status FailureOf(const std::string& service, int http_status, const StoreError& error,
                 const std::string& if_denied) {
  std::string message = service + " answers " + std::to_string(http_status);
  if (!error.code.empty()) message += " " + ShownText(error.code);
  if (!error.message.empty()) message += " (" + ShownText(error.message) + ")";
  const auto* const known =
      std::find_if(std::begin(kRemedies), std::end(kRemedies),
                   [&](const Remedy& remedy) { return remedy.code == error.code; });
  StatusCode code = CodeOf(http_status);
  if (known != std::end(kRemedies)) {
    code = known->status;
    message += ": " + std::string(known->text);
    if (known->text == kRegion && !error.region.empty()) message += ", " + ShownText(error.region);
  } else if (http_status == 412) {
    message += ": the object has changed since it was first looked at";
  } else if (http_status == 416) {
    message += ": the object is shorter than it was";
  } else if (code == StatusCode::kNotFound) {
    message += ": there is no such object";
  } else if (code == StatusCode::kPermissionDenied) {
    message += ": " + if_denied;
  }
  return {code, message};
}

Status CheckToken(const std::string& place, std::string* token) {
  *token = std::string(Trimmed(*token));
  if (std::all_of(token->begin(), token->end(), [](char c) { return c > ' ' && c < 0x7f; })) {
    return {};
  }
  token->clear();
  return {StatusCode::kInvalidArgument,
          place + " is no line of printable characters: set it again"};
}

Status ReadToken(const char* variable, std::string* token) {
  *token = EnvironmentText(variable);
  return CheckToken(variable, token);
}

Status ObjectStore::PrepareWrite(WriteStep /*step*/, const ObjectWrite& /*write*/,
                                 std::string_view /*bytes*/, HttpRequest* /*request*/) {
  return {StatusCode::kUnsupported,
          "what lies there is read, not written: write to a disk, and upload that by the tools of "
          "the server or of Hugging Face"};
}

Status ObjectStore::ReadWrite(WriteStep /*step*/, const HttpResponse& /*response*/,
                              ObjectWrite* /*write*/) {
  return {};
}

Status OpenHttpStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store) {
  *store = std::make_shared<HttpStore>(address.bucket);
  return {};
}

Status OpenObjectStore(const RemoteAddress& address, const HttpCall& call,
                       std::shared_ptr<ObjectStore>* store) {
  switch (address.kind) {
    case StoreKind::kHttp:
      return OpenHttpStore(address, store);
    case StoreKind::kS3:
      return OpenS3Store(address, call, store);
    case StoreKind::kGoogle:
      return OpenGoogleStore(address, store);
    case StoreKind::kAzure:
      return OpenAzureStore(address, store);
    case StoreKind::kHuggingFace:
      return OpenHuggingFaceStore(address, store);
  }
  return {StatusCode::kInternal, "an address of no known kind"};
}

}  // namespace ringfeed
