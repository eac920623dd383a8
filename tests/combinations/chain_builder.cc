#include "tests/combinations/chain_builder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/parsers/worker_stop.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/tensor.h"
#include "tests/combinations/expected_delivery.h"
#include "tests/combinations/planned_delivery.h"
#include "tests/combinations/progress_watch.h"
#include "tests/combinations/submit_fault.h"
#include "tests/support/fault_engine.h"
#include "tests/support/record_data.h"

namespace ringfeed {

namespace {

// Relaxed: counts, which may be seen late.
std::atomic<std::uint64_t> user_calls{0};
std::atomic<std::int64_t> slow_calls{0};
std::atomic<bool> calls_are_held{false};

/// A chain that does not stop for it is let go on: then others count its calls.
constexpr std::chrono::seconds kLongestHold{2};

void WaitForStop() {
  const Deadline end = DeadlineAfter(kLongestHold);
  while (calls_are_held.load(std::memory_order_relaxed) && !WorkerStop::Requested() &&
         QueueClock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void NoteCall() {
  NoteProgress();
  user_calls.fetch_add(1, std::memory_order_relaxed);
  if (calls_are_held.load(std::memory_order_relaxed)) {
    WaitForStop();
  } else if (slow_calls.load(std::memory_order_relaxed) > 0) {
    slow_calls.fetch_sub(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

/// All records of all files, in the list's order.
std::vector<std::int64_t> AllRecords(const ChainData& data) {
  std::vector<std::int64_t> records;
  for (const ModelFile& file : data.files) {
    records.insert(records.end(), file.places.begin(), file.places.end());
  }
  return records;
}

class RecordsDataset final : public Dataset {
 public:
  explicit RecordsDataset(const ChainData& data) : data_(data), records_(AllRecords(data)) {}
  bool Next(std::string* sample) override {
    NoteProgress();
    if (next_ == records_.size()) return false;
    const auto payload = data_.Payload(records_[next_++]);
    sample->assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    return true;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }

 private:
  const ChainData& data_;
  const std::vector<std::int64_t> records_;
  std::size_t next_ = 0;
};

Instance OwnedInstance(std::span<const std::byte> payload, bool with_lod) {
  std::vector<std::byte> bytes(payload.begin(), payload.end());
  if (!with_lod) return {MakeTensor(std::move(bytes))};
  return {MakeRagged(std::move(bytes), {static_cast<std::int64_t>(payload.size())})};
}

class RecordsInstances final : public InstanceSource {
 public:
  RecordsInstances(const ChainData& data, bool throws)
      : data_(data), records_(AllRecords(data)), throws_(throws) {}
  ReadResult ReadNext(Instance* instance, std::stop_token /*stop*/, Status* /*status*/) override {
    NoteProgress();
    if (next_ == records_.size()) return ReadResult::kEnd;
    const std::int64_t record = records_[next_++];
    if (throws_ && record == data_.middle_record) throw std::runtime_error("the reader throws");
    *instance = OwnedInstance(data_.Payload(record), false);
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }

 private:
  const ChainData& data_;
  const std::vector<std::int64_t> records_;
  const bool throws_;
  std::size_t next_ = 0;
};

/// Bytes that come in small pieces.
class PiecesStream final : public StreamSource {
 public:
  explicit PiecesStream(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::string name() const override { return "pieces"; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read,
              std::stop_token /*stop*/) override {
    NoteProgress();
    const std::size_t piece = 1 + at_ * 7919 % 5000;
    *bytes_read = std::min({buffer.size(), bytes_.size() - at_, piece});
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), *bytes_read, buffer.begin());
    at_ += *bytes_read;
    return {};
  }

 private:
  const std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

void WriteAll(int descriptor, const std::vector<std::byte>& bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t written = write(descriptor, bytes.data() + at, bytes.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
    NoteProgress();
  }
  close(descriptor);
}

IoPath PathOf(const Configuration& c) {
  if (c.Is(Option::kPath, "mmap")) return IoPath::kMmap;
  if (c.Is(Option::kPath, "pread")) return IoPath::kPread;
  if (c.IsAnyOf(Option::kPath, "uring faulty late gives_up")) return IoPath::kUring;
  return IoPath::kAuto;
}

/// A store whose bytes change when it is told.
class ChangingSource final : public ringfeed::Source {
 public:
  ChangingSource(std::string name, std::vector<std::byte> now, std::vector<std::byte> then)
      : name_(std::move(name)), now_(std::move(now)), then_(std::move(then)) {}
  std::string name() const override { return name_; }
  std::uint64_t Size() const override { return now_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    *bytes_read = std::min<std::size_t>(buffer.size(), now_.size() - offset);
    std::copy_n(now_.begin() + static_cast<std::ptrdiff_t>(offset), *bytes_read, buffer.begin());
    return {};
  }
  /// Nobody reads it meanwhile.
  void Change() { now_.swap(then_); }

 private:
  const std::string name_;
  std::vector<std::byte> now_;
  std::vector<std::byte> then_;
};

/// Hands on what it reads.
class PassOn final : public DecoratedReader {
 public:
  PassOn(Reader input, bool holds, std::size_t held)
      : DecoratedReader(std::move(input)), holds_(holds), held_(holds ? held : 0) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    NoteProgress();
    if (held_ > 0) HoldBatches(std::exchange(held_, 0));
    return holds_ ? ReadInputHeld(instance, stop, status) : ReadInput(instance, stop, status);
  }

 private:
  const bool holds_;
  std::size_t held_;  ///< that are still to be told of
};

/// The random numbers of rows, by record and pass: the same in every run, on every rank.
class SeenDraws {
 public:
  void Check(std::int64_t number, const MapInput& input) {
    const std::uint64_t draw = input.Draw(3);
    const std::lock_guard lock(mutex_);
    if (seen_.try_emplace({number, input.pass}, draw).first->second == draw) return;
    throw std::runtime_error("a row has other draws than before");
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    seen_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::uint64_t>, std::uint64_t> seen_;
};

SeenDraws seen_draws;

/// So few that pieces make room for others.
constexpr std::uint64_t kCacheBytes = std::uint64_t{24} << 20;

/// Puts a chain together.
class ChainBuilder {
 public:
  ChainBuilder(const Configuration& c, const ChainData& data,
               const std::shared_ptr<PinnedArena>& arena, std::uint64_t rank, std::uint64_t ranks,
               double second_weight)
      : c_(c), data_(data), rank_(rank), ranks_(ranks), second_weight_(second_weight) {
    options_.arena = arena;
    options_.threads = static_cast<int>(c.Number(Option::kThreads));
    options_.io.block_bytes = static_cast<std::size_t>(c.Number(Option::kBlock));
    options_.io.path = PathOf(c);
    options_.on_damage = c.Is(Option::kPolicy, "skip") ? OnDamage::kSkip : OnDamage::kFail;
    options_.note_records = c.Is(Option::kNote, "yes");
    options_.ahead_records = c.Number(Option::kAhead);
    options_.index = c.Is(Option::kIndex, "never") ? IndexUse::kNever : IndexUse::kAsNeeded;
  }

  BuiltChain Build() {
    Reader reader = Source();
    if (c_.Is(Option::kJoin, "source")) reader = Passes(reader);
    reader = Shuffled(reader);
    if (c_.Is(Option::kJoin, "shuffled")) reader = Passes(reader);
    const std::uint64_t share = c_.Number(Option::kShare);
    if (share == 1) {
      chain_.readers.push_back(Finished(reader));
    } else {
      const Reader shared = Share(reader);
      for (std::uint64_t i = 0; i < share; ++i) chain_.readers.push_back(Finished(shared));
    }
    // Who waits with a stop token waits also for what it holds itself, so it says how much that is;
    // so does who holds as many batches as there may be where memory is short.
    const std::uint64_t held = c_.Is(Option::kHold, "all") ? 0 : c_.Number(Option::kHold);
    if ((c_.Is(Option::kRead, "stop") && held > 0) || held > 1) {
      for (Reader& each : chain_.readers) each.ReserveBatches(held + 1);
    }
    SetRunOptions();
    if (!changing_.empty()) chain_.reader().MakeIndex(IndexPurpose::kReading);
    for (const auto& source : changing_) source->Change();
    return std::move(chain_);
  }

 private:
  OpenOptions FileOptions() const {
    OpenOptions options = options_;
    options.cycle = static_cast<std::size_t>(c_.Number(Option::kCycle));
    options.stripe_bytes = static_cast<std::size_t>(c_.Number(Option::kStripe));
    options.unordered = c_.Is(Option::kOrder, "unordered");
    options.files.shuffle = c_.Is(Option::kOrder, "shuffled");
    options.files.seed = c_.Number(Option::kSeed);
    options.format = FormatOf(data_);
    if (IsOnDisk()) return options;
    if (data_.manifest.empty() || !c_.Is(Option::kPlace, "manifest")) {
      options.index_folder = data_.indexes;
    }
    if (c_.Is(Option::kPlace, "cache")) {
      options.cache = data_.cache;
      options.cache_bytes = kCacheBytes;
    }
    return options;
  }

  bool IsOnDisk() const { return c_.Is(Option::kPlace, "disk") || data_.addresses.empty(); }

  std::vector<std::string> Names() const {
    if (IsOnDisk()) return data_.names;
    if (c_.Is(Option::kPlace, "manifest")) return {data_.manifest};
    return data_.addresses;
  }

  Reader Source() {
    if (c_.Is(Option::kSource, "memory")) return Memory();
    if (c_.Is(Option::kSource, "dataset")) {
      return FromDataset(std::make_unique<RecordsDataset>(data_), options_);
    }
    if (c_.Is(Option::kSource, "instances")) {
      const bool throws = c_.Is(Option::kRow, "throw");
      return FromInstanceSource(std::make_unique<RecordsInstances>(data_, throws),
                                {{"bytes", kUInt8, {-1}}}, options_);
    }
    if (c_.Is(Option::kSource, "queue")) return Queue();
    if (c_.IsAnyOf(Option::kSource, "stream multiplex")) return Streams();
    if (c_.Is(Option::kSource, "mix")) {
      const std::vector<std::string> names = Names();
      const auto half = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
      return Mix({{OpenFiles({names.begin(), half}, FileOptions()), 2},
                  {OpenFiles({half, names.end()}, FileOptions()), second_weight_}},
                 options_);
    }
    return OpenFiles(Names(), FileOptions());
  }

  Reader Memory() {
    std::vector<std::shared_ptr<ringfeed::Source>> sources;
    for (std::size_t i = 0; i < data_.images.size(); ++i) {
      const std::string name = std::to_string(i) + ".tfrecord";
      if (c_.Is(Option::kMeasured, "intact")) {
        changing_.push_back(
            std::make_shared<ChangingSource>(name, data_.intact[i], data_.images[i]));
        sources.push_back(changing_.back());
      } else {
        sources.push_back(std::make_shared<MemorySource>(name, data_.images[i]));
      }
    }
    return OpenSources(std::move(sources), FileOptions());
  }

  Reader Queue() {
    auto holder = std::make_shared<LoDTensorBlockingQueueHolder>();
    holder->InitOnce(4, {{"bytes", kUInt8, {-1}, 1}});
    const bool throws = c_.Is(Option::kRow, "throw");
    auto generate = [&data = data_, throws](LoDTensorBlockingQueue& queue,
                                            const std::stop_token& stop) {
      for (const std::int64_t record : AllRecords(data)) {
        if (throws && record == data.middle_record) throw std::runtime_error("it throws");
        if (!queue.Push(OwnedInstance(data.Payload(record), true), stop)) return;
        NoteProgress();
      }
    };
    Reader reader = OpenPyReader(holder, options_);
    chain_.producer = std::make_unique<QueueProducer>(holder->GetQueue(), std::move(generate));
    return reader;
  }

  Reader Streams() {
    OpenOptions options = options_;
    options.format = "tfrecord";
    if (c_.Is(Option::kSource, "stream")) {
      std::vector<std::byte> all;
      for (const auto& image : data_.images) all.insert(all.end(), image.begin(), image.end());
      return OpenStreamSource(std::make_unique<PiecesStream>(std::move(all)), options);
    }
    std::vector<Reader> streams;
    for (const auto& image : data_.images) {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
      streams.push_back(OpenStreamSource(OpenDescriptor(ends[0], "a pipe", true), options));
      chain_.writers.emplace_back([image, end = ends[1]] { WriteAll(end, image); });
    }
    return Multiplex(streams, options);
  }

  Reader Passes(Reader reader) const {
    if (c_.Is(Option::kPasses, "1")) return reader;
    return MultiPass(std::move(reader), c_.Number(Option::kPasses));
  }

  Reader Shuffled(Reader reader) const {
    const auto size = static_cast<std::size_t>(c_.Number(Option::kWindow));
    const std::uint64_t seed = c_.Number(Option::kSeed);
    if (c_.Is(Option::kOrder, "window")) return Shuffle(reader, {.window = size, .seed = seed});
    if (c_.Is(Option::kOrder, "block")) return Shuffle(reader, {.block = size, .seed = seed});
    if (c_.Is(Option::kOrder, "global")) {
      return Shuffle(reader, {.seed = seed, .mode = ShuffleMode::kGlobal});
    }
    if (c_.Is(Option::kOrder, "blocks")) {
      return Shuffle(reader, {.window = size, .seed = seed, .mode = ShuffleMode::kStripes});
    }
    return reader;
  }

  Reader Finished(Reader reader) const {
    reader = Batched(Rows(FilteredAgain(Filtered(std::move(reader)))));
    if (c_.Is(Option::kJoin, "batched")) reader = Passes(std::move(reader));
    if (c_.Is(Option::kWrap, "none")) return reader;
    const bool holds = c_.Is(Option::kWrap, "held");
    const std::size_t held = c_.Is(Option::kHold, "all") ? 0 : c_.Number(Option::kHold) + 1;
    return FromInstanceSource(std::make_unique<PassOn>(std::move(reader), holds, held), options_);
  }

  Reader FilteredAgain(Reader reader) const {
    if (c_.Is(Option::kFilters, "1")) return reader;
    return Filter(std::move(reader), [c = c_](const RecordSpan& record) {
      NoteCall();
      return IsKeptAgain(c, record.bytes());
    });
  }

  /// What the record holds that user's functions throw at.
  std::vector<std::byte> Thrower() const {
    const auto payload = data_.Payload(data_.middle_record);
    return {payload.begin(), payload.end()};
  }

  Reader Filtered(Reader reader) const {
    const bool throws = c_.Is(Option::kRow, "filter_throws");
    if (c_.Is(Option::kFilter, "1") && !throws) return reader;
    return Filter(std::move(reader),
                  [c = c_, thrower = Thrower(), throws](const RecordSpan& record) {
                    NoteCall();
                    if (throws && Same(record.bytes(), thrower))
                      throw std::runtime_error("the filter throws");
                    return IsKept(c, record.bytes());
                  });
  }

  Reader Rows(Reader reader) const {
    if (c_.IsAnyOf(Option::kSource, "instances queue")) return reader;
    if (c_.Is(Option::kSource, "examples")) {
      const char* const name = c_.Is(Option::kRow, "misfit") ? "tt" : "t";
      return Parse(std::move(reader), ExampleParser({{name, kInt64, {-1}}}));
    }
    if (c_.Is(Option::kRow, "raw")) return Parse(std::move(reader), RawParser());
    if (c_.Is(Option::kRow, "unparsed")) return reader;
    if (c_.Is(Option::kRow, "filter_throws")) {
      return c_.Is(Option::kRead, "blocks") ? reader : Parse(std::move(reader), RawParser());
    }
    const bool ragged = c_.IsAnyOf(Option::kRow, "map_ragged throw_ragged refuse_ragged");
    const bool throws = c_.IsAnyOf(Option::kRow, "throw throw_ragged");
    const bool refuses = c_.IsAnyOf(Option::kRow, "refuse refuse_ragged");
    // A file that changes numbers its records anew, a line that is cut may read as another one, and
    // records of a shared reader are numbered as they come.
    const bool checks = c_.Is(Option::kChange, "none") && c_.Is(Option::kDamage, "none") &&
                        c_.Number(Option::kShare) == 1;
    const auto function = [thrower = Thrower(), ragged, throws, refuses, checks](
                              const MapInput& input, RowWriter& output) {
      NoteCall();
      const bool is_it = (throws || refuses) && Same(input.record.bytes(), thrower);
      if (throws && is_it) throw std::runtime_error("Map throws");
      if (refuses && is_it) return output.Skip("it is refused");
      const std::int64_t number = NumberOfPayload(input.record.bytes());
      if (checks && number >= 0) seen_draws.Check(number, input);
      // (Of a line that was cut there may be no number.)
      const std::int64_t count = number < 0 ? 1 : 1 + number % 5;
      const std::vector<std::int64_t> values(static_cast<std::size_t>(count), number);
      if (ragged) {
        output.Ragged(0, std::as_bytes(std::span(values)));
      } else {
        std::memcpy(output.Fixed(0).data(), values.data(), sizeof(number));
      }
    };
    return Map(std::move(reader), {{"number", kInt64, ragged ? Shape{-1} : Shape{}}}, function);
  }

  Reader Batched(const Reader& reader) const {
    const auto size = static_cast<std::size_t>(c_.Number(Option::kSize));
    const auto slots = static_cast<std::size_t>(c_.Number(Option::kSlots));
    const bool drop = c_.Is(Option::kRest, "drop");
    const char* const field = !c_.Is(Option::kSource, "examples")
                                  ? "bytes"
                                  : (c_.Is(Option::kRow, "misfit") ? "tt" : "t");
    if (c_.Is(Option::kGather, "none")) return reader;
    if (IsPlanned(c_)) return Planned(reader, field, slots);
    if (c_.Is(Option::kGather, "group")) {
      const auto group_of = [](const RecordSpan& record) {
        NoteCall();
        return static_cast<std::int64_t>(GroupOf(record.bytes()));
      };
      return GroupBatch(reader, {.size = size,
                                 .group_of = group_of,
                                 .segment = kGroupSegment,
                                 .drop_remainder = drop,
                                 .slots = slots});
    }
    if (c_.Is(Option::kGather, "bucket")) {
      return BucketBatch(reader, {.size = size,
                                  .field = field,
                                  .bounds = BucketBounds(),
                                  .segment = kGroupSegment,
                                  .drop_remainder = drop,
                                  .slots = slots});
    }
    if (c_.Is(Option::kGather, "token")) {
      return TokenBatch(reader,
                        {.field = field, .tokens = kMostTokens, .most_rows = size, .slots = slots});
    }
    if (c_.Is(Option::kGather, "pack")) {
      return Pack(reader, {.field = field,
                           .length = kPackLength,
                           .rows = size,
                           .segment = kPackSegment,
                           .drop_remainder = drop,
                           .slots = slots});
    }
    BatchOptions batch;
    batch.size = size;
    batch.drop_remainder = drop;
    batch.pad = c_.Is(Option::kRest, "pad");
    batch.slots = slots;
    batch.split_by_files = c_.Is(Option::kSplit, "yes");
    if (!c_.Is(Option::kEmpty, "usual")) batch.empty_batches = c_.Is(Option::kEmpty, "shown");
    batch.rank.rank = static_cast<int>(rank_);
    batch.rank.world_size = static_cast<int>(ranks_);
    return Batch(reader, batch);
  }

  StepOptions Steps() const {
    const ShareRules rules = RulesOf(c_, data_);
    const RankSplit split = SplitOf(c_, ranks_);
    StepOptions steps;
    steps.rank = {static_cast<int>(rank_), static_cast<int>(ranks_)};
    steps.rank_weights = split.weights;
    if (split.balance) {
      steps.balance = Balance{rules.cost.linear, rules.cost.square, rules.alike};
    }
    steps.rest = c_.Is(Option::kRest, "drop")     ? Rest::kDrop
                 : c_.Is(Option::kRest, "pad")    ? Rest::kPad
                 : c_.Is(Option::kRest, "repeat") ? Rest::kRepeat
                                                  : Rest::kShort;
    steps.seed = rules.seed;
    return steps;
  }

  Reader Planned(const Reader& reader, const char* field, std::size_t slots) const {
    const ShareRules rules = RulesOf(c_, data_);
    const auto rows = static_cast<std::size_t>(rules.step);
    const auto segment = static_cast<std::size_t>(rules.segment);
    if (rules.kind == ShareRules::Kind::kPacked) {
      return Pack(reader, {.field = field,
                           .length = rules.length,
                           .rows = rows,
                           .segment = segment,
                           .slots = slots,
                           .fit = rules.best_fit ? PackFit::kBest : PackFit::kFirst,
                           .multiple = rules.multiple,
                           .steps = Steps()});
    }
    if (rules.kind == ShareRules::Kind::kTokens) {
      return TokenBatch(reader, {.field = field,
                                 .tokens = static_cast<std::size_t>(rules.tokens),
                                 .most_rows = static_cast<std::size_t>(rules.most_rows),
                                 .slots = slots,
                                 .shares = rows,
                                 .segment = segment,
                                 .best_fit = rules.best_fit,
                                 .padded = rules.padded,
                                 .steps = Steps()});
    }
    if (rules.kind == ShareRules::Kind::kBuckets) {
      return BucketBatch(reader, {.size = rows,
                                  .field = field,
                                  .bounds = rules.bounds,
                                  .segment = segment,
                                  .slots = slots,
                                  .steps = Steps()});
    }
    BatchOptions batch;
    batch.size = rows;
    batch.slots = slots;
    batch.steps = Steps();
    if (batch.steps->balance) batch.field = field;
    return Batch(reader, batch);
  }

  void SetRunOptions() {
    const bool one = chain_.readers.size() == 1;
    RunOptions run_options;
    // A thread that holds something for longer, being late, is told so once more.
    if (c_.Is(Option::kHold, "all")) run_options.held_silence = std::chrono::milliseconds(200);
    if (c_.Is(Option::kSums, "all")) run_options.long_payload_bytes = 1;
    if (c_.Is(Option::kPath, "late") && one) run_options.engines = LateEngines();
    if (c_.Is(Option::kPath, "gives_up")) run_options.engines = EnginesThatGiveUp();
    for (const Reader& each : chain_.readers) {
      ReaderAccess::NodeOf(each)->Session()->set_run_options(run_options);
    }
  }

  EngineFactory EnginesThatGiveUp() const {
    EngineFactory engines;
    engines.uring = [calls = c_.Number(Option::kSeed) % 3](const IoOptions& options,
                                                           std::byte* data, std::size_t bytes,
                                                           std::unique_ptr<ReadEngine>* engine) {
      const Status status = MakeUringEngine(options, data, bytes, engine);
      if (status.ok()) *engine = MakeSubmitFaultEngine(std::move(*engine), calls);
      return status;
    };
    return engines;
  }

  static EngineFactory LateEngines() {
    const FaultPlan plan = {
        .delay = 0.3, .longest_delay = std::chrono::microseconds(500), .reorder = true};
    EngineFactory engines;
    engines.uring = [plan](const IoOptions& options, std::byte* data, std::size_t bytes,
                           std::unique_ptr<ReadEngine>* engine) {
      const Status status = MakeUringEngine(options, data, bytes, engine);
      if (status.ok()) *engine = MakeFaultEngine(std::move(*engine), 1, plan);
      return status;
    };
    engines.pool = [plan](const IoOptions& options) {
      return MakeFaultEngine(MakePoolEngine(options), 1, plan);
    };
    return engines;
  }

  const Configuration& c_;
  const ChainData& data_;
  const std::uint64_t rank_;
  const std::uint64_t ranks_;
  const double second_weight_;
  OpenOptions options_;
  std::vector<std::shared_ptr<ChangingSource>> changing_;
  BuiltChain chain_;
};

}  // namespace

BuiltChain::~BuiltChain() {
  for (Reader& reader : readers) {
    try {
      reader.Close();
    } catch (const Error&) {
      // It was refused.
    }
  }
  if (producer != nullptr) producer->Stop();
  readers.clear();
}

std::uint64_t UserCalls() { return user_calls.load(std::memory_order_relaxed); }

void SlowUserCalls(std::int64_t calls) { slow_calls.store(calls, std::memory_order_relaxed); }

HeldUserCalls::HeldUserCalls() { calls_are_held.store(true, std::memory_order_relaxed); }
HeldUserCalls::~HeldUserCalls() {
  calls_are_held.store(false, std::memory_order_relaxed);
  SlowUserCalls(0);
}

std::shared_ptr<PinnedArena> ArenaShelf::Get(const Configuration& configuration) {
  constexpr std::uint64_t kUsualMiB = 2048;
  std::uint64_t mebibytes = configuration.Number(Option::kArena);
  if (mebibytes == 0) mebibytes = kUsualMiB;
  auto& arena = arenas_[mebibytes];
  if (arena == nullptr) {
    arena = std::make_shared<PinnedArena>(static_cast<std::size_t>(mebibytes << 20), false);
  }
  return arena;
}

void ForgetDraws() { seen_draws.Forget(); }

BuiltChain BuildChain(const Configuration& configuration, const ChainData& data,
                      const std::shared_ptr<PinnedArena>& arena, std::uint64_t rank,
                      std::uint64_t ranks, double second_weight) {
  return ChainBuilder(configuration, data, arena, rank, ranks, second_weight).Build();
}

}  // namespace ringfeed
