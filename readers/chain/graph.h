#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/owner_process.h"
#include "readers/engine/plan/execution_plan.h"
#include "ringfeed/decorators.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/instance.h"
#include "ringfeed/reader.h"
#include "ringfeed/sequences.h"
#include "ringfeed/slot.h"

namespace ringfeed {

class ReaderSession;

struct ParseNode {
  std::shared_ptr<const Parser> parser;
};
struct MapNode {
  std::vector<FieldSpec> fields;
  MapFunction function;
  MapOptions options;
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

/// One node of the graph that a user builds: what is to be done, not how. Immutable except for its
/// session, which the first read on it makes.
class GraphNode : public std::enable_shared_from_this<GraphNode> {
 public:
  using Kind =
      std::variant<SourceNode, ParseNode, MapNode, ShuffleOptions, BatchOptions, MultiPassNode,
                   DoubleBufferNode, ShareNode, GroupBatchOptions, FilterNode, TruncateNode,
                   PadNode, BucketBatchOptions, TokenBatchOptions, PackOptions>;

  GraphNode(Kind&& kind, std::shared_ptr<GraphNode> input);
  ~GraphNode();
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;

  const Kind& kind() const { return kind_; }
  /// The node that this one reads. A source has one if it is a user's decorator: the end of the
  /// chain that it reads.
  const std::shared_ptr<GraphNode>& input() const { return input_; }
  /// Whether a chain begins here.
  bool begins_chain() const {
    return std::holds_alternative<SourceNode>(kind_) || std::holds_alternative<ShareNode>(kind_);
  }

  /// A new node on `input`. Throws Error if input is empty, has a consumer already (except a
  /// ShareNode, which may have many), or runs.
  static std::shared_ptr<GraphNode> On(const Reader& input, Kind kind);

  /// The session of the chain that ends here; made, not started, at the first call. Throws Error if
  /// another node was attached to this one.
  std::shared_ptr<ReaderSession> Session();
  /// The same for the node's consumer, which reads it.
  std::shared_ptr<ReaderSession> InnerSession();

  /// Its session is about to be read: the threads that the read starts belong to this process.
  void NoteRead() { reads_.Note(); }
  /// Throws Error if it was read before the process was forked.
  void RefuseInChild() const;

  bool HasConsumer() const { return !Consumers().empty(); }
  /// Whether what it delivers is on a device.
  bool IsOnDevice() const;
  /// Throws Error in a thread that works for this chain, or for one that it reads: a function or
  /// source of the chain that waits for the chain would wait for itself.
  void RefuseFromWithin() const;
  /// Gives its source away: no node may be built on it, and it may not be read.
  void Retire();

  /// The nodes without consumers that are connected with this one: Paddle's end points.
  std::vector<std::shared_ptr<GraphNode>> EndPoints();
  /// Starts all sessions of this node's graph again, even those above it and beside it.
  void ReInit();
  /// Throws Error as ReInit does, before anything is lost.
  void CheckReInit();
  /// Starts this node's graph again at its session's aim.
  void GoToAim();
  /// Starts the sessions that this node reads from again. False if other chains read from them too.
  bool ReInitInput();

 private:
  using Nodes = std::vector<std::shared_ptr<GraphNode>>;
  Nodes Consumers() const;
  std::shared_ptr<GraphNode> Top();
  /// All nodes that are connected with this one, each after its input.
  Nodes Graph();
  std::shared_ptr<ReaderSession> StartedSession() const;
  /// Those of the whole graph, each after those that it reads. Throws Error if they cannot start
  /// again.
  std::vector<std::shared_ptr<ReaderSession>> SessionsToStartAgain();

  const Kind kind_;
  const std::shared_ptr<GraphNode> input_;
  /// Of the top node: held while its graph's sessions start again. Two threads that pause the ends
  /// of one graph would wait for each other. A reader inside another may start again meanwhile.
  std::recursive_mutex reinit_mutex_;
  /// The process that reads it. Checked before any lock is taken: after a fork, a thread of the
  /// parent may have held the lock.
  OwnerProcess reads_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::weak_ptr<GraphNode>> consumers_;
  bool retired_ = false;
  std::shared_ptr<ReaderSession> session_;
};

/// Throws Error for impossible ones. `share` is what a rank gets of a step, `shares` how many there
/// are.
void CheckSteps(const std::string& who, const StepOptions& steps, const std::string& share,
                std::size_t shares);
/// Whether batches are planned from lengths (StepOptions).
bool IsPlanned(const PackOptions& options);
bool IsPlanned(const TokenBatchOptions& options);
bool IsPlanned(const BucketBatchOptions& options);

/// The plan of the chain that ends in `last`. Throws Error for chains that make no sense.
ExecutionPlan LowerChain(const GraphNode& last);

/// The session of the chain that the plan's source reads, if that is a user's decorator; else null.
std::shared_ptr<ReaderSession> InputSessionOf(const ExecutionPlan& plan);

/// The source of a chain on a shared reader: it takes from `input` whatever comes next, and other
/// chains do so too. Records and instances are copied, so that no chain holds another's memory.
SourceNode SharedSource(std::shared_ptr<ReaderSession> input);

/// Copies every tensor, its LoD too, to memory of its own: the old memory may be used again.
void OwnMemory(Instance* instance);

/// The factory of a registered format's readers: the one of that tag, or, if `tag` is empty, the
/// one that the file's name or first bytes say. Null if there is none. Thread safe.
std::shared_ptr<const FileReaderFactory> FindFileReader(const std::string& tag,
                                                        const std::string& file);

}  // namespace ringfeed
