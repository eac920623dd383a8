#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringfeed {

/// A directory of its own for one test, removed with all that is in it.
class TempDir {
 public:
  /// Below `parent`, or, where it is empty, below TMPDIR or /tmp.
  explicit TempDir(const std::string& parent = "");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The byte that a pattern file has at `offset`: different for neighbours, blocks and files.
std::byte PatternByte(std::uint64_t offset, std::uint64_t seed = 0);

/// Writes `bytes` bytes of the pattern, to the medium as well as to the page cache.
void WritePatternFile(const std::string& path, std::uint64_t bytes, std::uint64_t seed = 0);

/// Where `bytes` first differs from the pattern at `offset`; bytes.size() where it does not.
std::size_t FirstDifference(std::span<const std::byte> bytes, std::uint64_t offset,
                            std::uint64_t seed = 0);

/// Drops a file from the page cache, or reads it into the cache. False where the kernel does not
/// comply though asked again: most of it is still there, or not all of it stays. (It need not,
/// where memory is short or pages are in use; a file of a tmpfs is never cold.)
bool MakeCold(const std::string& path);
bool MakeWarm(const std::string& path);
/// Why a test of a cold file or of a warm one is skipped.
inline constexpr const char* kDropsNoFiles = "files cannot be dropped from the page cache here";
inline constexpr const char* kKeepsNoFiles = "the page cache keeps no files now: memory is short";

/// Whether this process has that file, which may be deleted, mapped.
bool IsMappedHere(const std::string& path);

/// Memory aligned for every kind of direct read, filled with one byte.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t bytes, std::byte fill = std::byte{0xEE});
  ~AlignedBuffer();
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace ringfeed
