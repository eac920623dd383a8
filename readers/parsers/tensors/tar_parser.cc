#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/refuse.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/text/json_fields.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::string_view kKeyName = "__key__";

struct TarScratch final : LoDScratch {
  TarScratch(std::size_t fields, std::size_t texts) : LoDScratch(fields), json(texts) {}

  TarSample sample;
  LocatedStorage storage;
  std::vector<JsonMemory> json;  // of each member that is such a text
};

[[noreturn]] void RefuseMember(const std::string& why) { Refuse("tar parser: " + why); }

// ".bin" is the extension "bin", unless a member's begins with that dot.
const TarMember* FindExtension(const TarSample& sample, std::string_view name) {
  const TarMember* const found = sample.Find(name);
  if (found != nullptr || !name.starts_with('.')) return found;
  return sample.Find(name.substr(1));
}

// Whether one of the names in "jpg;png" is meant.
template <typename IsMeant>
bool AnyName(std::string_view names, IsMeant is_meant) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(';'), names.size());
    if (is_meant(names.substr(0, end))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

// The first of the names that there is.
const TarMember* FindMember(const TarSample& sample, std::string_view names) {
  const TarMember* found = nullptr;
  (void)AnyName(names, [&](std::string_view name) {
    found = FindExtension(sample, name);
    return found != nullptr;
  });
  return found;
}

// The members whose extension is one of `names` but for its case; empty if there are none.
std::string AlikeMembers(const TarSample& sample, std::string_view names) {
  std::string alike;
  for (const TarMember& member : sample.members) {
    const bool is_meant = AnyName(names, [&](std::string_view name) {
      const std::string_view bare = name.starts_with('.') ? name.substr(1) : name;
      return SameTarExtension(member.extension, name) || SameTarExtension(member.extension, bare);
    });
    if (is_meant) alike += (alike.empty() ? "\"" : " and \"") + member.extension + "\"";
  }
  return alike;
}

// Whether all of these members are arrays of NumPy.
bool AreArrays(std::string_view names) {
  return !AnyName(names, [](std::string_view name) { return !IsNpyExtension(name); });
}

// WebDataset's writers write a number as text, some with a line's end after it.
std::string_view WithoutSpace(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string_view TextOf(const TarMember& member) {
  return {reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size()};
}

class TarSampleParser final : public LoDColumnsParser {
 public:
  explicit TarSampleParser(const std::vector<FeatureSpec>& members);

  std::string name() const override { return "tar"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<TarScratch>(fields_.size(), texts_.size());
  }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<TarScratch*>(scratch)->storage.Take();
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    auto* own = static_cast<TarScratch*>(scratch);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateSample(rows[row], locations + row * fields_.size(), own);
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override;
  FieldLengths LengthsOf(std::size_t field) const override {
    const FeatureSpec* const spec = FindSpec(std::span(specs_), fields_[field].name);
    if (spec == nullptr) return {};
    return {"tar: " + FieldText(*spec), TarParser({*spec})};
  }
  bool CopiesBytesOf(std::size_t field) const override { return copied_[field]; }
  std::span<const std::byte> BytesOf(std::size_t, const RecordSpan&,
                                     const FieldLocation& at) const override {
    return {at.data, at.bytes};
  }

 private:
  // A member that is a field.
  struct Member : TextField {
    bool array = false;  // a .npy file
    std::size_t column = 0;
  };
  // A member that is a JSON text, and the fields that are taken out of it.
  struct JsonMember {
    std::string names;
    JsonFields fields;
  };

  Status LocateSample(const RecordSpan& record, FieldLocation* locations,
                      TarScratch* scratch) const;
  static Status LocateField(const Member& field, TarScratch* scratch, FieldLocation* location);
  static Status LocateText(const JsonMember& text, JsonMemory* memory, TarScratch* scratch,
                           FieldLocation* locations);

  const std::vector<FeatureSpec> specs_;
  std::vector<Member> members_;
  std::vector<JsonMember> texts_;
  std::vector<bool> copied_;  // of each column: whether it has a member's bytes
};

TarSampleParser::TarSampleParser(const std::vector<FeatureSpec>& members) : specs_(members) {
  if (members.empty()) RefuseMember("name at least one member");
  std::vector<std::pair<std::string, std::vector<JsonField>>> texts;
  for (const FeatureSpec& member : members) {
    const FieldSpec spec{member.name, member.dtype, member.shape};
    const std::size_t slash = member.name.find('/');
    const bool json = slash != std::string::npos;
    const bool bytes = spec.dtype == DType::kUInt8 && spec.shape == Shape{-1};
    const bool array = !json && !bytes && AreArrays(member.name);
    const TextField field = MakeTextField("tar", spec, member.missing, array);
    const std::size_t column = fields_.size();
    if (!AddRows(spec, field.strings)) RefuseMember("\"" + member.name + "\" is named twice");
    copied_.resize(fields_.size(), bytes && !json);
    if (json) {
      const std::string names = member.name.substr(0, slash);
      const auto is_same = [&](const auto& text) { return text.first == names; };
      auto text = std::find_if(texts.begin(), texts.end(), is_same);
      if (text == texts.end()) text = texts.insert(text, {names, {}});
      text->second.push_back({field, member.name.substr(slash), column});
      continue;
    }
    const bool number = !field.ragged && field.read != nullptr && field.elements == 1;
    if (!bytes && !number && (!array || field.strings)) {
      RefuseMember("member \"" + member.name +
                   "\" gives its bytes, uint8[-1], or one number; an array is a member \"npy\", "
                   "and values of JSON are \"json/key\"");
    }
    if (member.name == kKeyName && !bytes) RefuseMember("a key is bytes, uint8[-1]");
    members_.push_back({field, array, column});
  }
  for (auto& [names, fields] : texts) {
    texts_.push_back({names, JsonFields("member \"" + names + "\"", std::move(fields))});
  }
}

Status LocateBytes(std::span<const std::byte> bytes, FieldLocation* location) {
  if (LocateAt(bytes.data(), bytes.size(), bytes.size(), location)) return {};
  return Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported");
}

// That the sample lacks the member of those names.
Status Missing(const TarSample& sample, const std::string& names) {
  const std::string alike = AlikeMembers(sample, names);
  return Status(StatusCode::kDamaged,
                "the sample " + Shown(sample.key) +
                    (alike.empty() ? " has no member \"" + names + "\""
                                   : " has " + alike + ", and not \"" + names + "\""));
}

// An array as NumPy saves it, in C order.
Status LocateArray(const TextField& field, std::span<const std::byte> bytes,
                   LocatedStorage* storage, FieldLocation* location) {
  const auto damaged = [](std::string why) { return Status(StatusCode::kDamaged, std::move(why)); };
  const ArrayHeader header = ReadNpyHeader(bytes);
  if (header.need_bytes > bytes.size()) return damaged("it ends inside its header");
  if (!header.status.ok()) return header.status;
  const ArrayLayout& layout = header.layout;
  const bool typed =
      header.elements && layout.item_bytes == DTypeBytes(field.dtype) &&
      std::count(header.elements->types.begin(), header.elements->types.end(), field.dtype) != 0;
  if (!typed) {
    return damaged("its elements are " +
                   (header.elements ? "\"" + header.elements->name + "\"" : "no numbers") +
                   " where " + std::string(DTypeName(field.dtype)) + " is expected");
  }
  bool fits = header.shape.size() == field.shape.size();
  std::string shape = "[";
  for (std::size_t i = 0; i < header.shape.size(); ++i) {
    fits = fits && ((i == 0 && field.ragged) ||
                    header.shape[i] == static_cast<std::uint64_t>(field.shape[i]));
    shape += (i == 0 ? "" : ",") + std::to_string(header.shape[i]);
  }
  if (!fits) return damaged("its shape " + shape + "] is not that of the field");
  const std::size_t left = bytes.size() - header.need_bytes;
  if (layout.data_bytes != left) {
    return damaged("it has " + std::to_string(left) + " bytes behind its header where " +
                   std::to_string(layout.data_bytes) + " are expected");
  }
  const std::byte* data = bytes.data() + header.need_bytes;
  if (!layout.column_major.empty()) {
    std::byte* const rows = storage->Allocate(left);
    for (std::uint64_t row = 0; row < layout.column_major[0]; ++row) {
      GatherRow(layout, data, row, rows + row * layout.row_bytes);
    }
    data = rows;
  }
  if (LocateAt(data, left, left / field.unit_bytes, location)) return {};
  return Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported");
}

Status TarSampleParser::LocateField(const Member& field, TarScratch* scratch,
                                    FieldLocation* location) {
  const TarSample& sample = scratch->sample;
  if (field.name == kKeyName) {
    std::byte* const key = scratch->storage.Allocate(sample.key.size());
    std::copy_n(reinterpret_cast<const std::byte*>(sample.key.data()), sample.key.size(), key);
    return LocateBytes({key, sample.key.size()}, location);
  }
  const TarMember* const member = FindMember(sample, field.name);
  if (member == nullptr) {
    if (!field.has_default || !AlikeMembers(sample, field.name).empty()) {
      return Missing(sample, field.name);
    }
    const std::size_t bytes = field.missing.size();
    LocateAt(field.missing.data(), bytes, bytes / field.unit_bytes, location);
    return {};
  }
  if (field.text) return LocateBytes(member->bytes, location);
  if (field.array) {
    const Status status = LocateArray(field, member->bytes, &scratch->storage, location);
    if (status.ok()) return status;
    return Status(status.code(), "member \"" + field.name + "\" of the sample " +
                                     Shown(sample.key) + ": " + status.message());
  }
  const std::string_view text = WithoutSpace(TextOf(*member));
  std::byte* const number = scratch->storage.Allocate(field.unit_bytes);
  const char* const end = text.data() + text.size();
  if (text.empty() || field.read(text.data(), end, number) != end) {
    return Status(StatusCode::kDamaged, "member \"" + field.name + "\" of the sample " +
                                            Shown(sample.key) + " is " + Shown(text) + " where " +
                                            std::string(DTypeName(field.dtype)) + " is expected");
  }
  return LocateBytes({number, field.unit_bytes}, location);
}

Status TarSampleParser::LocateText(const JsonMember& text, JsonMemory* memory, TarScratch* scratch,
                                   FieldLocation* locations) {
  const TarSample& sample = scratch->sample;
  const TarMember* const member = FindMember(sample, text.names);
  // A sample without the member is one whose text has no keys.
  const std::string_view bytes = member != nullptr ? TextOf(*member) : "{}";
  const bool alike = member == nullptr && !AlikeMembers(sample, text.names).empty();
  if (!alike && text.fields.Read(bytes, locations, &scratch->storage, memory)) return {};
  if (member == nullptr) return Missing(sample, text.names);
  return Status(StatusCode::kDamaged, memory->wrong + ", in the sample " + Shown(sample.key));
}

Refusal TarSampleParser::Explain(const RecordSpan& record, const Status& why) const {
  TarSample sample;
  if (!SplitTarSample(record.bytes(), &sample).ok()) return RefusalOf(why, fields_);
  std::vector<std::string> names;
  for (const TarMember& member : sample.members) names.push_back(member.extension);
  for (const Member& field : members_) {
    if (field.has_default || field.name == kKeyName || FindMember(sample, field.name) != nullptr) {
      continue;
    }
    return MissingName("member \"" + field.name + "\"", field.name, names);
  }
  for (const JsonMember& text : texts_) {
    const TarMember* const member = FindMember(sample, text.names);
    const std::vector<JsonField>& fields = text.fields.fields();
    if (member != nullptr) {
      if (auto missing = text.fields.Explain(TextOf(*member))) return std::move(*missing);
    } else if (!std::all_of(fields.begin(), fields.end(),
                            [](const JsonField& field) { return field.has_default; })) {
      return MissingName("member \"" + text.names + "\"", text.names, names);
    }
  }
  return RefusalOf(why, fields_);
}

Status TarSampleParser::LocateSample(const RecordSpan& record, FieldLocation* locations,
                                     TarScratch* scratch) const {
  Status status = SplitTarSample(record.bytes(), &scratch->sample);
  for (std::size_t i = 0; status.ok() && i < members_.size(); ++i) {
    status = LocateField(members_[i], scratch, locations + members_[i].column);
  }
  for (std::size_t i = 0; status.ok() && i < texts_.size(); ++i) {
    status = LocateText(texts_[i], &scratch->json[i], scratch, locations);
  }
  return status;
}

}  // namespace

std::shared_ptr<const Parser> TarParser(const std::vector<FeatureSpec>& members) {
  return std::make_shared<const TarSampleParser>(members);
}

}  // namespace ringfeed
