#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/sources/unit_fetch.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// Takes rows out of their units and puts them into a block, in the order in which they are asked
/// for. Rows of one size in mapped files need no unit: nothing is read or framed, the block points
/// at them. One thread.
class RowFramer {
 public:
  RowFramer(const OpenedFiles* opened, LaneFiles* files, LaneContext* context)
      : opened_(opened), files_(files), context_(context), memory_(context->arena) {}

  /// Points the empty block at as many of `rows`, from the first on, as suit one part; returns how
  /// many. Returns 0, and leaves the block as it was, if one of them is not of such a file.
  std::size_t PointAt(std::span<const RowNumber> rows, Block* block);
  /// The bytes of a row of such a file, which a row before was of, too; else empty.
  std::span<const std::byte> Find(RowNumber row) const;

  /// One record for each row, a null span if there is none or it is damaged; under kFail those
  /// before the first that is lost, and block->status. Units in a mapping of `inputs` that turns
  /// out to be longer than its file are lost.
  void Frame(std::span<const RowNumber> rows, std::span<const std::shared_ptr<InputFile>> inputs,
             NeededUnits* needed, Block* block);

 private:
  /// A unit of several records, framed for one of them: later rows may need the others.
  struct FramedUnit {
    FrameOutput frame;
    Status status;           ///< after the records
    std::size_t teller = 0;  ///< the record that is reported together with the unit's damage
  };

  /// The rows of a file that is pointed at.
  struct Place {
    RowNumber begin = 0;
    RowNumber end = 0;
    const std::byte* data = nullptr;
    std::size_t stride = 0;
    std::size_t bytes = 0;
  };
  /// The places of so many files are known at a time, each by its number modulo this.
  static constexpr std::size_t kPlaces = 64;
  bool Move(std::size_t number, Place* place, Block* block);

  /// False if the block ends with its failure.
  bool Append(const NeededUnit& unit, const NeededUnits& needed, Block* block);
  bool AppendSingle(LaneFile* file, const NeededUnit& unit, Block* block);
  bool AppendOneOfMany(LaneFile* file, const NeededUnit& unit, Block* block);
  bool AppendLost(const NeededUnit& unit, const UnitLoss& loss, Block* block);
  /// The records of a unit that was lost when its index was made, with the ranges in the index.
  Status LoseUnit(const LaneFile& file, const NeededUnit& unit, FrameOutput* output) const;
  FramedUnit* FrameUnit(LaneFile* file, const NeededUnit& unit);
  /// A unit may be read a little beyond its end: removes damage that begins there.
  static void CutRanges(const LaneFile& file, const NeededUnit& unit,
                        std::span<DamagedRange> ranges);
  Status FrameInto(LaneFile* file, const NeededUnit& unit, FrameOutput* output);
  bool Fail(const NeededUnit& unit, const Status& status, Block* block);
  static bool LoseShrunk(std::span<const std::shared_ptr<InputFile>> inputs, NeededUnits* needed);

  const OpenedFiles* const opened_;
  LaneFiles* const files_;
  LaneContext* const context_;
  BlockMemory memory_;
  std::vector<std::shared_ptr<InputFile>> inputs_;  ///< of rows that are pointed at
  std::array<Place, kPlaces> places_;               ///< of this part
  /// By file and first record: a unit that was lost has no bytes.
  std::map<std::pair<std::uint32_t, std::uint64_t>, FramedUnit> framed_;
};

}  // namespace ringfeed
