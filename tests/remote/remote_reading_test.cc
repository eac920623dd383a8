// Remote files are read as local ones, whatever happens between the client and the server: the same
// records, or a failure that says what it was, within its patience.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/remote/failure_budget.h"
#include "io/remote/remote_source.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/formats/examined_file.h"
#include "readers/index/manifest_writer.h"
#include "readers/index/open_index.h"
#include "ringfeed/ringfeed.h"
#include "tests/remote/remote_fixture.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// What writing to a file of a cache waits for; null: nothing.
std::atomic<std::latch*> piece_disk{nullptr};

}  // namespace
}  // namespace ringfeed

// It goes before the C library's.
extern "C" __attribute__((visibility("default"))) ssize_t pwrite(int file, const void* from,
                                                                 size_t bytes, off_t at) {
  static auto* const real = reinterpret_cast<decltype(&pwrite)>(dlsym(RTLD_NEXT, "pwrite"));
  std::latch* const disk = ringfeed::piece_disk;
  if (disk != nullptr && bytes > 1000) disk->wait();  // not the count of all bytes
  return real(file, from, bytes, at);
}

namespace ringfeed {
namespace {

using Ending = ProxyFault::Ending;

TEST_F(RemoteTest, FilesOfAServerHaveTheRecordsOfLocalOnes) {
  const std::vector<std::string> files = MakeFiles(3, 60, 8'000, 30'000);
  Between(ProxyOptions{});
  const RemoteOutcome local = Read(files, RemoteOptions());
  const RemoteOutcome remote = Read(Urls(files), RemoteOptions());
  EXPECT_EQ(remote.drained.end, ReadResult::kEnd) << remote.drained.status.ToString();
  EXPECT_EQ(remote.drained.ids.size(), 180U);
  EXPECT_EQ(remote.drained, local.drained);
  // Nothing is read twice.
  std::uint64_t bytes = 0;
  for (const std::string& file : files) bytes += std::filesystem::file_size(file);
  EXPECT_GE(proxy_->counts().body_bytes, bytes);
  EXPECT_LE(proxy_->counts().body_bytes, bytes + bytes / 10 + 300'000);
}

TEST_F(RemoteTest, ASmallAndAnEmptyFileAreReadAsLocalOnes) {
  std::vector<std::string> files = MakeFiles(1, 1, 8, 8);
  files.push_back(MakeFile({}));
  files.push_back(MakeFiles(1, 3, 20, 100)[0]);
  Between(ProxyOptions{});
  const RemoteOutcome local = Read(files, RemoteOptions());
  const RemoteOutcome remote = Read(Urls(files), RemoteOptions());
  EXPECT_EQ(remote.drained, local.drained) << remote.drained.status.ToString();
  EXPECT_EQ(remote.drained.ids, Numbers(4));
}

TEST_F(RemoteTest, TlsIsVerified) {
  const std::vector<std::string> files = MakeFiles(2, 60, 1'000, 30'000);
  const NginxServer tls(directory_.path(), {.tls = true});
  std::vector<std::string> urls;
  for (const std::string& file : files) urls.push_back(tls.Url(NameOf(file)));
  const RemoteOutcome refused = Read(urls, RemoteOptions(1'000));
  EXPECT_EQ(refused.drained.end, ReadResult::kFailed);
  EXPECT_EQ(refused.drained.status.code(), StatusCode::kPermissionDenied)
      << refused.drained.status.ToString();
  ASSERT_EQ(setenv("CURL_CA_BUNDLE", tls.ca().c_str(), 1), 0);
  const RemoteOutcome taken = Read(urls, RemoteOptions());
  (void)unsetenv("CURL_CA_BUNDLE");
  EXPECT_EQ(taken.drained.end, ReadResult::kEnd) << taken.drained.status.ToString();
  EXPECT_EQ(taken.drained, Read(files, RemoteOptions()).drained);
}

// Faults that pass: every record comes, as from local files.
struct PassingCase {
  const char* name;
  std::function<ProxyScript()> script;
  ProxyOptions options{};
};

class PassingFaultTest : public RemoteTest, public testing::WithParamInterface<PassingCase> {};

TEST_P(PassingFaultTest, EveryRecordComes) {
  const std::vector<std::string> files = MakeFiles(3, 40, 8'000, 30'000);
  ProxyOptions proxy = GetParam().options;
  if (GetParam().script) proxy.script = GetParam().script();
  Between(proxy);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions options = RemoteOptions();
    options.on_damage = on_damage;
    if (GetParam().script) proxy_->SetScript(GetParam().script());
    const RemoteOutcome remote = Read(Urls(files), options);
    EXPECT_EQ(remote.drained.end, ReadResult::kEnd) << remote.drained.status.ToString();
    EXPECT_EQ(remote.drained, Read(files, options).drained);
    EXPECT_EQ(remote.stats.damaged_records, 0U);
    EXPECT_LE(remote.stats.arena_peak_bytes, kArenaBytes);
  }
  EXPECT_EQ(proxy_->counts().faults > 0, static_cast<bool>(GetParam().script));
}

PassingCase Once(const char* name, const ProxyFault& fault) {
  return {name, [fault] { return OnceForEachRange(fault); }};
}
PassingCase Ever(const char* name, const ProxyFault& fault) {
  return {name, [fault] { return Always(fault); }};
}

INSTANTIATE_TEST_SUITE_P(
    All, PassingFaultTest,
    testing::Values(
        Once("CutInTheHead", {.cut_head = 40}), Once("CutInTheBody", {.cut_body = 1'000}),
        Once("CutBehindTheHead", {.cut_body = 0}), Once("CutBetween", {.cut_head = 0}),
        Once("ResetBetween", {.cut_head = 0, .ending = Ending::kReset}),
        Once("ResetInTheBody", {.cut_body = 70'000, .ending = Ending::kReset}),
        Once("Answer500", {.status = 500, .body = "broken"}),
        Once("Answer503", {.status = 503, .body = "slow down"}),
        PassingCase{"Answer503ForASecond",
                    [] {
                      const ProxyFault later{.status = 503, .headers = {{"retry-after", "1"}}};
                      return FirstRequests(2, later);
                    }},
        Once("Answer429", {.status = 429, .headers = {{"retry-after", "0"}}}),
        Once("OtherRange", {.range_off = 7}), Once("LengthTooShort", {.length_off = -5}),
        Once("LengthTooLong", {.length_off = 5, .close_after = true}),
        Once("BodyTooShort", {.length_off = -5, .body_off = -5}),
        Once("BodyTooLong", {.length_off = 5, .body_off = 5}),
        Once("MoreThanItsLength", {.body_off = 100}), Once("RangeIgnored", {.ignore_range = true}),
        Once("Garbage", {.raw = "SSH-2.0-OpenSSH_9.2\r\n"}),
        Once("EndlessHead", {.endless_head = true}), Once("Late", {.delay_ms = 100}),
        Ever("Chunked", {.chunked = true}), Ever("Trickle", {.trickle_bytes = 8'000}),
        PassingCase{"ClosedAfterEachAnswer", {}, {.close_after = 1}},
        PassingCase{"ClosedAfterThreeAnswers", {}, {.close_after = 3}},
        PassingCase{"ClosedWhenIdle", {}, {.idle_close_ms = 1}},
        PassingCase{"FarAway", {}, {.round_trip_ms = 20, .rate = 50'000'000}}),
    [](const auto& its) { return std::string(its.param.name); });

// Faults that stay: a failure within the patience, with words that tell which, under kSkip too.
struct LastingCase {
  const char* name;
  ProxyFault fault;
  std::vector<StatusCode> codes;
  const char* words = "";
  bool waits = false;       // for as long as the patience
  bool is_refused = false;  // under kSkip as a local file that is not there or may not be read
};

class LastingFaultTest : public RemoteTest, public testing::WithParamInterface<LastingCase> {};

TEST_P(LastingFaultTest, ReadingFailsWithItsReason) {
  constexpr int kPatienceMs = 700;
  const LastingCase& lasting = GetParam();
  const std::vector<std::string> files = MakeFiles(2, 40, 1'000, 30'000);
  Between(Always(lasting.fault));
  rusage before{};
  (void)getrusage(RUSAGE_SELF, &before);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    if (on_damage == OnDamage::kSkip && lasting.is_refused) continue;
    OpenOptions options = RemoteOptions(kPatienceMs);
    options.on_damage = on_damage;
    const auto began = std::chrono::steady_clock::now();
    const RemoteOutcome outcome = Read(Urls(files), options);
    const auto took = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
    const Status& status = outcome.drained.status;
    EXPECT_EQ(std::count(lasting.codes.begin(), lasting.codes.end(), status.code()), 1)
        << status.ToString();
    EXPECT_NE(status.ToString().find(lasting.words), std::string::npos) << status.ToString();
    EXPECT_NE(status.ToString().find(NameOf(files[0]).substr(0, 4)), std::string::npos)
        << "no address: " << status.ToString();
    EXPECT_EQ(outcome.drained.ids, Numbers(outcome.drained.ids.size()));
    EXPECT_EQ(outcome.stats.damaged_records, 0U);
    EXPECT_GE(took, std::chrono::milliseconds(lasting.waits ? kPatienceMs : 0));
  }
  rusage after{};
  (void)getrusage(RUSAGE_SELF, &after);
  const long most_kib = kSanitized ? 4'000'000 : 200'000;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, most_kib);
}

using Code = StatusCode;
INSTANTIATE_TEST_SUITE_P(
    All, LastingFaultTest,
    testing::Values(
        LastingCase{"Answer500", {.status = 500}, {Code::kResourceExhausted}, "500", true},
        LastingCase{"Answer503", {.status = 503}, {Code::kResourceExhausted}, "503", true},
        LastingCase{"Answer503ForAnHour",
                    {.status = 503, .headers = {{"retry-after", "3600"}}},
                    {Code::kResourceExhausted},
                    "503"},
        LastingCase{"Answer401", {.status = 401}, {Code::kPermissionDenied}, "401"},
        LastingCase{"Answer403", {.status = 403}, {Code::kPermissionDenied}, "403"},
        LastingCase{"Answer404", {.status = 404}, {Code::kNotFound}, "404", false, true},
        LastingCase{"Answer410", {.status = 410}, {Code::kNotFound}, "410", false, true},
        LastingCase{"CutBetween", {.cut_head = 0}, {Code::kResourceExhausted}, "", true},
        LastingCase{
            "CutInTheHead", {.cut_head = 40}, {Code::kUnsupported, Code::kResourceExhausted}},
        LastingCase{"CutBehindTheHead", {.cut_body = 0}, {Code::kResourceExhausted}, "", true},
        LastingCase{"OtherRange", {.range_off = 7}, {Code::kUnsupported, Code::kResourceExhausted}},
        LastingCase{"BodyTooShort",
                    {.length_off = -5, .body_off = -5},
                    {Code::kUnsupported, Code::kResourceExhausted}},
        LastingCase{"Garbage",
                    {.raw = "SSH-2.0-OpenSSH_9.2\r\n"},
                    {Code::kUnsupported, Code::kResourceExhausted}},
        LastingCase{
            "EndlessHead", {.endless_head = true}, {Code::kUnsupported, Code::kResourceExhausted}},
        LastingCase{"Silence",
                    {.cut_head = 0, .ending = Ending::kHold},
                    {Code::kResourceExhausted},
                    "",
                    true},
        LastingCase{"SilenceInTheBody",
                    {.cut_body = 0, .ending = Ending::kHold},
                    {Code::kResourceExhausted},
                    "",
                    true}),
    [](const auto& its) { return std::string(its.param.name); });

TEST_F(RemoteTest, RedirectsInACircleAreAFailure) {
  const std::vector<std::string> files = MakeFiles(1, 10, 1'000, 2'000);
  Between(ProxyOptions{});
  const std::string url = Urls(files)[0];
  proxy_->SetScript(Always({.status = 302, .headers = {{"location", url}}}));
  const RemoteOutcome outcome = Read({url}, RemoteOptions(1'000));
  EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
  EXPECT_LE(proxy_->counts().requests, 200U);
}

TEST_F(RemoteTest, ARedirectIsFollowed) {
  const std::vector<std::string> files = MakeFiles(1, 100, 1'000, 2'000);
  Between([](const ProxiedRequest& request) {
    ProxyFault moved{.status = 307, .headers = {{"location", "/" + request.target.substr(5)}}};
    return request.target.starts_with("/old/") ? moved : ProxyFault{};
  });
  const RemoteOutcome outcome = Read({proxy_->Url("old/" + NameOf(files[0]))}, RemoteOptions());
  EXPECT_EQ(outcome.drained.ids, Numbers(100)) << outcome.drained.status.ToString();
}

TEST_F(RemoteTest, AListingThatDoesNotEndIsAFailure) {
  const auto page = [](const std::string& objects, std::size_t next) {
    return "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" +
           std::to_string(next) + "</NextContinuationToken>" + objects + "</ListBucketResult>";
  };
  const std::string object = "<Contents><Key>other</Key><Size>7</Size></Contents>";
  const std::pair<std::size_t, std::string> cases[] = {
      {1, object}, {3, object}, {100, object}, {1'000'000, ""}};
  ASSERT_EQ(setenv("RINGFEED_S3_ANONYMOUS", "1", 1), 0);
  for (const auto& [different, objects] : cases) {
    Between([&page, &its = objects, count = different,
             asked = std::size_t{0}](const ProxiedRequest& /*request*/) mutable {
      return ProxyFault{.status = 200, .body = page(its, ++asked % count)};
    });
    ASSERT_EQ(setenv("AWS_ENDPOINT_URL_S3", proxy_->Url("").c_str(), 1), 0);
    const Status status = Read({"s3://bucket/train-*"}, RemoteOptions()).drained.status;
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.ToString();
    EXPECT_NE(status.message().find("does not end"), std::string::npos) << status.ToString();
    EXPECT_LE(proxy_->counts().requests, 1'000U);
  }
  (void)unsetenv("AWS_ENDPOINT_URL_S3");
  (void)unsetenv("RINGFEED_S3_ANONYMOUS");
}

TEST_F(RemoteTest, AServerWithoutRangesIsReadOrRefusedInWords) {
  const std::vector<std::string> files = MakeFiles(2, 40, 8'000, 30'000);
  Between(Always({.ignore_range = true}));
  const RemoteOutcome remote = Read(Urls(files), RemoteOptions(2'000));
  if (remote.drained.end == ReadResult::kEnd) {
    EXPECT_EQ(remote.drained, Read(files, RemoteOptions()).drained);
  } else {
    EXPECT_NE(remote.drained.status.ToString().find("range"), std::string::npos)
        << remote.drained.status.ToString();
  }
}

TEST_F(RemoteTest, AMissingFileIsSaidToBeMissing) {
  Between(ProxyOptions{});
  const RemoteOutcome outcome = Read({proxy_->Url("nothing.tfrecord")}, RemoteOptions());
  EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
  EXPECT_EQ(outcome.drained.status.code(), StatusCode::kNotFound)
      << outcome.drained.status.ToString();
}

TEST_F(RemoteTest, AFlippedByteIsDamageOfItsRecordAlone) {
  const std::vector<std::size_t> sizes(100, 5'000);
  const std::string file = MakeFile(sizes);
  const std::uint64_t record_bytes = 5'000 + 16;
  Between(Always({.flips = {42 * record_bytes + 100}}));
  const RemoteOutcome failed = Read(Urls({file}), RemoteOptions());
  EXPECT_EQ(failed.drained.end, ReadResult::kFailed);
  EXPECT_EQ(failed.drained.status.code(), StatusCode::kDamaged) << failed.drained.status.ToString();
  EXPECT_EQ(failed.drained.ids, Numbers(42));
  OpenOptions options = RemoteOptions();
  options.on_damage = OnDamage::kSkip;
  const RemoteOutcome skipped = Read(Urls({file}), options);
  std::vector<std::uint64_t> all_but_it = Numbers(100);
  all_but_it.erase(all_but_it.begin() + 42);
  EXPECT_EQ(skipped.drained.end, ReadResult::kEnd) << skipped.drained.status.ToString();
  EXPECT_EQ(skipped.drained.ids, all_but_it);
  EXPECT_EQ(skipped.stats.damaged_records, 1U);
}

TEST_F(RemoteTest, OfAFileThatChangesMeanwhileNoNewByteIsTaken) {
  const std::vector<std::size_t> sizes(300, 100'000);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const std::string file = MakeFile(sizes);
    Between([file, sizes, changed = false](const ProxiedRequest& request) mutable {
      if (changed || !request.range || request.range->first < 10'000'000) return ProxyFault{};
      changed = true;
      WriteTfRecords(file, 5'000, sizes);  // as many bytes, another time
      std::filesystem::last_write_time(
          file, std::filesystem::last_write_time(file) + std::chrono::seconds(7));
      return ProxyFault{};
    });
    OpenOptions options = RemoteOptions();
    options.on_damage = on_damage;
    const RemoteOutcome outcome = Read(Urls({file}), options);
    const std::string words = outcome.drained.status.ToString();
    if (on_damage == OnDamage::kFail) {
      EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
      EXPECT_NE(words.find("changed"), std::string::npos) << words;
    } else {  // as of a local file that was replaced
      EXPECT_EQ(outcome.drained.end, ReadResult::kEnd) << words;
      EXPECT_GT(outcome.stats.damaged_records, 0U);
      ASSERT_FALSE(outcome.stats.damage.empty());
      EXPECT_NE(outcome.stats.damage[0].reason.find("changed"), std::string::npos);
    }
    EXPECT_TRUE(std::all_of(outcome.drained.ids.begin(), outcome.drained.ids.end(),
                            [](std::uint64_t id) { return id < 5'000; }));
  }
}

TEST_F(RemoteTest, AServerThatIsDownIsWaitedForThenAFailureNeverDamage) {
  const std::vector<std::string> files = MakeFiles(2, 40, 8'000, 30'000);
  Between(ProxyOptions{})->GoDown();
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions options = RemoteOptions(500);
    options.on_damage = on_damage;
    const auto began = std::chrono::steady_clock::now();
    const RemoteOutcome outcome = Read(Urls(files), options);
    EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(500));
    EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
    EXPECT_EQ(outcome.drained.status.code(), StatusCode::kResourceExhausted)
        << outcome.drained.status.ToString();
    EXPECT_EQ(outcome.stats.damaged_records, 0U);
  }
}

// Each range brings some bytes and fails: the patience of each begins anew for ever.
TEST_F(RemoteTest, AServerThatFailsMostRequestsEndsTheRunThoughEachRangeGoesOn) {
  const std::vector<std::string> files = MakeFiles(4, 200, 40'000, 60'000);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    Between([](const ProxiedRequest& request) {
      const bool is_first = request.range && request.range->first == 0;  // at the opening
      return is_first ? ProxyFault{} : ProxyFault{.cut_body = 5'000};
    });
    OpenOptions options = RemoteOptions(500);
    options.on_damage = on_damage;
    const RemoteOutcome outcome = Read(Urls(files), options);
    EXPECT_EQ(outcome.drained.end, ReadResult::kFailed);
    const Status& status = outcome.drained.status;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    for (const char* words : {"the store failed ", " requests within ", "the last failure: "}) {
      EXPECT_NE(status.message().find(words), std::string::npos) << status.ToString();
    }
    EXPECT_EQ(outcome.stats.damaged_records, 0U);
  }
}

TEST_F(RemoteTest, AServerThatFailsSomeRequestsIsReadToTheEnd) {
  const std::vector<std::string> files = MakeFiles(4, 200, 4'000, 6'000);
  const RemoteOutcome local = Read(files, RemoteOptions());
  Between(ProxyOptions{.script = RandomFaults(9, 0.3, {{.cut_body = 100}}), .round_trip_ms = 20});
  const Reader reader = MultiPass(OpenFiles(Urls(files), RemoteOptions(100)), 40);
  EXPECT_EQ(Drain(reader).ids.size(), 40 * local.drained.ids.size()) << reader.status().ToString();
  EXPECT_GT(reader.Stats().remote.retries, 2 * FailureBudget::kFree);
}

TEST_F(RemoteTest, AServerThatComesBackIsReadOn) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8'000, 60'000);
  Between(ProxyOptions{.rate = 20'000'000});
  OpenOptions options = RemoteOptions();
  options.on_damage = OnDamage::kSkip;
  const Reader reader = OpenFiles(Urls(files), options);
  Drained drained = Drain(reader, 20);
  proxy_->GoDown();
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    proxy_->ComeBack();
  });
  const Drained rest = Drain(reader);
  EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
  drained.ids.insert(drained.ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(drained.ids, Read(files, options).drained.ids);
  EXPECT_EQ(reader.Stats().damaged_records, 0U);
}

TEST_F(RemoteTest, ObjectsAreOpenedManyAtATime) {
  // They come whole with the answer that tells their size: nothing else is asked for.
  const std::vector<std::string> files = MakeFiles(40, 2, 1'000, 2'000);
  const std::pair<const char*, std::function<void(const Reader&)>> ways[] = {
      {"in file order", [](const Reader& reader) { EXPECT_EQ(Drain(reader).ids, Numbers(80)); }},
      {"by number",
       [](const Reader& reader) {
         EXPECT_EQ(Drain(Shuffle(reader, {.mode = ShuffleMode::kGlobal})).ids.size(), 80U);
       }},
      {"for a position", [](const Reader& reader) { EXPECT_NE(reader.Position(), ""); }},
  };
  for (const auto& [how, read] : ways) {
    Between(ProxyOptions{.round_trip_ms = 30});
    read(OpenFiles(Urls(files), RemoteOptions()));
    EXPECT_GE(proxy_->counts().most_answers, 8U) << how;
  }
}

TEST_F(RemoteTest, OneLaneReadsAsManyStripesAheadAsItHasMemoryFor) {
  // Some records span several stripes.
  const std::vector<std::string> files = MakeFiles(1, 20, 1'000, 300'000);
  const Drained local = Read(files, RemoteOptions()).drained;
  for (const bool has_memory : {true, false}) {
    Between(ProxyOptions{.round_trip_ms = 20});
    OpenOptions options = RemoteOptions();
    options.arena_bytes = std::size_t{has_memory ? 64U : 2U} << 20;
    options.threads = 1;
    const RemoteOutcome remote = Read(Urls(files), options);
    EXPECT_EQ(remote.drained, local) << remote.drained.status.ToString();
    const std::size_t most = proxy_->counts().most_answers;
    EXPECT_TRUE(has_memory ? most >= 6 : most <= 2) << most;
  }
}

TEST_F(RemoteTest, TheLongestStripeOfManyObjectsIsNotAskedFor) {
  const std::vector<std::string> files = MakeFiles(33, 2, 1'000, 2'000);
  for (const std::size_t count : {32U, 33U}) {
    Between(ProxyOptions{.round_trip_ms = 30});
    std::vector<std::string> urls = Urls(files);
    urls.resize(count);
    std::vector<std::shared_ptr<Source>> sources;
    for (const std::string& url : urls) {
      std::shared_ptr<RemoteSource> source;
      ASSERT_TRUE(RemoteSource::Make(url, ReadingOf({}), &source).ok());
      sources.push_back(source);
    }
    FileSchedule schedule(urls, sources, {.stripe_bytes = 1 << 20});
    const bool is_asked = count == 32;
    EXPECT_EQ(schedule.LongestStripe() < 5'000, is_asked);
    EXPECT_EQ(proxy_->counts().requests, is_asked ? count : 0);
    EXPECT_TRUE(!is_asked || proxy_->counts().most_answers >= 8);
  }
}

TEST_F(RemoteTest, CloseEndsAReadThatWaitsForASilentServer) {
  const std::vector<std::string> files = MakeFiles(1, 40, 1'000, 30'000);
  Between([](const ProxiedRequest& request) {
    const bool holds = request.range && request.range->first >= 65'536;  // not at the opening
    return holds ? ProxyFault{.cut_body = 100, .ending = Ending::kHold} : ProxyFault{};
  });
  Reader reader = OpenFiles(Urls(files), RemoteOptions(60'000));
  std::jthread closer([&] {
    while (proxy_->counts().faults == 0) std::this_thread::yield();
    reader.Close();
  });
  const Drained drained = Drain(reader);
  EXPECT_EQ(drained.status.code(), StatusCode::kCancelled) << drained.status.ToString();
}

TEST_F(RemoteTest, CloseEndsAnOpeningThatWaitsForASilentServer) {
  const std::vector<std::string> files = MakeFiles(3, 2, 1'000, 30'000);
  const std::function<Reader(const Reader&)> ways[] = {
      [](const Reader& reader) { return reader; },
      [](const Reader& reader) { return Shuffle(reader, {.mode = ShuffleMode::kGlobal}); }};
  for (const auto& way : ways) {
    for (const bool is_silent : {false, true}) {  // or tells to come back later
      Between([is_silent](const ProxiedRequest& request) {
        const ProxyFault silent{.cut_body = 100, .ending = Ending::kHold};
        const ProxyFault later{.status = 503, .headers = {{"retry-after", "30"}}};
        return !request.target.ends_with("1.tfrecord") ? ProxyFault{} : is_silent ? silent : later;
      });
      Reader reader = way(OpenFiles(Urls(files), RemoteOptions(600'000)));
      std::jthread closer([&] {
        while (proxy_->counts().faults == 0) std::this_thread::yield();
        reader.Close();
      });
      const Drained drained = Drain(reader);
      EXPECT_EQ(drained.status.code(), StatusCode::kCancelled) << drained.status.ToString();
    }
  }
}

TEST_F(RemoteTest, ASecondPassComesFromTheCacheAndIsTheSame) {
  const std::vector<std::string> files = MakeFiles(4, 100, 2'000, 200'000);
  Between(RandomFaults(5, 0.1, {{.cut_head = 0}, {.cut_body = 3'000}, {.status = 503}}));
  const TempDir folder;
  OpenOptions options = RemoteOptions();
  options.cache = folder.path() + "/cache";
  const Drained local = Read(files, RemoteOptions()).drained;
  const RemoteOutcome first = Read(Urls(files), options);
  EXPECT_EQ(first.drained, local);
  const RemoteOutcome second = Read(Urls(files), options);
  EXPECT_EQ(second.drained, local);
  EXPECT_EQ(second.stats.remote.requests, 0U);
  EXPECT_EQ(second.stats.remote.cached_bytes, second.stats.read_bytes);
}

TEST_F(RemoteTest, ReadingDoesNotWaitForTheDiskOfTheCache) {
  const std::vector<std::string> files = MakeFiles(1, 2'000, 50'000, 60'000);
  Between(ProxyOptions{});
  const TempDir folder;
  OpenOptions options = RemoteOptions();
  options.cache = folder.path() + "/cache";
  const Drained local = Read(files, RemoteOptions()).drained;
  std::latch disk(1);
  piece_disk = &disk;
  Reader reader = OpenFiles(Urls(files), options);
  EXPECT_EQ(Drain(reader), local);  // 110 MB, of which 64 MiB wait for the disk
  piece_disk = nullptr;
  disk.count_down();
  reader.ReInit();  // which waits until the pieces are written
  const std::uint64_t requests = reader.Stats().remote.requests;
  EXPECT_EQ(Drain(reader), local);
  EXPECT_LT(reader.Stats().remote.requests, 2 * requests - 10) << "nothing was kept";
}

TEST_F(RemoteTest, ACacheThatHoldsLittleAndIsDamagedChangesNothingThatIsRead) {
  constexpr std::uint64_t kTwoPieces = 9'000'000;
  const std::vector<std::string> files = MakeFiles(4, 100, 50'000, 60'000);
  Between(ProxyOptions{});
  const TempDir folder;
  OpenOptions options = RemoteOptions();
  options.cache = folder.path() + "/cache";
  options.cache_bytes = kTwoPieces;
  const Drained local = Read(files, RemoteOptions()).drained;
  for (int pass = 0; pass < 3; ++pass) {
    const RemoteOutcome outcome = Read(Urls(files), options);
    EXPECT_EQ(outcome.drained, local);
    std::uint64_t kept = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options.cache)) {
      if (!entry.is_regular_file() || entry.file_size() < 1'000'000) continue;
      kept += entry.file_size();
      std::fstream piece(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      piece.seekp(100'000 * pass + 777);
      piece.put('\0').put('x');
    }
    EXPECT_LE(kept, kTwoPieces);
  }
}

TEST_F(RemoteTest, AManifestByItsAddressStandsForItsObjectsWithoutARequestForTheirState) {
  const std::vector<std::string> files = MakeFiles(3, 50, 2'000, 20'000);
  Between(ProxyOptions{});
  const std::vector<std::string> urls = Urls(files);
  std::vector<ManifestEntry> entries;
  for (const std::string& url : urls) {
    const ExaminedFile examined = ExamineFile(url, nullptr, "", 1 << 20);
    ASSERT_TRUE(examined.status.ok()) << examined.status.ToString();
    const IndexedFile file{url, examined.object, examined.bytes, examined.format,
                           examined.compression};
    const OpenedIndex opened = BuildRecordIndex(file);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    entries.push_back(EntryOf(entries.size(), url, true, file, opened));
  }
  const std::string manifest = directory_.path() + "/train.manifest";
  ASSERT_TRUE(WriteManifest(manifest, ListOf(urls, ""), entries).ok());
  OpenOptions options = RemoteOptions();
  options.index_folder.clear();  // none is needed
  const auto shuffled = [&](const std::vector<std::string>& names, const OpenOptions& open) {
    return Drain(Shuffle(OpenFiles(names, open), {.seed = 9, .mode = ShuffleMode::kGlobal}));
  };
  const std::uint64_t before = proxy_->counts().requests;
  const Reader reader = Shuffle(OpenFiles({proxy_->Url("train.manifest")}, options),
                                {.seed = 9, .mode = ShuffleMode::kGlobal});
  EXPECT_LE(proxy_->counts().requests, before + 2);
  EXPECT_EQ(Drain(reader), shuffled(files, RemoteOptions()));
}

TEST_F(RemoteTest, SeveralThreadsTakeRecordsByTheirNumbers) {
  constexpr std::uint64_t kThreads = 4;
  const std::vector<std::string> files = MakeFiles(1, 200, 30'000, 40'000);
  Between(ProxyOptions{});
  const Reader local = Parse(OpenFiles(files, RemoteOptions()), RawParser());
  const Reader remote = Parse(OpenFiles(Urls(files), RemoteOptions()), RawParser());
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      // Each goes on where another may just have ended.
      for (std::uint64_t row = thread; row < 200; row += kThreads) {
        Drained mine;
        Drained wanted;
        AddInstance(remote.RecordsAt({{row}}), &mine);
        AddInstance(local.RecordsAt({{row}}), &wanted);
        EXPECT_EQ(mine, wanted) << row;
      }
    });
  }
}

// Chains of every order, over a network that fails now and then.
struct OrderCase {
  const char* name;
  std::function<Reader(const std::vector<std::string>&, const OpenOptions&, int rank, int ranks)>
      chain;
};

Reader Shuffled(const std::vector<std::string>& files, const OpenOptions& options,
                const ShuffleOptions& shuffle, int rank, int ranks) {
  BatchOptions batching{.size = 16};
  batching.rank = {rank, ranks};
  Reader records = Parse(OpenFiles(files, options), RawParser());
  return MultiPass(Batch(Shuffle(std::move(records), shuffle), batching), 2);
}

OrderCase ByShuffle(const char* name, const ShuffleOptions& shuffle) {
  return {name, [=](const auto& files, const OpenOptions& options, int rank, int ranks) {
            return Shuffled(files, options, shuffle, rank, ranks);
          }};
}

class RemoteOrderTest : public RemoteTest, public testing::WithParamInterface<OrderCase> {
 protected:
  // Sets of rows and the positions before and behind them.
  struct Run {
    std::vector<Drained> batches;
    std::vector<std::string> positions;
  };
  static Run Walk(Reader reader) {
    Run run;
    run.positions.push_back(reader.Position());
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      AddInstance(batch, &run.batches.emplace_back());
      run.positions.push_back(reader.Position());
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return run;
  }
};

TEST_P(RemoteOrderTest, BatchesAndPositionsAreThoseOfLocalFiles) {
  const std::vector<std::string> files = MakeFiles(4, 100, 2'000, 20'000);
  Between(ProxyOptions{
      .script = RandomFaults(
          3, 0.05, {{.cut_head = 0}, {.cut_body = 3'000}, {.status = 503}, {.range_off = 3}}),
      .close_after = 20});
  for (const int ranks : {1, 2}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Run local = Walk(GetParam().chain(files, RemoteOptions(), rank, ranks));
      const Run remote = Walk(GetParam().chain(Urls(files), RemoteOptions(), rank, ranks));
      ASSERT_EQ(local.batches.size(), 50U);
      EXPECT_EQ(remote.batches, local.batches);
      EXPECT_EQ(remote.positions, local.positions);
    }
  }
}

TEST_P(RemoteOrderTest, ReadingGoesOnFromAPosition) {
  const std::vector<std::string> files = MakeFiles(4, 100, 2'000, 20'000);
  Between(ProxyOptions{.close_after = 5});
  const Run all = Walk(GetParam().chain(Urls(files), RemoteOptions(), 0, 1));
  ASSERT_EQ(all.batches.size(), 50U);
  for (const std::size_t from : {7U, 24U, 25U, 40U}) {
    Reader reader = GetParam().chain(Urls(files), RemoteOptions(), 0, 1);
    reader.Restore(all.positions[from]);
    const Run rest = Walk(reader);
    EXPECT_EQ(rest.batches, std::vector<Drained>(all.batches.begin() + static_cast<int>(from),
                                                 all.batches.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RemoteOrderTest,
    testing::Values(ByShuffle("FileOrder", {.mode = ShuffleMode::kNone}),
                    ByShuffle("Window", {.window = 50, .seed = 1}),
                    ByShuffle("Block", {.block = 70, .seed = 2}),
                    ByShuffle("Stripes", {.window = 30, .seed = 3, .mode = ShuffleMode::kStripes}),
                    ByShuffle("Global", {.seed = 4, .mode = ShuffleMode::kGlobal})),
    [](const auto& its) { return std::string(its.param.name); });

}  // namespace
}  // namespace ringfeed
