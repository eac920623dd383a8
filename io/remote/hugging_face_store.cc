#include <cstddef>
#include <string_view>
#include <utility>

#include "io/remote/aws_settings.h"
#include "io/remote/listing.h"
#include "io/remote/stores.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

class HuggingFaceStore : public ObjectStore {
 public:
  /// `repository` is "datasets/ORGANISATION/NAME".
  HuggingFaceStore(std::string endpoint, std::string repository, const std::string& revision,
                   std::string token)
      : endpoint_(std::move(endpoint)),
        repository_(std::move(repository)),
        revision_(EncodedText(revision)),
        token_(std::move(token)) {}

  Status Prepare(const std::string& key, const Query& query, HttpRequest* request) override {
    // The address of a model is without "models/".
    const std::string_view models = "models/";
    const std::string path =
        repository_.starts_with(models) ? repository_.substr(models.size()) : repository_;
    request->url = endpoint_ + "/" + path + "/resolve/" + revision_ + "/" + EncodedText(key, false);
    if (!query.empty()) request->url += "?" + EncodedQuery(query);
    Complete(request);
    return {};
  }

  Status PrepareListing(const std::string& prefix, const std::string& next,
                        HttpRequest* request) override {
    const std::string tree = endpoint_ + "/api/" + repository_ + "/tree/" + revision_;
    if (!next.empty() && !next.starts_with(endpoint_ + "/api/")) {  // the token goes nowhere else
      return {StatusCode::kDamaged, "the listing goes on at another place"};
    }
    const std::size_t slash = prefix.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : prefix.substr(0, slash);
    request->url =
        tree + (folder.empty() ? "" : "/" + EncodedText(folder, false)) + "?recursive=true";
    if (!next.empty()) request->url = next;
    Complete(request);
    return {};
  }

  Status ReadListing(const HttpResponse& response, ListingPage* page) override {
    return ReadHuggingFaceListing(response, page);
  }

  bool Learn(const HttpResponse& /*response*/) override { return false; }

  Status Explain(const HttpResponse& response) override {
    StoreError error;
    error.code = response.Header("x-error-code");
    error.message = response.Header("x-error-message");
    return FailureOf("Hugging Face", response.status, error,
                     "check the name, or set HF_TOKEN to a token that may read it: huggingface-cli "
                     "login");
  }

 private:
  void Complete(HttpRequest* request) const {
    request->follow = true;
    if (!token_.empty()) SetHeader(request, "Authorization", "Bearer " + token_);
  }

  const std::string endpoint_;
  const std::string repository_;
  const std::string revision_;  // encoded
  const std::string token_;
};

/// HF_TOKEN, or the file in which huggingface_hub keeps it.
Status ReadHubToken(std::string* token) {
  Status status = ReadToken("HF_TOKEN", token);
  if (!status.ok() || !token->empty()) return status;
  std::string path = EnvironmentText("HF_TOKEN_PATH");
  if (const std::string home = EnvironmentText("HF_HOME"); path.empty() && !home.empty()) {
    path = home + "/token";
  }
  if (path.empty() && HomeFolder().empty()) return {};
  if (path.empty()) path = HomeFolder() + "/.cache/huggingface/token";
  status = ReadSecretFile(path, "token of Hugging Face", token);
  if (status.code() == StatusCode::kNotFound) return {};
  return status.ok() ? CheckToken(path, token) : status;
}

}  // namespace

Status OpenHuggingFaceStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store) {
  std::string endpoint = EnvironmentText("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  std::string token;
  Status status = ReadEndpoint(endpoint, "HF_ENDPOINT", &endpoint);
  if (status.ok()) status = ReadHubToken(&token);
  if (!status.ok()) return status;
  const std::size_t at = address.bucket.find('@');
  *store = std::make_shared<HuggingFaceStore>(endpoint, address.bucket.substr(0, at),
                                              address.bucket.substr(at + 1), token);
  return {};
}

}  // namespace ringfeed
