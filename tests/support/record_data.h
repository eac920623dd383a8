#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/source.h"

namespace ringfeed {

/// The payload of record `id`: the number in 8 bytes, little-endian, then bytes that depend on the
/// number and their place. `bytes` is at least 8.
std::vector<std::byte> RecordPayload(std::uint64_t id, std::size_t bytes);
/// The number of a payload that RecordPayload made; nothing where a single byte is not as it was.
std::optional<std::uint64_t> IdOfPayload(std::span<const std::byte> payload);

/// `count` sizes from `least` to `most`, by seed.
std::vector<std::size_t> RandomSizes(std::uint64_t seed, std::size_t count, std::size_t least,
                                     std::size_t most);

/// A TFRecord file in memory.
struct TfRecordImage {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> offsets;  ///< where each record starts, and the end
};
/// Records first_id, first_id + 1, … of the given payload sizes.
TfRecordImage MakeTfRecords(std::uint64_t first_id, std::span<const std::size_t> sizes);
/// Appends one record with these payload bytes.
void AppendTfRecord(std::span<const std::byte> payload, std::vector<std::byte>* bytes);
/// Appends a length with its valid checksum, and nothing behind it.
void AppendTfRecordHeader(std::uint64_t length, std::vector<std::byte>* bytes);

void WriteBytes(const std::string& path, std::span<const std::byte> bytes);
/// All of a file. Throws, as WriteBytes, where that cannot be done.
std::string ReadBytes(const std::string& path);
/// Writes MakeTfRecords to `path`; returns the offsets.
std::vector<std::uint64_t> WriteTfRecords(const std::string& path, std::uint64_t first_id,
                                          std::span<const std::size_t> sizes);

/// A store of a program's own: bytes in memory.
class MemorySource : public Source {
 public:
  MemorySource(std::string name, std::vector<std::byte> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  std::string name() const override { return name_; }
  std::uint64_t Size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;

 private:
  const std::string name_;
  const std::vector<std::byte> bytes_;
};

}  // namespace ringfeed
