#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/refusal.h"
#include "readers/parsers/text/json_scanner.h"
#include "readers/parsers/text/text_field.h"

namespace ringfeed {

/// A field of JSON texts, the key or the JSON Pointer of its value (RFC 6901: "/user/name"; ~1 is a
/// slash in a key, ~0 a tilde), and the first of its columns.
struct JsonField : TextField {
  std::string path;
  std::size_t column = 0;
};

/// What a thread needs to read JSON texts. `wrong` says why the last one failed.
struct JsonMemory {
  std::string wrong;
  std::vector<KeyOrder> orders;      // of each object
  std::vector<char> seen;            // whether the row has had it
  std::vector<std::byte> elements;   // of an array
  std::vector<std::int64_t> counts;  // of the items in each open bracket of it
  std::vector<std::uint64_t> ends;   // of the strings of a list
  std::string key;                   // a key that had escapes, or an item's number
};

/// The keys that are wanted of a JSON object, or the numbers of the items of an array.
struct JsonKeys {
  /// A key's field and its column, or else what is wanted of its object.
  struct Use {
    const JsonField* field = nullptr;
    std::size_t place = 0;
  };
  FeatureIndex index;
  std::vector<Use> uses;
};

/// Takes fields out of JSON objects: each in one pass, front to back. Immutable, shared by threads.
class JsonFields {
 public:
  /// `what` names the text in messages ("the line"). Throws Error(kInvalidArgument) if a path is
  /// none, or leads through the value of another one.
  JsonFields(std::string what, std::vector<JsonField> fields);
  JsonFields(JsonFields&&) = default;  // a copy's keys would be of these fields

  /// Locates each field's value at locations[its column]; of strings their ends there, and their
  /// bytes at the next one. Locations point into `text` or `storage`. False, and why in
  /// memory->wrong, if the text is no such object.
  bool Read(std::string_view text, FieldLocation* locations, LocatedStorage* storage,
            JsonMemory* memory) const;
  /// Which wanted key a text lacks; none if that is not why it is refused. For Parser::Explain.
  std::optional<Refusal> Explain(std::string_view text) const;

  const std::vector<JsonField>& fields() const { return fields_; }

 private:
  /// Locates the defaults of fields without a value. False if one has none.
  bool SetDefaults(FieldLocation* locations, LocatedStorage* storage, JsonMemory* memory) const;

  std::string what_;
  std::vector<JsonField> fields_;
  std::vector<std::size_t> columns_;  // of the fields, side by side for each text's loops
  std::vector<JsonKeys> objects_;     // the first one is the text itself
};

}  // namespace ringfeed
