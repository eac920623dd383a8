#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/engine/stages/content_steps.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

namespace {

/// Nodes from the source, or from the Share that begins the chain, to the last.
std::vector<const GraphNode*> ChainOf(const GraphNode& last) {
  std::vector<const GraphNode*> chain = {&last};
  while (!chain.back()->begins_chain()) chain.push_back(chain.back()->input().get());
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// Lowers one node into the plan: one function per kind, in the chain's order.
class Lowering {
 public:
  Lowering(ExecutionPlan* plan, const GraphNode* first) : plan_(plan), first_(first) {}

  void operator()(const SourceNode& node) {
    plan_->source = node;
    plan_->parser = node.parser;
  }
  void operator()(const ShareNode& /*node*/) {
    plan_->source = SharedSource(first_->input()->InnerSession());
  }
  void operator()(const ParseNode& node) {
    if (plan_->parser != nullptr || !plan_->source.slots.empty()) {
      Refuse("Parse on fields: the chain is parsed already; parse once, or use Map");
    }
    plan_->parser = plan_->record_parser = node.parser;
  }
  void operator()(const MapNode& node) {
    if (plan_->batched) Refuse("Map after Batch: put Map before Batch; it sees one row at a time");
    ParseInstances();
    plan_->parser = MakeMapParser(plan_->parser, node.fields, node.function, node.options,
                                  plan_->source.options.first_epoch);
  }
  void operator()(const ShuffleOptions& options) {
    if (plan_->batched) {
      Refuse("Shuffle behind Batch would shuffle whole batches: put Shuffle before Batch");
    }
    if (!plan_->content.empty()) {
      Refuse("Shuffle behind Filter: put Filter behind Shuffle, whose order is known unread");
    }
    using Kind = OrderStage::Kind;
    const bool window = options.window > 0;
    switch (options.mode) {
      case ShuffleMode::kNone:
        return;
      case ShuffleMode::kStripes:
      case ShuffleMode::kGlobal: {
        CheckStandsOnFiles();
        const bool global = options.mode == ShuffleMode::kGlobal;
        plan_->stages.push_back({global ? Kind::kGlobal : Kind::kStripes, 0, options.seed});
        if (window) plan_->stages.push_back({Kind::kWindow, options.window, options.seed});
        return;
      }
      default:
        plan_->stages.push_back({window ? Kind::kWindow : Kind::kBlock,
                                 std::max(options.window, options.block), options.seed});
    }
  }
  void operator()(const BatchOptions& options) {
    if (plan_->batched) Refuse("Batch of batches: give the product of the sizes to one Batch");
    plan_->batched = true;
    plan_->batch = options;
    if (options.split_by_files) SplitByFiles();
    ParseInstances();
  }
  void operator()(const FilterNode& node) {
    if (plan_->batched) Refuse("Filter after Batch: put Filter before Batch");
    CheckHasBytes("Filter");
    ContentStep step = FilterStep(node.keep);
    if (plan_->content.empty()) return plan_->content.push_back(std::move(step));
    // If there are several filters, the first one's stage drops the rows of all.
    auto& ask = plan_->content.front().before_locate;
    ask = [first = std::move(ask), second = std::move(step.before_locate)](Block* block) {
      first(block);
      second(block);
    };
  }
  void operator()(const TruncateNode& node) {
    CheckParsed("Truncate");
    plan_->parser =
        MakeTruncateParser(plan_->parser, node.field, static_cast<std::uint32_t>(node.length));
    changed_lengths_.push_back({node.field, "cut at " + std::to_string(node.length)});
  }
  void operator()(const PadNode& node) {
    CheckParsed("Pad");
    plan_->parser = MakePadParser(plan_->parser, node.field, node.options);
    const std::size_t multiple = node.options.multiple;
    if (multiple > 0) {
      changed_lengths_.push_back({node.field, "filled up by " + std::to_string(multiple)});
    }
  }
  void operator()(const GroupBatchOptions& options) {
    (*this)(BatchOptions{options.size, options.drop_remainder, options.slots});
    CheckHasBytes("GroupBatch");
    plan_->content.push_back(GroupStep(options));
  }
  void operator()(const BucketBatchOptions& options) {
    CheckParsed("BucketBatch");
    (*this)(BatchOptions{options.size, options.drop_remainder, options.slots});
    plan_->content.push_back(WithLengths(BucketStep(options, *plan_->parser), options.field));
  }
  void operator()(const TokenBatchOptions& options) {
    if (options.tokens != 0) {
      CheckParsed("TokenBatch");
    } else {
      CheckHasBytes("TokenBatch by bytes");
    }
    (*this)(BatchOptions{options.most_rows, false, options.slots});
    ContentStep step = TokenStep(options, plan_->parser.get());
    if (options.tokens != 0) step = WithLengths(std::move(step), options.field);
    plan_->content.push_back(std::move(step));
  }
  void operator()(const PackOptions& options) {
    CheckParsed("Pack");
    plan_->parser = MakePackParser(plan_->parser, options);
    (*this)(BatchOptions{options.rows, options.drop_remainder, options.slots});
    plan_->content.push_back(WithLengths(PackStep(options), options.field));
  }
  void operator()(const MultiPassNode& node) {
    if (__builtin_mul_overflow(plan_->passes, node.passes, &plan_->passes)) {
      Refuse("more than 2^64 passes: 0 are without end");
    }
    // In front of Filter, which allows it.
    if (!plan_->batched) plan_->stages.push_back({OrderStage::Kind::kMultiPass, node.passes, 0});
    // After Batch the rest of every pass stays a batch of its own: nothing joins the passes.
  }
  void operator()(const DoubleBufferNode& node) {
    // In front of Batch, too: a chain always prepares what it delivers before it is asked for.
    (plan_->batched ? plan_->batch.slots : plan_->buffered) = node.slots;
  }

 private:
  void CheckStandsOnFiles() const {
    if (!plan_->stages.empty() || plan_->passes != 1) {
      Refuse("a global shuffle, or one of stripes, is of the files: put it right after OpenFiles");
    }
    if (plan_->source.mix != nullptr) {
      Refuse("a mixture is shuffled in front of Mix, each set by itself, or after it by a window");
    }
  }
  // Each rank takes files of its own, and all of the batch's rows from these.
  void SplitByFiles() {
    BatchOptions& batch = plan_->batch;
    FileOrder& files = plan_->source.options.files;
    if (plan_->source.names.empty() && plan_->source.sources.empty()) {
      Refuse("split_by_files splits a list of files: here is none");
    }
    if (files.ranks != 1) Refuse("FileOrder splits the files already: choose one of the two");
    files.rank = static_cast<std::size_t>(batch.rank.rank);
    files.ranks = static_cast<std::size_t>(batch.rank.world_size);
    batch.size /= files.ranks;
    batch.rank = {};
  }
  // Batches of a step that uses lengths depend on the steps before it that change them.
  ContentStep WithLengths(ContentStep step, const std::string& field) const {
    std::string changes;
    for (const ChangedLength& each : changed_lengths_) {
      if (each.field == field) changes += field + " " + each.how + "; ";
    }
    step.text = changes + step.text;
    return step;
  }
  void CheckHasBytes(const std::string& who) const {
    if (plan_->source.instances == nullptr) return;
    Refuse(who + " looks at the bytes of records: a reader of instances has none");
  }
  // For steps that use fields of rows.
  void CheckParsed(const std::string& who) {
    if (plan_->batched) Refuse(who + " after Batch: put it before Batch; it sees one row");
    ParseInstances();
    if (plan_->parser == nullptr) Refuse(who + " names a field: put Parse in front");
  }
  void ParseInstances() {
    if (!plan_->passes_instances()) return;
    const SourceNode& source = plan_->source;
    plan_->parser =
        source.batch_parser != nullptr ? source.batch_parser : MakeSlotParser(source.slots);
  }

  /// Set by Truncate or Pad, as positions name it.
  struct ChangedLength {
    std::string field;
    std::string how;
  };

  ExecutionPlan* const plan_;
  const GraphNode* const first_;
  std::vector<ChangedLength> changed_lengths_;
};

void CheckMask(const ExecutionPlan& plan) {
  if (!plan.batched || !plan.batch.pad) return;
  const auto slots = plan.Slots();
  const auto masks = std::count_if(slots.begin(), slots.end(),
                                   [](const SlotSpec& slot) { return slot.name == kMaskName; });
  if (masks > 1) Refuse("padded batches have a field \"mask\" of their own: name yours otherwise");
}

}  // namespace

ExecutionPlan LowerChain(const GraphNode& last) {
  ExecutionPlan plan;
  const std::vector<const GraphNode*> chain = ChainOf(last);
  Lowering lowering(&plan, chain.front());
  for (const GraphNode* node : chain) std::visit(lowering, node->kind());
  if (plan.batched && plan.parser == nullptr) plan.parser = RawParser();
  if (plan.passes != 1 && !plan.rewindable()) {
    Refuse("a stream comes once: MultiPass needs a source that can start again");
  }
  if (plan.needs_index() && !plan.may_have_index()) {
    Refuse("this order needs an index of the records: a list of files, and not IndexUse::kNever");
  }
  if (plan.passes != 1 && plan.source.shared) {
    Refuse("MultiPass after Share would take the other chains' records: put it before Share");
  }
  CheckMask(plan);
  return plan;
}

}  // namespace ringfeed
