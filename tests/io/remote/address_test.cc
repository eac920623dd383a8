#include "io/remote/address.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/io/remote/environment.h"

namespace ringfeed {
namespace {

/// "BUCKET|KEY", or the failure.
std::string Parsed(const std::string& text) {
  RemoteAddress address;
  const Status status = ParseAddress(text, &address);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  }
  EXPECT_EQ(address.text, text);
  return address.bucket + "|" + address.key;
}

TEST(RemoteAddressTest, IsTakenApartByItsScheme) {
  const StoreEnvironment environment({{"AZURE_STORAGE_ACCOUNT", "acc"}});
  EXPECT_EQ(Parsed("s3://bucket/a b/=+%/../x"), "bucket|a b/=+%/../x");
  EXPECT_EQ(Parsed("S3://bucket/"), "bucket|");
  EXPECT_EQ(Parsed("gs://b.u-c_ket//x"), "b.u-c_ket|/x");
  EXPECT_EQ(Parsed("az://box/a"), "box|a");
  EXPECT_EQ(Parsed("https://host:81/p/a?x=1/2"), "https://host:81|p/a?x=1/2");
  EXPECT_EQ(Parsed("http://[::1]?q"), "http://[::1]|?q");
  EXPECT_EQ(Parsed("hf://datasets/org/name/data/a"), "datasets/org/name@main|data/a");
  EXPECT_EQ(Parsed("hf://org/name@v1/a@b"), "models/org/name@v1|a@b");
  EXPECT_EQ(Parsed("hf://spaces/o/n@refs/convert/parquet/d/a"),
            "spaces/o/n@refs/convert/parquet|d/a");
  EXPECT_EQ(Parsed("hf://o/n@a%2Fb/x"), "models/o/n@a/b|x");
}

TEST(RemoteAddressTest, OfAzureHasTheAccountIfNoneIsSet) {
  const StoreEnvironment environment;
  EXPECT_EQ(Parsed("az://acc/box/a/b"), "acc/box|a/b");
  EXPECT_NE(Parsed("az://box/a").find("AZURE_STORAGE_ACCOUNT"), std::string::npos);
}

TEST(RemoteAddressTest, IsRefusedWithWhatIsMissing) {
  const StoreEnvironment environment;
  EXPECT_NE(Parsed("s3:/bucket/key").find("pathlib"), std::string::npos);
  EXPECT_NE(Parsed("s3:///key").find("names no bucket"), std::string::npos);
  EXPECT_NE(Parsed("s3://evil.com#/key").find("names no bucket"), std::string::npos);
  EXPECT_NE(Parsed("s3://../key").find("names no bucket"), std::string::npos);
  EXPECT_NE(Parsed("gs://bucket").find("names no object"), std::string::npos);
  EXPECT_NE(Parsed("https://host").find("no object"), std::string::npos);
  EXPECT_NE(Parsed("https:///x").find("no host"), std::string::npos);
  EXPECT_NE(Parsed("https://ho\nst/x").find("no name"), std::string::npos);
  EXPECT_NE(Parsed("https://host/x#y").find("%23"), std::string::npos);
  EXPECT_NE(Parsed("hf://datasets/org/name").find("of the form"), std::string::npos);
  EXPECT_NE(Parsed("hf://org/name@refs/x").find("of the form"), std::string::npos);
  EXPECT_NE(Parsed("/a/file").find("begins with none"), std::string::npos);
  EXPECT_LT(Parsed("s3://b/" + std::string(100'000, 'x')).size(), 1000U);
}

TEST(RemoteAddressTest, HidesWhatMayBeSecret) {
  for (const char* const text :
       {"https://me:SECRET@host/x", "s3://KEY:SECRET@bucket/x", "s3:/KEY:SECRET@bucket/x",
        "https://host?sig=SECRET#a",
        // Passwords that are not encoded.
        "https://me:SEC/SECRET@host/x", "https://me:SECRET/@/@host/x",
        "https://me:SECRET?SECRET@host/x", "https://me:a@SECRET/SECRET@host/x",
        "s3://KEY:SECRET#@bucket/x"}) {
    EXPECT_EQ(Parsed(text).find("SECRET"), std::string::npos) << text;
    EXPECT_EQ(ShownAddress(text).find("SECRET"), std::string::npos) << text;
  }
  EXPECT_EQ(ShownAddress("https://host/a?X-Amz-Signature=1"), "https://host/a");
  EXPECT_EQ(ShownAddress("http://host:80/a@b"), "http://host:80/a@b");
  EXPECT_EQ(ShownAddress("http://[::1]:80/a@b"), "http://[::1]:80/a@b");
  EXPECT_EQ(ShownAddress("az://box/a?sv=1&sig=2"), "az://box/a");
  EXPECT_EQ(ShownAddress("s3://bucket/date=1/part-?.rec"), "s3://bucket/date=1/part-?.rec");
  EXPECT_EQ(ShownAddress("plain?a=b"), "plain?a=b");
}

TEST(RemoteAddressTest, IsToldFromAPath) {
  EXPECT_TRUE(IsRemote("s3://b/k"));
  EXPECT_TRUE(IsRemote("s3:/b/k"));
  EXPECT_TRUE(IsRemote("HTTPS://h/k"));
  for (const char* const path :
       {"", "s3", "s3:", "s3:b", "./s3:/b", "/s3://b", "ftp://h/k", "s", "C:/x"}) {
    EXPECT_FALSE(IsRemote(path)) << path;
  }
}

}  // namespace
}  // namespace ringfeed
