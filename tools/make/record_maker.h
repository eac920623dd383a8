#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ringfeed::tools {

/// Makes the records of one file of a data set, one after another.
class RecordMaker {
 public:
  virtual ~RecordMaker() = default;
  /// The next record, valid until the next call.
  virtual std::span<const std::byte> Make() = 0;
};

/// One kind of data that `ringfeed make` knows.
struct DataKind {
  std::string_view name;
  std::string_view file_ending;
  std::size_t record_bytes;  ///< of a record, about, where no size is asked for
  bool sizable;              ///< true where --record-bytes can be chosen
  std::string_view parse;    ///< what to hand to `feed --parse`
  std::string_view what;     ///< for the help
};
const std::vector<DataKind>& DataKinds();

/// A maker of that kind for the file that `seed` stands for. `record_bytes` as in DataKind.
std::unique_ptr<RecordMaker> NewRecordMaker(const DataKind& kind, std::size_t record_bytes,
                                            std::uint64_t seed);

}  // namespace ringfeed::tools
