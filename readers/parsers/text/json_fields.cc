#include "readers/parsers/text/json_fields.h"

#include <algorithm>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/lod_columns.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostKeys = 64;  // of a path: each costs a call on the stack

[[noreturn]] void RefusePath(const std::string& name, const std::string& why) {
  Refuse("JSON field \"" + name + "\": " + why);
}

// A path that begins with a slash is a JSON Pointer (RFC 6901), any other one is a key.
std::vector<std::string> KeysOf(const JsonField& field) {
  if (!field.path.starts_with('/')) return {field.path};
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < field.path.size(); ++at) {
    const char c = field.path[at];
    if (c == '/') {
      keys.emplace_back();
    } else if (c != '~') {
      keys.back() += c;
    } else {
      const char code = ++at < field.path.size() ? field.path[at] : '\0';
      if (code != '0' && code != '1') RefusePath(field.name, "~0 is a tilde in a key, ~1 a slash");
      keys.back() += code == '0' ? '~' : '/';
    }
  }
  if (keys.size() > kMostKeys) {
    RefusePath(field.name, "its path has more than " + std::to_string(kMostKeys) + " keys");
  }
  return keys;
}

[[gnu::cold]] bool Wrong(const JsonField& field, const std::string& why, JsonMemory* memory) {
  memory->wrong = "key \"" + field.name + "\" " + why;
  return false;
}

// One number or boolean of the field's type.
bool ReadElementAt(const JsonField& field, JsonScanner* json, std::byte* to, JsonMemory* memory) {
  const char first = json->Peek();
  const bool real = field.dtype == DType::kFloat32 || field.dtype == DType::kFloat64;
  const char* after = nullptr;
  if (field.read == nullptr || first == 't' || first == 'f') {
    const bool truth = json->TakeWord("true");
    if (truth || json->TakeWord("false")) {
      if (field.read == nullptr) {
        *to = truth ? std::byte{1} : std::byte{0};
      } else {
        const char digit = truth ? '1' : '0';
        field.read(&digit, &digit + 1, to);
      }
      after = json->at();
    }
  } else if (first == '-' || (first >= '0' && first <= '9') ||
             (real && (first == 'N' || first == 'I'))) {
    after = field.read(json->at(), json->end(), to);
  }
  const auto ends = [&](char c) {
    return std::string_view(",]} \t\r\n").find(c) != std::string_view::npos;
  };
  if (after != nullptr && (after == json->end() || ends(*after))) {
    json->MoveTo(after);
    return true;
  }
  const std::string_view rest(json->at(), std::min<std::size_t>(json->rest(), 41));
  return Wrong(field,
               "holds " + Shown(rest.substr(0, rest.find_first_of(",]} \t"))) + " where " +
                   std::string(DTypeName(field.dtype)) + " is expected",
               memory);
}

// Goes to the value of that key in the object that is next. Else it gives the object's keys, up to
// the first place that is malformed.
bool FindKey(const std::string& wanted, JsonScanner* json, std::vector<std::string>* keys) {
  std::string_view raw;
  bool escaped = false;
  for (bool goes_on = json->Take('{'); goes_on && json->Peek() == '"'; goes_on = json->Take(',')) {
    if (!json->TakeString(&raw, &escaped)) break;
    std::string key(raw);
    std::size_t size = raw.size();
    if (escaped && !UnescapeJson(raw, key.data(), &size)) break;
    key.resize(size);
    if (key == wanted) return json->Take(':');
    keys->push_back(std::move(key));
    if (!json->Take(':') || !json->SkipValue()) break;
  }
  return false;
}

// One text, front to back. Nothing of it is seen by other files, so that what is called for each
// key is inlined.
class Walk {
 public:
  Walk(const std::string& what, const std::vector<JsonKeys>& objects, std::string_view text,
       FieldLocation* locations, LocatedStorage* storage, JsonMemory* memory)
      : what_(what),
        objects_(objects),
        json_(text),
        locations_(locations),
        storage_(storage),
        memory_(memory) {}

  bool Run(std::string_view text);
  /// How many fields have a value.
  std::size_t found() const { return found_; }

 private:
  bool Inside(std::size_t object);
  bool Key(std::string_view* key);
  bool Skip();
  bool Inner(std::size_t object);
  [[gnu::cold]] bool Malformed(const std::string& reason);
  bool Value(const JsonField& field, FieldLocation* at);
  bool Text(const JsonField& field, std::span<const std::byte>* text);
  bool Strings(const JsonField& field, FieldLocation* at);
  bool Array(const JsonField& field, FieldLocation* at);

  const std::string& what_;
  const std::vector<JsonKeys>& objects_;
  JsonScanner json_;
  FieldLocation* const locations_;
  LocatedStorage* const storage_;
  JsonMemory* const memory_;
  std::size_t found_ = 0;
};

bool Walk::Malformed(const std::string& reason) {
  memory_->wrong =
      what_ + " is no JSON object: " + reason + " at byte " + std::to_string(json_.offset());
  return false;
}

// The bytes of a string: in the text, or, without its escapes, in `storage`.
bool Walk::Text(const JsonField& field, std::span<const std::byte>* text) {
  if (json_.Peek() != '"') return Wrong(field, "holds no string", memory_);
  std::string_view raw;
  bool escaped = false;
  if (!json_.TakeString(&raw, &escaped)) return Malformed("an open string");
  *text = std::as_bytes(std::span(raw));
  if (!escaped) return true;
  std::byte* const to = storage_->Allocate(raw.size());
  std::size_t size = 0;
  if (!UnescapeJson(raw, reinterpret_cast<char*>(to), &size)) {
    return Wrong(field, "holds a malformed escape", memory_);
  }
  *text = {to, size};
  return true;
}

bool Walk::Strings(const JsonField& field, FieldLocation* at) {
  std::vector<std::byte>& elements = memory_->elements;
  elements.clear();
  std::vector<std::uint64_t>& ends = memory_->ends;
  ends.clear();
  if (!json_.Take('[')) return Wrong(field, "holds no list of strings", memory_);
  while (!json_.Take(']')) {
    if (!ends.empty() && !json_.Take(',')) return Malformed("an array without a comma");
    std::span<const std::byte> text;
    if (!Text(field, &text)) return false;
    elements.insert(elements.end(), text.begin(), text.end());
    ends.push_back(elements.size());
  }
  if (LocateSequences(elements, ends, 1, storage_, at)) return true;
  return Wrong(field, "holds strings of 4 GiB or more", memory_);
}

// Numbers in as many brackets as the field has dimensions, each with its dimension's count.
bool Walk::Array(const JsonField& field, FieldLocation* at) {
  JsonScanner* const json = &json_;
  const std::size_t rank = field.shape.size();
  const std::size_t size = DTypeBytes(field.dtype);
  std::vector<std::byte>& elements = memory_->elements;
  elements.clear();
  std::vector<std::int64_t>& counts = memory_->counts;
  counts.clear();
  do {
    if (!counts.empty() && json->Take(']')) {
      const std::int64_t wanted = field.shape[counts.size() - 1];
      if (wanted >= 0 && counts.back() != wanted) {
        return Wrong(field,
                     "holds an array of " + std::to_string(counts.back()) + " where " +
                         std::to_string(wanted) + " are expected",
                     memory_);
      }
      counts.pop_back();
      continue;
    }
    if (!counts.empty() && counts.back()++ > 0 && !json->Take(',')) {
      return Malformed("an array without a comma");
    }
    if (counts.size() < rank) {
      if (!json->Take('[')) return Wrong(field, "holds no array of its rank", memory_);
      counts.push_back(0);
      continue;
    }
    elements.resize(elements.size() + size);
    if (!ReadElementAt(field, json, elements.data() + elements.size() - size, memory_)) {
      return false;
    }
  } while (!counts.empty());
  std::byte* to = storage_->Allocate(elements.size());
  std::copy(elements.begin(), elements.end(), to);
  if (LocateAt(to, elements.size(), elements.size() / field.unit_bytes, at)) return true;
  return Wrong(field, "holds an array of 4 GiB or more", memory_);
}

bool Walk::Value(const JsonField& field, FieldLocation* at) {
  if (json_.Peek() == 'n' && json_.TakeWord("null")) {
    at->data = nullptr;
    return true;
  }
  if (field.strings) return Strings(field, at);
  if (field.text) {
    std::span<const std::byte> text;
    if (!Text(field, &text)) return false;
    if (LocateAt(text.data(), text.size(), text.size(), at)) return true;
    return Wrong(field, "holds a string of 4 GiB or more", memory_);
  }
  if (!field.shape.empty()) return Array(field, at);
  std::byte* to = storage_->Allocate(field.unit_bytes);
  return ReadElementAt(field, &json_, to, memory_) && LocateAt(to, field.unit_bytes, 1, at);
}

bool Walk::Skip() {
  if (json_.SkipValue()) return true;
  return Malformed("a value that is open, or nested deeper than " +
                   std::to_string(JsonScanner::kMostDepth) + ",");
}

// A value that holds others which are wanted.
bool Walk::Inner(std::size_t object) {
  if (std::exchange(memory_->seen[object], 1) != 0) return Malformed("a key that stands twice");
  return (json_.Peek() == 'n' && json_.TakeWord("null")) || Inside(object);
}

bool Walk::Key(std::string_view* key) {
  bool escaped = false;
  if (!json_.TakeString(key, &escaped)) return Malformed("no key");
  if (escaped) {
    memory_->key.resize(key->size());
    std::size_t size = 0;
    if (!UnescapeJson(*key, memory_->key.data(), &size)) {
      return Malformed("a malformed escape in the key");
    }
    *key = std::string_view(memory_->key).substr(0, size);
  }
  return json_.Take(':') || Malformed("no colon");
}

// The members of an object, or the items of an array by their numbers.
bool Walk::Inside(std::size_t object) {
  const JsonKeys& keys = objects_[object];
  KeyOrder* const order = &memory_->orders[object];
  const bool items = json_.Take('[');
  if (!items && !json_.Take('{')) {
    return Malformed("a value where an object or an array is expected,");
  }
  const char end = items ? ']' : '}';
  if (json_.Take(end)) return true;
  for (std::size_t number = 0; number == 0 || json_.Take(','); ++number) {
    std::string_view key;
    if (items) [[unlikely]] {
      memory_->key = std::to_string(number);
      key = memory_->key;
    } else if (!Key(&key)) {
      return false;
    }
    const std::uint32_t found = order->Find(keys.index, number, std::as_bytes(std::span(key)));
    if (found == FeatureIndex::kNone) {
      if (!Skip()) return false;
      continue;
    }
    const JsonKeys::Use& use = keys.uses[found];
    if (use.field == nullptr) {
      if (!Inner(use.place)) return false;
      continue;
    }
    FieldLocation* const at = &locations_[use.place];
    if (at->data != nullptr) [[unlikely]] {
      return Wrong(*use.field, "stands twice", memory_);
    }
    if (!Value(*use.field, at)) return false;
    found_ += at->data != nullptr ? 1 : 0;
  }
  return json_.Take(end) || Malformed(items ? "no comma and no \"]\"" : "no comma and no \"}\"");
}

bool Walk::Run(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  json_.TakeWord(kByteOrderMark);
  if (json_.Peek() != '{') return Malformed(json_.rest() == 0 ? "it is empty" : "no \"{\"");
  if (!Inside(0)) return false;
  json_.SkipBlanks();
  if (json_.rest() == 0) return true;
  const bool returns = text.find('\r') < json_.offset() && *json_.at() == '{';
  return Malformed(returns ? "another one behind a CR, which ends no line" : "more after it");
}

}  // namespace

JsonFields::JsonFields(std::string what, std::vector<JsonField> fields)
    : what_(std::move(what)), fields_(std::move(fields)) {
  std::vector<std::vector<std::string>> keys(1);  // of each object
  std::vector<std::vector<JsonKeys::Use>> uses(1);
  for (const JsonField& field : fields_) {
    columns_.push_back(field.column);
    const std::vector<std::string> path = KeysOf(field);
    std::size_t object = 0;
    for (std::size_t depth = 0; depth < path.size(); ++depth) {
      const bool last = depth + 1 == path.size();
      const auto found = std::find(keys[object].begin(), keys[object].end(), path[depth]);
      const auto number = static_cast<std::size_t>(found - keys[object].begin());
      if (found == keys[object].end()) {
        keys[object].push_back(path[depth]);
        uses[object].push_back(last ? JsonKeys::Use{&field, field.column}
                                    : JsonKeys::Use{nullptr, keys.size()});
        if (last) break;
        keys.emplace_back();
        uses.emplace_back();
      } else if (last || uses[object][number].field != nullptr) {
        RefusePath(field.name, "another field is of that value, or of one within it");
      }
      object = uses[object][number].place;
    }
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    objects_.push_back({FeatureIndex(keys[i]), std::move(uses[i])});
  }
}

bool JsonFields::Read(std::string_view text, FieldLocation* locations, LocatedStorage* storage,
                      JsonMemory* memory) const {
  if (memory->orders.empty()) memory->orders.resize(objects_.size());
  if (objects_.size() > 1) memory->seen.assign(objects_.size(), 0);
  for (const std::size_t column : columns_) locations[column].data = nullptr;
  Walk walk(what_, objects_, text, locations, storage, memory);
  if (!walk.Run(text)) return false;
  return walk.found() == columns_.size() || SetDefaults(locations, storage, memory);
}

bool JsonFields::SetDefaults(FieldLocation* locations, LocatedStorage* storage,
                             JsonMemory* memory) const {
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    FieldLocation* const at = &locations[columns_[f]];
    if (at->data != nullptr) continue;
    const JsonField& field = fields_[f];
    if (!field.has_default) {
      return Wrong(field, "is missing or null, and has no default", memory);
    }
    if (field.strings) {
      LocateSequences({}, {}, 1, storage, at);
    } else {
      const std::size_t bytes = field.missing.size();
      LocateAt(field.missing.data(), bytes, bytes / field.unit_bytes, at);
    }
  }
  return true;
}

std::optional<Refusal> JsonFields::Explain(std::string_view text) const {
  for (const JsonField& field : fields_) {
    if (field.has_default) continue;
    JsonScanner json(text);
    std::vector<std::string> keys;
    for (const std::string& key : KeysOf(field)) {
      keys.clear();
      if (FindKey(key, &json, &keys)) continue;
      if (!keys.empty()) return MissingName("key \"" + field.name + "\"", key, keys);
      break;
    }
  }
  return std::nullopt;
}

}  // namespace ringfeed
