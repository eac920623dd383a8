#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/refuse.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "readers/parsers/text/text_field.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 16 * 1024;
constexpr std::size_t kChunkRows = 64;  // whose locations stay in L1
constexpr std::string_view kKeyName = "__key__";

struct TarScratch final : Parser::Scratch {
  explicit TarScratch(std::size_t fields) : columns(fields, kStageBytes) {}

  StagedColumns columns;
  TarSample sample;
  LocatedStorage storage;
};

[[noreturn]] void RefuseMember(const std::string& why) { Refuse("tar parser: " + why); }

// ".bin" is the extension "bin", unless a member's begins with that dot.
const TarMember* FindExtension(const TarSample& sample, std::string_view name) {
  const TarMember* const found = sample.Find(name);
  if (found != nullptr || !name.starts_with('.')) return found;
  return sample.Find(name.substr(1));
}

// "jpg;png" is the first of them that there is.
const TarMember* FindMember(const TarSample& sample, std::string_view names) {
  const TarMember* found = nullptr;
  while (found == nullptr && !names.empty()) {
    const std::size_t end = std::min(names.find(';'), names.size());
    found = FindExtension(sample, names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return found;
}

// The members whose extension is one of `names` but for its case; empty if there are none.
std::string AlikeMembers(const TarSample& sample, std::string_view names) {
  const auto is_meant = [names](const TarMember& member) {
    for (std::string_view rest = names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view name = rest.substr(0, end);
      const std::string_view bare = name.starts_with('.') ? name.substr(1) : name;
      if (SameTarExtension(member.extension, name) || SameTarExtension(member.extension, bare)) {
        return true;
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  };
  std::string alike;
  for (const TarMember& member : sample.members) {
    if (is_meant(member)) alike += (alike.empty() ? "\"" : " and \"") + member.extension + "\"";
  }
  return alike;
}

// WebDataset's writers write a number as text, some with a line's end after it.
std::string_view WithoutSpace(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

class TarSampleParser final : public Parser {
 public:
  explicit TarSampleParser(const std::vector<FeatureSpec>& members) {
    if (members.empty()) RefuseMember("name at least one member");
    for (const FeatureSpec& member : members) {
      const FieldSpec spec{member.name, member.dtype, member.shape};
      members_.push_back(MakeTextField("tar", spec, member.missing));
      const TextField& field = members_.back();
      if (!field.text && (field.ragged || field.read == nullptr || field.elements != 1)) {
        RefuseMember("member \"" + member.name + "\" gives its bytes, uint8[-1], or one number");
      }
      if (member.name == kKeyName && !field.text) RefuseMember("a key is bytes, uint8[-1]");
      if (!AddField(spec)) RefuseMember("\"" + member.name + "\" is named twice");
    }
    two_phase_ = true;
    units_alike_ = true;
  }

  std::string name() const override { return "tar"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<TarScratch>(members_.size());
  }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<TarScratch*>(scratch)->storage.Take();
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    auto* own = static_cast<TarScratch*>(scratch);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateSample(rows[row], locations + row * members_.size(), own);
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override;
  bool CopiesBytesOf(std::size_t field) const override { return members_[field].text; }
  std::span<const std::byte> BytesOf(std::size_t, const RecordSpan&,
                                     const FieldLocation& at) const override {
    return {at.data, at.bytes};
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>*) const override {
    auto* own = static_cast<TarScratch*>(scratch);
    own->columns.Start(members_, targets);
    for (std::size_t first = 0; first < rows.size(); first += kChunkRows) {
      own->columns.AppendLocated(targets, locations + first * members_.size(), first,
                                 std::min(kChunkRows, rows.size() - first));
    }
    own->columns.Finish();
  }

 private:
  Status LocateSample(const RecordSpan& record, FieldLocation* locations,
                      TarScratch* scratch) const;
  static Status LocateField(const TextField& field, TarScratch* scratch, FieldLocation* location);

  std::vector<TextField> members_;
};

Status LocateBytes(std::span<const std::byte> bytes, FieldLocation* location) {
  if (LocateAt(bytes.data(), bytes.size(), bytes.size(), location)) return {};
  return Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported");
}

Status TarSampleParser::LocateField(const TextField& field, TarScratch* scratch,
                                    FieldLocation* location) {
  const TarSample& sample = scratch->sample;
  if (field.name == kKeyName) {
    std::byte* const key = scratch->storage.Allocate(sample.key.size());
    std::copy_n(reinterpret_cast<const std::byte*>(sample.key.data()), sample.key.size(), key);
    return LocateBytes({key, sample.key.size()}, location);
  }
  const TarMember* const member = FindMember(sample, field.name);
  if (member == nullptr) {
    if (const std::string alike = AlikeMembers(sample, field.name); !alike.empty()) {
      return Status(StatusCode::kDamaged, "the sample " + Shown(sample.key) + " has " + alike +
                                              ", and not \"" + field.name + "\"");
    }
    if (field.has_default) return LocateBytes(field.missing, location);
    return Status(StatusCode::kDamaged,
                  "the sample " + Shown(sample.key) + " has no member \"" + field.name + "\"");
  }
  if (field.text) return LocateBytes(member->bytes, location);
  const std::string_view text =
      WithoutSpace({reinterpret_cast<const char*>(member->bytes.data()), member->bytes.size()});
  std::byte* const number = scratch->storage.Allocate(field.unit_bytes);
  const char* const end = text.data() + text.size();
  if (text.empty() || field.read(text.data(), end, number) != end) {
    return Status(StatusCode::kDamaged, "member \"" + field.name + "\" of the sample " +
                                            Shown(sample.key) + " is " + Shown(text) + " where " +
                                            std::string(DTypeName(field.dtype)) + " is expected");
  }
  return LocateBytes({number, field.unit_bytes}, location);
}

Refusal TarSampleParser::Explain(const RecordSpan& record, const Status& why) const {
  TarSample sample;
  if (!SplitTarSample(record.bytes(), &sample).ok()) return RefusalOf(why, fields_);
  std::vector<std::string> names;
  for (const TarMember& member : sample.members) names.push_back(member.extension);
  for (const TextField& field : members_) {
    if (field.has_default || field.name == kKeyName || FindMember(sample, field.name) != nullptr) {
      continue;
    }
    return MissingName("member \"" + field.name + "\"", field.name, names);
  }
  return RefusalOf(why, fields_);
}

Status TarSampleParser::LocateSample(const RecordSpan& record, FieldLocation* locations,
                                     TarScratch* scratch) const {
  Status status = SplitTarSample(record.bytes(), &scratch->sample);
  for (std::size_t f = 0; status.ok() && f < members_.size(); ++f) {
    status = LocateField(members_[f], scratch, locations + f);
  }
  return status;
}

}  // namespace

std::shared_ptr<const Parser> TarParser(const std::vector<FeatureSpec>& members) {
  return std::make_shared<const TarSampleParser>(members);
}

}  // namespace ringfeed
