#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/memory/arena.h"
#include "base/pending_copy.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a run wants to read straight into a device's memory.
struct DirectNeed {
  std::string file;                ///< the first; it shows whether the files can be read so
  std::uint64_t record_bytes = 0;  ///< of a record, on average
  std::size_t memory_bytes = 0;    ///< for bytes read ahead and kept until the device took them
};

/// Reads of files into a device's memory past the host's. The code that brings a chain's batches
/// onto that device gives the chain this object. The reads are those that the chain would make into
/// its own memory, with the same results and the same failures. Thread safe.
class DirectReads : public FarMemory {
 public:
  /// The device's memory for one run, cut into slabs. Null if the run reads into host memory
  /// instead; this object reports why. Blocks.
  virtual std::shared_ptr<Arena> Begin(const DirectNeed& need) = 0;
  /// The chain cannot use such reads, whatever the device can do.
  virtual void NoteUnfit(const std::string& why) = 0;
  /// Call once for a file, before any read of it, in the thread that opened it.
  virtual void Open(InputFile* file) = 0;
  /// Reads into memory of such an arena, in the caller's thread. As ReadRequestBlocking.
  virtual void Read(ReadRequest* request, int retries, ReadEngineStats* stats) = 0;
};

}  // namespace ringfeed
