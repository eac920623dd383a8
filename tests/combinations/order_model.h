#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ringfeed {

/// The order of delivery, written down once more after docs/ORDER.md: slowly, and sharing no code
/// with the engine. A place holds the number of a record, or one of the marks below.
using Places = std::vector<std::int64_t>;
inline constexpr std::int64_t kHole = -1;         ///< a damaged record, or its part of a batch
inline constexpr std::int64_t kFailure = -2;      ///< a record that ends the chain
inline constexpr std::int64_t kPadding = -3;      ///< a row that stands for one that is not there
inline constexpr std::int64_t kEndOfPacked = -4;  ///< between the records of packed rows

/// The places of a pass.
using Stage = std::function<Places(std::uint64_t pass)>;
/// The batches of a pass.
using BatchStage = std::function<std::vector<Places>(std::uint64_t pass)>;

/// What the order needs of a file.
struct ModelFile {
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> offsets;  ///< of each place
  Places places;
};

/// Which files a pass reads, in which order.
struct ModelFileOrder {
  bool shuffled = false;
  std::uint64_t seed = 0;
};

/// As files are read: `cycle` of them, a stripe of each in turn.
Stage ModelAsRead(const std::vector<ModelFile>& files, const ModelFileOrder& order,
                  std::size_t cycle, std::uint64_t stripe_bytes);
Stage ModelGlobal(const std::vector<ModelFile>& files, std::uint64_t seed);
/// The stripes by a permutation; the window follows by itself.
Stage ModelBlocks(const std::vector<ModelFile>& files, std::uint64_t stripe_bytes,
                  std::uint64_t seed);
Stage ModelWindow(Stage stage, std::uint64_t window, std::uint64_t seed);
Stage ModelBlock(Stage stage, std::uint64_t rows, std::uint64_t seed);
Stage ModelPasses(Stage stage, std::uint64_t passes);
/// Without what `keep` refuses; marks stay.
Stage ModelFilter(Stage stage, std::function<bool(std::int64_t)> keep);
/// Up to the first failure, and `more` places from there on.
Stage ModelUpToFailure(Stage stage, std::size_t more = 0);
/// Two sets, each in the order of its stage, by their weights.
Stage ModelMix(const Stage& first, std::uint64_t first_weight, const Stage& second,
               std::uint64_t second_weight);

using ModelNumber = std::function<std::uint64_t(std::int64_t record)>;

/// What becomes of what is left at the end: of a pass, or of each segment.
enum class ModelRest : std::uint8_t {
  kKeep,
  kDrop,
  kDropButLast,  ///< a failure ended the last segment in its middle: that one is kept
};

BatchStage ModelBatches(Stage stage, std::uint64_t size, bool drop, bool pad);
BatchStage ModelGroups(Stage stage, std::uint64_t size, std::uint64_t segment, ModelNumber group_of,
                       ModelRest rest);
BatchStage ModelWeighed(Stage stage, std::uint64_t limit, std::uint64_t most_rows,
                        ModelNumber weight_of);
BatchStage ModelPacked(Stage stage, std::uint64_t length, std::uint64_t rows, std::uint64_t segment,
                       ModelNumber length_of, ModelRest rest);

}  // namespace ringfeed
