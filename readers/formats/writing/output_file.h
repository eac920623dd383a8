#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/process_number.h"
#include "readers/formats/compression/compressor.h"
#include "ringfeed/status.h"

namespace ringfeed {

class ObjectWriter;

/// Temporary files are named .NAME.partial-PID-NUMBER-RANDOM, with a long NAME cut off at its end.
/// RANDOM, 16 hexadecimal digits, keeps others from taking the name first.
inline constexpr char kPartialFileMark[] = ".partial-";

/// A file that is written front to back under a temporary name beside its own, compressed if asked,
/// and renamed when it is complete. It is removed if it never is. After a failure every call
/// returns that. It belongs to the process that made it: a child of fork gets a failure, and
/// removes nothing. Under an address it is an object of a store, by an ObjectWriter.
class OutputFile {
 public:
  explicit OutputFile(std::string path, Compression compression = Compression::kNone);
  /// Writes to an open descriptor, which stays the caller's; `name` is for messages.
  OutputFile(int descriptor, std::string name, Compression compression);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Call before Open, for a name that the user did not give: replaces a link of that name.
  void ReplaceLink() { replaces_link_ = true; }
  /// Call before Open: an object that is there stays, and is a failure. A file is replaced.
  void KeepObject() { keeps_object_ = true; }
  /// kInvalidArgument if the name is that of something other than a regular file; links are
  /// followed.
  Status Open();
  /// From now on Commit makes sure that the file under the name is on the medium.
  void Sync() { syncs_ = true; }
  Status Append(std::span<const std::byte> bytes);
  Status AppendZeros(std::size_t count);
  /// Replaces what was appended at `offset`. Not for a compressed file or an object.
  Status Rewrite(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Hands over what is buffered. For a compressed file, what the compressor gave so far.
  Status Flush() { return Usable() ? PutBuffer() : status_; }
  Status Commit();
  const std::string& path() const { return path_; }

 private:
  /// Writes bytes as they are in the file, compressed or not.
  Status Put(std::span<const std::byte> bytes);
  Status PutBuffer();
  Status WriteOut(std::span<const std::byte> bytes);
  Status Fail(int error_number, const std::string& what);
  /// Whether status_ is OK. Not in a child of fork: place and end of the file are its parent's.
  bool Usable();
  bool IsOfParent() const {
    return (!temporary_.empty() || object_ != nullptr) && process_ != ProcessNumber();
  }

  const std::uint64_t process_ = ProcessNumber();
  const std::string path_;
  std::string target_;     ///< path_, links followed
  std::string temporary_;  ///< empty: the descriptor is the caller's
  int descriptor_ = -1;
  bool syncs_ = false;
  bool replaces_link_ = false;
  bool keeps_object_ = false;
  std::vector<std::byte> buffer_;
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<ObjectWriter> object_;  ///< not null: what is written goes there
  Status status_;
};

/// No temporary file of this process has this number or a larger one yet.
std::uint64_t NextOutputNumber();

/// The name to which the file for `path` is renamed after it was written beside it: `path` itself,
/// or the target if `path` is a link, so the link stays. kInvalidArgument if something that is no
/// regular file has that name: a device or a FIFO would be replaced, not written to. kUnsupported
/// for an address.
Status FindOutputTarget(const std::string& path, std::string* target);

/// What is known of the name of an output before it is opened: as FindOutputTarget, or whether
/// objects can be written there and credentials are found (ObjectWriter::Open).
Status CheckOutput(const std::string& path);

}  // namespace ringfeed
