#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/input_file.h"
#include "readers/formats/compression/seek_points.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a compressed file, or object, decompresses to, read at any place. A read decompresses the
/// spans that it touches as a whole. The process keeps them, at most in a sixteenth of the memory
/// that it may have (or 128 MiB, if that is more). Those go first of which as many bytes were read
/// as they have, then those that were not used for longest. Thread safe; of several threads that
/// need a span one decompresses it, and the others wait.
class PointedContent final : public OwnSource {
 public:
  /// `stored` is the compressed file in the state `known`, and `points` are its points.
  PointedContent(IndexedFile stored, const KnownFile& known,
                 std::shared_ptr<const SeekPoints> points);
  ~PointedContent() override;

  const IndexedFile& stored() const { return stored_; }

  std::string name() const override { return stored_.name; }
  const char* origin() const override { return "decompressed from its seek points on"; }
  std::uint64_t Size() const override { return points_->content_bytes; }
  /// A span that does not decompress, or does not match its checksum, is kDamaged as a whole; so is
  /// a file that was replaced or written since it was known.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;
  std::string Version() const override;

 private:
  const IndexedFile stored_;
  const KnownFile known_;
  const std::shared_ptr<const SeekPoints> points_;
  const std::uint64_t number_;  ///< of this object in the process
};

/// The source as that content; null if it is another one, or none.
const PointedContent* PointedContentOf(const Source* source);
/// Whether the source has the bytes of a file in the file system: there is none, or it is the
/// content of such a file.
bool IsOfFile(const Source* source);
/// The size of the compressed file of such content; `bytes` of all others. A position holds whether
/// a file is read by seek points or not.
std::uint64_t StoredBytes(const Source* source, std::uint64_t bytes);
/// The source of the compressed bytes of such content, null of a file; all others as they are.
std::shared_ptr<Source> StoredSource(const std::shared_ptr<Source>& source);

}  // namespace ringfeed
