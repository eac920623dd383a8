#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "base/user_call.h"
#include "io/guarded_sources.h"
#include "readers/chain/file_pattern.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "readers/index/manifest.h"
#include "readers/order/mix_schedule.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

namespace {

constexpr std::size_t kPageBytes = 4096;

/// The kinds of source for which options are checked.
enum class SourceKind : std::uint8_t { kFiles, kSources, kStreams, kOther };

SourceKind KindOf(const SourceNode& node) {
  if (!node.streams.empty()) return SourceKind::kStreams;
  return node.own_sources ? SourceKind::kSources : SourceKind::kFiles;
}

/// The option by which streams are opened again; null if they are not.
const char* ReopenOption(const OpenOptions& options) {
  if (options.reopen_limit != 0) return "reopen_limit";
  return options.reopen_until != 0 ? "reopen_until" : nullptr;
}

/// Refuses options that would have no effect.
void RefuseUnused(const OpenOptions& options, SourceKind kind) {
  const FileOrder& files = options.files;
  const bool is_list = kind == SourceKind::kFiles || kind == SourceKind::kSources;
  if (!is_list && (files.shuffle || files.ranks != 1)) {
    Refuse("OpenOptions::files orders a list of files and splits it over ranks: here is none");
  }
  if (kind != SourceKind::kStreams && ReopenOption(options) != nullptr) {
    Refuse(ReopenOption(options) + std::string(" is for streams (FIFOs, sockets): here is none"));
  }
  if (is_list && (options.ahead_records != 0 || options.ahead_bytes != 0)) {
    Refuse(
        "ahead_records and ahead_bytes bound what is taken from a generator, a queue or a stream: "
        "here are files, of which arena_bytes bounds what is read ahead");
  }
  if (kind != SourceKind::kSources && options.io.read_timeout_ms != 0) {
    Refuse("read_timeout_ms bounds the ReadAt of a Source: here is none");
  }
  if (!is_list && !options.subset.empty()) {
    Refuse("OpenOptions::subset is of the records of a list of files: here is none");
  }
  if (kind != SourceKind::kFiles && !options.slots.empty()) {
    Refuse(
        "OpenOptions::slots (in a program shape_concat, ranks, dtypes and lod_levels) are for "
        "files of a registered format: here is none");
  }
}

void CheckOptions(const OpenOptions& options, SourceKind kind) {
  RefuseUnused(options, kind);
  const FileOrder& files = options.files;
  if (files.rank >= files.ranks) {
    Refuse("rank " + std::to_string(files.rank) + " of " + std::to_string(files.ranks) +
           " ranks: the first is 0");
  }
  if (options.cycle == 0) Refuse("cycle must be at least 1");
  if (options.stripe_bytes == 0 || options.stripe_bytes % kPageBytes != 0 ||
      options.stripe_bytes > (std::size_t{1} << 40)) {
    Refuse("stripe_bytes must be a multiple of 4096 up to 1 TiB, not " +
           std::to_string(options.stripe_bytes));
  }
  if (options.io.block_bytes == 0 || options.io.block_bytes % kPageBytes != 0 ||
      options.io.block_bytes > (std::size_t{1} << 30)) {
    Refuse("block_bytes must be a multiple of 4096 up to 1 GiB, not " +
           std::to_string(options.io.block_bytes));
  }
  if (options.io.path == IoPath::kHttp) {
    Refuse("the path of an object in a store follows from its address: it is not asked for");
  }
  if (options.io.remote_patience_ms < 1) Refuse("remote_patience_ms is at least 1");
  if (options.io.read_timeout_ms < 0) {
    Refuse("read_timeout_ms is a time in milliseconds, or 0 for none");
  }
  if (options.threads < 0) Refuse("threads must not be negative; 0 takes one per core");
  if (options.threads > OpenOptions::kMostThreads) {
    Refuse("threads must be at most " + std::to_string(OpenOptions::kMostThreads) + ", not " +
           std::to_string(options.threads) + ": 0 takes one per core");
  }
  if (options.max_record_bytes == 0) Refuse("max_record_bytes must be at least 1");
  if (!(options.reopen_until >= 0)) Refuse("reopen_until is a number of seconds, or kUntilClose");
  if (!options.format.empty() && FindFileReader(options.format, {}) == nullptr) {
    const FormatResult found = FindFormat(options.format);
    if (!found.status.ok()) throw Error(found.status);
  }
}

void CheckReopens(const StreamInput& input) {
  if (input.reopen_limit != 0 && input.reopen_until != 0) {
    Refuse("reopen_limit and reopen_until: a stream is opened so often or for so long");
  }
  if (!input.reopens() || !input.stream->ComesOnce()) return;
  Refuse((input.reopen_limit != 0 ? "reopen_limit: \"" : "reopen_until: \"") +
         input.stream->name() +
         "\" comes just once; a FIFO or a socket, opened by its name, can be opened again");
}

/// Sets file_readers if the files are of a registered format: all must be of the same one.
void UseFileReaders(SourceNode* node) {
  node->file_readers = nullptr;
  node->slots.clear();
  for (const std::string& name : node->names) {
    auto found = FindFileReader(node->options.format, name);
    if (&name != &node->names.front() && found != node->file_readers) {
      Refuse("\"" + name + "\" is of another format than \"" + node->names.front() +
             "\": files of a registered format are read by themselves");
    }
    node->file_readers = std::move(found);
  }
  if (node->file_readers == nullptr) {
    if (node->options.slots.empty() || node->names.empty()) return;
    Refuse("\"" + node->names.front() +
           "\" is of no registered format: OpenOptions::slots (in a program shape_concat, ranks, "
           "dtypes and lod_levels) are for these alone");
  }
  node->slots = node->options.slots;
  if (node->slots.empty()) {
    Refuse("\"" + node->names.front() +
           "\" is of a registered format: declare its instances (OpenOptions::slots, in a program "
           "shape_concat and ranks)");
  }
}

void UseSubset(SourceNode* node) {
  if (node->options.subset.empty()) return;
  if (node->file_readers != nullptr) {
    Refuse("\"" + node->names.front() +
           "\" is of a registered format, whose records have no numbers: a subset needs them");
  }
  node->subset = OpenSubset(node->options.subset);
}

// The files of a manifest, which tells the state of objects: no request is sent for it.
ExpandedFiles ListedFiles(const Manifest& manifest,
                          const std::shared_ptr<const RemoteReading>& reading) {
  ExpandedFiles files;
  files.names = manifest.names();
  files.sources.resize(files.names.size());
  for (std::size_t i = 0; i < files.names.size(); ++i) {
    if (!IsRemote(files.names[i])) continue;
    const std::string& version = manifest.version(i);
    ObjectState state{manifest.bytes(i), version, {}};
    if (!version.ends_with('"')) state = {manifest.bytes(i), {}, version};  // no ETag
    std::shared_ptr<RemoteSource> source;
    const Status status = RemoteSource::Make(files.names[i], reading, &source, std::move(state));
    if (!status.ok()) throw Error(status);
    files.sources[i] = std::move(source);
    files.any_remote = true;
  }
  return files;
}

ExpandedFiles NamedFiles(const std::vector<std::string>& names, const OpenOptions& options,
                         const std::shared_ptr<const RemoteReading>& reading) {
  ExpandedFiles files;
  for (const std::string& name : names) {
    if (IsStreamName(name)) {
      Refuse("\"" + name + "\" is a stream: read it by itself, not in a list of files");
    }
    if (const char* const reopen = ReopenOption(options)) {
      Refuse(reopen + std::string(" is for streams (FIFOs, sockets): \"") + name + "\" is none");
    }
    const Status status = ExpandPattern(name, reading, &files);
    if (!status.ok()) throw Error(status);
  }
  return files;
}

// Opens the cache if objects of stores may be read.
std::shared_ptr<const RemoteReading> ReadingWithCache(const OpenOptions& options) {
  auto reading = std::make_shared<RemoteReading>();
  reading->io = options.io;
  if (options.cache.empty()) return reading;
  Status status = PieceCache::Open(options.cache, options.cache_bytes, &reading->cache);
  if (!status.ok()) throw Error(status);
  return reading;
}

/// Options that were tuned for files of one format mean little for another's.
void CheckTunedFormat(const SourceNode& node) {
  const OpenOptions& options = node.options;
  if (options.tuned_format.empty()) return;
  const std::string& name = node.names.front();
  std::string is = "registered";
  if (node.file_readers == nullptr) {
    Source* const source = node.sources.empty() ? nullptr : node.sources.front().get();
    const ExaminedFile file = ExamineFile(name, source, options.format, options.stripe_bytes);
    if (!file.status.ok()) return;  // the read reports it, as ever
    is = KindName(file);
  }
  if (is == options.tuned_format) return;
  Refuse("these options were tuned for " + options.tuned_format + " files, \"" + name + "\" is " +
         is + ": run `ringfeed tune` with it, or leave the tuning out");
}

/// The records of a user's data set.
class DatasetRecords final : public RecordProvider {
 public:
  explicit DatasetRecords(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {
    CallUserOrThrow("the data set's name", [this] { name_ = dataset_->name(); });
  }

  ReadResult Next(std::span<const std::byte>* record, const std::stop_token& /*stop*/,
                  Status* /*status*/) override {
    sample_.clear();
    if (!dataset_->Next(&sample_)) return ReadResult::kEnd;
    *record = std::as_bytes(std::span(sample_));
    return ReadResult::kRecord;
  }
  bool Ready() const override { return dataset_->Ready(); }
  bool ReInit() override { return dataset_->ReInit(); }
  std::uint64_t pass() const override {
    std::uint64_t pass = 0;
    CallUserOrThrow("the data set's Pass", [&] { pass = dataset_->Pass(); });
    return pass;
  }
  bool StartPass(std::uint64_t pass) override { return dataset_->StartPass(pass); }
  std::string name() const override { return name_; }

 private:
  const std::unique_ptr<Dataset> dataset_;
  std::string name_;
  std::string sample_;
};

void CheckBatch(std::size_t rows, std::size_t slots) {
  constexpr std::size_t kMostRows = std::size_t{1} << 30;
  if (rows == 0 || rows > kMostRows) {
    Refuse("a batch has from 1 to 2^30 rows, not " + std::to_string(rows));
  }
  if (slots == 1) Refuse("slots must be at least 2: one is filled while one is used");
}

void CheckSizes(const ShuffleOptions& options) {
  const bool window = options.window != 0;
  const bool block = options.block != 0;
  switch (options.mode) {
    case ShuffleMode::kOfSize:
      if (window == block) Refuse("Shuffle needs one of window and block");
      break;
    case ShuffleMode::kWindow:
      if (!window || block) Refuse("a window shuffle needs a window, and no block");
      break;
    case ShuffleMode::kBlock:
      if (!block || window) Refuse("a block shuffle needs a block, and no window");
      break;
    case ShuffleMode::kStripes:
      if (block) Refuse("a shuffle of stripes takes those of the files: it has a window, no block");
      break;
    case ShuffleMode::kGlobal:
    case ShuffleMode::kNone:
      if (window || block) Refuse("a global shuffle, or none, has no window and no block");
      break;
  }
}

void CheckRank(const BatchOptions& options) {
  const Rank& rank = options.rank;
  if (rank.world_size < 1 || rank.rank < 0 || rank.rank >= rank.world_size) {
    Refuse("rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) +
           ": the first of n ranks is 0, the last n - 1");
  }
  const auto ranks = static_cast<std::size_t>(rank.world_size);
  if (options.split_by_files && options.size % ranks != 0) {
    Refuse("a batch of " + std::to_string(options.size) + " rows does not divide over " +
           std::to_string(ranks) +
           " ranks, of which each reads files of its own: `size` is of all "
           "ranks together");
  }
  if (options.size < ranks) {
    Refuse("a batch of " + std::to_string(options.size) + " rows for " + std::to_string(ranks) +
           " ranks: more ranks than rows (`size` is of all ranks together)");
  }
  const bool other = options.pad || options.drop_remainder || options.split_by_files || ranks > 1;
  if (options.steps && other) {
    Refuse(
        "Batch with `steps` has rank, drop_remainder and pad there (StepOptions::rank and rest)");
  }
  if (options.steps) CheckSteps("Batch", *options.steps, "rows", options.size);
  if (options.field.empty() == (options.steps && options.steps->balance)) {
    Refuse("Batch with Balance names the `field` whose units it counts, and no other Batch does");
  }
  if (options.pad && options.drop_remainder) Refuse("a rest is dropped or padded, not both");
}

void RefusePairs(const SourceNode& node) {
  if (node.options.format.empty() || node.file_readers != nullptr) return;
  if (Status status = CheckPairs(node.options.format, node.names); !status.ok()) {
    throw Error(status);
  }
}

Reader FromSource(SourceNode node) {
  return ReaderAccess::Of(std::make_shared<GraphNode>(std::move(node), nullptr));
}

}  // namespace

ExpandedFiles ExpandNames(const std::vector<std::string>& names, const OpenOptions& options) {
  return NamedFiles(names, options, ReadingWithCache(options));
}

Reader OpenFiles(const std::vector<std::string>& names, const OpenOptions& options) {
  if (names.empty()) Refuse("the list of files is empty");
  if (names.size() == 1 && IsStreamName(names.front())) {
    CheckOptions(options, SourceKind::kStreams);
    return OpenStreamSource(OpenStream(names.front()), options);
  }
  SourceNode node;
  node.options = options;
  node.manifest = ManifestOf(names);
  const std::shared_ptr<const RemoteReading> reading = ReadingWithCache(options);
  ExpandedFiles files = node.manifest != nullptr ? ListedFiles(*node.manifest, reading)
                                                 : NamedFiles(names, options, reading);
  CheckOptions(options, SourceKind::kFiles);
  node.names = std::move(files.names);
  UseFileReaders(&node);
  if (files.any_remote && node.file_readers == nullptr) {
    node.sources = std::move(files.sources);
    node.remote = reading;
  }
  RefusePairs(node);
  CheckTunedFormat(node);
  UseSubset(&node);
  return FromSource(std::move(node));
}

Reader OpenSources(std::vector<std::shared_ptr<Source>> sources, const OpenOptions& options) {
  CheckOptions(options, SourceKind::kSources);
  if (sources.empty()) Refuse("the list of sources is empty");
  for (const auto& source : sources) {
    if (source == nullptr) Refuse("a source is null");
  }
  SourceNode node;
  node.options = options;
  node.own_sources = true;
  SourceLimits limits{options.io.retries, options.io.read_timeout_ms};
  if (limits.read_timeout_ms > 0) {
    limits.given_up_reads = std::make_shared<std::atomic<std::uint64_t>>();
    node.given_up_reads = limits.given_up_reads;
  }
  for (auto& source : sources) {
    node.sources.push_back(Guarded(std::move(source), limits));
    node.names.push_back(node.sources.back()->name());
    if (options.index_folder.empty() || !node.sources.back()->Version().empty()) continue;
    Refuse("index_folder keeps an index of a source that tells its Version(), and \"" +
           node.sources.back()->name() + "\" tells none");
  }
  UseSubset(&node);
  return FromSource(std::move(node));
}

Reader OpenStreamSource(std::unique_ptr<StreamSource> stream, const OpenOptions& options) {
  CheckOptions(options, SourceKind::kStreams);
  if (stream == nullptr) Refuse("the stream is null");
  SourceNode node;
  node.options = options;
  node.streams.push_back(
      {Guarded(std::move(stream)), options.format, options.reopen_limit, options.reopen_until});
  CheckReopens(node.streams.back());
  return FromSource(std::move(node));
}

Reader ReadAs(const Reader& opened, const std::string& format) {
  const auto* source =
      opened ? std::get_if<SourceNode>(&ReaderAccess::NodeOf(opened)->kind()) : nullptr;
  if (source == nullptr || (source->streams.size() != 1 && source->names.empty())) {
    Refuse("ReadAs takes files or a stream as they are opened");
  }
  SourceNode node = *source;
  node.options.format = format;
  CheckOptions(node.options, KindOf(node));
  for (StreamInput& stream : node.streams) stream.format = format;
  UseFileReaders(&node);
  UseSubset(&node);
  RefusePairs(node);
  ReaderAccess::NodeOf(opened)->Retire();
  return FromSource(std::move(node));
}

Reader Multiplex(const std::vector<Reader>& streams, const OpenOptions& options) {
  CheckOptions(options, SourceKind::kStreams);
  if (streams.empty()) Refuse("the list of streams is empty");
  SourceNode node;
  node.options = options;
  for (const Reader& reader : streams) {
    const auto* source =
        reader ? std::get_if<SourceNode>(&ReaderAccess::NodeOf(reader)->kind()) : nullptr;
    if (source == nullptr || source->streams.size() != 1) {
      Refuse(
          "Multiplex joins streams as they are opened: OpenStreamSource, or OpenFiles with the "
          "name of one");
    }
    StreamInput stream = source->streams.front();
    stream.reopen_limit = std::max(stream.reopen_limit, options.reopen_limit);
    stream.reopen_until = std::max(stream.reopen_until, options.reopen_until);
    CheckReopens(stream);
    node.streams.push_back(std::move(stream));
    ReaderAccess::NodeOf(reader)->Retire();
  }
  return FromSource(std::move(node));
}

Reader FromInstanceSource(std::unique_ptr<InstanceSource> source, std::vector<FieldSpec> fields,
                          const OpenOptions& options) {
  CheckOptions(options, SourceKind::kOther);
  if (source == nullptr) Refuse("the source is null");
  if (fields.empty()) Refuse("a reader must declare at least one field");
  SourceNode node;
  node.options = options;
  node.instances = std::move(source);
  node.generated = true;
  node.parser = MakeInstanceParser(std::move(fields));
  return FromSource(std::move(node));
}

Reader FromInstanceSource(std::unique_ptr<InstanceSource> source, const OpenOptions& options) {
  CheckOptions(options, SourceKind::kOther);
  if (source == nullptr) Refuse("the source is null");
  SourceNode node;
  node.options = options;
  Reader input;
  CallUserOrThrow("the reader", [&] {
    node.slots = source->slots();
    input = source->input();
  });
  if (node.slots.empty()) Refuse("the reader declares no slots: override slots()");
  node.instances = std::move(source);
  node.generated = true;
  return input ? ReaderAccess::Of(GraphNode::On(input, std::move(node)))
               : FromSource(std::move(node));
}

Reader FromDataset(std::unique_ptr<Dataset> dataset, const OpenOptions& options) {
  CheckOptions(options, SourceKind::kOther);
  if (dataset == nullptr) Refuse("the data set is null");
  SourceNode node;
  node.options = options;
  node.records = std::make_shared<DatasetRecords>(std::move(dataset));
  node.generated = true;
  return FromSource(std::move(node));
}

Reader Parse(Reader records, std::shared_ptr<const Parser> parser) {
  if (parser == nullptr) Refuse("the parser is null");
  return ReaderAccess::Of(GraphNode::On(records, ParseNode{std::move(parser)}));
}

Reader Shuffle(Reader input, const ShuffleOptions& options) {
  CheckSizes(options);
  constexpr std::size_t kMost = (std::size_t{1} << 32) - 1;
  if (options.window > kMost || options.block > kMost) {
    Refuse("a shuffle spans fewer than 2^32 records");
  }
  return ReaderAccess::Of(GraphNode::On(input, options));
}

Reader Batch(Reader input, const BatchOptions& options) {
  CheckBatch(options.size, options.slots);
  CheckRank(options);
  return ReaderAccess::Of(GraphNode::On(input, options));
}

Reader GroupBatch(Reader input, const GroupBatchOptions& options) {
  constexpr std::size_t kMostRows = (std::size_t{1} << 32) - 1;
  constexpr std::size_t kUsualBatches = 64;
  CheckBatch(options.size, options.slots);
  if (!options.group_of) Refuse("GroupBatch needs group_of, which tells a record's group");
  if (options.segment > kMostRows) Refuse("a segment has fewer than 2^32 records");
  GroupBatchOptions chosen = options;
  if (chosen.segment == 0) chosen.segment = std::min(kMostRows, kUsualBatches * options.size);
  return ReaderAccess::Of(GraphNode::On(input, std::move(chosen)));
}

Reader Share(Reader input) { return ReaderAccess::Of(GraphNode::On(input, ShareNode{})); }

namespace {

void CheckWeights(const std::vector<MixWeights>& schedule, std::size_t sets) {
  std::optional<std::uint64_t> before;
  for (const MixWeights& each : schedule) {
    if (before ? each.from_step <= *before : each.from_step != 0) {
      Refuse("a schedule of weights begins at step 0, and each next step is a later one: here is " +
             std::to_string(each.from_step));
    }
    before = each.from_step;
    if (each.weights.size() != sets) {
      Refuse("the weights from step " + std::to_string(each.from_step) + " on are " +
             std::to_string(each.weights.size()) + ", and the sets are " + std::to_string(sets));
    }
    for (const double weight : each.weights) {
      const bool usable = std::isfinite(weight) && weight > 0;
      if (!usable) Refuse("a set's weight is a number above 0");
    }
  }
}

// Null if no set has a parser.
std::shared_ptr<const Parser> ParserOf(const MixSource& mix) {
  std::vector<MixedParser> parsers;
  for (const MixSource::Set& set : mix.sets) {
    if (set.parser != nullptr) parsers.push_back({set.parser, set.source.names.size()});
  }
  if (parsers.empty()) return nullptr;
  if (parsers.size() == mix.sets.size()) return MakeMixParser(std::move(parsers));
  Refuse("Mix: some of the sets have fields, and some are records: Parse each of these");
}

Reader MixBy(const std::vector<MixSet>& sets, std::vector<MixWeights> schedule,
             const OpenOptions& options) {
  CheckOptions(options, SourceKind::kOther);
  if (sets.empty()) Refuse("the list of sets is empty");
  CheckWeights(schedule, sets.size());
  auto mix = std::make_shared<MixSource>();
  for (MixWeights& each : schedule) {
    // The same shares go on: no phase begins.
    const bool same = !mix->schedule.empty() &&
                      IntegerWeights(each.weights) == IntegerWeights(mix->schedule.back().weights);
    if (!same) mix->schedule.push_back(std::move(each));
  }
  SourceNode node;
  node.options = options;
  for (const MixSet& set : sets) {
    if (!set.records) Refuse("a set's reader is empty");
    const ExecutionPlan plan = LowerChain(*ReaderAccess::NodeOf(set.records));
    const bool files = plan.source.mix == nullptr && plan.may_have_index();
    if (!files || plan.parser != plan.record_parser || plan.batched || plan.looks_into_records() ||
        plan.passes != 1) {
      Refuse(
          "Mix takes OpenFiles, OpenSources and tables, perhaps with Parse and Shuffle; Map, Batch "
          "and all else after it");
    }
    mix->sets.push_back({plan.source, plan.stages, set.passes, set.most_records, plan.parser});
    ReaderAccess::NodeOf(set.records)->Retire();
  }
  node.parser = ParserOf(*mix);
  node.mix = std::move(mix);
  return FromSource(std::move(node));
}

}  // namespace

Reader Mix(const std::vector<MixSet>& sets, const OpenOptions& options) {
  std::vector<double> weights;
  for (const MixSet& set : sets) weights.push_back(set.weight);
  return MixBy(sets, {{0, std::move(weights)}}, options);
}

Reader Mix(const std::vector<MixSet>& sets, const MixOptions& mix, const OpenOptions& options) {
  if (mix.schedule.empty()) return Mix(sets, options);
  const auto weighed = [](const MixSet& set) { return set.weight != 1; };
  if (std::ranges::any_of(sets, weighed)) {
    Refuse("the schedule has the weights of the sets: leave MixSet::weight at 1");
  }
  return MixBy(sets, mix.schedule, options);
}

Reader MultiPass(Reader input, std::uint64_t passes) {
  return ReaderAccess::Of(GraphNode::On(input, MultiPassNode{passes}));
}

Reader Map(Reader input, std::vector<FieldSpec> fields, MapFunction function,
           const MapOptions& options) {
  if (!function) Refuse("the Map function is empty");
  if (fields.empty()) Refuse("Map must declare at least one field");
  if (options.row_timeout_ms < 0) Refuse("row_timeout_ms is a time in milliseconds, or 0 for none");
  constexpr std::int64_t kMostElements = std::int64_t{1} << 28;
  for (const FieldSpec& field : fields) {
    FieldRow row;
    const char* why = SetFieldRow(field, kMostElements, &row);
    if (why != nullptr) Refuse("Map's field \"" + field.name + "\": " + why);
  }
  return ReaderAccess::Of(
      GraphNode::On(input, MapNode{std::move(fields), std::move(function), options}));
}

Reader DoubleBuffer(Reader batches, std::size_t slots) {
  if (slots < 2) Refuse("a double buffer has at least 2 slots");
  return ReaderAccess::Of(GraphNode::On(batches, DoubleBufferNode{slots}));
}

}  // namespace ringfeed
