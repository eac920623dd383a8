#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/direct_reads.h"
#include "io/input_file.h"
#include "readers/engine/files/file_table.h"
#include "readers/engine/sources/cache_loader.h"
#include "readers/engine/sources/cache_room.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/formats/format.h"
#include "ringfeed/io_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Called with news of a run's files. By any thread; each may be empty.
struct FileNews {
  std::function<void(const InputFile&)> opened{};
  /// Of a file that takes no opening: an empty one, or one that a reader of the user's own opened.
  std::function<void(const std::string& name)> read{};
  std::function<void(const std::string& name, const Status& why)> failed{};
};

/// The mappings of a chain's files, kept from pass to pass and from run to run: a file that is read
/// again comes with its page tables filled in. They end with the chain, and so does the space of
/// deleted files that they hold. Thread safe.
class KeptMappings {
 public:
  /// A file was opened: its mapping replaces the one kept under its name. Beyond
  /// FileMapping::kMostKept mappings it is mapped only while it is read.
  void Note(const InputFile& file);
  /// The chain ends.
  void Clear();

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const FileMapping>> by_name_;
};

/// The opened files of a table, shared by a run's lanes: each is opened when a row of it is first
/// needed. If there are many, those that were not asked for longest are let go of; a lane that
/// still reads one keeps it open. Thread safe.
class OpenedFiles {
 public:
  /// `rereads`: how often they are read. `most`: 0 for half of the descriptors that the process may
  /// have, 4096 at most. `direct`: what reads them into its memory; null: they are read into host
  /// memory.
  OpenedFiles(std::shared_ptr<const FileTable> table, const IoOptions& options, FileNews news,
              const FileRereads& rereads, std::size_t most = 0,
              std::shared_ptr<DirectReads> direct = nullptr);

  const std::shared_ptr<const FileTable>& table() const { return table_; }
  /// The file that holds a row of the table, and the number of its first row.
  std::size_t FileOf(RowNumber row) const { return rows_.FileOf(row); }
  RowNumber FirstRow(std::size_t file) const { return rows_.FirstRow(file); }
  /// Null, with `status` set, if it cannot be opened; the next call tries again. If the
  /// system has no descriptors left, others are let go of first.
  std::shared_ptr<InputFile> Get(std::size_t file, Status* status);
  /// For a file, `wanted` bytes are needed and `planned` are read for them, by whichever lane.
  /// Whether its reads, at this rate, come to more than it has: the lanes' sum counts, since of
  /// many small files each lane reads little.
  bool NoteReads(std::size_t file, std::uint64_t wanted, std::uint64_t planned);
  /// So many bytes of a file are about to be read past the page cache. If later passes will read
  /// all files again, and memory has room for them, this loads more of them: a file that was loaded
  /// as a whole is opened anew when it is next used. Returns how many bytes were asked for.
  std::uint64_t Load(std::size_t file, std::uint64_t bytes);
  /// Reads a file that is open as `before` through the page cache in small pieces from now on,
  /// since its reads would come to more than it has; *loads is what was asked of the medium for
  /// that. Null if memory has no room for it, or it is a source of the user's.
  std::shared_ptr<InputFile> Cache(std::size_t file, const InputFile& before, std::uint64_t* loads);

 private:
  /// The bytes that reads of a file were planned for, and the bytes that they read, so far. Only
  /// sums: a lane may see old values of another's.
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
  /// Takes out the kept file that was not asked for longest; null if there is none.
  std::shared_ptr<InputFile> LetGo();

  const std::shared_ptr<const FileTable> table_;
  const IoOptions options_;
  const FileNews news_;
  const std::shared_ptr<CacheRoom> room_;
  std::unique_ptr<CacheLoader> loader_;  ///< null: it does not pay; fixed from the start
  const std::size_t most_;
  const std::shared_ptr<DirectReads> direct_;
  const RowFiles rows_;
  std::vector<Reads> reads_;  ///< by file

  std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::size_t, Kept> kept_;
  std::list<std::size_t> uses_;             ///< the last one used in front
  std::unordered_set<std::size_t> cached_;  ///< files that Cache was asked for and took
};

/// What a lane knows of a file that it reads rows of.
struct LaneFile {
  const DataFile* data = nullptr;
  InputFile* open = nullptr;  ///< for this part; null if there is a failure
  /// Kept from part to part if the file is mapped; others hold a descriptor.
  std::shared_ptr<InputFile> input;
  std::span<const std::byte> mapping;
  std::optional<FixedUnits> fixed;
  /// The same if all of its rows are in the mapping: then they only need pointers.
  bool direct = false;
  bool shrunk = false;           ///< its mapping was found longer than the file
  ReadEngine* engine = nullptr;  ///< null: read inline
  std::unique_ptr<UnitFramer> framer;
  Status failure;      ///< it cannot be read; a refusal of the system is tried again by each part
  bool fatal = false;  ///< that does not depend on the data
  std::uint64_t part = 0;  ///< number of the part that noted it last
  bool stays = false;      ///< it stays as it is: it does not fit into memory, or is a source of
                           ///< the user's
};

/// The files that one lane reads rows of, each with a framer of its own. One thread.
class LaneFiles {
 public:
  LaneFiles(OpenedFiles* files, LaneContext* context) : files_(files), context_(context) {}

  /// Begins a part: from now on each file that Use returns is kept alive by `inputs`, which gets it
  /// once for each part. Files that Use returned before are no longer valid.
  void StartPart(std::vector<std::shared_ptr<InputFile>>* inputs);
  /// The file, open unless its failure says why not.
  LaneFile* Use(std::size_t file) {
    const auto found = used_.find(file);
    if (found != used_.end() && found->second.part == part_) return &found->second;
    return UseFirst(file);
  }
  /// `wanted` bytes of a file are needed, and `planned` are read for them. True if its reads would
  /// come to more than it has: from the next part on it is then read through the page cache in
  /// small pieces, if it fits into memory.
  bool NoteReads(std::size_t file, std::uint64_t wanted, std::uint64_t planned);
  /// What is known of the file, open or not.
  LaneFile* Peek(std::size_t file);
  /// The file's framer; null if its format has none.
  UnitFramer* Framer(LaneFile* file) const;

 private:
  static constexpr std::size_t kMostKept = 4096;
  LaneFile* UseFirst(std::size_t file);
  void Open(std::size_t number, LaneFile* file) const;
  void Take(std::shared_ptr<InputFile> input, LaneFile* file) const;

  OpenedFiles* const files_;
  LaneContext* const context_;
  std::unordered_map<std::size_t, LaneFile> used_;
  std::vector<std::shared_ptr<InputFile>>* inputs_ = nullptr;
  std::uint64_t part_ = 0;
};

}  // namespace ringfeed
