#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "readers/content_step.h"
#include "readers/parsers/parser.h"
#include "readers/plan_clock.h"
#include "readers/record_provider.h"
#include "ringfeed/decorators.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/reader.h"
#include "ringfeed/sequences.h"
#include "ringfeed/slot.h"

namespace ringfeed {

class PackParser;
class ReaderSession;
struct MixSource;

/// A step that orders records without looking into them, or joins passes. Behind all of these stand
/// those that do look, kContent, of which the program has what they do.
struct OrderStage {
  enum class Kind : std::uint8_t { kWindow, kBlock, kMultiPass, kContent, kBlocks, kGlobal };
  Kind kind = Kind::kWindow;
  /// Window, block rows, passes, or rows that content holds back (its segment); else 0.
  std::uint64_t amount = 0;
  std::uint64_t seed = 0;
};

/// A stream and the name of its format; empty: by what comes.
struct StreamInput {
  std::shared_ptr<StreamSource> stream;
  std::string format;
  std::uint64_t reopen_limit = 0;
};
/// Where a chain's records come from: one of names, sources, streams, instances and records.
struct SourceNode {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Source>> sources;
  std::shared_ptr<const FileReaderFactory> file_readers;  ///< of a registered format; else null
  std::vector<StreamInput> streams;                       ///< several: first come, first served
  std::shared_ptr<InstanceSource> instances;              ///< a user's reader
  std::shared_ptr<RecordProvider> records;                ///< made in memory
  std::vector<SlotSpec> slots;                 ///< of instances that are delivered as they are
  std::shared_ptr<const Parser> batch_parser;  ///< joins these; null: as their slots say
  std::shared_ptr<const Parser> parser;        ///< of instances that are rows
  OpenOptions options;
  bool shared = false;                   ///< other chains take from the same input
  std::shared_ptr<const MixSource> mix;  ///< sets of files, mixed
};
/// What Mix mixes: the sets as their chains were lowered.
struct MixSource {
  struct Set {
    SourceNode source;
    std::vector<OrderStage> stages;
    double weight = 1;
    std::uint64_t passes = 1;
    std::uint64_t most_records = 0;
  };
  std::vector<Set> sets;
};
struct ParseNode {
  std::shared_ptr<const Parser> parser;
};
struct MapNode {
  std::vector<FieldSpec> fields;
  MapFunction function;
};
struct FilterNode {
  FilterFunction keep;
};
struct TruncateNode {
  std::string field;
  std::size_t length = 0;
};
struct PadNode {
  std::string field;
  PadOptions options;
};
struct DoubleBufferNode {
  std::size_t slots = 2;
};
struct MultiPassNode {
  std::uint64_t passes = 1;
};
struct ShareNode {};

/// One node of the graph that a user builds: what is to be done, not how. Immutable but for its
/// session, which the first read on it makes.
class GraphNode : public std::enable_shared_from_this<GraphNode> {
 public:
  using Kind =
      std::variant<SourceNode, ParseNode, MapNode, ShuffleOptions, BatchOptions, MultiPassNode,
                   DoubleBufferNode, ShareNode, GroupBatchOptions, FilterNode, TruncateNode,
                   PadNode, BucketBatchOptions, TokenBatchOptions, PackOptions>;

  GraphNode(Kind&& kind, std::shared_ptr<GraphNode> input);

  const Kind& kind() const { return kind_; }
  /// What this node takes from. A source has one where it is a user's decorator: the end of the
  /// chain that it reads.
  const std::shared_ptr<GraphNode>& input() const { return input_; }
  /// Whether a chain begins here.
  bool begins_chain() const {
    return std::holds_alternative<SourceNode>(kind_) || std::holds_alternative<ShareNode>(kind_);
  }

  /// A new node on `input`. Throws Error where input is empty, has a consumer already (but for a
  /// ShareNode, which may have many), or runs.
  static std::shared_ptr<GraphNode> On(const Reader& input, Kind kind);

  /// The session of the chain that ends here; made, not started, at the first call. Throws Error
  /// where another node was attached to this one.
  std::shared_ptr<ReaderSession> Session();
  /// The same for the node's consumer, which reads it.
  std::shared_ptr<ReaderSession> InnerSession();

  bool HasConsumer() const { return !Consumers().empty(); }
  /// Gives its source away: nothing may be built on it, and it may not be read.
  void Retire();

  /// The nodes without consumers that can be reached from here: Paddle's end points.
  std::vector<std::shared_ptr<GraphNode>> EndPoints();
  /// Starts all sessions of this node's graph again, those above it and beside it too.
  void ReInit();
  /// Starts this node's graph again where its session was aimed at.
  void GoToAim();
  /// Starts those that this node reads from again. False where other chains read from them too.
  bool ReInitInput();

 private:
  using Nodes = std::vector<std::shared_ptr<GraphNode>>;
  Nodes Consumers() const;
  std::shared_ptr<GraphNode> Top();
  /// All nodes that are connected with this one, each behind its input.
  Nodes Graph();
  std::shared_ptr<ReaderSession> StartedSession() const;

  const Kind kind_;
  const std::shared_ptr<GraphNode> input_;
  /// Of the top node: held while its graph's sessions start again. Two that pause the ends of one
  /// graph would wait for each other; a reader inside another may start again while that one does.
  std::recursive_mutex reinit_mutex_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::weak_ptr<GraphNode>> consumers_;
  bool retired_ = false;
  std::shared_ptr<ReaderSession> session_;
};

/// A chain put in the form that a run executes: where records come from, which plan stages order
/// them, how they end up. Made from the last node of a chain; throws Error for chains that make no
/// sense.
struct Program {
  using Stage = OrderStage;

  SourceNode source;
  std::uint64_t passes = 1;              ///< over the source; 0: without end
  std::vector<Stage> stages;             ///< from the source on
  std::shared_ptr<const Parser> parser;  ///< null: records as they are
  /// That of Parse: `parser` without what Map, Truncate, Pad or Pack make of its fields.
  std::shared_ptr<const Parser> record_parser;
  bool batched = false;  ///< by the user's Batch
  BatchOptions batch;
  std::size_t held_batches = 0;              ///< that the reading thread may hold at a time
  std::vector<ContentStep> content;          ///< of the kContent stages
  std::shared_ptr<const PackParser> packer;  ///< the parser, where batches are of packed rows

  /// Whether a stage holds rows back.
  bool shuffled() const;
  /// The first stages, which need no look into records.
  std::span<const OrderStage> order_stages() const;
  /// Whether batches depend on what is in the records: then their number alone is no place.
  bool looks_into_records() const { return order_stages().size() != stages.size(); }
  /// Whether the order cannot be had as files are read.
  bool needs_index() const;
  /// Whether an index could be made: of a list of files or stores, which IndexUse allows.
  bool may_have_index() const;
  /// Why the order does not come again; empty where it does.
  std::string WhyNoPosition() const;
  /// The order in words, as positions hold it.
  std::string OrderText() const;
  /// Of the order of files and of the shuffles, in the chain's order.
  std::vector<std::uint64_t> Seeds() const;
  bool rewindable() const { return source.streams.empty(); }
  /// Instances that leave as they came.
  bool passes_instances() const { return parser == nullptr && !source.slots.empty(); }
  /// What one read delivers.
  std::vector<SlotSpec> Slots() const;
};
Program LowerChain(const GraphNode& last);

}  // namespace ringfeed
