#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/measure_lengths.h"
#include "readers/engine/stages/content_steps.h"
#include "readers/engine/stages/share_stage.h"
#include "readers/parsers/grouped_rows.h"
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
    plan_->parser = plan_->record_parser = lengths_parser_ = node.parser;
  }
  void operator()(const MapNode& node) {
    if (plan_->batched) Refuse("Map after Batch: put Map before Batch; it sees one row at a time");
    ParseInstances();
    plan_->parser = MakeMapParser(plan_->parser, node.fields, node.function, node.options,
                                  plan_->source.options.first_epoch);
    lengths_parser_ = plan_->parser;
    lengths_from_ = changed_lengths_.size();
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
        const auto* const groups = dynamic_cast<const GroupedRows*>(plan_->record_parser.get());
        if (global && groups != nullptr) groups->CheckSingleRows();
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
    if (!options.steps) return;
    ShareRules rules;
    rules.kind = ShareRules::Kind::kRows;
    rules.step = options.size;
    rules.segment = ShareRules::kUsualSegment;
    PlanShares("Batch", rules, options.steps, options.field, false, "rows");
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
    const auto length = static_cast<std::uint32_t>(node.length);
    changed_lengths_.push_back({node.field, "cut at " + std::to_string(node.length), {length, 1}});
  }
  void operator()(const PadNode& node) {
    CheckParsed("Pad");
    plan_->parser = MakePadParser(plan_->parser, node.field, node.options);
    const std::size_t multiple = node.options.multiple;
    if (multiple > 0) {
      changed_lengths_.push_back({node.field,
                                  "filled up by " + std::to_string(multiple),
                                  {LengthTable::kHole, static_cast<std::uint32_t>(multiple)}});
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
    if (!IsPlanned(options)) {
      plan_->content.push_back(WithLengths(BucketStep(options, *plan_->parser), options.field));
      return;
    }
    ShareRules rules;
    rules.kind = ShareRules::Kind::kBuckets;
    rules.step = options.size;
    rules.segment = options.segment;
    rules.bounds = options.bounds;
    std::string text = "rows of buckets of " + options.field + " up to";
    for (const std::uint64_t bound : options.bounds) text += " " + std::to_string(bound);
    PlanShares("BucketBatch", rules, options.steps, options.field, options.drop_remainder, text);
  }
  void operator()(const TokenBatchOptions& options) {
    if (options.tokens != 0) {
      CheckParsed("TokenBatch");
    } else {
      CheckHasBytes("TokenBatch by bytes");
    }
    (*this)(BatchOptions{options.most_rows, false, options.slots});
    if (IsPlanned(options)) {
      ShareRules rules;
      rules.kind = ShareRules::Kind::kTokens;
      rules.step = options.shares;
      rules.segment = options.segment;
      rules.best_fit = options.best_fit;
      rules.padded = options.padded;
      rules.tokens = options.tokens;
      rules.most_rows = options.most_rows;
      PlanShares("TokenBatch", rules, options.steps, options.field, false,
                 "batches of up to " + std::to_string(options.tokens) + " units of " +
                     options.field + ", at most " + std::to_string(options.most_rows) + " rows" +
                     (options.padded ? ", padded" : ""));
      return;
    }
    ContentStep step = TokenStep(options, plan_->parser.get());
    if (options.tokens != 0) step = WithLengths(std::move(step), options.field);
    plan_->content.push_back(std::move(step));
  }
  void operator()(const PackOptions& options) {
    CheckParsed("Pack");
    plan_->row_parser = plan_->parser;
    plan_->parser = MakePackParser(plan_->parser, options);
    (*this)(BatchOptions{options.rows, options.drop_remainder, options.slots});
    if (IsPlanned(options)) {
      ShareRules rules;
      rules.kind = ShareRules::Kind::kPacked;
      rules.step = options.rows;
      rules.segment = options.segment;
      rules.best_fit = options.fit == PackFit::kBest;
      rules.multiple = static_cast<std::uint32_t>(options.multiple);
      rules.length = static_cast<std::uint32_t>(options.length);
      rules.most_records = static_cast<std::uint32_t>(options.most_records);
      std::string text =
          "packed into " + std::to_string(options.length) + " units of " + options.field;
      if (options.multiple > 1) text += ", by " + std::to_string(options.multiple);
      if (options.most_records > 0) {
        text += ", at most " + std::to_string(options.most_records) + " records";
      }
      PlanShares("Pack", rules, options.steps, options.field, options.drop_remainder, text);
      return;
    }
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
    if (plan_->source.names.empty()) {
      Refuse("split_by_files splits a list of files: here is none");
    }
    if (files.ranks != 1) Refuse("FileOrder splits the files already: choose one of the two");
    files.rank = static_cast<std::size_t>(batch.rank.rank);
    files.ranks = static_cast<std::size_t>(batch.rank.world_size);
    batch.size /= files.ranks;
    batch.rank = {};
  }
  static std::string TextOf(Rest rest) {
    switch (rest) {
      case Rest::kShort:
        return "";
      case Rest::kDrop:
        return ", rest dropped";
      case Rest::kPad:
        return ", rest filled up";
      case Rest::kRepeat:
        return ", rest repeated";
    }
    return "";
  }
  void CheckCanBePlanned(const std::string& who, Rest rest) const {
    if (!plan_->content.empty()) {
      Refuse(
          "Filter in front of " + who +
          ", whose batches are planned: its verdict must be known before a record is read. Write "
          "it down as a subset (WriteSubset, `ringfeed subset`)");
    }
    if (plan_->source.options.unordered) {
      Refuse(who + " with planned batches keeps the order: OpenOptions::unordered gives it up");
    }
    if (plan_->source.options.files.ranks > 1) {
      Refuse(who +
             " with planned batches splits each step over the ranks: FileOrder splits the "
             "files already");
    }
    if (rest == Rest::kRepeat && plan_->source.mix != nullptr) {
      Refuse(who +
             " over a mixture repeats no shares (Rest::kRepeat): a set may have begun another "
             "pass; fill the rest up (Rest::kPad)");
    }
  }
  // The last step of the chain, whose batches are planned. `text` says what makes its shares.
  void PlanShares(const std::string& who, ShareRules rules, const std::optional<StepOptions>& given,
                  const std::string& field, bool drops, std::string text) {
    const StepOptions steps = given.value_or(StepOptions{});
    SharedSteps shared;
    rules.rest = drops ? Rest::kDrop : steps.rest;
    CheckCanBePlanned(who, rules.rest);
    rules.first_epoch = plan_->source.options.first_epoch;
    text += ", in segments of " + std::to_string(rules.segment) + ", steps of " +
            std::to_string(rules.step);
    text += TextOf(rules.rest);
    if (steps.balance) {
      rules.cost = {steps.balance->linear, steps.balance->square};
      rules.alike = steps.balance->alike;
      shared.split.balance = true;
    }
    if (rules.best_fit) text += ", best fit";
    rules.seed = steps.seed;
    if (rules.draws()) text += ", seed " + std::to_string(rules.seed);
    if (rules.alike > 1) {
      text += ", " + std::to_string(rules.alike) + " alike by " +
              std::to_string(rules.cost.linear) + " " + std::to_string(rules.cost.square);
    }
    shared.rules = rules;
    shared.split.ranks = static_cast<std::uint64_t>(steps.rank.world_size);
    shared.split.weights = steps.rank_weights;
    RefuseEmptyParts(who, shared);
    shared.rank = static_cast<std::uint64_t>(steps.rank.rank);
    shared.field = field;
    shared.measure = MeasureLengths;
    if (!field.empty()) SetLengths(who, steps, &shared);
    plan_->batch.rank = steps.rank;
    plan_->batch.pad = rules.fills_up();
    plan_->batch.drop_remainder = false;
    // A short step has as many batches as the others: their numbers tell the step.
    if (shared.in_pieces() && rules.step > 1) plan_->batch.empty_batches = true;
    plan_->shares = std::move(shared);
    ContentStep step = ShareStep(rules, std::move(text));
    if (!field.empty()) {
      // Pack's field is fixed by now.
      const bool packed = rules.kind == ShareRules::Kind::kPacked;
      const std::size_t index = packed ? 0 : FindRaggedField(*plan_->parser, field, who);
      const PlannedUnits units{field, index, plan_->parser->fields().size(), rules,
                               plan_->source.options.on_damage};
      step.after_locate = [units](Block* block) { CheckPlannedUnits(units, block); };
    }
    plan_->content.push_back(WithLengths(std::move(step), field));
  }
  // The batches of a step that is filled up have all rows of the rank: it needs one.
  static void RefuseEmptyParts(const std::string& who, SharedSteps shared) {
    for (; shared.rank < shared.split.ranks; ++shared.rank) {
      if (shared.SharesOfRank() > 0) continue;
      Refuse(who + ": by rank_weights rank " + std::to_string(shared.rank) +
             " has no part of a step of " + std::to_string(shared.rules.step) +
             ", whose rest is filled up: make steps larger, or its weight");
    }
  }
  static FieldLengths UnitsOf(const std::string& who, const StepOptions& steps,
                              const std::string& field,
                              const std::shared_ptr<const Parser>& parser) {
    const std::size_t index = FindRaggedField(*parser, field, who);
    if (!steps.lengths.empty()) {
      return {"named " + steps.lengths + ": " + field, MakeUnitsParser(parser, index)};
    }
    FieldLengths units = parser->LengthsOf(index);
    if (units.key.empty()) {
      Refuse(who + " with planned batches needs the lengths of \"" + field +
             "\", which a table, a function or a parser of yours makes: name them "
             "(StepOptions::lengths)");
    }
    units.parser = MakeUnitsParser(units.parser, 0);
    return units;
  }
  void SetLengths(const std::string& who, const StepOptions& steps, SharedSteps* shared) const {
    shared->is_named = !steps.lengths.empty();
    const MixSource* const mix =
        plan_->source.parser == nullptr ? nullptr : plan_->source.mix.get();
    if (mix != nullptr && lengths_parser_ == nullptr) {
      for (const MixSource::Set& set : mix->sets) {
        shared->set_units.push_back(UnitsOf(who, steps, shared->field, set.parser));
      }
    } else if (mix != nullptr) {
      Refuse(who + " with planned batches needs the lengths of \"" + shared->field +
             "\", which Map makes of sets that were parsed in front of Mix: Parse after Mix");
    } else if (lengths_parser_ == nullptr) {
      Refuse(who + " with planned batches takes records of files: here are instances");
    } else {
      shared->units = UnitsOf(who, steps, shared->field, lengths_parser_);
    }
    for (std::size_t i = lengths_from_; i < changed_lengths_.size(); ++i) {
      const ChangedLength& each = changed_lengths_[i];
      if (each.field == shared->field) shared->changes.push_back(each.change);
    }
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
    LengthChange change;
  };

  ExecutionPlan* const plan_;
  const GraphNode* const first_;
  std::vector<ChangedLength> changed_lengths_;
  std::shared_ptr<const Parser> lengths_parser_;  ///< of Parse, or of the last Map
  std::size_t lengths_from_ = 0;                  ///< changed_lengths_ from here on come after it
};

void CheckMask(const ExecutionPlan& plan) {
  if (!plan.batched || !plan.batch.pad) return;
  const auto slots = plan.Slots();
  const auto masks = std::count_if(slots.begin(), slots.end(),
                                   [](const SlotSpec& slot) { return slot.name == kMaskName; });
  if (masks > 1) Refuse("padded batches have a field \"mask\" of their own: name yours otherwise");
}

// Weights by the step need the place of a step before anything is read.
void CheckSchedule(const ExecutionPlan& plan) {
  if (plan.source.mix == nullptr || !plan.source.mix->is_scheduled()) return;
  const std::string who = "a mixture whose weights change by the step ";
  if (plan.looks_into_records() && !plan.shares) {
    Refuse(who +
           "needs batches whose numbers are known before they are read: without Filter, and "
           "groups, packed rows and token batches planned (StepOptions)");
  }
  if (plan.LookBack() > 0) {
    Refuse(who + "holds nothing back: shuffle its sets in front of Mix, not the mixture");
  }
  if (plan.JoinsByWeights()) {
    Refuse(who +
           "joins no passes of sets with an end and sets without: put MultiPass behind Batch");
  }
}

}  // namespace

ExecutionPlan LowerChain(const GraphNode& last) {
  ExecutionPlan plan;
  const std::vector<const GraphNode*> chain = ChainOf(last);
  Lowering lowering(&plan, chain.front());
  for (const GraphNode* node : chain) std::visit(lowering, node->kind());
  if (plan.batched && plan.parser == nullptr) plan.parser = RawParser();
  if (plan.row_parser == nullptr) plan.row_parser = plan.parser;
  if (plan.passes != 1 && !plan.rewindable()) {
    Refuse("a stream comes once: MultiPass needs a source that can start again");
  }
  if (plan.needs_index() && !plan.may_have_index()) {
    Refuse(std::string(plan.source.subset == nullptr ? "this order" : "a subset") +
           " needs an index of the records: a list of files, and not IndexUse::kNever");
  }
  if (plan.passes != 1 && plan.source.shared) {
    Refuse("MultiPass after Share would take the other chains' records: put it before Share");
  }
  CheckMask(plan);
  CheckSchedule(plan);
  return plan;
}

}  // namespace ringfeed
