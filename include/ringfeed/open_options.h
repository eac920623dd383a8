#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/arena.h"
#include "ringfeed/io_options.h"
#include "ringfeed/record.h"
#include "ringfeed/slot.h"

namespace ringfeed {

/// Which files of a list are read in a pass and in which order: a pure function of these values,
/// the number of files and the number of the pass.
struct FileOrder {
  bool shuffle = false;  ///< the list is permuted anew in each pass, by draws of (seed, pass)
  std::uint64_t seed = 0;
  std::uint64_t from_pass = 0;  ///< earlier passes keep the list's order
  /// This reader takes part `rank` of the list, permuted or not, in `ranks` consecutive parts; if
  /// the division leaves a remainder, each of the first parts has one file more. With the same
  /// list, seed and pass the ranks together read each file once.
  std::size_t rank = 0;
  std::size_t ranks = 1;
};

/// Whether files are read by an index of their records. It is made at the first opening and kept
/// beside the file, or in a folder; see `ringfeed index`.
enum class IndexUse : std::uint8_t {
  kAsNeeded,  ///< if the order asks for it: global, blocks, Mix, several ranks, Restore, SeekTo
  kNever,     ///< what would need it is refused at set-up, or replayed by reading
};

/// How files are opened and read. Order: files, subset, cycle, stripe_bytes, on_damage and the list
/// of files. Speed: all else; it never changes what is delivered or in which order.
struct OpenOptions {
  /// The defaults, with the speed that `ringfeed tune` found and wrote to `path` (tuning.h). Throws
  /// Error as ReadTuning does.
  static OpenOptions Tuned(const std::string& path);

  // Order.
  FileOrder files{};
  /// A file of WriteSubset: only the records that it keeps are read, by index, and all orders are
  /// those of data that have no others. Of a list of files or sources; throws Error if it cannot be
  /// read, and at the first read if it is of other data. "": all records.
  std::string subset{};
  std::size_t cycle = 8;  ///< files open at a time, one stripe of each in turn
  /// A stripe: the records that start within so many bytes. A multiple of 4096.
  std::size_t stripe_bytes = 1024 * 1024;
  OnDamage on_damage = OnDamage::kFail;
  /// Under kSkip: reading fails after more than this are met. It is a guard, and no part of the
  /// order: how soon it fails depends on how far was read ahead. A run with more never ends well.
  std::uint64_t max_damaged = ~std::uint64_t{0};
  /// Whether a warning (PipelineStats::warnings) is a failure: kDamaged, after the records before
  /// it, whatever on_damage says.
  bool strict = false;
  std::string format{};  ///< "": by name or first bytes; else e.g. "rows:160"
  std::size_t max_record_bytes = std::size_t{1} << 30;
  /// Gives the order up: records come from whichever of `cycle` open files has some first, and a
  /// free thread takes the next file. Each record comes once per pass all the same. (Ranks that
  /// share batches keep the order, which decides each rank's rows.)
  bool unordered = false;
  /// How often a stream is opened again after its end, for a writer that crashes and restarts.
  /// Damage in such a stream, such as a record that was cut off, is always reported and passed
  /// over. If the next writer comes before the end of the last was seen, its records follow a piece
  /// of a record, and both ends count as one. If not 0, throws Error for an input that is no stream
  /// and for a stream that comes once (StreamSource::ComesOnce).
  std::uint64_t reopen_limit = 0;
  /// The same without a number: after a writer has ended, the stream is opened again and again
  /// until no byte came for so many seconds, which is its end like any other, or until Close. It
  /// waits for a writer that pauses between its records. Cannot be combined with reopen_limit, but
  /// works like it. 0: off.
  double reopen_until = 0;
  static constexpr double kUntilClose = std::numeric_limits<double>::infinity();
  /// The slots of a registered format's readers (RegisterFormat); for other formats that throws
  /// Error.
  std::vector<SlotSpec> slots{};
  /// Number of the first pass: draws of pass p are those of epoch first_epoch + p.
  std::uint32_t first_epoch = 0;
  IndexUse index = IndexUse::kAsNeeded;
  std::string
      index_folder{};  ///< "": RINGFEED_INDEX_FOLDER, else beside each file (of sources none)
  /// A folder of the local disk that keeps what is read of objects in stores, for later passes,
  /// other processes of this user on this machine, and later runs. It is made if only it is
  /// missing. "": none. See `ringfeed cache`.
  std::string cache{};
  /// The most bytes of all that is kept there. What was used least recently makes room; a run
  /// removes nothing that itself used.
  std::uint64_t cache_bytes = std::uint64_t{200} << 30;
  bool note_records = false;  ///< BatchOrigin says which records a batch holds
  // Speed.
  static constexpr int kMostThreads = 1024;
  int threads = 0;  ///< 0: one per core that this process may use, at most 16; else to kMostThreads
  /// How many records, and how many of their bytes, are taken from a generator, a queue or a stream
  /// beyond those handed out. Records held by a shuffle or by groups do not count, since the order
  /// needs them, and a delivery that needs more gets more. Batches waiting in a DeviceFeed were
  /// handed out. For files a value that is not 0 throws Error: arena_bytes bounds what is read
  /// ahead there.
  ///
  /// 0 in both: from a FromInstanceSource, a FromDataset and a queue the rows of as many batches as
  /// there are beside the one in use, BatchOptions::slots less one (3 if `slots` is 0). Without
  /// Batch 64 records, or 4 if instances are delivered as they are. From a stream as much as
  /// memory allows. Streams are read in pieces of up to 512 KiB, whose records may be more.
  std::uint64_t ahead_records = 0;
  std::uint64_t ahead_bytes = 0;
  IoOptions io{};
  /// The format that these options were tuned for: OpenFiles throws Error if its first file is of
  /// another one. "": any.
  std::string tuned_format{};
  std::shared_ptr<PinnedArena> arena{};  ///< null: the process's own
  /// This pipeline's quota, taken as it is opened; 0: as it is needed, about half of what is left.
  std::size_t arena_bytes = 0;
};

}  // namespace ringfeed
