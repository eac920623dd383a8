#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "ringfeed/open_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a lane is to read next. A file is as it was when it was scheduled: so many of its bytes are
/// read, in so many turns as it has stripes. If those are not known, the lane tells by EndTurn.
struct Assignment : ExaminedFile {
  /// kWait: not known yet; ask again once the schedule's version is another than `version`.
  enum class Kind : std::uint8_t { kFile, kPassEnd, kEnd, kWait };
  Kind kind = Kind::kEnd;
  std::size_t file = 0;  ///< index in the list
  std::uint64_t pass = 0;
  std::uint64_t version = 0;
};

/// Which file is read in which lane: the order over several files, as a pure function of their
/// sizes, of compressed files of the sizes of their contents. Of `cycle` lanes each yields one
/// stripe in turn; a lane whose file is at its end takes the next of the list when its turn comes.
/// Files without a stripe (empty ones) take no turn. Every pass starts afresh with the first file
/// in the first lane. Thread safe; files are examined (stat, first bytes) when their turn to be
/// assigned comes, objects of stores many at a time.
///
/// If the stripes of a file are not known before it is read, the next file of another lane may not
/// be known either: that lane waits until the turns that were read decide it.
/// The lane whose turn is due never waits, since all turns before its own were read.
class FileSchedule {
 public:
  struct Options {
    std::size_t cycle = 8;
    std::uint64_t stripe_bytes = 1024 * 1024;
    std::uint64_t passes = 1;       ///< 0: without end
    std::string format{};           ///< empty: by name or first bytes
    bool unordered = false;         ///< a lane that is free takes the next file
    bool by_file = false;           ///< files are not examined: each takes one turn
    IndexOptions index{};           ///< for the manifest and seek points
    FileOrder order{};              ///< of the list, in each pass
    std::uint64_t first_epoch = 0;  ///< number of pass 0 to that order
    /// Called, by any thread, when a lane that was told to wait may go on.
    std::function<void()> moved{};
    /// Called for each file that takes no turn because it is empty; under a lock. May be empty.
    std::function<void(const std::string& name)> passed_over{};
  };
  /// `sources` as in SourceNode.
  FileSchedule(std::vector<std::string> names, std::vector<std::shared_ptr<Source>> sources,
               const Options& options);

  /// Lanes that are in use: the smaller of cycle and the number of files in a pass, at least 1.
  std::size_t lanes() const { return lanes_; }
  std::size_t files() const { return names_.size(); }
  const std::string& name(std::size_t file) const { return names_[file]; }
  std::shared_ptr<Source> source(std::size_t file) const {
    return sources_.empty() ? nullptr : sources_[file];
  }

  /// What a stripe of these files has at most: less than stripe_bytes if all of them are smaller.
  /// Examines them all, unless there are more than a few thousand, or more objects of stores than
  /// are examined at a time.
  std::uint64_t LongestStripe();

  /// The lane's next piece of work: its files of a pass, then kPassEnd, then those of the next
  /// pass, …, then kEnd for ever. Each lane is asked by one thread.
  Assignment Next(std::size_t lane);
  /// Called by the lane's thread: a turn of a file of unknown stripes was read; whether it was the
  /// file's last.
  void EndTurn(std::size_t lane, bool file_ends);
  /// Whether any file of the list has a stripe, or may have one. Examines them.
  bool HasStripes();
  /// Grows with each call of EndTurn.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  /// The assignments of one pass, made in order, as far as a lane has asked.
  struct Pass {
    std::vector<std::size_t> files;  ///< indices in the list, in the order of this pass
    std::size_t next_file = 0;       ///< index in `files`
    /// Per lane: turns that are taken; if it is open, at least so many.
    std::vector<std::uint64_t> free_at;
    std::vector<bool> open;                         ///< per lane: its last file has unknown stripes
    std::vector<std::uint64_t> started;             ///< per lane: free_at before its last file
    std::vector<std::vector<Assignment>> assigned;  ///< per lane
    std::vector<bool> lane_done;
  };

  std::unique_ptr<Pass> NewPass(std::uint64_t number) const;
  /// Assigns until the lane has `count` files or is done. False if an open lane is in the way.
  bool ExtendUntil(Pass& pass, std::uint64_t number, std::size_t lane, std::size_t count);
  void Assign(Pass& pass, std::uint64_t number, std::size_t lane);
  /// What the first of these files is. If it is an object of a store that was not examined, those
  /// after it are examined with it.
  const ExaminedFile& Examine(std::span<const std::size_t> files);
  ExaminedFile ExamineNow(std::size_t file) const;
  std::vector<std::size_t> AllFiles() const;
  /// Whether an answer tells what the file is, and not the manifest.
  bool IsAskedFor(std::size_t file) const;

  std::vector<std::string> names_;
  std::vector<std::shared_ptr<Source>> sources_;
  const Options options_;
  std::size_t lanes_;

  std::mutex mutex_;
  std::vector<std::optional<ExaminedFile>> examined_;
  std::uint64_t first_pass_ = 0;  ///< number of passes_.front()
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<std::uint64_t> lane_pass_;
  std::vector<std::size_t> lane_taken_;
  bool lanes_wait_ = false;
  /// Partner: itself; a lane that saw it unchanged is woken by `moved`.
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace ringfeed
