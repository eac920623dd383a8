#include "io/remote/object_store.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/io/remote/environment.h"

namespace ringfeed {
namespace {

Status NoCall(const HttpRequest& /*request*/, HttpResponse* /*response*/) {
  return {StatusCode::kIoError, "nobody is there"};
}

std::shared_ptr<ObjectStore> Opened(const std::string& text, std::string* failure = nullptr) {
  RemoteAddress address;
  std::shared_ptr<ObjectStore> store;
  EXPECT_TRUE(ParseAddress(text, &address).ok());
  const Status status = OpenObjectStore(address, NoCall, &store);
  if (failure != nullptr) *failure = status.message();
  EXPECT_TRUE(status.ok() || failure != nullptr) << status.ToString();
  return store;
}
std::string Failure(const std::string& text) {
  std::string failure;
  (void)Opened(text, &failure);
  return failure;
}

HttpRequest Prepared(ObjectStore* store, const std::string& key,
                     const ObjectStore::Query& query = {}) {
  HttpRequest request;
  request.headers = {{"Range", "bytes=0-9"}};
  const Status status = store->Prepare(key, query, &request);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return request;
}
HttpRequest Listing(ObjectStore* store, const std::string& prefix, const std::string& next = "") {
  HttpRequest request;
  const Status status = store->PrepareListing(prefix, next, &request);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return request;
}
std::string Header(const HttpRequest& request, const std::string& name) {
  for (const auto& [its_name, value] : request.headers) {
    if (its_name == name) return value;
  }
  return "";
}
HttpResponse Error(int status, const std::string& code, const std::string& more = "") {
  return {status, {}, "<Error><Code>" + code + "</Code><Message>No.</Message>" + more + "</Error>"};
}

const StoreEnvironment::Variables kAnonymous = {{"RINGFEED_S3_ANONYMOUS", "1"}};
const StoreEnvironment::Variables kKeys = {{"AWS_ACCESS_KEY_ID", "AK"},
                                           {"AWS_SECRET_ACCESS_KEY", "SECRET"},
                                           {"AWS_SESSION_TOKEN", "TOKEN"}};

TEST(S3StoreTest, HasItsBucketInTheHostOrInThePath) {
  StoreEnvironment environment(kAnonymous);
  EXPECT_EQ(Prepared(Opened("s3://bucket/").get(), "a =/\xc3\xa4//.").url,
            "https://bucket.s3.us-east-1.amazonaws.com/a%20%3D/%C3%A4//.");
  EXPECT_EQ(Listing(Opened("s3://bucket/").get(), "p/", "t=").url,
            "https://bucket.s3.us-east-1.amazonaws.com/?continuation-token=t%3D&encoding-type=url&"
            "list-type=2&prefix=p%2F");
  environment.Set("AWS_DEFAULT_REGION", "cn-north-1");
  EXPECT_EQ(Prepared(Opened("s3://with.dots/").get(), "k", {{"partNumber", "1"}}).url,
            "https://s3.cn-north-1.amazonaws.com.cn/with.dots/k?partNumber=1");
  environment.Set("AWS_ENDPOINT_URL", "http://wrong");
  environment.Set("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000/");
  EXPECT_EQ(Prepared(Opened("s3://bucket/").get(), "k").url, "http://127.0.0.1:9000/bucket/k");
  EXPECT_EQ(Listing(Opened("s3://bucket/").get(), "").url,
            "http://127.0.0.1:9000/bucket?encoding-type=url&list-type=2&prefix=");
  environment.Write(".aws/config", "[default]\ns3=\n addressing_style=virtual\n");
  EXPECT_EQ(Prepared(Opened("s3://bucket/").get(), "k").url, "http://bucket.127.0.0.1:9000/k");
  environment.Set("AWS_ENDPOINT_URL_S3", "127.0.0.1:9000");
  EXPECT_NE(Failure("s3://bucket/").find("AWS_ENDPOINT_URL_S3 is no address"), std::string::npos);
  environment.Set("AWS_REGION", "x.evil.com/");
  EXPECT_NE(Failure("s3://bucket/").find("set AWS_REGION right"), std::string::npos);
}

TEST(S3StoreTest, SignsWithWhatItHas) {
  const StoreEnvironment environment(kKeys);
  const HttpRequest request = Prepared(Opened("s3://bucket/").get(), "k");
  EXPECT_NE(Header(request, "Authorization")
                .find("/us-east-1/s3/aws4_request,SignedHeaders=host;range;"
                      "x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            std::string::npos);
  EXPECT_EQ(Header(request, "X-Amz-Security-Token"), "TOKEN");
  EXPECT_FALSE(request.follow);
  const StoreEnvironment without;
  HttpRequest refused;
  const Status status = Opened("s3://bucket/")->Prepare("k", {}, &refused);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("nobody is there"), std::string::npos);
}

TEST(S3StoreTest, FollowsItsBucketToAnotherRegion) {
  const StoreEnvironment environment(kKeys);
  const auto store = Opened("s3://bucket/");
  EXPECT_TRUE(store->Learn({301, {{"x-amz-bucket-region", "eu-west-1"}}, ""}));
  EXPECT_EQ(Prepared(store.get(), "k").url, "https://bucket.s3.eu-west-1.amazonaws.com/k");
  EXPECT_TRUE(store->Learn({301, {{"x-amz-bucket-region", "eu-west-1"}}, ""})) << "a late answer";
  EXPECT_TRUE(
      store->Learn(Error(400, "AuthorizationHeaderMalformed", "<Region>us-west-2</Region>")));
  EXPECT_NE(Header(Prepared(store.get(), "k"), "Authorization").find("/us-west-2/"),
            std::string::npos);
  EXPECT_FALSE(store->Learn({403, {{"x-amz-bucket-region", "us-west-2"}}, ""})) << "it is there";
  EXPECT_FALSE(store->Learn({403, {{"x-amz-bucket-region", "evil.com/"}}, ""}));
  EXPECT_FALSE(store->Learn({404, {{"x-amz-bucket-region", "eu-west-1"}}, ""}));
  int moves = 0;
  while (moves < 100 &&
         store->Learn({301, {{"x-amz-bucket-region", moves % 2 != 0 ? "a" : "b"}}, ""})) {
    ++moves;
  }
  EXPECT_EQ(moves, 2) << "two servers that send to each other";
}

TEST(S3StoreTest, AsksAnewForCredentialsThatHaveExpired) {
  StoreEnvironment environment;
  environment.Write(
      ".aws/credentials",
      "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T1\n");
  const auto store = Opened("s3://bucket/");
  EXPECT_EQ(Header(Prepared(store.get(), "k"), "X-Amz-Security-Token"), "T1");
  environment.Write(
      ".aws/credentials",
      "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T2\n");
  EXPECT_FALSE(store->Learn(Error(403, "AccessDenied")));
  EXPECT_TRUE(store->Learn(Error(400, "ExpiredToken")));
  EXPECT_EQ(Header(Prepared(store.get(), "k"), "X-Amz-Security-Token"), "T2");
}

TEST(S3StoreTest, ExplainsWhatToDo) {
  const StoreEnvironment environment(kAnonymous);
  const auto store = Opened("s3://bucket/");
  const auto explained = [&](const HttpResponse& response) {
    return store->Explain(response).ToString();
  };
  EXPECT_EQ(
      explained(Error(404, "NoSuchBucket")),
      "not_found: S3 answers 404 NoSuchBucket (No.): check the bucket's name and the endpoint");
  EXPECT_NE(explained(Error(403, "RequestTimeTooSkewed")).find("clock"), std::string::npos);
  EXPECT_NE(
      explained(Error(403, "AccessDenied")).find("permission_denied: S3 answers 403 AccessDenied"),
      std::string::npos);
  EXPECT_NE(explained({301, {{"x-amz-bucket-region", "eu-west-1"}}, ""})
                .find("AWS_REGION to it, eu-west-1"),
            std::string::npos);
  EXPECT_NE(
      explained({412, {}, ""}).find("invalid_argument: S3 answers 412: the object has changed"),
      std::string::npos);
  EXPECT_EQ(explained({503, {}, "<html>"}), "io_error: S3 answers 503");
  EXPECT_LT(explained(Error(500, std::string(5000, 'x') + "\n\x01")).size(), 500U);
}

TEST(GoogleStoreTest, IsAskedWithATokenOrKeys) {
  StoreEnvironment environment;
  EXPECT_EQ(Header(Prepared(Opened("gs://b/").get(), "k"), "Authorization"), "");
  environment.Set("GOOGLE_OAUTH_ACCESS_TOKEN", "SECRET\n");
  HttpRequest request = Prepared(Opened("gs://b/").get(), "a b");
  EXPECT_EQ(request.url, "https://storage.googleapis.com/b/a%20b");
  EXPECT_EQ(Header(request, "Authorization"), "Bearer SECRET");
  environment.Set("GS_ACCESS_KEY_ID", "GOOG1");
  EXPECT_NE(Failure("gs://b/").find("only one of"), std::string::npos);
  environment.Set("GS_SECRET_ACCESS_KEY", "SECRET");
  environment.Set("STORAGE_EMULATOR_HOST", "localhost:4443");
  request = Prepared(Opened("gs://b/").get(), "k");
  EXPECT_EQ(request.url, "http://localhost:4443/b/k");
  EXPECT_NE(Header(request, "Authorization").find("/auto/s3/aws4_request"), std::string::npos);
  environment.Set("GOOGLE_OAUTH_ACCESS_TOKEN", "SECRET\nX: y");
  EXPECT_EQ(Failure("gs://b/"),
            "GOOGLE_OAUTH_ACCESS_TOKEN is no line of printable characters: set it again");
}

TEST(GoogleStoreTest, IsWrittenAsS3ButForItsOwnHeaders) {
  StoreEnvironment environment({{"GOOGLE_OAUTH_ACCESS_TOKEN", "SECRET"}});
  ObjectWrite write{"a b", "m", false, "u/", {"\"1\""}};
  HttpRequest request;
  ASSERT_TRUE(Opened("gs://b/")->PrepareWrite(WriteStep::kPart, write, "12", &request).ok());
  EXPECT_EQ(request.method + " " + request.url,
            "PUT https://storage.googleapis.com/b/a%20b?partNumber=2&uploadId=u%2F");
  EXPECT_EQ(Header(request, "Content-MD5"), "wgrU12/pd1mqJ6DJm/9nEA==");
  write.upload.clear();
  request = {};
  ASSERT_TRUE(Opened("gs://b/")->PrepareWrite(WriteStep::kWhole, write, "12", &request).ok());
  EXPECT_EQ(Header(request, "x-goog-meta-ringfeedmark"), "m");
  EXPECT_EQ(Header(request, "If-None-Match"), "") << "it is for reads alone";
}

TEST(AzureStoreTest, IsAskedWithASignatureOrAToken) {
  StoreEnvironment environment({{"AZURE_STORAGE_ACCESS_TOKEN", "T"}});
  HttpRequest request = Prepared(Opened("az://acc/box/x").get(), "a+b/c");
  EXPECT_EQ(request.url, "https://acc.blob.core.windows.net/box/a%2Bb/c");
  EXPECT_EQ(Header(request, "Authorization"), "Bearer T");
  EXPECT_EQ(Header(request, "x-ms-version"), "2021-08-06");
  environment.Set("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=a%2B");
  environment.Set("AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000/dev");
  request = Listing(Opened("az://box/").get(), "p", "m/");
  EXPECT_EQ(request.url,
            "http://127.0.0.1:10000/dev/box?comp=list&marker=m%2F&prefix=p&restype=container&sv=1&"
            "sig=a%2B");
  EXPECT_EQ(Header(request, "Authorization"), "");
  const Status status =
      Opened("az://box/")->Explain({404, {{"x-ms-error-code", "ContainerNotFound"}}, ""});
  EXPECT_EQ(
      status.ToString(),
      "not_found: Azure answers 404 ContainerNotFound: check the container's name and the account");
}

TEST(HuggingFaceStoreTest, ResolvesAndListsARevision) {
  StoreEnvironment environment;
  environment.Write(".cache/huggingface/token", "SECRET\n");
  auto store = Opened("hf://datasets/org/name@refs/pr/1/x");
  HttpRequest request = Prepared(store.get(), "d/a b");
  EXPECT_EQ(request.url, "https://huggingface.co/datasets/org/name/resolve/refs%2Fpr%2F1/d/a%20b");
  EXPECT_EQ(Header(request, "Authorization"), "Bearer SECRET");
  EXPECT_TRUE(request.follow);
  const std::string tree = "https://huggingface.co/api/datasets/org/name/tree/refs%2Fpr%2F1";
  EXPECT_EQ(Listing(store.get(), "top").url, tree + "?recursive=true");
  EXPECT_EQ(Listing(store.get(), "d/e/a-").url, tree + "/d/e?recursive=true");
  EXPECT_EQ(Listing(store.get(), "d", tree + "?cursor=1").url, tree + "?cursor=1");
  EXPECT_EQ(store->PrepareListing("d", "https://evil.com/", &request).code(), StatusCode::kDamaged);
  environment.Set("HF_ENDPOINT", "http://127.0.0.1:1");
  environment.Set("HF_TOKEN", "T");
  request = Prepared(Opened("hf://org/name/x").get(), "x");
  EXPECT_EQ(request.url, "http://127.0.0.1:1/org/name/resolve/main/x");
  EXPECT_EQ(Header(request, "Authorization"), "Bearer T");
}

TEST(HttpStoreTest, SendsAnAddressAsItIs) {
  const auto store = Opened("https://host:8/a?sig=%2B");
  HttpRequest request = Prepared(store.get(), "d/a b\xc3\xa4%20\n?sig=%2B", {{"x", "/"}});
  EXPECT_EQ(request.url, "https://host:8/d/a%20b%C3%A4%20%0A?sig=%2B&x=%2F");
  EXPECT_TRUE(request.follow);
  EXPECT_EQ(store->PrepareListing("", "", &request).code(), StatusCode::kUnsupported);
  EXPECT_EQ(store->Explain({410, {}, ""}).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringfeed
