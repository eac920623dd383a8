#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/input_file.h"
#include "readers/engine/sources/file_news.h"
#include "readers/order/file_table.h"
#include "ringfeed/io_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The opened files of a table, shared by a run's lanes: each is opened when a row of it is first
/// needed. Those that were not asked for longest are let go of where there are many; whoever still
/// reads one keeps it open. Thread safe.
class OpenedFiles {
 public:
  /// `most`: 0 for half of the
  /// descriptors that the process may have, 4096 at most.
  OpenedFiles(std::shared_ptr<const FileTable> table, const IoOptions& options, FileNews news,
              std::size_t most = 0);

  const std::shared_ptr<const FileTable>& table() const { return table_; }
  /// The file that holds a row of the table, and where its rows start.
  std::size_t FileOf(RowNumber row) const;
  RowNumber FirstRow(std::size_t file) const { return first_rows_[file]; }
  /// Null, with `status` set, where it cannot be opened; the next call tries again. Where the
  /// system has no descriptors left, others are let go of first.
  std::shared_ptr<InputFile> Get(std::size_t file, Status* status);
  /// Of a file `wanted` bytes are needed and `planned` are read for them, by whichever lane. Whether
  /// its reads, at this rate, come to more than it has: it is the lanes' sum that counts, as of many
  /// small files each lane reads little.
  bool NoteReads(std::size_t file, std::uint64_t wanted, std::uint64_t planned);
  /// Has a file that is read as `before` be read through the page cache in small pieces from now
  /// on, since its reads would come to more than it has; *loads is what was asked of the medium for
  /// that. Null where memory has no room for it, or it is a source of the user's.
  std::shared_ptr<InputFile> Cache(std::size_t file, const InputFile& before, std::uint64_t* loads);

 private:
  /// What reads of a file were planned for, and what they take with them; so far. Sums alone: what
  /// a lane sees of another's may be old.
  struct Reads {
    std::atomic<std::uint64_t> wanted_bytes{0};
    std::atomic<std::uint64_t> planned_bytes{0};
  };
  struct Kept {
    std::shared_ptr<InputFile> input;
    std::list<std::size_t>::iterator use;
  };
  std::shared_ptr<InputFile> Find(std::size_t file);
  void Keep(std::size_t file, std::shared_ptr<InputFile> input, std::shared_ptr<InputFile>* let_go);
  OpenInputResult Open(std::size_t file);
  OpenInputResult OpenOnce(std::size_t file);
  /// Takes the one that was not asked for longest out of those that are kept; null where none is.
  std::shared_ptr<InputFile> LetGo();

  const std::shared_ptr<const FileTable> table_;
  const IoOptions options_;
  const FileNews news_;
  const std::size_t most_;
  std::vector<RowNumber> first_rows_;
  std::vector<Reads> reads_;  ///< by file

  std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::size_t, Kept> kept_;
  std::list<std::size_t> uses_;             ///< the last one used in front
  std::unordered_set<std::size_t> cached_;  ///< files that Cache was asked for and took
  std::uint64_t cached_bytes_ = 0;
};

}  // namespace ringfeed
