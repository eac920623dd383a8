#include "readers/graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "readers/map_parser.h"
#include "readers/session.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

/// Nodes from the source to the last.
std::vector<const GraphNode*> ChainOf(const GraphNode& last) {
  std::vector<const GraphNode*> chain;
  for (const GraphNode* node = &last; node != nullptr; node = node->input().get()) {
    chain.push_back(node);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// Lowers one node into the program: one function per kind, in the chain's order.
class Lowering {
 public:
  explicit Lowering(Program* program) : program_(program) {}

  void operator()(const SourceNode& node) {
    program_->source = node;
    program_->parser = node.parser;
  }
  void operator()(const ParseNode& node) {
    if (program_->parser != nullptr) {
      Refuse("Parse on fields: the chain is parsed already; parse once, or use Map");
    }
    program_->parser = node.parser;
  }
  void operator()(const MapNode& node) {
    if (program_->batched) {
      Refuse("Map behind Batch: put Map before Batch; it sees one row at a time");
    }
    program_->parser = MakeMapParser(program_->parser, node.fields, node.function);
  }
  void operator()(const ShuffleOptions& options) {
    if (program_->batched) {
      Refuse("Shuffle behind Batch would shuffle whole batches: put Shuffle before Batch");
    }
    Program::Stage stage;
    stage.kind = options.window > 0 ? Program::Stage::Kind::kWindow : Program::Stage::Kind::kBlock;
    stage.amount = std::max(options.window, options.block);
    stage.seed = options.seed;
    program_->stages.push_back(stage);
  }
  void operator()(const BatchOptions& options) {
    if (program_->batched) Refuse("Batch of batches: give the product of the sizes to one Batch");
    program_->batched = true;
    program_->batch = options;
  }
  void operator()(const MultiPassNode& node) {
    program_->passes *= node.passes;
    if (!program_->batched) {
      program_->stages.push_back({Program::Stage::Kind::kMultiPass, node.passes, 0});
    }
    // Behind Batch the rest of every pass stays a batch of its own: nothing joins the passes.
  }
  void operator()(const DoubleBufferNode& node) {
    if (!program_->batched) Refuse("DoubleBuffer needs batches: put it behind Batch");
    program_->batch.slots = node.slots;
  }

 private:
  Program* const program_;
};

}  // namespace

std::shared_ptr<GraphNode> GraphNode::On(const Reader& input, Kind kind) {
  if (!input) Refuse("the reader to decorate is empty");
  GraphNode& node = *input.node();
  const std::lock_guard lock(node.mutex_);
  if (node.session_ != nullptr) {
    Refuse("the reader is being read already: build the whole chain first, then read its end");
  }
  if (node.consumed_) Refuse("the reader has a consumer already: a node has one");
  node.consumed_ = true;
  return std::make_shared<GraphNode>(std::move(kind), input.node());
}

std::shared_ptr<ReaderSession> GraphNode::Session() {
  const std::lock_guard lock(mutex_);
  if (consumed_) Refuse("the reader was given to a decorator: read the end of the chain");
  if (session_ == nullptr) session_ = std::make_shared<ReaderSession>(LowerChain(*this));
  return session_;
}

bool Program::shuffled() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const Stage& s) { return s.kind != Stage::Kind::kMultiPass; });
}

Program LowerChain(const GraphNode& last) {
  Program program;
  Lowering lowering(&program);
  for (const GraphNode* node : ChainOf(last)) std::visit(lowering, node->kind());
  if (program.batched && program.parser == nullptr) program.parser = RawParser();
  if (program.passes != 1 && !program.rewindable()) {
    Refuse("a stream comes once: MultiPass needs a source that can start again");
  }
  return program;
}

}  // namespace ringfeed
