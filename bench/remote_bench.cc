// Reading from a store: nginx on this machine, by TCP or TLS, and a link of 50 ms and 100 MB/s.
// This process runs on its first CPU, the server on the second. Transports alone, beside one
// another; whole chains beside curl, which writes to /dev/null and checks nothing.
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/child_process.h"
#include "bench/feed_chain.h"
#include "bench/peak_memory.h"
#include "bench/range_readers.h"
#include "ringfeed/arena.h"
#include "ringfeed/parsers.h"
#include "tests/remote/fault_proxy.h"
#include "tests/remote/loopback.h"
#include "tests/remote/nginx_server.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSampleBytes = 110'000;
constexpr std::size_t kBatchRows = 64;
constexpr int kRoundTripMs = 50;
constexpr std::uint64_t kLinkRate = 100'000'000;
/// What a link holds: bytes that are sent and not yet there.
constexpr std::uint64_t kLinkBytes = kLinkRate * kRoundTripMs / 1000;

constexpr Measure kCpuSPerGb{
    "CPU s/GB", [](const LoopResult& r) { return r.cpu_s / (static_cast<double>(r.bytes) / 1e9); }};
constexpr Measure kCpuUsPerRequest{"us of CPU", [](const LoopResult& r) {
                                     return 1e6 * r.cpu_s / static_cast<double>(r.records);
                                   }};
constexpr Measure kRequestsPerS{
    "requests/s", [](const LoopResult& r) { return static_cast<double>(r.records) / r.wall_s; }};
constexpr Measure kRequests{"requests",
                            [](const LoopResult& r) { return static_cast<double>(r.records); }};
constexpr Measure kMiB{
    "MiB", [](const LoopResult& r) { return static_cast<double>(r.bytes) / (1 << 20); }};
constexpr Measure kRoundTrips{"round trips",
                              [](const LoopResult& r) { return 1000 * r.wall_s / kRoundTripMs; }};

// Transports read ranges of the first of one file, chains read eight.
BenchFiles OneObject() { return ImageExamples(std::uint64_t{1} << 30, 1); }
BenchFiles Images() { return ImageExamples(std::uint64_t{1} << 30, 8); }
BenchFiles LinkImages() { return ImageExamples(std::uint64_t{256} << 20, 8); }

// --- servers -------------------------------------------------------------------------------------

// The calling thread, and what it starts, run on the n-th CPU that this process was given.
void RunOn(std::size_t which) {
  static const std::vector<std::size_t> kGiven = [] {
    cpu_set_t given;
    CPU_ZERO(&given);
    (void)sched_getaffinity(0, sizeof(given), &given);
    std::vector<std::size_t> numbers;
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &given)) numbers.push_back(cpu);
    }
    return numbers;
  }();
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  CPU_SET(kGiven[std::min(which, kGiven.size() - 1)], &chosen);
  (void)sched_setaffinity(0, sizeof(chosen), &chosen);
}

// What S3 says beside what nginx does. (By tcp_nopush the end of a range waits for 40 ms here.)
std::string Directives(bool tls) {
  std::string text = "  sendfile_max_chunk 2m; open_file_cache max=100;\n";
  if (tls) text += "  ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;\n";
  text += "  add_header x-amz-id-2 " + std::string(76, 'i') + ";\n";
  text += "  add_header x-amz-request-id 318BC8BC148832E5;\n";
  text += "  add_header x-amz-server-side-encryption AES256;\n";
  text += "  add_header x-amz-storage-class INTELLIGENT_TIERING;\n";
  for (const char* name : {"version-id", "replication-status", "expiration", "meta-made-by"}) {
    text += "  add_header x-amz-" + std::string(name) + " 0123456789abcdef0123456789abcdef;\n";
  }
  return text;
}

// Serves the folder of the data until the process ends.
const NginxServer& Server(bool tls) {
  const auto start = [](bool with_tls) {
    const std::string folder = fs::path(OneObject().paths[0]).parent_path();
    RunOn(1);
    auto server = std::make_unique<NginxServer>(
        folder,
        NginxOptions{.keepalive_s = 600, .tls = with_tls, .directives = Directives(with_tls)});
    RunOn(0);
    if (with_tls) {
      for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE"}) (void)unsetenv(name);
      (void)setenv("SSL_CERT_FILE", server->ca().c_str(), 1);
    }
    return server;
  };
  if (tls) {
    static const auto kTls = start(true);
    return *kTls;
  }
  static const auto kPlain = start(false);
  return *kPlain;
}

// A link before the server: what is sent by it, and when.
std::unique_ptr<FaultProxy> Link() {
  const std::uint16_t port = Server(false).port();
  RunOn(1);
  auto link = std::make_unique<FaultProxy>(
      port, ProxyOptions{.round_trip_ms = kRoundTripMs, .rate = kLinkRate});
  RunOn(0);
  return link;
}

template <typename Host>
std::vector<std::string> UrlsOf(const Host& host, const BenchFiles& files) {
  std::vector<std::string> urls;
  for (const std::string& path : files.paths) urls.push_back(host.Url(fs::path(path).filename()));
  return urls;
}

// A file beside the data, written anew by each run.
std::string Scratch(const std::string& name) {
  return fs::path(OneObject().paths[0]).parent_path() / name;
}

// A pair, unless there is no server or no curl.
Work RemoteWork(std::vector<Row> rows, std::function<Pair()> start, bool named = false) {
  const auto try_start = [start = std::move(start)]() -> Pair {
    const std::string missing = HasProgram("curl") ? NginxServer::Missing() : "no curl";
    if (missing.empty()) return start();
    return {nullptr, nullptr, [missing] { return "skipped: " + missing; }};
  };
  return {std::move(rows), try_start, named};
}

// --- transports ----------------------------------------------------------------------------------

struct Ranges {
  const char* name;
  std::uint64_t bytes;
  std::uint64_t count;
  Measure measure;
};

Pair TransportPair(const Ranges& ranges, bool tls, const std::string& other) {
  const BenchFiles object = OneObject();
  BringIntoMemory(object);
  const NginxServer& server = Server(tls);
  RangeWork work = RangesOf(object.paths[0], ranges.bytes, Sized(ranges.count, 100));
  work.url = UrlsOf(server, object)[0];
  work.port = server.port();
  const RangeReader direct = EngineRanges(work, HttpPath::kDirect);
  const RangeReader baseline = other == "library" ? EngineRanges(work, HttpPath::kLibrary)
                               : other == "bare"  ? BareRanges(work)
                                                  : CurlRanges({work}, Scratch("curl.config"));
  if (other != "curl") return Digested(direct, baseline);
  return {[=] { return direct(false); }, [=] { return baseline(false); }};
}

std::vector<Work> Transports() {
  const Ranges all[] = {{"4kb", 4096, 40'000, kCpuUsPerRequest},
                        {"110kb", kSampleBytes, 8'000, kCpuSPerGb},
                        {"8mb", std::uint64_t{8} << 20, 107, kCpuSPerGb}};
  std::vector<Work> works;
  for (const bool tls : {false, true}) {
    for (const Ranges& ranges : all) {
      const std::string name = std::string(tls ? "remote.tls_" : "remote.plain_") + ranges.name;
      for (const std::string other : {"library", "bare", "curl"}) {
        if (tls && other == "bare") continue;
        std::vector<Row> rows = {{name + "_vs_" + other, ranges.measure}};
        if (other == "library") rows.push_back({name + "_clock", kGbPerS});
        works.push_back(RemoteWork(rows, [=] { return TransportPair(ranges, tls, other); }));
      }
    }
  }
  return works;
}

// --- chains --------------------------------------------------------------------------------------

Reader Rows(const std::vector<std::string>& names, OpenOptions options) {
  options.threads = 1;
  return Parse(OpenFiles(names, options),
               ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}}));
}

Reader Passes(const std::vector<std::string>& names, const OpenOptions& options = {}) {
  return MultiPass(Batch(Rows(names, options), {.size = kBatchRows}), 0);
}

// Whole passes of a chain in full flow.
std::function<LoopResult()> WarmPasses(const std::shared_ptr<FeedChain>& chain,
                                       const BenchFiles& files) {
  chain->ReadPass();
  return [=] {
    chain->ReadPass();
    LoopResult result = chain->ReadPass();
    result.bytes = files.bytes;
    return result;
  };
}

std::string VerifyChain(FeedChain* chain, const BenchFiles& files) {
  std::uint64_t sum = 0;
  std::uint64_t local_sum = 0;
  chain->DigestPass(&sum);
  FeedChain(Passes(files.paths), files.records, false).DigestPass(&local_sum);
  return sum == local_sum ? "" : "other rows than those of the local files";
}

// What curl is asked for: ranges of a sample's size, or whole objects.
RangeReader CurlOf(const BenchFiles& files, const std::vector<std::string>& urls, bool whole) {
  std::vector<RangeWork> works;
  for (std::size_t i = 0; i < urls.size(); ++i) {
    RangeWork work;
    const std::uint64_t size = fs::file_size(files.paths[i]);
    work.url = urls[i];
    work.bytes = static_cast<std::uint32_t>(whole ? size : kSampleBytes);
    work.different = work.ranges = size / work.bytes;
    works.push_back(work);
  }
  return CurlRanges(works, Scratch("curl.config"));
}

Pair FeedBesideCurl(bool tls, bool whole) {
  const BenchFiles files = Images();
  BringIntoMemory(files);
  const std::vector<std::string> urls = UrlsOf(Server(tls), files);
  const auto chain = std::make_shared<FeedChain>(Passes(urls), files.records, false);
  const RangeReader curl = CurlOf(files, urls, whole);
  return {WarmPasses(chain, files), [=] { return curl(false); },
          [=] { return VerifyChain(chain.get(), files); }, false};
}

// A folder that is gone with the last who has it.
std::shared_ptr<const std::string> NewFolder(const std::string& name) {
  fs::remove_all(name);
  return {new std::string(name), [](const std::string* made) {
            fs::remove_all(*made);
            delete made;
          }};
}

// The files themselves are mapped, or read as the cache is.
Pair CachedBesideLocal(IoPath path) {
  const BenchFiles files = Images();
  BringIntoMemory(files);
  const auto folder = NewFolder(Scratch("remote-cache"));
  OpenOptions options;
  options.cache = *folder;
  const Reader reader = Passes(UrlsOf(Server(false), files), options);
  const auto cached = std::make_shared<FeedChain>(reader, files.records, false);
  OpenOptions local_options;
  local_options.io.path = path;
  const auto local =
      std::make_shared<FeedChain>(Passes(files.paths, local_options), files.records, false);
  cached->ReadPass();
  cached->ReadPass();
  const auto passes = WarmPasses(cached, files);
  const auto ours = [=] {
    const std::uint64_t before = reader.Stats().remote.requests;
    LoopResult result = passes();
    if (reader.Stats().remote.requests != before) result.failure = "the server was asked";
    return result;
  };
  // The folder goes when the chain does.
  return {ours, WarmPasses(local, files),
          [=, folder = folder] { return VerifyChain(cached.get(), files); }, false};
}

constexpr std::size_t kMemoryArenaBytes = std::size_t{128} << 20;

LoopResult Memory() {
  const BenchFiles files = Images();
  const std::vector<std::string> urls = UrlsOf(Server(true), files);
  const std::uint64_t before = AnonymousBytes();
  PeakMemory peak;
  OpenOptions options;
  options.arena = std::make_shared<PinnedArena>(kMemoryArenaBytes);
  FeedChain chain(Passes(urls, options), files.records, false);
  LoopResult result = chain.ReadPass();
  result.bytes = peak.bytes() - before;
  return result;
}

// --- the link ------------------------------------------------------------------------------------

// Of all records, by a manifest.
Reader Shuffled(const std::vector<std::string>& urls, ShuffleMode mode) {
  const std::string manifest = Scratch("link.manifest");
  std::vector<std::string> words = {RingfeedCommand(), "index", "--manifest", manifest};
  words.insert(words.end(), urls.begin(), urls.end());
  RunChild(words, "/dev/null");
  const std::size_t window = mode == ShuffleMode::kStripes ? 2'000 : 0;
  Reader rows = Shuffle(Rows({manifest}, {}), {.window = window, .seed = 7, .mode = mode});
  return MultiPass(Batch(rows, {.size = kBatchRows}), 0);
}

// What is under way on a link, as requests and as bytes, and what a pass takes.
struct LinkRun {
  BenchFiles files = LinkImages();
  std::unique_ptr<FaultProxy> link = Link();
  std::unique_ptr<FeedChain> chain{};

  explicit LinkRun(ShuffleMode mode) {
    BringIntoMemory(files);
    const std::vector<std::string> urls = UrlsOf(*link, files);
    Reader reader = mode == ShuffleMode::kNone ? Passes(urls) : Shuffled(urls, mode);
    chain = std::make_unique<FeedChain>(std::move(reader), files.records, false);
    chain->ReadPass();
  }
  LoopResult Pass() {
    const std::uint64_t before = link->counts().requests;
    LoopResult result = chain->ReadPass();
    result.bytes = files.bytes;
    result.records = link->counts().requests - before;
    return result;
  }
  LoopResult UnderWay() const {
    const ProxyCounts counts = link->counts();
    LoopResult result;
    result.records = counts.most_answers;
    result.bytes = counts.most_answers * (counts.body_bytes / counts.requests);
    return result;
  }
};

Pair LinkPair(ShuffleMode mode, bool under_way) {
  const auto run = std::make_shared<LinkRun>(mode);
  if (!under_way) {
    const LoopResult promised = {
        .wall_s = 1, .records = kLinkRate / kSampleBytes, .bytes = kLinkRate};
    return {[=] { return run->Pass(); }, [=] { return promised; }, nullptr, false};
  }
  const LoopResult promised = {.records = kInFlight, .bytes = 4 * kLinkBytes};
  return {[=] { return run->UnderWay(); }, [=] { return promised; }, nullptr, false};
}

// From the call of OpenFiles on to a batch of so many rows.
LoopResult FirstBatch(std::size_t rows, std::size_t objects) {
  BenchFiles files = LinkImages();
  files.paths.resize(objects);
  BringIntoMemory(files);
  const auto link = Link();
  const std::vector<std::string> urls = UrlsOf(*link, files);
  Instance batch;
  LoopResult result;
  const Timer timer;
  Reader reader = Batch(Rows(urls, {}), {.size = rows});
  if (reader.TryReadNext(&batch) != ReadResult::kRecord) result.failure = "there is no batch";
  timer.Stop(&result);
  return result;
}

Work FreshWork(Row row, std::function<LoopResult()> measure, const LoopResult& promised) {
  return RemoteWork(
      {std::move(row)},
      [=]() -> Pair {
        return {measure, [=] { return promised; }, nullptr, false};
      },
      true);
}

// --- the declarations ----------------------------------------------------------------------------

std::vector<Work> Chains() {
  std::vector<Work> works;
  for (const bool tls : {false, true}) {
    const std::string name = tls ? "remote.feed_tls" : "remote.feed_plain";
    works.push_back(RemoteWork({{name, kGbPerCpuS}, {name + "_clock", kGbPerS}},
                               [=] { return FeedBesideCurl(tls, false); }));
    works.push_back(RemoteWork({{name + "_whole_objects", kGbPerCpuS}},
                               [=] { return FeedBesideCurl(tls, true); }));
  }
  for (const IoPath path : {IoPath::kMmap, IoPath::kPread}) {
    const std::string name = "remote.feed_cached_vs_" + std::string(IoPathName(path));
    works.push_back(RemoteWork({{name, kGbPerCpuS}, {name + "_clock", kGbPerS}},
                               [=] { return CachedBesideLocal(path); }));
  }
  constexpr std::uint64_t kMargin = std::uint64_t{64} << 20;
  works.push_back(
      FreshWork({"remote.memory", kMiB}, Memory, {.bytes = kMemoryArenaBytes + kMargin}));
  return works;
}

std::vector<Work> LinkWorks() {
  std::vector<Work> works;
  const std::pair<const char*, ShuffleMode> orders[] = {{"file_order", ShuffleMode::kNone},
                                                        {"stripes", ShuffleMode::kStripes},
                                                        {"global", ShuffleMode::kGlobal}};
  for (const auto& [order, mode] : orders) {
    const std::string name = std::string("remote.link_") + order;
    works.push_back(RemoteWork({{name, kGbPerS}, {name + "_requests", kRequestsPerS}},
                               [mode = mode] { return LinkPair(mode, false); }));
    works.push_back(
        RemoteWork({{name + "_bytes_under_way", kMiB}, {name + "_requests_under_way", kRequests}},
                   [mode = mode] { return LinkPair(mode, true); }));
  }
  constexpr double kRoundTripS = kRoundTripMs / 1000.0;
  constexpr double kBatchS = static_cast<double>(kBatchRows * kSampleBytes) / kLinkRate;
  const std::pair<const char*, std::size_t> counts[] = {{"1_object", 1}, {"8_objects", 8}};
  for (const auto& [name, objects] : counts) {
    works.push_back(FreshWork({std::string("remote.first_record_") + name, kRoundTrips},
                              [objects = objects] { return FirstBatch(1, objects); },
                              {.wall_s = 3 * kRoundTripS}));
    works.push_back(FreshWork({std::string("remote.first_batch_") + name, kRoundTrips},
                              [objects = objects] { return FirstBatch(kBatchRows, objects); },
                              {.wall_s = 12 * kRoundTripS + kBatchS}));
  }
  return works;
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  std::vector<Work> works = Transports();
  for (auto& part : {Chains(), LinkWorks()}) works.insert(works.end(), part.begin(), part.end());
  return works;
}

}  // namespace ringfeed::bench
