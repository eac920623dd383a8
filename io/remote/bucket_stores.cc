// S3, and Google Cloud Storage by its XML API, which is S3's but for who may read.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>

#include "io/remote/aws_settings.h"
#include "io/remote/credentials.h"
#include "io/remote/listing.h"
#include "io/remote/signing.h"
#include "io/remote/stores.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

constexpr char kAmazon[] = "S3";
constexpr int kMostMoves = 4;
constexpr int kMostLateAnswers = 1000;

/// What can stand in a host's name and in a signature.
bool IsRegion(std::string_view region) {
  return !region.empty() && region.size() <= 64 &&
         region.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
             std::string_view::npos;
}

/// Whether a certificate for *.s3.REGION.amazonaws.com holds for the bucket's host.
bool IsHostLabel(std::string_view bucket) {
  return IsRegion(bucket) && bucket.size() <= 63 && bucket.front() != '-' && bucket.back() != '-';
}

/// The body that ends an upload (CompleteMultipartUpload).
std::string S3PartList(const std::vector<std::string>& parts) {
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    list += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + parts[i] +
            "</ETag></Part>";
  }
  return list + "</CompleteMultipartUpload>";
}

Status ReadS3Upload(std::string_view text, std::string* upload) {
  std::string id;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    if (element.path == "InitiateMultipartUploadResult/UploadId") id = element.text;
    return Status();
  });
  if (!status.ok() || id.empty()) return {StatusCode::kDamaged, "the answer begins no upload"};
  *upload = std::move(id);
  return {};
}

/// S3 begins its answer before it knows the end: it may be a failure, whatever its status says.
Status ReadS3Completion(std::string_view text) {
  bool is_one = false;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    is_one |= element.path == "CompleteMultipartUploadResult";
    return Status();
  });
  if (status.ok() && is_one) return {};
  return {StatusCode::kDamaged, "the answer does not say that the upload is complete"};
}

struct BucketAccess {
  std::string service;
  std::string endpoint;  ///< "": AWS's of the region
  bool path_style = false;
  std::string region;
  std::string bearer;                            ///< a token in the place of a signature
  std::unique_ptr<KeptCredentials> credentials;  ///< null: nothing is signed
  std::string if_denied;
};

class BucketStore : public ObjectStore {
 public:
  BucketStore(std::string bucket, BucketAccess access)
      : bucket_(std::move(bucket)), access_(std::move(access)), region_(access_.region) {}

  Status Prepare(const std::string& key, const Query& query, HttpRequest* request) override {
    const std::string region = Region();
    request->url = BucketUrl(region);
    if (!key.empty() || !access_.path_style) request->url += "/" + EncodedText(key, false);
    if (!query.empty()) request->url += "?" + EncodedQuery(query);
    if (!access_.bearer.empty()) SetHeader(request, "Authorization", "Bearer " + access_.bearer);
    if (access_.credentials == nullptr) return {};
    std::shared_ptr<const Credentials> credentials;
    Status status = access_.credentials->Get(&credentials);
    if (!status.ok() || credentials->access_key.empty()) return status;
    try {
      signer_.Sign(*credentials, region, std::chrono::system_clock::now(), request);
    } catch (const Error& error) {
      return error.status();
    }
    return {};
  }

  Status PrepareListing(const std::string& prefix, const std::string& next,
                        HttpRequest* request) override {
    Query query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    if (!next.empty()) query.emplace_back("continuation-token", next);
    return Prepare("", query, request);
  }

  Status ReadListing(const HttpResponse& response, ListingPage* page) override {
    return ReadS3Listing(response.body, page);
  }

  Status PrepareWrite(WriteStep step, const ObjectWrite& write, std::string_view bytes,
                      HttpRequest* request) override {
    const bool is_made = step == WriteStep::kWhole || step == WriteStep::kBegin;
    const bool is_last = step == WriteStep::kWhole || step == WriteStep::kComplete;
    const bool has_bytes = step == WriteStep::kWhole || step == WriteStep::kPart;
    Query query;
    if (step == WriteStep::kBegin) query = {{"uploads", ""}};
    if (!write.upload.empty()) query = {{"uploadId", write.upload}};
    if (step == WriteStep::kPart) {
      query.emplace_back("partNumber", std::to_string(write.parts.size() + 1));
    }
    request->method = has_bytes ? "PUT" : step == WriteStep::kAbort ? "DELETE" : "POST";
    request->bytes = bytes;
    SetHeader(request, "Content-Type", "application/octet-stream");
    if (step == WriteStep::kComplete) {
      request->body = S3PartList(write.parts);
      SetHeader(request, "Content-Type", "application/xml");
    }
    const std::string sum = has_bytes ? Md5Base64(bytes) : "";
    if (!sum.empty()) SetHeader(request, "Content-MD5", sum);
    const std::string vendor = access_.bearer.empty() ? "x-amz" : "x-goog";
    if (is_made) SetHeader(request, vendor + kMarkHeader, write.mark);
    if (is_last && !write.replaces && access_.service == kAmazon) {
      SetHeader(request, "If-None-Match", "*");  // Google knows it for reads alone
    }
    return Prepare(write.key, query, request);
  }

  Status ReadWrite(WriteStep step, const HttpResponse& response, ObjectWrite* write) override {
    if (step == WriteStep::kBegin) return ReadS3Upload(response.body, &write->upload);
    if (step == WriteStep::kPart) {
      const std::string_view etag = response.Header("etag");
      if (etag.empty() || etag.size() > 1024 || etag.find_first_of("<>&") != etag.npos) {
        return {StatusCode::kDamaged, "the answer to a part has no ETag that can be sent back"};
      }
      write->parts.emplace_back(etag);
    }
    if (step != WriteStep::kComplete) return {};
    HttpResponse without_gap = response;  // spaces in front keep the connection while S3 works
    without_gap.body.erase(0, without_gap.body.find_first_not_of(" \r\n\t"));
    if (!ReadStoreError(without_gap.body).code.empty()) {
      return {StatusCode::kResourceExhausted, Explain(without_gap).message()};
    }
    return ReadS3Completion(without_gap.body);
  }

  bool Learn(const HttpResponse& response) override {
    const int status = response.status;
    if (status != 301 && status != 307 && status != 400 && status != 403) return false;
    const StoreError error = ReadStoreError(response.body);
    const bool elsewhere =
        status == 301 || status == 307 || error.code == "AuthorizationHeaderMalformed";
    if (MoveTo(RegionIn(response, error), elsewhere)) return true;
    // The answer to a HEAD has no code; for credentials that have expired it is 400.
    const bool expired = error.code == "ExpiredToken" || error.code == "InvalidToken" ||
                         (status == 400 && response.body.empty());
    return expired && access_.credentials != nullptr && access_.credentials->Refuse();
  }

  Status Explain(const HttpResponse& response) override {
    StoreError error = ReadStoreError(response.body);
    error.region = RegionIn(response, error);
    if (error.code.empty() && (response.status == 301 || response.status == 307)) {
      error.code = "PermanentRedirect";
    }
    return FailureOf(access_.service, response.status, error, access_.if_denied);
  }

 private:
  static std::string RegionIn(const HttpResponse& response, const StoreError& error) {
    const std::string_view header = response.Header("x-amz-bucket-region");
    return header.empty() ? error.region : std::string(header);
  }

  std::string Region() {
    const std::lock_guard lock(mutex_);
    return region_;
  }

  bool MoveTo(const std::string& region, bool elsewhere) {
    const std::lock_guard lock(mutex_);
    if (!IsRegion(region)) return false;
    // Requests that went to the old one before are answered late.
    if (region == region_) return elsewhere && moves_ > 0 && late_answers_++ < kMostLateAnswers;
    if (moves_ >= kMostMoves) return false;
    ++moves_;
    region_ = region;
    return true;
  }

  std::string BucketUrl(const std::string& region) const {
    std::string endpoint = access_.endpoint;
    if (endpoint.empty()) {
      endpoint =
          "https://s3." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
    }
    if (access_.path_style) return endpoint + "/" + EncodedText(bucket_);
    return endpoint.insert(endpoint.find("://") + 3, bucket_ + ".");
  }

  const std::string bucket_;
  const BucketAccess access_;
  RequestSigner signer_{"s3"};
  std::mutex mutex_;
  std::string region_;
  int moves_ = 0;         // to other regions
  int late_answers_ = 0;  // that told of the region after it was known
};

}  // namespace

Status OpenS3Store(const RemoteAddress& address, const HttpCall& call,
                   std::shared_ptr<ObjectStore>* store) {
  AwsSettings settings = ReadAwsEnvironment();
  Status status = ReadAwsProfile(&settings);
  if (!status.ok()) return status;
  BucketAccess access;
  access.service = kAmazon;
  access.if_denied =
      "the credentials do not allow this, or there is no such object: check them, the bucket and "
      "the key";
  access.region = settings.Region();
  if (access.region.empty()) access.region = "us-east-1";
  if (!IsRegion(access.region)) {
    return {StatusCode::kInvalidArgument,
            "the AWS region \"" + ShownText(access.region) +
                "\" is no name of one, as \"us-east-1\" is: set AWS_REGION right"};
  }
  std::string from;
  const std::string endpoint = settings.Endpoint("S3", &from);
  if (!endpoint.empty()) status = ReadEndpoint(endpoint, from, &access.endpoint);
  if (!status.ok()) return status;
  const std::string style = settings.ProfileValue("s3.addressing_style");
  access.path_style =
      style == "path" || !IsHostLabel(address.bucket) || (!endpoint.empty() && style != "virtual");
  access.credentials =
      std::make_unique<KeptCredentials>([settings, call](Credentials* credentials) {
        return AskForCredentials(settings, call, credentials);
      });
  *store = std::make_shared<BucketStore>(address.bucket, std::move(access));
  return {};
}

Status OpenGoogleStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store) {
  BucketAccess access;
  access.service = "Google Cloud Storage";
  access.endpoint = "https://storage.googleapis.com";
  access.path_style = true;
  access.region = "auto";
  access.if_denied =
      "set GOOGLE_OAUTH_ACCESS_TOKEN (gcloud auth print-access-token), or GS_ACCESS_KEY_ID and "
      "GS_SECRET_ACCESS_KEY, to ones that may read this";
  if (std::string emulator = EnvironmentText("STORAGE_EMULATOR_HOST"); !emulator.empty()) {
    if (emulator.find("://") == std::string::npos) emulator.insert(0, "http://");
    Status status = ReadEndpoint(emulator, "STORAGE_EMULATOR_HOST", &access.endpoint);
    if (!status.ok()) return status;
  }
  Credentials keys;
  Status status = ReadToken("GS_ACCESS_KEY_ID", &keys.access_key);
  if (status.ok()) status = ReadToken("GS_SECRET_ACCESS_KEY", &keys.secret_key);
  if (status.ok()) status = ReadToken("GOOGLE_OAUTH_ACCESS_TOKEN", &access.bearer);
  if (!status.ok()) return status;
  if (keys.access_key.empty() != keys.secret_key.empty()) {
    return {StatusCode::kInvalidArgument,
            "only one of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY is set: set both, or none"};
  }
  if (!keys.access_key.empty()) {
    access.bearer.clear();
    access.credentials = std::make_unique<KeptCredentials>([keys](Credentials* credentials) {
      *credentials = keys;
      return Status();
    });
  }
  *store = std::make_shared<BucketStore>(address.bucket, std::move(access));
  return {};
}

}  // namespace ringfeed
