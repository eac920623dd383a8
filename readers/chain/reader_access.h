#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The library's own access to what a Reader is a handle on.
class ReaderAccess {
 public:
  /// A handle on the chain that ends in `node`.
  static Reader Of(std::shared_ptr<GraphNode> node) { return Reader(std::move(node)); }
  /// Null of an empty handle.
  static const std::shared_ptr<GraphNode>& NodeOf(const Reader& reader) { return reader.node_; }
  /// The session of its chain, for calls that wait for nothing. Throws Error as a Reader's calls.
  static std::shared_ptr<ReaderSession> SessionOf(const Reader& reader);
  /// The same for calls that read.
  static std::shared_ptr<ReaderSession> ReadSessionOf(const Reader& reader);
};

}  // namespace ringfeed
