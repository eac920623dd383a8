#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "readers/formats/samples/columns.h"
#include "readers/formats/samples/sample_table.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// What a data set of LitData says in its "index.json" (streaming/writer.py there). Immutable.
struct LitDataIndex {
  struct Chunk {
    std::string name;
    std::uint64_t items = 0;
    std::optional<std::uint64_t> tokens{};
  };
  /// A leaf of an item: where it stands in the item ("image", "bytes"), and what it is.
  struct Leaf {
    std::vector<std::string> path;
    std::string encoding;
  };

  std::vector<Chunk> chunks;
  std::vector<Leaf> leaves;
  SampleLayout layout;  ///< of items in a plain chunk
  /// The type of tokens, if chunks hold nothing but these (TokensLoader).
  std::optional<DType> tokens{};

  /// Null if the index does not name it.
  const Chunk* Find(const std::string& name) const {
    const auto found = places.find(name);
    return found == places.end() ? nullptr : &chunks[found->second];
  }
  std::unordered_map<std::string, std::size_t> places{};  ///< of chunks, by name
};

/// Of that file's text; *index is null if it is no index of LitData. kUnsupported, with the name of
/// what is not read, if it says that its chunks hold that. `table` is for messages.
Status ReadLitDataIndex(const std::string& table, const std::string& text,
                        std::shared_ptr<const LitDataIndex>* index);

/// The same of the index beside a chunk; null if there is none. The last one that was read is kept.
/// Blocks. Thread safe.
Status FindLitDataIndex(const std::string& chunk, std::shared_ptr<const LitDataIndex>* index);

}  // namespace ringfeed
