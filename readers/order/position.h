#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/order/plan_clock.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The facts of each file that make a fingerprint.
struct FileFacts {
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  ///< 0: not known, there is no index
  std::uint64_t sample = 0;   ///< of its contents (IdentifyFile)
};

/// Identifies a data set: the same on all machines, whatever the names and the folders of the
/// files.
struct DataFingerprint {
  static constexpr std::size_t kMostParts = 64;

  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  ///< 0: not known
  std::uint64_t sizes = 0;    ///< hash of the files' sizes in their order
  std::uint64_t samples = 0;  ///< of pieces of their contents
  /// Of the files one by one, to tell which one changed. If there are more than kMostParts files,
  /// each part is of some that follow each other.
  std::vector<std::uint16_t> parts{};

  /// Adds another set, in order: the parts are left out.
  void Add(const DataFingerprint& set);
  friend bool operator==(const DataFingerprint&, const DataFingerprint&) = default;
};

DataFingerprint FingerprintOf(std::span<const FileFacts> files);

/// What changed from `was` to `is`, in words; empty if nothing did. If one of them does not know
/// the number of records, that is no difference.
std::string DifferenceOf(const DataFingerprint& was, const DataFingerprint& is);

/// The position of a chain: the same text however it came there. As text a line of JSON of at most
/// 1 KiB, without a mixture's part. Version 2 of the text is of chains whose batches shares make.
struct ChainPosition {
  std::uint64_t batch = 0;  ///< delivered since the beginning; rows on chains without Batch
  std::optional<PlanPosition> mark{};  ///< if batches depend on what is in the records
  std::string mix{};                   ///< counts of the sets of a mixture (MixState)
  std::uint64_t source_pass = 0;       ///< of a data set whose passes differ: batch 0 is of it
  std::string order{};                 ///< the chain's order, in words
  /// What is done with damage ("fail", "skip"), if the order after some of it depends on that. Else
  /// empty, as in older texts.
  std::string on_damage{};
  DataFingerprint data{};
  /// FileLengths::digest, if shares make the batches; `batch` counts their steps in the text.
  std::optional<std::uint64_t> lengths{};

  std::string ToJson() const;
};

/// A text as ParsePosition gives it back after ToJson: what is no UTF-8 in it is replaced.
std::string TextInPosition(const std::string& text);

/// Reads what ToJson wrote, only of this version of the text. Fails with kInvalidArgument that says
/// what is wrong with it.
Status ParsePosition(const std::string& text, ChainPosition* position);

/// BatchOrigin::mark of a batch: its first number holds a pass and, above that, `uncounted`; its
/// last one `done` and, above that, `inside_step`.
std::array<std::uint64_t, 4> OriginMarkOf(const OrderSpan& span);
/// Whether a failure cut the batch short: it is handed out, but no position is after it, so that it
/// comes again, whole or with its failure.
bool IsCutShort(const BatchOrigin& origin);
/// Whether it is a piece of a step, and not the last one: then no position is after it, either.
bool IsInsideStep(const BatchOrigin& origin);
/// The chain's place after that batch was handed out: batch and mark alone.
ChainPosition PlaceBehind(const BatchOrigin& origin);

}  // namespace ringfeed
