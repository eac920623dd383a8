#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/ringfeed.h"
#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"
#include "tests/combinations/expected_delivery.h"

namespace ringfeed {

/// What a read gave, and what keeps its memory.
struct TakenRead {
  std::vector<DeliveredRows> rows;  ///< one delivery; of a block each record is one
  std::string position;             ///< of its origin, where it has one
  Instance instance;
  RecordBlock block;
  DeviceLease lease;

  /// A number for all that it shows now.
  std::uint64_t Digest() const;
};

/// What a consumer reads from: the end of a chain, or the devices behind it.
class ChainSide {
 public:
  virtual ~ChainSide() = default;
  virtual ReadResult Next(TakenRead* taken, std::string* wrong) = 0;
  virtual Status status() const = 0;
  virtual void Close() = 0;
  /// Ends the other thread that looks or asks, which has the reader too.
  virtual void EndOther() = 0;
  virtual void ReInit() = 0;
  virtual std::string Position() const = 0;
  virtual void Restore(const std::string& position) = 0;
  virtual void SeekTo(std::uint64_t batch) = 0;
  virtual void SkipBatches(std::uint64_t batches) = 0;
  virtual PipelineStats Stats() const = 0;
  /// Records of blocks are numbered from here on.
  void set_next_number(std::uint64_t number) { next_number_ = number; }

 protected:
  std::uint64_t next_number_ = 0;
};

/// `only` says that nobody else reads from the reader: then what HasNext says must come.
std::unique_ptr<ChainSide> MakeReaderSide(const Configuration& configuration, const ChainData& data,
                                          Reader reader, bool only);
/// A feed of the devices that the configuration asks for. Throws Error where it cannot work.
std::unique_ptr<ChainSide> MakeFeedSide(const Configuration& configuration, const ChainData& data,
                                        Reader reader);

}  // namespace ringfeed
