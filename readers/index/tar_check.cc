#include "readers/index/tar_check.h"

#include <cstddef>
#include <span>
#include <string>

#include "readers/formats/tar/tar_members.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/index/foreign_index.h"
#include "readers/index/index_builder.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBlock = TarLayout::kBlockBytes;
// How many members pass between checks for a request to stop.
constexpr std::uint64_t kMembersPerLook = 1024;
// Writers put up to 10 KiB of zeros at the end of an archive.
constexpr std::uint64_t kMostEndBytes = std::uint64_t{1} << 20;

class TarCheck {
 public:
  TarCheck(const IndexedFile& file, ListedSamples* listed)
      : file_(file), listed_(listed), headers_(file.name) {}

  Status Run(const std::stop_token& stop, IndexImage* image);

 private:
  Status ReadUnit(TarUnit* unit);
  Status Take(const TarUnit& unit);
  Status BeginSample(std::string_view key);
  void EndSample();
  Status CheckEnd();

  const IndexedFile& file_;
  ListedSamples* const listed_;
  HeaderReader headers_;
  IndexBuilder builder_;
  TarGlobals globals_;
  std::uint64_t at_ = 0;
  std::uint64_t last_bytes_ = 0;  ///< of the unit before
  bool has_begun_ = false;        ///< a sample
  std::string key_;               ///< of it
  TarMembers members_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

Status TarCheck::ReadUnit(TarUnit* unit) {
  for (std::size_t need = kBlock;; need = static_cast<std::size_t>(unit->need_bytes)) {
    std::span<const std::byte> bytes;
    Status status = headers_.Read(at_, need, last_bytes_, &bytes);
    if (!status.ok()) return status;
    *unit = ReadTarUnit(bytes, file_.bytes - at_, &globals_);
    if (unit->kind != TarUnit::Kind::kMore) return {};
    if (bytes.size() < need) return NotBelieved("the file shrank");
  }
}

Status TarCheck::BeginSample(std::string_view key) {
  if (Status status = listed_->Begin(at_); !status.ok()) return status;
  EndSample();
  has_begun_ = true;
  key_ = key;
  members_.Clear();
  begin_ = at_;
  return {};
}

void TarCheck::EndSample() {
  if (has_begun_) builder_.Add({begin_, end_});
}

Status TarCheck::Take(const TarUnit& unit) {
  if (unit.end > file_.bytes - at_) return NotBelieved("the archive is cut");
  std::string_view key;
  std::string_view extension;
  if (unit.kind != TarUnit::Kind::kMember || !SplitTarName(unit.name, &key, &extension)) return {};
  if (!has_begun_ || key != key_ || members_.Has(extension)) {
    Status status = BeginSample(key);
    if (!status.ok()) return status;
  }
  Status status = listed_->Member(extension, at_ + unit.data_at, unit.size);
  if (!status.ok()) return status;
  members_.Add(extension);
  end_ = at_ + unit.end;
  if (end_ - begin_ <= file_.max_record_bytes) return {};
  return NotBelieved("a sample is longer than max_record_bytes (" +
                     std::to_string(file_.max_record_bytes) + ")");
}

// The framer warns of an archive without an end, and finds what stands after it.
Status TarCheck::CheckEnd() {
  if (Status status = listed_->End(at_); !status.ok()) return status;
  const std::uint64_t left = file_.bytes - at_;
  if (left > kMostEndBytes) return NotBelieved("the archive's end is long");
  std::span<const std::byte> end;
  Status status = headers_.Read(at_, static_cast<std::size_t>(left), left, &end);
  if (!status.ok()) return status;
  const bool whole = end.size() == left && left >= 2 * kBlock && TarBlockIsZero(end);
  return whole ? Status() : NotBelieved("the archive has another end than zeros");
}

Status TarCheck::Run(const std::stop_token& stop, IndexImage* image) {
  for (std::uint64_t units = 1;; ++units) {
    if (at_ == file_.bytes) return NotBelieved(std::string(kTarHasNoEnd));
    TarUnit unit;
    Status status = ReadUnit(&unit);
    if (!status.ok()) return status;
    if (unit.kind == TarUnit::Kind::kZeros) break;
    if (unit.kind == TarUnit::Kind::kDamage) return NotBelieved(unit.reason);
    if (globals_.any()) return NotBelieved("a global pax header is in the archive");
    status = Take(unit);
    if (!status.ok()) return status;
    at_ += unit.end;
    last_bytes_ = unit.end;
    if (units % kMembersPerLook == 0 && stop.stop_requested()) {
      return Status(StatusCode::kCancelled, "reading the index was broken off");
    }
  }
  Status status = CheckEnd();
  if (!status.ok()) return status;
  EndSample();
  *image = builder_.Finish(file_.bytes);
  image->header.max_record_bytes = file_.max_record_bytes;
  return {};
}

}  // namespace

Status CheckTar(const IndexedFile& file, ListedSamples* listed, IndexImage* image,
                const std::stop_token& stop) {
  return TarCheck(file, listed).Run(stop, image);
}

}  // namespace ringfeed
