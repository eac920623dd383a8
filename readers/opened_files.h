#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "io/input_file.h"
#include "readers/order/file_table.h"
#include "ringfeed/io_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The opened files of a table, shared by a run's lanes: each is opened when a row of it is first
/// needed. Those that were not asked for longest are let go of where there are many; whoever still
/// reads one keeps it open. Thread safe.
class OpenedFiles {
 public:
  /// `opened` is told, by any thread, how each file is read. `most`: 0 for half of the descriptors
  /// that the process may have, 4096 at most.
  OpenedFiles(std::shared_ptr<const FileTable> table, const IoOptions& options,
              std::function<void(const IoChoice&)> opened, std::size_t most = 0);

  const std::shared_ptr<const FileTable>& table() const { return table_; }
  /// The file that holds a row of the table, and where its rows start.
  std::size_t FileOf(RowNumber row) const;
  RowNumber FirstRow(std::size_t file) const { return first_rows_[file]; }
  /// Null, with `status` set, where it cannot be opened; the next call tries again.
  std::shared_ptr<InputFile> Get(std::size_t file, Status* status);

 private:
  struct Kept {
    std::shared_ptr<InputFile> input;
    std::list<std::size_t>::iterator use;
  };
  std::shared_ptr<InputFile> Find(std::size_t file);

  const std::shared_ptr<const FileTable> table_;
  const IoOptions options_;
  const std::function<void(const IoChoice&)> opened_;
  const std::size_t most_;
  std::vector<RowNumber> first_rows_;

  std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::size_t, Kept> kept_;
  std::list<std::size_t> uses_;  ///< the last one used in front
};

}  // namespace ringfeed
