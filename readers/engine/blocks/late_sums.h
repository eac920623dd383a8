#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "readers/engine/blocks/block.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// The rule of a run for checksums of payloads: taken as records are framed, or left to whoever
/// copies the payload anyway. A long payload would otherwise be loaded twice, for its checksum and
/// for its copy. The planner calls NotePlanned; any thread may call the others. None waits.
class LateSums {
 public:
  struct Options {
    /// Why the taker of a batch gets no sums; empty: it does.
    std::string why_early;
    /// Framing leaves sums, to the taker of a batch or to its writer.
    bool leaves = false;
    /// The taker of a batch copies fields of so many bytes or more, and takes the sums of these.
    std::size_t taker_bytes = FrameInput::kLeavesNone;
    bool only_cold = false;          ///< it does so with cold blocks alone
    std::size_t least_bytes = 8192;  ///< of a payload whose sum a writer takes
  };
  explicit LateSums(Options options);

  const std::string& why_early() const { return options_.why_early; }
  bool leaves() const { return options_.leaves; }
  /// Framing leaves the sums of payloads of so many bytes or more; FrameInput::kLeavesNone.
  /// `cold`: as Block.
  std::size_t leaves_from(bool cold) const;
  /// Whether it does so for bytes that are in memory already, too; else of mapped files alone.
  bool leaves_in_memory(bool cold) const {
    return options_.leaves && (TakerCopies(cold) || a_writer_can_);
  }

  /// Whether sums of the block, which is of that pass, may be left. Not before a good record was
  /// planned in the pass: so a parser that fits no record, or a pass without any, is noticed.
  bool MayLeave(const Block& block, std::uint64_t pass) const;
  /// The block is planned, in that pass.
  void NotePlanned(const Block& block, std::uint64_t pass) {
    if (!options_.leaves || block.good_rows == 0 || !block.frame.unchecked.empty()) return;
    trusted_pass_.store(pass, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kNoPass = ~std::uint64_t{0};

  bool TakerCopies(bool cold) const {
    return options_.taker_bytes != FrameInput::kLeavesNone && (cold || !options_.only_cold);
  }

  const Options options_;
  const bool a_writer_can_;  ///< beside its copy
  /// A pass of which a good record with a checked sum was planned. May be a moment old: a sum that
  /// is taken early only costs more.
  std::atomic<std::uint64_t> trusted_pass_{kNoPass};
};

}  // namespace ringfeed
