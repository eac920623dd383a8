#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/formats/tokens/megatron.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// How the sequences of Megatron's two files are laid end to end, and cut into windows.
struct MegatronLineOptions {
  enum class Order : std::uint8_t {
    kShuffled,  ///< each epoch by a permutation of its own
    kFile,      ///< as they stand
    kMegatron,  ///< as GPTDataset of Megatron-LM shuffles them, and the windows, too
  };
  static constexpr std::uint64_t kToLast = ~std::uint64_t{0};

  std::uint64_t window = 0;  ///< elements from one window's first to the next one's
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  std::uint64_t epochs = 1;   ///< not of kMegatron
  std::uint64_t samples = 0;  ///< of kMegatron: epochs for so many windows; 0: one epoch
  std::uint64_t first = 0;    ///< of the sequences that are used
  std::uint64_t end = kToLast;
};

/// The documents of all epochs laid end to end: a line of elements, cut into windows of
/// options.window + 1, each beginning at the last element of the one before. A document is a
/// sequence of the .idx file, as in Megatron-LM's GPTDataset.
///
/// Entry i of the line's epoch e is sequence first + P(i), P a KeyedPermutation of (seed, e,
/// kDocumentOrder). Every 64th sum of an epoch's lengths is kept; a place between two of them is
/// found by adding. The sums, and what Megatron-LM shuffles, are made when they are first needed.
/// Thread safe.
class MegatronLine {
 public:
  /// A part of a window: so many elements of a document from `element` on.
  struct Piece {
    std::uint64_t sequence = 0;
    std::uint64_t element = 0;
    std::uint64_t elements = 0;
    bool ends = false;  ///< with the document's last one
  };
  /// A place of the line: the entry, counted through all epochs, and an element of its document.
  struct Place {
    std::uint64_t entry = 0;
    std::uint64_t offset = 0;
  };

  /// Reads the whole index once, and keeps 4 bytes for each sequence. Fails if a length is
  /// negative, or if there is more than can be counted. Sequences that are not where the lengths
  /// put them, or not within the `data_bytes` of the .bin file, are lost: so is each window that
  /// has some of them.
  static Status Make(const std::string& file, const MegatronIndex& index, std::uint64_t data_bytes,
                     const MegatronLineOptions& options, std::shared_ptr<const MegatronLine>* line);

  DType element_type() const { return element_type_; }
  std::size_t element_bytes() const { return DTypeBytes(element_type_); }
  /// Where the sequence begins in the .bin file, if it is not lost.
  std::uint64_t BeginOf(std::uint64_t sequence) const;
  std::uint64_t windows() const { return windows_; }
  std::uint64_t elements_of_window() const { return options_.window + 1; }
  /// The pieces of a window, which have at least an element each, in their order.
  std::vector<Piece> Pieces(std::uint64_t window) const;
  bool any_lost() const { return !lost_.empty(); }
  bool IsLost(std::uint64_t sequence) const {
    return std::ranges::binary_search(lost_, sequence, {}, &Lost::sequence);
  }
  /// Why a window cannot be had; OK if it can.
  Status WhyLost(std::uint64_t window) const;

  /// Where an element of the line is. Row j > 0 of Megatron-LM's sample_index is Find(j * window).
  Place Find(std::uint64_t element) const;
  /// The sequence of an entry: its document_index.
  std::uint64_t SequenceAt(std::uint64_t entry) const;
  /// Where a window begins, in windows: its shuffle_index. Of other orders it is the number itself.
  std::uint64_t PlaceOfWindow(std::uint64_t window) const;

 private:
  /// What is shuffled together: an epoch; of kMegatron all of them.
  struct Part {
    std::once_flag made;
    std::optional<KeyedPermutation> permutation;
    std::vector<std::uint64_t> sums;  ///< elements in front of every kStep-th entry
  };
  static constexpr std::uint64_t kStep = 64;
  /// A sequence, and where the index says that it begins.
  struct Lost {
    std::uint64_t sequence = 0;
    std::int64_t begin = 0;
  };

  class Walk;

  Status CountElements(const MegatronIndex& index);
  Status CountWindows();
  Status CountSamples();
  const Part& PartAt(std::uint64_t number) const;
  void Prepare(std::uint64_t number, Part* part) const;
  void ShuffleAsMegatron() const;
  /// The sequences of entries of a part, from `first` on.
  void Sequences(const Part& part, std::uint64_t first, std::span<std::uint64_t> sequences) const;
  Place Find(std::uint64_t element, Walk* walk) const;
  std::uint64_t ElementsOf(std::uint64_t sequence) const { return lengths_[sequence]; }
  std::uint64_t documents() const { return options_.end - options_.first; }
  std::uint64_t entries_of_part() const { return documents() * epochs_ / parts_; }

  DType element_type_ = DType::kUInt8;
  std::vector<std::uint32_t> lengths_;  ///< elements of each sequence
  std::vector<std::uint64_t> begins_;   ///< in the .bin file, of every kStep-th sequence
  MegatronLineOptions options_;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t elements_ = 0;  ///< of an epoch
  std::uint64_t epochs_ = 1;
  std::uint64_t parts_ = 1;
  std::uint64_t windows_ = 0;
  std::optional<std::uint64_t> apart_;  ///< of kMegatron: the windows before the last epoch, if
                                        ///< that is shuffled apart
  std::vector<Lost> lost_;              ///< by their numbers
  std::unique_ptr<Part[]> part_;
  mutable std::vector<std::uint32_t> entries_;  ///< of kMegatron; made with its part
  mutable std::vector<std::uint32_t> places_;
};

}  // namespace ringfeed
