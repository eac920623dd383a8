#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/little_endian.h"
#include "io/file_mapping.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/index/foreign_index.h"
#include "readers/index/index_builder.h"
#include "readers/index/tar_check.h"

namespace ringfeed {
namespace {

constexpr std::size_t kEntryBytes = sizeof(std::uint64_t);

/// Energon's: u64 numbers, the places at which samples begin, and then that of the zeros.
class EnergonSamples final : public ListedSamples {
 public:
  explicit EnergonSamples(std::span<const std::byte> entries) : entries_(entries) {}

  /// What is stale, or of another kind, mostly shows here, before the file is read.
  Status Check(const IndexedFile& file) const {
    if (entries_.size() % kEntryBytes != 0) return NotBelieved("it is no row of offsets");
    const std::uint64_t end = Entry(samples());
    if (end % TarLayout::kBlockBytes == 0 && end < file.bytes) return {};
    return NotBelieved("its last offset, " + std::to_string(end) + ", is no block of the file's " +
                       std::to_string(file.bytes) + " bytes");
  }
  Status Begin(std::uint64_t at) override {
    if (begun_ == samples()) {
      return NotBelieved("the archive has more samples than the " + std::to_string(begun_) +
                         " that it lists");
    }
    if (Entry(begun_) != at) {
      return NotBelieved("sample " + std::to_string(begun_) + " begins at " + std::to_string(at) +
                         ", and not at " + std::to_string(Entry(begun_)));
    }
    ++begun_;
    return {};
  }
  Status Member(std::string_view, std::uint64_t, std::uint64_t) override { return {}; }
  Status End(std::uint64_t at) override {
    if (begun_ == samples() && Entry(begun_) == at) return {};
    return NotBelieved("the archive has " + std::to_string(begun_) + " samples up to " +
                       std::to_string(at) + ", and not " + std::to_string(samples()) + " up to " +
                       std::to_string(Entry(samples())));
  }

 private:
  std::uint64_t samples() const { return entries_.size() / kEntryBytes - 1; }
  std::uint64_t Entry(std::uint64_t number) const {
    return LoadLe<std::uint64_t>(entries_.data() + number * kEntryBytes);
  }

  const std::span<const std::byte> entries_;
  std::uint64_t begun_ = 0;
};

/// DALI's, of its tool wds2idx: a line "v1.2" and the number of samples, then a line for each, with
/// "extension offset bytes name" of each member. v1.1 has no names. A name with a blank does not
/// fit.
class DaliSamples final : public ListedSamples {
 public:
  static bool Is(std::string_view text) {
    return text.starts_with("v1.1 ") || text.starts_with("v1.2 ");
  }

  /// `text`: the index, which Is one.
  explicit DaliSamples(std::string_view text) : left_(text), has_names_(text[3] == '2') {
    Word();
    samples_ = Number();
  }

  Status Begin(std::uint64_t) override {
    if (!EndLine()) return Differs();
    ++begun_;
    return {};
  }
  Status Member(std::string_view extension, std::uint64_t at, std::uint64_t bytes) override {
    const bool fits = Word() == extension && Number() == at && Number() == bytes;
    if (!fits || (has_names_ && Word().empty())) return Differs();
    return {};
  }
  Status End(std::uint64_t) override {
    return EndLine() && left_.empty() && begun_ == samples_ ? Status() : Differs();
  }

 private:
  Status Differs() const {
    return NotBelieved("line " + std::to_string(begun_ + 1) + " is not what the archive has");
  }
  /// The next word of the line; empty after the last one.
  std::string_view Word() {
    const std::string_view word = left_.substr(0, left_.find_first_of(" \n"));
    left_.remove_prefix(word.size());
    if (left_.starts_with(' ')) left_.remove_prefix(1);
    return word;
  }
  /// The next word as a number; if it is none, more than any file has.
  std::uint64_t Number() {
    const std::string_view word = Word();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() ? value : ~std::uint64_t{0};
  }
  bool EndLine() {
    if (!left_.starts_with('\n')) return false;
    left_.remove_prefix(1);
    return true;
  }

  std::string_view left_;
  const bool has_names_;
  std::uint64_t samples_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace

Status ReadTarIndex(const std::string& path, const IndexedFile& file, IndexImage* image,
                    const std::stop_token& stop) {
  std::shared_ptr<const FileMapping> mapping;
  Status status = MapForeignIndex(path, &mapping);
  if (!status.ok()) return status;
  const std::span<const std::byte> bytes = mapping->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (DaliSamples::Is(text)) {
    DaliSamples samples(text);
    return CheckTar(file, &samples, image, stop);
  }
  EnergonSamples samples(bytes);
  status = samples.Check(file);
  return status.ok() ? CheckTar(file, &samples, image, stop) : status;
}

}  // namespace ringfeed
