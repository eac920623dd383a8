#include "io/remote/signing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>

#include "io/remote/credentials.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

const Credentials kKeys = {
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", {}};
const SystemTime kDay = std::chrono::system_clock::from_time_t(1369353600);  // 2013-05-24

std::string HeaderOf(const HttpRequest& request, const std::string& name) {
  for (const auto& [its_name, value] : request.headers) {
    if (its_name == name) return value;
  }
  return "none";
}

/// The signature for the requests of Amazon's examples.
std::string SignatureOf(HttpRequest request) {
  RequestSigner signer("s3");
  signer.Sign(kKeys, "us-east-1", kDay, &request);
  const std::string value = HeaderOf(request, "Authorization");
  return value.substr(value.rfind('=') + 1);
}

// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk",
// Amazon S3 API reference.
TEST(RequestSignerTest, SignsAmazonsExamples) {
  const std::string host = "http://examplebucket.s3.amazonaws.com/";
  EXPECT_EQ(SignatureOf({"GET", host + "test.txt", {{"Range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(SignatureOf({"PUT",
                         host + EncodedText("test$file.text"),
                         {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                          {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                         "Welcome to Amazon S3."}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(SignatureOf({"GET", host + "?" + EncodedQuery({{"lifecycle", ""}})}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(SignatureOf({"GET", host + "?" + EncodedQuery({{"prefix", "J"}, {"max-keys", "2"}})}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// Of AWS's test suite for Signature Version 4: get-vanilla, post-vanilla.
TEST(RequestSignerTest, SignsAsTheTestSuiteOfVersion4) {
  RequestSigner signer("service");
  const Credentials keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "", {}};
  const std::string stamp = "20150830T123600Z";
  HttpRequest request = {"GET", "https://example.amazonaws.com/", {{"X-Amz-Date", stamp}}};
  EXPECT_EQ(signer.Authorization(keys, "us-east-1", stamp, Sha256Hex(""), request),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"
            "SignedHeaders=host;x-amz-date,Signature="
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  request.method = "POST";
  EXPECT_TRUE(signer.Authorization(keys, "us-east-1", stamp, Sha256Hex(""), request)
                  .ends_with("5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"));
}

TEST(RequestSignerTest, SignsAnewOverWhatItSignedBefore) {
  RequestSigner signer("s3");
  HttpRequest request = {"GET", "https://b.s3.us-east-1.amazonaws.com/k"};
  signer.Sign(kKeys, "us-east-1", kDay, &request);
  const HttpHeaders first = request.headers;
  // Another day, region and token change the kept key and all that depends on it.
  Credentials other = kKeys;
  other.session_token = "token";
  signer.Sign(other, "eu-west-1", kDay + std::chrono::hours(24), &request);
  EXPECT_EQ(HeaderOf(request, "X-Amz-Security-Token"), "token");
  EXPECT_EQ(request.headers.size(), first.size() + 1);
  HttpRequest again = {"GET", "https://b.s3.us-east-1.amazonaws.com/k"};
  signer.Sign(kKeys, "us-east-1", kDay, &again);
  EXPECT_EQ(again.headers, first);
}

TEST(RequestSignerTest, SignsTheHostWithoutThePortThatIsMeantAnyhow) {
  EXPECT_EQ(SignatureOf({"GET", "http://h:80/k"}), SignatureOf({"GET", "http://h/k"}));
  EXPECT_EQ(SignatureOf({"GET", "https://h:443/k"}), SignatureOf({"GET", "https://h/k"}));
  EXPECT_NE(SignatureOf({"GET", "https://h:80/k"}), SignatureOf({"GET", "https://h/k"}));
}

TEST(RequestSignerTest, LeavesABodyToTls) {
  RequestSigner signer("s3");
  HttpRequest request = {"PUT", "https://h/k", {}, "body"};
  signer.Sign(kKeys, "us-east-1", kDay, &request);
  EXPECT_EQ(HeaderOf(request, "X-Amz-Content-Sha256"), "UNSIGNED-PAYLOAD");
  request.url = "http://h/k";
  signer.Sign(kKeys, "us-east-1", kDay, &request);
  EXPECT_EQ(HeaderOf(request, "X-Amz-Content-Sha256"), Sha256Hex("body"));
}

TEST(UrlTest, IsEncodedStrictlyAndDecoded) {
  EXPECT_EQ(EncodedText("a b+c=d&e~._-/\xc3\xa4"), "a%20b%2Bc%3Dd%26e~._-%2F%C3%A4");
  EXPECT_EQ(EncodedText("//a/./..", false), "//a/./..");
  EXPECT_EQ(EncodedQuery({{"b", "2"}, {"a-b", ""}, {"a", "/"}, {"a", "+"}}),
            "a=%2B&a=%2F&a-b=&b=2");
  EXPECT_EQ(DecodedText("a+b%2Bc%zz%4", true), "a b+c%zz%4");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(DecodedText(EncodedText(all)), all);
}

}  // namespace
}  // namespace ringfeed
