#include "tests/support/record_data.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <utility>

#include "base/crc32c.h"

namespace ringfeed {

namespace {

constexpr std::size_t kIdBytes = 8;

// The pattern's bytes are the highest of numbers that are this far apart. (Eight at a time: a
// sanitizer's build has a call for each access.)
constexpr std::uint64_t kPayloadStep = 0xD1B54A32D192ED03;

std::uint64_t PayloadWord(std::uint64_t id, std::size_t place) {
  std::uint64_t number = (id * 0x9E3779B97F4A7C15 + place) * kPayloadStep;
  std::uint64_t word = 0;
  for (unsigned byte = 0; byte < 8; ++byte, number += kPayloadStep) {
    word |= (number >> 56) << (8 * byte);
  }
  return word;
}

template <typename T>
void AppendLittleEndian(T value, std::vector<std::byte>* bytes) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes->push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

}  // namespace

std::vector<std::byte> RecordPayload(std::uint64_t id, std::size_t bytes) {
  static_assert(std::endian::native == std::endian::little, "words are laid down as bytes");
  std::vector<std::byte> payload(std::max(bytes, kIdBytes));
  std::memcpy(payload.data(), &id, kIdBytes);
  std::byte* to = payload.data() + kIdBytes;
  std::byte* const end = payload.data() + payload.size();
  for (std::size_t place = kIdBytes; end - to >= 8; to += 8, place += 8) {
    const std::uint64_t word = PayloadWord(id, place);
    std::memcpy(to, &word, 8);
  }
  const std::uint64_t last = PayloadWord(id, static_cast<std::size_t>(to - payload.data()));
  std::memcpy(to, &last, static_cast<std::size_t>(end - to));
  return payload;
}

std::optional<std::uint64_t> IdOfPayload(std::span<const std::byte> payload) {
  if (payload.size() < kIdBytes) return std::nullopt;
  std::uint64_t id = 0;
  std::memcpy(&id, payload.data(), kIdBytes);
  const std::vector<std::byte> whole = RecordPayload(id, payload.size());
  if (std::memcmp(payload.data(), whole.data(), whole.size()) != 0) return std::nullopt;
  return id;
}

std::vector<std::size_t> RandomSizes(std::uint64_t seed, std::size_t count, std::size_t least,
                                     std::size_t most) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::size_t> size(least, most);
  std::vector<std::size_t> sizes(count);
  for (std::size_t& each : sizes) each = size(random);
  return sizes;
}

void AppendTfRecordHeader(std::uint64_t length, std::vector<std::byte>* bytes) {
  const std::size_t at = bytes->size();
  AppendLittleEndian(length, bytes);
  AppendLittleEndian(MaskCrc32c(Crc32c(std::span(*bytes).subspan(at))), bytes);
}

void AppendTfRecord(std::span<const std::byte> payload, std::vector<std::byte>* bytes) {
  AppendTfRecordHeader(payload.size(), bytes);
  bytes->insert(bytes->end(), payload.begin(), payload.end());
  AppendLittleEndian(MaskCrc32c(Crc32c(payload)), bytes);
}

TfRecordImage MakeTfRecords(std::uint64_t first_id, std::span<const std::size_t> sizes) {
  TfRecordImage image;
  for (const std::size_t size : sizes) {
    image.offsets.push_back(image.bytes.size());
    AppendTfRecord(RecordPayload(first_id++, size), &image.bytes);
  }
  image.offsets.push_back(image.bytes.size());
  return image;
}

void WriteBytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string bytes(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read " + path);
  return bytes;
}

std::vector<std::uint64_t> WriteTfRecords(const std::string& path, std::uint64_t first_id,
                                          std::span<const std::size_t> sizes) {
  TfRecordImage image = MakeTfRecords(first_id, sizes);
  WriteBytes(path, image.bytes);
  return std::move(image.offsets);
}

Status MemorySource::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                            std::size_t* bytes_read) {
  const std::uint64_t left = bytes_.size() - std::min<std::uint64_t>(offset, bytes_.size());
  *bytes_read = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
  if (*bytes_read > 0) std::memcpy(buffer.data(), bytes_.data() + offset, *bytes_read);
  return {};
}

}  // namespace ringfeed
