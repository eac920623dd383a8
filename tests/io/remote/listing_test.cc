#include "io/remote/listing.h"

#include <gtest/gtest.h>

#include <string>

#include "io/remote/xml.h"

namespace ringfeed {
namespace {

/// "KEY BYTES ETAG" of each object, with '|' between, and the next page behind '>'.
std::string Shown(const Status& status, const ListingPage& page) {
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kDamaged);
    return status.message();
  }
  std::string text;
  for (const ListedObject& object : page.objects) {
    text += object.key + " " + std::to_string(object.bytes) + " " + object.etag + "|";
  }
  return text + ">" + page.next;
}
std::string OfS3(const std::string& inner) {
  ListingPage page;
  const Status status = ReadS3Listing(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
          inner + "</ListBucketResult>",
      &page);
  return Shown(status, page);
}
std::string OfAzure(const std::string& blobs) {
  ListingPage page;
  const Status status = ReadAzureListing(
      "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults "
      "ServiceEndpoint=\"https://a/\" ContainerName=\"c\"><Blobs>" +
          blobs + "</Blobs><NextMarker>m!1</NextMarker></EnumerationResults>",
      &page);
  return Shown(status, page);
}
std::string OfHub(const std::string& body, const std::string& link = "") {
  ListingPage page;
  const Status status = ReadHuggingFaceListing({200, {{"link", link}}, body}, &page);
  return Shown(status, page);
}

TEST(ListingTest, OfS3IsDecodedIfItSaysSo) {
  const std::string object =
      "<Contents><Key>a+b%2B%C3%A4&amp;</Key><LastModified>x</LastModified><ETag>&quot;1-2&quot;"
      "</ETag><Size>7</Size><Owner><ID>Key</ID></Owner></Contents>";
  EXPECT_EQ(OfS3(object), "a+b%2B%C3%A4& 7 \"1-2\"|>");
  EXPECT_EQ(OfS3(object + "<EncodingType>url</EncodingType>"), "a b+\xc3\xa4& 7 \"1-2\"|>");
  EXPECT_EQ(OfS3(""), ">");
}

TEST(ListingTest, OfS3GoesOnWhereItSays) {
  EXPECT_EQ(
      OfS3("<IsTruncated>true</IsTruncated><NextContinuationToken>t/=</NextContinuationToken>"),
      ">t/=");
  EXPECT_EQ(
      OfS3("<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
      ">");
  EXPECT_EQ(OfS3("<IsTruncated>true</IsTruncated>"), "the listing goes on and does not say where");
}

TEST(ListingTest, ThatIsNoneIsDamaged) {
  EXPECT_NE(OfS3("<Contents><Size>1</Size></Contents>").find("without a name"), std::string::npos);
  for (const char* const size : {"", "-1", "1x", "9223372036854775808", "99999999999999999999"}) {
    EXPECT_NE(OfS3(std::string("<Contents><Key>k</Key><Size>") + size + "</Size></Contents>")
                  .find("without a size"),
              std::string::npos)
        << size;
  }
  EXPECT_NE(OfS3("<Contents>").find("mismatched tag"), std::string::npos);
  ListingPage page;
  EXPECT_FALSE(ReadS3Listing("<html/>", &page).ok());
  EXPECT_FALSE(ReadS3Listing("", &page).ok());
  EXPECT_FALSE(ReadAzureListing("<ListBucketResult/>", &page).ok());
  std::string many;
  for (int n = 0; n <= 10'000; ++n) many += "<Contents><Key>k</Key><Size>1</Size></Contents>";
  EXPECT_NE(OfS3(many).find("10,000"), std::string::npos);
}

TEST(ListingTest, OfAzureHasQuotesAroundItsETags) {
  EXPECT_EQ(OfAzure("<Blob><Name>a&amp;b</Name><Properties><Etag>0x8D</Etag><Content-Length>5"
                    "</Content-Length><ResourceType>file</ResourceType></Properties></Blob>"
                    "<Blob><Name>dir</Name><Properties><Content-Length>0</Content-Length>"
                    "<ResourceType>directory</ResourceType></Properties></Blob>"
                    "<Blob><Name Encoded=\"true\">%EF%BF%BE</Name><Properties><Etag>\"q\"</Etag>"
                    "<Content-Length>0</Content-Length></Properties></Blob>"
                    "<BlobPrefix><Name>p/</Name></BlobPrefix>"),
            "a&b 5 \"0x8D\"|\xef\xbf\xbe 0 \"q\"|>m!1");
}

TEST(ListingTest, OfHuggingFaceGoesOnByItsHeader) {
  const std::string tree =
      R"([{"type":"directory","oid":"1","size":0,"path":"data"},{"type":"file","oid":"2","size":9,)"
      R"("path":"data/a","lfs":{"oid":"3","size":9,"pointerSize":130}}])";
  EXPECT_EQ(OfHub(tree), "data/a 9 |>");
  EXPECT_EQ(OfHub(tree, "<https://h/p>; rel=\"prev\", <https://h/n?a,b>; rel=\"next\""),
            "data/a 9 |>https://h/n?a,b");
  EXPECT_EQ(OfHub("[]", "<https://h"), ">");
  for (const char* const text : {"", "{}", "[1]", R"([{"type":"file","path":"a"}])",
                                 R"([{"type":"file","path":"a","size":-1}])", "[[[[[[[[[[[]"}) {
    EXPECT_NE(OfHub(text).find("none of Hugging Face's"), std::string::npos) << text;
  }
}

TEST(XmlTest, HasLimits) {
  const auto read = [](const std::string& text) {
    return ReadXml(text, [](const XmlElement&) { return Status(); }).message();
  };
  EXPECT_EQ(read("<a><b>1</b></a>"), "");
  EXPECT_NE(read("<!DOCTYPE a [<!ENTITY x \"xx\">]><a>&x;</a>").find("declares"),
            std::string::npos);
  EXPECT_NE(read("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>").find("declares"),
            std::string::npos);
  std::string deep;
  for (int n = 0; n < 17; ++n) deep += "<a>";
  EXPECT_NE(read(deep).find("nested"), std::string::npos);
  EXPECT_NE(read("<a>" + std::string(16'385, 'x') + "</a>").find("too long"), std::string::npos);
  EXPECT_NE(read("<" + std::string(300, 'x') + "/>").find("too long"), std::string::npos);
  EXPECT_NE(read(std::string((32 << 20) + 1, ' ')).find("32 MiB"), std::string::npos);
}

TEST(XmlTest, TellsWhatAStoreSaysOfAFailure) {
  const StoreError error = ReadStoreError(
      "<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message><Region>eu-west-1"
      "</Region><RequestId>1</RequestId></Error>");
  EXPECT_EQ(error.code + error.message + error.region, "AuthorizationHeaderMalformednoeu-west-1");
  EXPECT_EQ(ReadStoreError("<ErrorResponse xmlns=\"x\"><Error><Code>IDPExpired</Code></Error>"
                           "</ErrorResponse>")
                .code,
            "IDPExpired");
  EXPECT_EQ(ReadStoreError("<Error><Code>Cut").code, "");
}

}  // namespace
}  // namespace ringfeed
