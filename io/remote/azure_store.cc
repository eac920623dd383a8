#include <cstddef>
#include <string_view>
#include <utility>

#include "io/remote/listing.h"
#include "io/remote/signing.h"
#include "io/remote/stores.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

// The Blob service REST API. Bearer tokens need 2017-11-09 or newer.
constexpr const char* kVersion = "2021-08-06";

class AzureStore : public ObjectStore {
 public:
  AzureStore(std::string container_url, std::string sas, std::string bearer)
      : container_url_(std::move(container_url)),
        sas_(std::move(sas)),
        bearer_(std::move(bearer)) {}

  Status Prepare(const std::string& key, const Query& query, HttpRequest* request) override {
    request->url = container_url_;
    if (!key.empty()) request->url += "/" + EncodedText(key, false);
    std::string all = EncodedQuery(query);
    if (!sas_.empty()) all += (all.empty() ? "" : "&") + sas_;
    if (!all.empty()) request->url += "?" + all;
    SetHeader(request, "x-ms-version", kVersion);
    if (!bearer_.empty()) SetHeader(request, "Authorization", "Bearer " + bearer_);
    return {};
  }

  Status PrepareListing(const std::string& prefix, const std::string& next,
                        HttpRequest* request) override {
    Query query = {{"restype", "container"}, {"comp", "list"}, {"prefix", prefix}};
    if (!next.empty()) query.emplace_back("marker", next);
    return Prepare("", query, request);
  }

  Status ReadListing(const HttpResponse& response, ListingPage* page) override {
    return ReadAzureListing(response.body, page);
  }

  // Blocks that no list names are dropped by Azure after a week: there is no upload to end.
  Status PrepareWrite(WriteStep step, const ObjectWrite& write, std::string_view bytes,
                      HttpRequest* request) override {
    if (step == WriteStep::kBegin || step == WriteStep::kAbort) return {};
    const bool has_bytes = step != WriteStep::kComplete;
    request->method = "PUT";
    request->bytes = bytes;
    SetHeader(request, "Content-Type", has_bytes ? "application/octet-stream" : "application/xml");
    const std::string sum = has_bytes ? Md5Base64(bytes) : "";
    if (!sum.empty()) SetHeader(request, "Content-MD5", sum);
    if (step == WriteStep::kPart) {
      return Prepare(write.key, {{"comp", "block"}, {"blockid", BlockId(write)}}, request);
    }
    SetHeader(request, std::string("x-ms") + kMarkHeader, write.mark);
    if (!write.replaces) SetHeader(request, "If-None-Match", "*");
    if (step == WriteStep::kWhole) {
      SetHeader(request, "x-ms-blob-type", "BlockBlob");
      return Prepare(write.key, {}, request);
    }
    request->body = R"(<?xml version="1.0" encoding="utf-8"?><BlockList>)";
    for (const std::string& id : write.parts) request->body += "<Latest>" + id + "</Latest>";
    request->body += "</BlockList>";
    return Prepare(write.key, {{"comp", "blocklist"}}, request);
  }

  Status ReadWrite(WriteStep step, const HttpResponse& /*response*/, ObjectWrite* write) override {
    if (step == WriteStep::kPart) write->parts.push_back(BlockId(*write));
    return {};
  }

  bool Learn(const HttpResponse& /*response*/) override { return false; }

  Status Explain(const HttpResponse& response) override {
    StoreError error = ReadStoreError(response.body);
    if (error.code.empty()) error.code = response.Header("x-ms-error-code");
    return FailureOf("Azure", response.status, error,
                     "set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCESS_TOKEN to one that may "
                     "read this and has not expired");
  }

 private:
  /// Of the next part. Base64, and as long as every other of the blob: the digits are Base64 of
  /// something. The mark keeps another writer's blocks apart.
  static std::string BlockId(const ObjectWrite& write) {
    const std::string number = std::to_string(write.parts.size());
    return write.mark + std::string(8 - number.size(), '0') + number;
  }

  const std::string container_url_;
  const std::string sas_;     // a query, encoded
  const std::string bearer_;  // used if there is no `sas_`
};

}  // namespace

Status OpenAzureStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store) {
  std::string account = EnvironmentText("AZURE_STORAGE_ACCOUNT");
  std::string container = address.bucket;
  if (const std::size_t slash = container.find('/'); slash != std::string::npos) {
    account = container.substr(0, slash);
    container.erase(0, slash + 1);
  }
  std::string endpoint = EnvironmentText("AZURE_STORAGE_BLOB_ENDPOINT");
  std::string from = "AZURE_STORAGE_BLOB_ENDPOINT";
  if (endpoint.empty()) {
    from = "AZURE_STORAGE_ACCOUNT";
    if (account.empty() ||
        account.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
      return {StatusCode::kInvalidArgument,
              "AZURE_STORAGE_ACCOUNT, or the account in az://ACCOUNT/CONTAINER/NAME, is no name of "
              "one: it has lower-case letters and digits"};
    }
    endpoint = "https://" + account + ".blob.core.windows.net";
  }
  std::string sas;
  std::string bearer;
  Status status = ReadEndpoint(endpoint, from, &endpoint);
  if (status.ok()) status = ReadToken("AZURE_STORAGE_SAS_TOKEN", &sas);
  if (status.ok()) status = ReadToken("AZURE_STORAGE_ACCESS_TOKEN", &bearer);
  if (!status.ok()) return status;
  if (sas.starts_with('?')) sas.erase(0, 1);
  if (!sas.empty()) bearer.clear();
  *store = std::make_shared<AzureStore>(endpoint + "/" + container, sas, bearer);
  return {};
}

}  // namespace ringfeed
