#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

class ReaderSession;

/// Where a chain's records come from.
struct SourceNode {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Source>> sources;
  std::shared_ptr<StreamSource> stream;       ///< one stream
  std::shared_ptr<InstanceSource> instances;  ///< a user's reader, declared by `parser`
  std::shared_ptr<const Parser> parser;
  OpenOptions options;
};
struct ParseNode {
  std::shared_ptr<const Parser> parser;
};
struct MapNode {
  std::vector<FieldSpec> fields;
  MapFunction function;
};
struct DoubleBufferNode {
  std::size_t slots = 2;
};
struct MultiPassNode {
  std::uint64_t passes = 1;
};

/// One node of the graph that a user builds: what is to be done, not how. Immutable but for its
/// session, which the first read on it makes.
class GraphNode {
 public:
  using Kind = std::variant<SourceNode, ParseNode, MapNode, ShuffleOptions, BatchOptions,
                            MultiPassNode, DoubleBufferNode>;

  GraphNode(Kind kind, std::shared_ptr<GraphNode> input)
      : kind_(std::move(kind)), input_(std::move(input)) {}

  const Kind& kind() const { return kind_; }
  const std::shared_ptr<GraphNode>& input() const { return input_; }

  /// A new node on `input`. Throws Error where input is empty, has a consumer already, or runs.
  static std::shared_ptr<GraphNode> On(const Reader& input, Kind kind);

  /// The session of the chain that ends here; made, not started, at the first call. Throws Error
  /// where another node was attached to this one.
  std::shared_ptr<ReaderSession> Session();

 private:
  const Kind kind_;
  const std::shared_ptr<GraphNode> input_;
  std::mutex mutex_;
  bool consumed_ = false;
  std::shared_ptr<ReaderSession> session_;
};

/// A chain put in the form that a run executes: where records come from, which plan stages order
/// them, how they end up. Made from the last node of a chain; throws Error for chains that make no
/// sense.
struct Program {
  struct Stage {
    enum class Kind : std::uint8_t { kWindow, kBlock, kMultiPass };
    Kind kind = Kind::kWindow;
    std::uint64_t amount = 0;  ///< window, block rows or passes
    std::uint64_t seed = 0;
  };

  SourceNode source;
  std::uint64_t passes = 1;              ///< over the source; 0: without end
  std::vector<Stage> stages;             ///< from the source on
  std::shared_ptr<const Parser> parser;  ///< null: records as they are
  bool batched = false;                  ///< by the user's Batch
  BatchOptions batch;

  bool shuffled() const;
  bool rewindable() const { return source.stream == nullptr; }
};
Program LowerChain(const GraphNode& last);

}  // namespace ringfeed
