#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/files/file_table.h"
#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/index/open_index.h"
#include "readers/order/position.h"
#include "readers/order/row_layout.h"
#include "ringfeed/open_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The files of a list with their indexes: which record each number of the data set is. Immutable;
/// thread safe.
class RecordSet final : public RowLayout, public FileTable {
 public:
  struct Options {
    std::string format{};  ///< empty: by name or first bytes
    std::size_t max_record_bytes = std::size_t{1} << 30;
    std::uint64_t stripe_bytes = 1024 * 1024;
    OnDamage on_damage = OnDamage::kFail;
    ElementCheck check_elements{};  ///< FramerOptions' own
    FormatCheck check_format{};     ///< null if the format is named
    IndexOptions index{};
    /// That open files; 0: as many as there are processors, at most 16. 16 if some are in a store.
    std::size_t threads = 0;
  };
  /// Its status says why it has no records here: it cannot be examined or indexed, or, if damage is
  /// a failure, some of it is lost to all records.
  struct File : DataFile {
    std::uint64_t stripes = 0;
    IndexOrigin origin = IndexOrigin::kNone;
    std::string how;  ///< how its index was come by, for reports
    std::uint64_t sample = 0;
    bool unfit = false;  ///< its status is the program's mistake: see check_elements
  };

  /// Opens or makes all indexes; blocks. `sources` as in SourceNode.
  RecordSet(const std::vector<std::string>& names,
            const std::vector<std::shared_ptr<Source>>& sources, const Options& options);
  static Options OptionsOf(const OpenOptions& options);

  std::size_t files() const override { return files_.size(); }
  std::uint64_t rows() const override { return first_rows_.back(); }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_[file]; }
  std::uint64_t stripes(std::size_t file) const override { return files_[file].stripes; }
  Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const override;

  const File& file(std::size_t file) const override { return files_[file]; }
  /// The first file's that failed.
  Status status() const;
  /// Whether something is lost to all records of a file (RecordIndex::loss), or it is warned of.
  bool has_losses() const;
  /// Computed at opening.
  const DataFingerprint& fingerprint() const { return fingerprint_; }

 private:
  void OpenAll(const std::vector<std::string>& names,
               const std::vector<std::shared_ptr<Source>>& sources, const Options& options);
  void TakeFingerprint();

  std::uint64_t stripe_bytes_;
  std::vector<File> files_;
  std::vector<RowNumber> first_rows_;  ///< of each file, and the end of the last
  DataFingerprint fingerprint_;
};

}  // namespace ringfeed
