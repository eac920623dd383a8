#pragma once

#include <memory>
#include <utility>

#include "readers/chain/graph.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// What a Reader is a handle on, for the library alone.
class ReaderAccess {
 public:
  /// A handle on the chain that ends in `node`.
  static Reader Of(std::shared_ptr<GraphNode> node) { return Reader(std::move(node)); }
  /// Null of an empty handle.
  static const std::shared_ptr<GraphNode>& NodeOf(const Reader& reader) { return reader.node_; }
};

}  // namespace ringfeed
