#include "readers/graph.h"

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "readers/decorators/content_steps.h"
#include "readers/instance_parser.h"
#include "readers/map_parser.h"
#include "readers/pack_parser.h"
#include "readers/pad_parser.h"
#include "readers/session.h"
#include "readers/shared_source.h"
#include "readers/truncate_parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

namespace {

/// The last tensor of a padded batch: which of its rows are there.
constexpr const char* kMaskName = "mask";

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

/// Nodes from the source, or from where a shared reader is taken from, to the last.
std::vector<const GraphNode*> ChainOf(const GraphNode& last) {
  std::vector<const GraphNode*> chain = {&last};
  while (!chain.back()->begins_chain()) chain.push_back(chain.back()->input().get());
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// Lowers one node into the program: one function per kind, in the chain's order.
class Lowering {
 public:
  Lowering(Program* program, const GraphNode* first) : program_(program), first_(first) {}

  void operator()(const SourceNode& node) {
    program_->source = node;
    program_->parser = node.parser;
  }
  void operator()(const ShareNode& /*node*/) {
    program_->source = SharedSource(first_->input()->InnerSession());
  }
  void operator()(const ParseNode& node) {
    if (program_->parser != nullptr || !program_->source.slots.empty()) {
      Refuse("Parse on fields: the chain is parsed already; parse once, or use Map");
    }
    program_->parser = program_->record_parser = node.parser;
  }
  void operator()(const MapNode& node) {
    if (program_->batched) {
      Refuse("Map behind Batch: put Map before Batch; it sees one row at a time");
    }
    ParseInstances();
    program_->parser = MakeMapParser(program_->parser, node.fields, node.function);
  }
  void operator()(const ShuffleOptions& options) {
    if (program_->batched) {
      Refuse("Shuffle behind Batch would shuffle whole batches: put Shuffle before Batch");
    }
    if (!program_->content.empty()) {
      Refuse("Shuffle behind Filter: put Filter behind Shuffle, whose order is known unread");
    }
    using Kind = OrderStage::Kind;
    const bool window = options.window > 0;
    switch (options.mode) {
      case ShuffleMode::kNone:
        return;
      case ShuffleMode::kBlocks:
      case ShuffleMode::kGlobal: {
        CheckStandsOnFiles();
        const bool global = options.mode == ShuffleMode::kGlobal;
        program_->stages.push_back({global ? Kind::kGlobal : Kind::kBlocks, 0, options.seed});
        if (window) program_->stages.push_back({Kind::kWindow, options.window, options.seed});
        return;
      }
      default:
        program_->stages.push_back({window ? Kind::kWindow : Kind::kBlock,
                                    std::max(options.window, options.block), options.seed});
    }
  }
  void operator()(const BatchOptions& options) {
    if (program_->batched) Refuse("Batch of batches: give the product of the sizes to one Batch");
    program_->batched = true;
    program_->batch = options;
    if (options.split_by_files) SplitByFiles();
    ParseInstances();
  }
  void operator()(const FilterNode& node) {
    if (program_->batched) Refuse("Filter behind Batch: put Filter before Batch");
    CheckHasBytes("Filter");
    ContentStep step = FilterStep(node.keep);
    if (program_->content.empty()) return AddContent(std::move(step), 0);
    // Of several the rows that any of them drops are dropped by the first one's stage.
    auto& ask = program_->content.front().before_locate;
    ask = [first = std::move(ask), second = std::move(step.before_locate)](Block* block) {
      first(block);
      second(block);
    };
  }
  void operator()(const TruncateNode& node) {
    CheckParsed("Truncate");
    program_->parser =
        MakeTruncateParser(program_->parser, node.field, static_cast<std::uint32_t>(node.length));
  }
  void operator()(const PadNode& node) {
    CheckParsed("Pad");
    program_->parser = MakePadParser(program_->parser, node.field, node.options);
  }
  void operator()(const GroupBatchOptions& options) {
    (*this)(BatchOptions{options.size, options.drop_remainder, options.slots});
    CheckHasBytes("GroupBatch");
    AddContent(GroupStep(options), options.segment);
  }
  void operator()(const BucketBatchOptions& options) {
    CheckParsed("BucketBatch");
    (*this)(BatchOptions{options.size, options.drop_remainder, options.slots});
    AddContent(BucketStep(options, *program_->parser), options.segment);
  }
  void operator()(const TokenBatchOptions& options) {
    if (options.tokens != 0) {
      CheckParsed("TokenBatch");
    } else {
      CheckHasBytes("TokenBatch by bytes");
    }
    (*this)(BatchOptions{options.most_rows, false, options.slots});
    AddContent(TokenStep(options, program_->parser.get()), 0);
  }
  void operator()(const PackOptions& options) {
    CheckParsed("Pack");
    program_->packer = std::make_shared<const PackParser>(program_->parser, options);
    program_->parser = program_->packer;
    (*this)(BatchOptions{options.rows, options.drop_remainder, options.slots});
    AddContent(PackStep(options), options.segment);
  }
  void operator()(const MultiPassNode& node) {
    if (__builtin_mul_overflow(program_->passes, node.passes, &program_->passes)) {
      Refuse("more than 2^64 passes: 0 are without end");
    }
    if (!program_->batched) {
      // In front of Filter, which does not mind: the order's stages stand together.
      auto& stages = program_->stages;
      const auto content = static_cast<std::ptrdiff_t>(program_->content.size());
      stages.insert(stages.end() - content, {Program::Stage::Kind::kMultiPass, node.passes, 0});
    }
    // Behind Batch the rest of every pass stays a batch of its own: nothing joins the passes.
  }
  void operator()(const DoubleBufferNode& node) {
    // In front of Batch, too: what a chain delivers is ready before it is asked for, anyway.
    if (program_->batched) program_->batch.slots = node.slots;
  }

 private:
  void CheckStandsOnFiles() const {
    if (!program_->stages.empty() || program_->passes != 1) {
      Refuse("a global shuffle, or one of blocks, is of the files: put it right behind OpenFiles");
    }
    if (program_->source.mix != nullptr) {
      Refuse("a mixture is shuffled in front of Mix, each set by itself, or behind it by a window");
    }
  }
  // Each rank takes files of its own, and its part of the batch's rows of these.
  void SplitByFiles() {
    BatchOptions& batch = program_->batch;
    FileOrder& files = program_->source.options.files;
    if (program_->source.names.empty() && program_->source.sources.empty()) {
      Refuse("split_by_files splits a list of files: here is none");
    }
    if (files.ranks != 1) Refuse("FileOrder splits the files already: choose one of the two");
    files.rank = static_cast<std::size_t>(batch.rank.rank);
    files.ranks = static_cast<std::size_t>(batch.rank.world_size);
    batch.size /= files.ranks;
    batch.rank = {};
  }
  void AddContent(ContentStep step, std::uint64_t held_rows) {
    program_->stages.push_back({Program::Stage::Kind::kContent, held_rows, 0});
    program_->content.push_back(std::move(step));
  }
  void CheckHasBytes(const std::string& who) const {
    if (program_->source.instances == nullptr) return;
    Refuse(who + " looks at the bytes of records: a reader of instances has none");
  }
  // For what looks at fields of rows.
  void CheckParsed(const std::string& who) {
    if (program_->batched) Refuse(who + " behind Batch: put it before Batch; it sees one row");
    ParseInstances();
    if (program_->parser == nullptr) Refuse(who + " names a field: put Parse in front");
  }
  void ParseInstances() {
    if (!program_->passes_instances()) return;
    const SourceNode& source = program_->source;
    program_->parser =
        source.batch_parser != nullptr ? source.batch_parser : MakeSlotParser(source.slots);
  }

  Program* const program_;
  const GraphNode* const first_;
};

}  // namespace

GraphNode::GraphNode(Kind&& kind, std::shared_ptr<GraphNode> input)
    : kind_(std::move(kind)), input_(std::move(input)) {}

std::shared_ptr<GraphNode> GraphNode::On(const Reader& input, Kind kind) {
  if (!input) Refuse("the reader to decorate is empty");
  GraphNode& node = *input.node();
  const auto* const source = std::get_if<SourceNode>(&node.kind_);
  if (source != nullptr && source->instances != nullptr && source->instances->on_device()) {
    Refuse("batches on a device are for their consumer: put the double buffer at the chain's end");
  }
  auto consumer = std::make_shared<GraphNode>(std::move(kind), input.node());
  const bool many = std::holds_alternative<ShareNode>(node.kind_);
  const std::lock_guard lock(node.mutex_);
  if (node.session_ != nullptr) {
    Refuse("the reader is being read already: build the whole chain first, then read its end");
  }
  if (node.retired_) Refuse("the reader was given to Multiplex or ReadAs: build on that");
  std::erase_if(node.consumers_, [](const auto& each) { return each.expired(); });
  if (!many && !node.consumers_.empty()) {
    Refuse("the reader has a consumer already: a node has one, Share makes one that has many");
  }
  node.consumers_.push_back(consumer);
  return consumer;
}

std::shared_ptr<ReaderSession> GraphNode::Session() {
  if (HasConsumer()) Refuse("the reader was given to a decorator: read the end of the chain");
  return InnerSession();
}

void GraphNode::Retire() {
  if (HasConsumer()) Refuse("the reader has a consumer already");
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr || retired_) Refuse("the stream is being read already");
  retired_ = true;
}

std::shared_ptr<ReaderSession> GraphNode::InnerSession() {
  const std::lock_guard lock(mutex_);
  if (retired_) Refuse("the reader was given to Multiplex or ReadAs: read that");
  if (session_ == nullptr) session_ = std::make_shared<ReaderSession>(LowerChain(*this), input_);
  return session_;
}

std::shared_ptr<ReaderSession> GraphNode::StartedSession() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

GraphNode::Nodes GraphNode::Consumers() const {
  const std::lock_guard lock(mutex_);
  Nodes consumers;
  for (const auto& each : consumers_) {
    if (auto consumer = each.lock()) consumers.push_back(std::move(consumer));
  }
  return consumers;
}

std::shared_ptr<GraphNode> GraphNode::Top() {
  std::shared_ptr<GraphNode> top = shared_from_this();
  while (top->input_ != nullptr) top = top->input_;
  return top;
}

GraphNode::Nodes GraphNode::Graph() {
  Nodes nodes = {Top()};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto& consumer : nodes[i]->Consumers()) nodes.push_back(std::move(consumer));
  }
  return nodes;
}

std::vector<std::shared_ptr<GraphNode>> GraphNode::EndPoints() {
  Nodes nodes = Graph();
  // What was given to Multiplex or ReadAs is read there.
  std::erase_if(nodes, [](const auto& node) {
    if (node->HasConsumer()) return true;
    const std::lock_guard lock(node->mutex_);
    return node->retired_;
  });
  return nodes;
}

namespace {

// Ends first, so that nobody reads from one that stands; then from the sources on.
void ReInitAll(const std::vector<std::shared_ptr<ReaderSession>>& sessions) {
  for (const auto& session : sessions) {
    if (!session->program().rewindable()) {
      throw Error(Status(StatusCode::kUnsupported,
                         "a stream cannot start again: ReInit needs files, or a reader that can"));
    }
  }
  for (auto it = sessions.rbegin(); it != sessions.rend(); ++it) (*it)->Pause();
  std::exception_ptr failure;
  for (const auto& session : sessions) {
    try {
      session->Resume();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

void GraphNode::ReInit() {
  const std::shared_ptr<GraphNode> top = Top();
  const std::lock_guard lock(top->reinit_mutex_);
  std::vector<std::shared_ptr<ReaderSession>> sessions;
  for (const auto& node : Graph()) {
    if (auto session = node->StartedSession()) sessions.push_back(std::move(session));
  }
  ReInitAll(sessions);
}

void GraphNode::GoToAim() {
  // Before the first read there is nothing to be stopped, and nothing that would have to rewind.
  if (Session()->started()) ReInit();
}

bool GraphNode::ReInitInput() {
  std::vector<std::shared_ptr<ReaderSession>> sessions;
  for (const GraphNode* node = input_.get(); node != nullptr; node = node->input_.get()) {
    if (std::holds_alternative<ShareNode>(node->kind_)) return false;
    if (auto session = node->StartedSession()) sessions.push_back(std::move(session));
  }
  std::reverse(sessions.begin(), sessions.end());
  ReInitAll(sessions);
  return true;
}

bool Program::shuffled() const {
  return std::any_of(stages.begin(), stages.end(), [](const Stage& stage) {
    if (stage.kind == Stage::Kind::kContent) return stage.amount > 0;
    return stage.kind != Stage::Kind::kMultiPass;
  });
}

std::span<const OrderStage> Program::order_stages() const {
  const auto looks = [](const Stage& stage) { return stage.kind == Stage::Kind::kContent; };
  const auto end = std::find_if(stages.begin(), stages.end(), looks);
  return {stages.begin(), end};
}

bool Program::needs_index() const {
  const auto by_index = [](const Stage& stage) {
    return stage.kind == Stage::Kind::kBlocks || stage.kind == Stage::Kind::kGlobal;
  };
  return source.mix != nullptr || batch.rank.world_size > 1 ||
         std::any_of(stages.begin(), stages.end(), by_index);
}

bool Program::may_have_index() const {
  const bool files = (!source.names.empty() && source.file_readers == nullptr) ||
                     !source.sources.empty() || source.mix != nullptr;
  return files && source.options.index != IndexUse::kNever;
}

std::string Program::WhyNoPosition() const {
  if (source.options.unordered) return "OpenOptions::unordered gives the order up";
  if (source.streams.size() > 1) return "several streams come in no order";
  if (source.shared) return "what a chain gets of a shared reader depends on the others";
  return {};
}

namespace {

std::string Text(const OrderStage& stage) {
  using Kind = OrderStage::Kind;
  static const std::map<Kind, const char*> kNames = {
      {Kind::kWindow, "window"}, {Kind::kBlock, "block"},   {Kind::kMultiPass, "passes"},
      {Kind::kContent, ""},      {Kind::kBlocks, "blocks"}, {Kind::kGlobal, "global"}};
  std::string text = kNames.at(stage.kind);
  if (stage.amount != 0 || stage.kind == Kind::kMultiPass) {
    text += " " + std::to_string(stage.amount);
  }
  if (stage.seed != 0) text += " seed " + std::to_string(stage.seed);
  return text;
}

std::string Text(const SourceNode& source) {
  std::string text;
  if (source.mix != nullptr) {
    for (const MixSource::Set& set : source.mix->sets) {
      text += (text.empty() ? "mix (" : " | ") + Text(set.source);
      for (const OrderStage& stage : set.stages) text += ", " + Text(stage);
      text += ", passes " + std::to_string(set.passes);
      if (set.most_records != 0) text += ", at most " + std::to_string(set.most_records);
    }
    return text + ")";
  }
  if (source.names.empty() && source.sources.empty()) {
    return source.streams.empty() ? "a reader of the user's" : "a stream";
  }
  const FileOrder& files = source.options.files;
  text = "files by " + std::to_string(source.options.cycle) + ", stripes of " +
         std::to_string(source.options.stripe_bytes);
  if (!source.options.format.empty()) text += ", " + source.options.format;
  if (files.shuffle) {
    text += ", shuffled by " + std::to_string(files.seed) + " from pass " +
            std::to_string(files.from_pass);
  }
  if (files.ranks > 1) text += ", split over " + std::to_string(files.ranks);
  if (source.options.first_epoch != 0) {
    text += ", epoch " + std::to_string(source.options.first_epoch);
  }
  return text;
}

}  // namespace

std::string Program::OrderText() const {
  std::string text = Text(source);
  for (const Stage& stage : order_stages()) text += "; " + Text(stage);
  for (const ContentStep& step : content) text += "; " + step.text;
  if (batched) text += "; batch " + std::to_string(batch.size);
  if (batch.drop_remainder) text += ", rest dropped";
  constexpr std::size_t kMostText = 400;
  if (text.size() <= kMostText) return text;
  // Too long for a position: its start, and a number of all of it.
  const auto hash = std::accumulate(
      text.begin(), text.end(), std::uint64_t{0xCBF29CE484222325}, [](std::uint64_t sum, char c) {
        return (sum ^ static_cast<unsigned char>(c)) * std::uint64_t{0x100000001B3};  // FNV-1a
      });
  return text.substr(0, kMostText - 40) + "… " + std::to_string(hash);
}

std::vector<std::uint64_t> Program::Seeds() const {
  std::vector<std::uint64_t> seeds;
  if (source.options.files.shuffle) seeds.push_back(source.options.files.seed);
  for (const Stage& stage : stages) {
    const bool draws = stage.kind != Stage::Kind::kMultiPass && stage.kind != Stage::Kind::kContent;
    if (draws) seeds.push_back(stage.seed);
  }
  return seeds;
}

std::vector<SlotSpec> Program::Slots() const {
  if (passes_instances()) return source.slots;
  if (parser == nullptr) return {{"record", kUInt8, {-1}, 0}};
  std::vector<SlotSpec> slots;
  std::size_t levels = 0;  // in front of this field
  for (std::size_t f = 0; f < parser->fields().size(); ++f) {
    const FieldSpec& field = parser->fields()[f];
    if (parser->role(f) == FieldRole::kLodLevel) {
      ++levels;
      continue;
    }
    SlotSpec slot{field.name, field.dtype, field.shape, std::exchange(levels, 0)};
    // Rows vary (the last batch), and so do the joined steps of ragged rows.
    if (batched && !field.ragged()) slot.dims.insert(slot.dims.begin(), -1);
    if (batched && field.ragged() && parser->role(f) == FieldRole::kTensor) slot.lod_levels = 1;
    slots.push_back(std::move(slot));
  }
  if (batched && batch.pad) slots.push_back({kMaskName, kUInt8, {-1}, 0});
  return slots;
}

namespace {

void CheckMask(const Program& program) {
  if (!program.batched || !program.batch.pad) return;
  const auto slots = program.Slots();
  const auto masks = std::count_if(slots.begin(), slots.end(),
                                   [](const SlotSpec& slot) { return slot.name == kMaskName; });
  if (masks > 1) Refuse("padded batches have a field \"mask\" of their own: name yours otherwise");
}

}  // namespace

Program LowerChain(const GraphNode& last) {
  Program program;
  const std::vector<const GraphNode*> chain = ChainOf(last);
  Lowering lowering(&program, chain.front());
  for (const GraphNode* node : chain) std::visit(lowering, node->kind());
  if (program.batched && program.parser == nullptr) program.parser = RawParser();
  if (program.passes != 1 && !program.rewindable()) {
    Refuse("a stream comes once: MultiPass needs a source that can start again");
  }
  if (program.needs_index() && !program.may_have_index()) {
    Refuse("this order needs an index of the records: a list of files, and not IndexUse::kNever");
  }
  if (program.passes != 1 && program.source.shared) {
    Refuse("MultiPass behind Share would take the other chains' records: put it before Share");
  }
  CheckMask(program);
  return program;
}

}  // namespace ringfeed
