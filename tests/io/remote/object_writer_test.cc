#include "io/remote/object_writer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/remote/signing.h"
#include "io/remote/urls.h"
#include "ringfeed/formats.h"
#include "tests/io/remote/environment.h"
#include "tests/remote/fault_proxy.h"

namespace ringfeed {
namespace {

constexpr std::size_t kPart = ObjectWriter::kPartBytes;

/// What S3's and Azure's documents say of writing, and no more, in the place of a server: so tests
/// see its state, and let it fail where they want. The real ones are tested in Python.
class WrittenBucket {
 public:
  using Fault = std::function<ProxyFault(const std::string& what, ProxyFault answer)>;

  explicit WrittenBucket(Fault fault)
      : fault_(std::move(fault)),
        proxy_(1, {.script = [this](const ProxiedRequest& request) { return Meet(request); }}) {
    const std::string url = proxy_.Url("");
    environment_.Set("AWS_ENDPOINT_URL_S3", url);
    environment_.Set("AZURE_STORAGE_BLOB_ENDPOINT", url);
  }

  /// As if the upload had not been completed.
  void Undo() {
    parts = std::exchange(joined_, {});
    objects.clear();
    begun_ = true;
  }

  std::map<std::string, std::string> objects;  // by their paths
  std::map<std::string, std::string> parts;    // of the upload
  std::vector<std::string> log;                // the requests, without what differs each time

 private:
  static std::string Header(const ProxiedRequest& request, const std::string& name) {
    return std::string(HttpResponse{0, request.headers, ""}.Header(name));
  }
  static ProxyFault Say(int status, std::string body = "", HttpHeaders headers = {}) {
    ProxyFault answer;
    answer.status = status;
    answer.body = std::move(body);
    answer.headers = std::move(headers);
    return answer;
  }

  ProxyFault Meet(const ProxiedRequest& request) {
    const std::string whole = "http://x" + request.target;
    const UrlParts url = PartsOf(whole);
    const std::string query(url.query);
    std::string what = request.method;
    for (const char* const step : {"uploads", "partNumber", "uploadId", "blocklist", "blockid"}) {
      if (query.find(step) == std::string::npos) continue;
      what += std::string(" ") + step;
      break;
    }
    log.push_back(what);
    if (request.method == "PUT" && what != "PUT blocklist") {
      EXPECT_EQ(Header(request, "content-md5"), Md5Base64(request.body));
    }
    const bool exists = objects.contains(std::string(url.path));
    if (exists && Header(request, "if-none-match") == "*") return fault_(what, Say(412));
    return fault_(what, Serve(what, query, std::string(url.path), request));
  }

  ProxyFault Serve(const std::string& what, const std::string& query, const std::string& path,
                   const ProxiedRequest& request) {
    const auto missing = [] {
      return Say(404, "<Error><Code>NoSuchUpload</Code><Message>No.</Message></Error>");
    };
    if (what == "HEAD") {
      return objects.contains(path) ? Say(200, "", {{"x-amz-meta-ringfeedmark", mark_}}) : Say(404);
    }
    const std::string azure = Header(request, "x-ms-meta-ringfeedmark");
    const std::string mark = azure + Header(request, "x-amz-meta-ringfeedmark");
    if (!mark.empty()) mark_ = mark;
    if (what == "PUT") return objects[path] = request.body, Say(200);
    if (what == "POST uploads") {
      begun_ = true;
      return Say(200,
                 "<InitiateMultipartUploadResult><UploadId>U+/</UploadId>"
                 "</InitiateMultipartUploadResult>");
    }
    if (what == "PUT blockid") {
      const std::size_t id = query.find("blockid=") + 8;
      parts[query.substr(id, query.find('&', id) - id)] = request.body;
      return Say(201);
    }
    if (what == "PUT blocklist") return Join("Latest", path, request.body), Say(201);
    EXPECT_NE(query.find("uploadId=U%2B%2F"), std::string::npos) << request.target;
    if (!begun_) return missing();
    if (what == "DELETE uploadId") return begun_ = false, parts.clear(), Say(204);
    if (what == "POST uploadId") {
      Join("ETag", path, request.body);
      begun_ = false;
      return Say(200, "\n<CompleteMultipartUploadResult/>");
    }
    const std::string etag = "\"" + std::to_string(parts.size()) + "\"";
    parts[etag] = request.body;
    return Say(200, "", {{"etag", etag}});
  }

  void Join(const std::string& element, const std::string& path, const std::string& list) {
    std::string all;
    const std::string open = "<" + element + ">";
    for (std::size_t at = 0; (at = list.find(open, at)) != std::string::npos;) {
      at += open.size();
      all += parts.at(list.substr(at, list.find('<', at) - at));
    }
    objects[path] = all;
    joined_ = std::exchange(parts, {});
  }

  StoreEnvironment environment_{{{"AWS_ACCESS_KEY_ID", "AK"}, {"AWS_SECRET_ACCESS_KEY", "SECRET"}}};
  Fault fault_;
  bool begun_ = false;
  std::map<std::string, std::string> joined_;
  std::string mark_;
  FaultProxy proxy_;
};

ProxyFault NoFault(const std::string& /*what*/, ProxyFault answer) { return answer; }

std::string Data(std::size_t bytes) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + (i >> 12));
  return data;
}

Status Written(const std::string& address, const std::string& data,
               const ObjectWriterOptions& options = {true, 20'000}) {
  std::unique_ptr<ObjectWriter> writer;
  Status status = ObjectWriter::Open(address, options, &writer);
  for (std::size_t at = 0; status.ok() && at < data.size(); at += 1'000'000) {
    status = writer->Append(std::as_bytes(
        std::span(data).subspan(at, std::min<std::size_t>(1'000'000, data.size() - at))));
  }
  if (!status.ok()) return status;
  status = writer->Finish();
  const Status again = writer->Append({});
  EXPECT_EQ(again.ToString(), status.ToString());
  return status;
}

using Log = std::vector<std::string>;
const std::string kObject = "/bucket/a%20%3D";
constexpr char kAddress[] = "s3://bucket/a =";

TEST(ObjectWriterTest, SmallObjectsGoByOneRequestAndLargeOnesInParts) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, kPart}) {
    WrittenBucket bucket(NoFault);
    EXPECT_TRUE(Written(kAddress, Data(bytes)).ok());
    EXPECT_TRUE(bucket.objects[kObject] == Data(bytes));
    EXPECT_EQ(bucket.log, Log({"PUT"}));
  }
  WrittenBucket bucket(NoFault);
  EXPECT_TRUE(Written(kAddress, Data(kPart + 1)).ok());
  EXPECT_TRUE(bucket.objects[kObject] == Data(kPart + 1));
  EXPECT_EQ(bucket.log, Log({"POST uploads", "PUT partNumber", "PUT partNumber", "POST uploadId"}));
}

TEST(ObjectWriterTest, NothingIsVisibleBeforeTheEndNorLeftWithoutOne) {
  WrittenBucket bucket(NoFault);
  {
    std::unique_ptr<ObjectWriter> writer;
    ASSERT_TRUE(ObjectWriter::Open(kAddress, {}, &writer).ok());
    const std::string data = Data(2 * kPart + 1);
    ASSERT_TRUE(writer->Append(std::as_bytes(std::span(data))).ok());
    EXPECT_EQ(bucket.parts.size(), 2U);
    const pid_t child = fork();
    if (child == 0) {
      const bool refused = !writer->Finish().ok();
      writer.reset();
      _exit(refused ? 7 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(bucket.parts.size(), 2U) << "a child of fork drops nothing";
  }
  EXPECT_EQ(bucket.log.back(), "DELETE uploadId");
  EXPECT_TRUE(bucket.objects.empty() && bucket.parts.empty());
}

TEST(ObjectWriterTest, EachRequestIsSentAgainAfterAFailureThatPasses) {
  std::map<std::string, int> seen;
  WrittenBucket bucket([&](const std::string& what, ProxyFault answer) {
    if (seen[what]++ % 2 == 0) answer.cut_head = 0;  // the store did it, and its answer is lost
    return answer;
  });
  EXPECT_EQ(Written(kAddress, Data(kPart + 1), {false, 20'000}).ToString(), "ok");
  EXPECT_TRUE(bucket.objects[kObject] == Data(kPart + 1));
  const Status there = Written(kAddress, "x", {false, 20'000});
  EXPECT_EQ(there.code(), StatusCode::kInvalidArgument) << there.ToString();
  bucket.objects.clear();
  EXPECT_EQ(Written(kAddress, "small", {false, 20'000}).ToString(), "ok");
  EXPECT_EQ(bucket.objects[kObject], "small");
}

TEST(ObjectWriterTest, AFailureThatStaysIsToldAndDropsTheParts) {
  for (const std::string failing : {"POST uploads", "PUT partNumber"}) {
    WrittenBucket bucket([&](const std::string& what, ProxyFault answer) {
      if (what != failing) return answer;
      if (what == "PUT partNumber") {
        answer.status = 403;
        answer.body = "<Error><Code>AccessDenied</Code></Error>";
      } else {
        answer.status = 503;
      }
      return answer;
    });
    const Status status = Written(kAddress, Data(2 * kPart), {true, 300});
    EXPECT_EQ(status.place().file, kAddress);
    EXPECT_EQ(status.code(), failing == "PUT partNumber" ? StatusCode::kPermissionDenied
                                                         : StatusCode::kResourceExhausted)
        << status.ToString();
    EXPECT_EQ(bucket.log.back() == "DELETE uploadId", failing == "PUT partNumber");
    EXPECT_TRUE(bucket.objects.empty() && bucket.parts.empty());
  }
}

TEST(ObjectWriterTest, AGoodAnswerThatTellsOfAFailureIsOne) {
  for (const int failures : {1, 1'000'000}) {
    int left = failures;
    const std::string error = "\n <Error><Code>InternalError</Code></Error>";
    WrittenBucket* its = nullptr;
    WrittenBucket bucket([&](const std::string& what, ProxyFault answer) {
      if (what != "POST uploadId" || left == 0) return answer;
      --left;
      its->Undo();
      answer.body = error;
      return answer;
    });
    its = &bucket;
    const Status status = Written(kAddress, Data(kPart + 1), {true, 300});
    EXPECT_EQ(status.ok(), failures == 1) << status.ToString();
    EXPECT_EQ(bucket.objects.size(), failures == 1 ? 1U : 0U);
    if (failures == 1) continue;
    EXPECT_NE(status.message().find("200 InternalError"), std::string::npos) << status.ToString();
    EXPECT_EQ(bucket.log.back(), "DELETE uploadId");
  }
}

TEST(ObjectWriterTest, WhatIsThereStaysUnlessItIsToBeReplaced) {
  WrittenBucket bucket(NoFault);
  bucket.objects[kObject] = "before";
  const Status status = Written(kAddress, "new", {false, 1000});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("already"), std::string::npos);
  EXPECT_EQ(bucket.log, Log({"HEAD"}));
  EXPECT_TRUE(Written(kAddress, "new").ok());
  EXPECT_EQ(bucket.objects[kObject], "new");
  bucket.objects.clear();
  std::unique_ptr<ObjectWriter> writer;
  ASSERT_TRUE(ObjectWriter::Open(kAddress, {false, 1000}, &writer).ok());
  bucket.objects[kObject] = "another's";
  EXPECT_NE(writer->Finish().message().find("already"), std::string::npos);
  EXPECT_EQ(bucket.objects[kObject], "another's");
}

TEST(ObjectWriterTest, AzureGetsBlocksAndTheirList) {
  WrittenBucket bucket(NoFault);
  EXPECT_TRUE(Written("az://bucket/a =", Data(2 * kPart + 3), {false, 1000}).ok());
  EXPECT_TRUE(bucket.objects[kObject] == Data(2 * kPart + 3));
  EXPECT_EQ(bucket.log,
            Log({"HEAD", "PUT blockid", "PUT blockid", "PUT blockid", "PUT blocklist"}));
  EXPECT_TRUE(Written("az://bucket/a =", "small").ok());
  EXPECT_EQ(bucket.objects[kObject], "small");
  EXPECT_EQ(Written("az://bucket/a =", "new", {false, 1000}).code(), StatusCode::kInvalidArgument);
}

TEST(ObjectWriterTest, WhatCannotBeWrittenIsRefusedAtOnce) {
  WrittenBucket bucket(NoFault);
  for (const char* const address : {"https://127.0.0.1:1/x", "hf://datasets/o/n/x"}) {
    EXPECT_EQ(Written(address, "x").code(), StatusCode::kUnsupported) << address;
  }
  EXPECT_EQ(Written("s3://bucket/folder/", "x").code(), StatusCode::kInvalidArgument);
  const RecordWriterResult npy = OpenRecordWriter("s3://bucket/a.npy", "npy:f4[2]");
  EXPECT_EQ(npy.status.code(), StatusCode::kUnsupported) << npy.status.ToString();
  EXPECT_TRUE(bucket.log.empty());
}

TEST(ObjectWriterTest, TenThousandPartsMakeUpTheLargestObject) {
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  int parts = 0;
  for (; bytes < std::uint64_t{5} << 40; ++parts) {
    largest = ObjectWriter::PartBytesAfter(bytes);
    bytes += largest;
  }
  EXPECT_LE(parts, 10'000);
  EXPECT_LE(largest, std::uint64_t{5} << 30) << "S3's largest part";
}

}  // namespace
}  // namespace ringfeed
