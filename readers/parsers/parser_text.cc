#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/edit_distance.h"
#include "base/refuse.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/samples_parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::string_view kTypes =
    "TYPE is b1 u1 u2 u4 u8 i1 i2 i4 i8 f2 bf2 f4 or f8; [] ragged, [3,4] a shape, ?V a default, "
    "/1 "
    "LoD";

struct ShortName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<ShortName, 13> kShortNames = {{{"b1", DType::kBool},
                                                    {"u1", DType::kUInt8},
                                                    {"i1", DType::kInt8},
                                                    {"u2", DType::kUInt16},
                                                    {"i2", DType::kInt16},
                                                    {"u4", DType::kUInt32},
                                                    {"i4", DType::kInt32},
                                                    {"u8", DType::kUInt64},
                                                    {"i8", DType::kInt64},
                                                    {"f2", DType::kFloat16},
                                                    {"bf2", DType::kBFloat16},
                                                    {"f4", DType::kFloat32},
                                                    {"f8", DType::kFloat64}}};

// One word, "name=f4[13]~?0", taken apart.
struct Word {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;
  bool truncate = false;
  std::optional<std::string> missing;
};

[[noreturn]] void Refuse(std::string_view word, const std::string& why) {
  ringfeed::Refuse("in \"" + std::string(word) + "\": " + why);
}

DType DTypeOf(std::string_view word, std::string_view name) {
  for (const ShortName& known : kShortNames) {
    if (name == known.name || name == DTypeName(known.dtype)) return known.dtype;
  }
  Refuse(word, "\"" + std::string(name) + "\" is no type");
}

template <typename T>
bool ReadNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

Shape ShapeOf(std::string_view word, std::string_view text) {
  Shape shape;
  if (text.empty()) return {-1};
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view number = text.substr(0, comma);
    std::int64_t dimension = -1;
    // "[,4]" is ragged in its first dimension, as "[]" is, and "[,]" in its second one, too.
    const bool open = number.empty() && (shape.empty() || shape == Shape{-1});
    if (!open && !ReadNumber(number, &dimension)) {
      Refuse(word, "\"" + std::string(number) + "\" is no dimension");
    }
    shape.push_back(dimension);
    if (more) text.remove_prefix(comma + 1);
  }
  return shape;
}

Word TakeApart(std::string_view word) {
  Word parts;
  std::string_view rest = word;
  const std::size_t name_end = rest.find_last_of("=:", rest.find_first_of("[?"));
  if (name_end != std::string_view::npos) {
    parts.name = rest.substr(0, name_end);
    rest.remove_prefix(name_end + 1);
  }
  const std::size_t question = rest.find('?');
  if (question != std::string_view::npos) {
    parts.missing = std::string(rest.substr(question + 1));
    rest = rest.substr(0, question);
  }
  if (rest.ends_with('~')) {
    parts.truncate = true;
    rest.remove_suffix(1);
  }
  const std::size_t bracket = rest.find('[');
  if (bracket != std::string_view::npos) {
    if (rest.back() != ']') Refuse(word, "\"[\" is not closed");
    parts.shape = ShapeOf(word, rest.substr(bracket + 1, rest.size() - bracket - 2));
    rest = rest.substr(0, bracket);
  }
  parts.dtype = DTypeOf(word, rest);
  return parts;
}

Word TakeApartWhole(std::string_view word) {
  Word parts = TakeApart(word);
  if (parts.truncate) Refuse(word, "only OFRecord's features take ~");
  return parts;
}

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\n";
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::shared_ptr<const Parser> RowsFromText(std::string_view text) {
  std::vector<FieldSpec> fields;
  for (const std::string_view word : SplitWords(text)) {
    Word parts = TakeApart(word);
    if (parts.missing) Refuse(word, "a column has no default");
    if (parts.truncate) Refuse(word, "a column has one length: only OFRecord's features take ~");
    if (parts.name.empty()) parts.name = "c" + std::to_string(fields.size());
    fields.push_back({std::move(parts.name), parts.dtype, std::move(parts.shape)});
  }
  return RowsParser(std::move(fields));
}

FeatureDefault DefaultOf(std::string_view word, const std::string& text, DType dtype) {
  std::int64_t whole = 0;
  double real = 0;
  if (text.empty()) return std::string();
  if (dtype == DType::kUInt8 && !ReadNumber(text, &whole)) return text;
  if (ReadNumber(text, &whole)) return whole;
  if (ReadNumber(text, &real)) return real;
  Refuse(word, "the default \"" + text + "\" is no number");
}

FeatureSpec FeatureOf(std::string_view word, Word parts) {
  if (parts.name.empty()) Refuse(word, "a feature needs its name");
  FeatureSpec feature{std::move(parts.name), parts.dtype, std::move(parts.shape), {}};
  if (parts.missing) feature.missing = DefaultOf(word, *parts.missing, parts.dtype);
  return feature;
}

std::shared_ptr<const Parser> ExampleFromText(std::string_view text) {
  std::vector<FeatureSpec> features;
  for (const std::string_view word : SplitWords(text)) {
    features.push_back(FeatureOf(word, TakeApartWhole(word)));
  }
  return ExampleParser(std::move(features));
}

// "|" separates the context from the feature lists.
std::shared_ptr<const Parser> SequenceFromText(std::string_view text) {
  std::vector<FeatureSpec> context;
  std::vector<FeatureSpec> sequences;
  std::vector<FeatureSpec>* into = &context;
  for (const std::string_view word : SplitWords(text)) {
    if (word == "|" && into == &context) {
      into = &sequences;
    } else {
      into->push_back(FeatureOf(word, TakeApartWhole(word)));
    }
  }
  return SequenceExampleParser(std::move(context), std::move(sequences));
}

std::shared_ptr<const Parser> OFRecordFromText(std::string_view text) {
  std::vector<OFRecordFeatureSpec> features;
  for (const std::string_view word : SplitWords(text)) {
    Word parts = TakeApart(word);
    const bool truncate = parts.truncate;
    FeatureSpec spec = FeatureOf(word, std::move(parts));
    features.push_back({std::move(spec.name), spec.dtype, std::move(spec.shape),
                        std::move(spec.missing), truncate});
  }
  return OFRecordParser(std::move(features));
}

// The default of a text field is that text, even digits.
std::optional<FeatureDefault> TextDefaultOf(std::string_view word, const Word& parts) {
  if (!parts.missing) return std::nullopt;
  const bool text = parts.dtype == DType::kUInt8 && !parts.shape.empty() && parts.shape[0] < 0;
  return text ? FeatureDefault(*parts.missing) : DefaultOf(word, *parts.missing, parts.dtype);
}

// Names with blanks, which a word cannot hold otherwise.
std::string FromHex(std::string_view word, std::string_view hex) {
  std::string text;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const char* const begin = hex.data() + at;
    const char* const end = hex.data() + std::min(at + 2, hex.size());
    if (end - begin != 2 || std::from_chars(begin, end, byte, 16).ptr != end) {
      Refuse(word, "two hexadecimal digits stand for each byte");
    }
    text += static_cast<char>(byte);
  }
  return text;
}

void CsvOptionFromWord(std::string_view word, CsvOptions* options) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (name == "-delimiter" && value.size() == 1) {
    options->delimiter = value[0];
  } else if (word == "-delimiter=tab" || word == "-delimiter=space") {
    options->delimiter = value == "tab" ? '\t' : ' ';
  } else if (name == "-header" && !value.empty()) {
    options->header = value;
  } else if (name == "-header-hex" && !value.empty()) {
    options->header = FromHex(word, value);
  } else if (word == "-columns=any") {
    options->columns = CsvOptions::kAnyColumns;
  } else if (word == "-noquotes") {
    options->quotes = false;
  } else if (name != "-columns" || !ReadNumber(value, &options->columns) || options->columns < 1) {
    Refuse(word,
           "this is no option of csv: -delimiter=C, tab or space, -header=NAMES (or "
           "-header-hex=HEX; the command's feed takes -header alone, and reads it), -columns=N or "
           "any, -noquotes");
  }
}

std::shared_ptr<const Parser> CsvFromText(std::string_view text) {
  std::vector<CsvField> fields;
  CsvOptions options;
  for (const std::string_view word : SplitWords(text)) {
    if (word.starts_with('-')) {
      CsvOptionFromWord(word, &options);
      continue;
    }
    Word parts = TakeApartWhole(word);
    CsvField field;
    const std::size_t at = parts.name.rfind('@');
    if (at != std::string::npos &&
        ReadNumber(std::string_view(parts.name).substr(at + 1), &field.column)) {
      parts.name.resize(at);
    }
    if (field.column < -1) Refuse(word, "a column is counted from 0");
    field.name = parts.name.empty() ? "c" + std::to_string(fields.size()) : parts.name;
    field.dtype = parts.dtype;
    field.shape = parts.shape;
    field.missing = TextDefaultOf(word, parts);
    fields.push_back(std::move(field));
  }
  return CsvParser(std::move(fields), std::move(options));
}

std::shared_ptr<const Parser> JsonLinesFromText(std::string_view text) {
  std::vector<FeatureSpec> features;
  for (const std::string_view word : SplitWords(text)) {
    const Word parts = TakeApartWhole(word);
    if (parts.name.empty()) Refuse(word, "a key needs its name");
    features.push_back({parts.name, parts.dtype, parts.shape, TextDefaultOf(word, parts)});
  }
  return JsonLinesParser(std::move(features));
}

// "/2" after the type and shape: levels of LoD.
std::size_t TakeLevels(std::string_view* word) {
  const std::size_t slash = word->rfind('/');
  const std::size_t name_end = word->find_last_of('=');
  std::size_t levels = 0;
  if (slash == std::string_view::npos) return levels;
  if (name_end != std::string_view::npos && slash < name_end) return levels;
  if (!ReadNumber(word->substr(slash + 1), &levels)) {
    Refuse(*word, "after / stands the number of levels of LoD");
  }
  *word = word->substr(0, slash);
  return levels;
}

std::vector<SlotSpec> TensorsFromText(std::string_view text) {
  std::vector<SlotSpec> tensors;
  for (std::string_view word : SplitWords(text)) {
    const std::size_t levels = TakeLevels(&word);
    Word parts = TakeApartWhole(word);
    if (parts.missing) Refuse(word, "a tensor has no default");
    tensors.push_back({std::move(parts.name), parts.dtype, std::move(parts.shape), levels});
  }
  return tensors;
}

std::shared_ptr<const Parser> LoDFromText(std::string_view text) {
  std::vector<LoDTensorSpec> tensors;
  for (SlotSpec& slot : TensorsFromText(text)) {
    if (slot.name.empty()) slot.name = "t" + std::to_string(tensors.size());
    tensors.push_back({std::move(slot.name), slot.dtype, std::move(slot.dims), slot.lod_levels});
  }
  return LoDTensorParser(tensors);
}

std::shared_ptr<const Parser> InstanceFromText(std::string_view text) {
  return InstanceProtoParser(TensorsFromText(text));
}

// "u2[1024] as i8". A single number would be no array, so no shape means a ragged one.
std::shared_ptr<const Parser> TokensFromText(std::string_view text) {
  const std::vector<std::string_view> words = SplitWords(text);
  const bool converted = words.size() == 3 && words[1] == "as";
  if (words.size() != 1 && !converted) Refuse(text, "one type, or TYPE as TYPE");
  Word parts = TakeApartWhole(words[0]);
  if (parts.missing) Refuse(words[0], "an array has no default");
  TokensSpec spec;
  spec.dtype = parts.dtype;
  if (!parts.shape.empty()) spec.shape = std::move(parts.shape);
  if (!parts.name.empty()) spec.name = std::move(parts.name);
  if (converted) spec.as = DTypeOf(words[2], words[2]);
  return TokensParser(spec);
}

std::shared_ptr<const Parser> TarFromText(std::string_view text) {
  std::vector<FeatureSpec> members;
  for (const std::string_view word : SplitWords(text)) {
    const Word parts = TakeApartWhole(word);
    if (parts.name.empty()) Refuse(word, "a member needs its extension");
    members.push_back({parts.name, parts.dtype, parts.shape, TextDefaultOf(word, parts)});
  }
  return TarParser(members);
}

// "-NAME:ENCODING" is passed over; "=TYPE[SHAPE]" or "=bytes" says what arrays are.
template <SampleFamily kFamily>
std::shared_ptr<const Parser> SamplesFromText(std::string_view text) {
  std::vector<SampleField> columns;
  for (const std::string_view word : SplitWords(text)) {
    const bool passed_over = word.starts_with('-');
    const std::size_t equals = word.rfind('=');
    const std::size_t begin = passed_over ? 1 : 0;
    SampleField column = SampleFieldOf(kFamily, word.substr(begin, equals - begin));
    column.field = SampleFieldSpec(kFamily, column.column);
    if (equals != std::string_view::npos) {
      column.encoded = word.substr(equals + 1) == "bytes";
      const Word parts = TakeApartWhole(column.encoded ? "u1[]" : word.substr(equals + 1));
      column.field = {column.column.name, parts.dtype, parts.shape};
    } else if (!column.field && !passed_over) {
      Refuse(word, "say what the arrays are: " + std::string(word) + "=f4[,2], or =bytes");
    }
    if (passed_over) column.field.reset();
    columns.push_back(std::move(column));
  }
  return SamplesParser(kFamily, std::move(columns));
}

// A parser's name, a text that shows what it takes, and what makes it of the rest of such a text.
struct ParserFamily {
  std::string_view name;
  std::string_view example;
  std::shared_ptr<const Parser> (*make)(std::string_view fields);
};
constexpr ParserFamily kParserFamilies[] = {
    {"raw", "raw", nullptr},  // has no fields
    {"rows", "rows: f4[13] i4[26] label=i4", RowsFromText},
    {"example", "example: image=u1[] label=i8[1] x=f4[13]?0", ExampleFromText},
    {"sequence", "sequence: id=i8 | tokens=i8[] frames=f4[,128]", SequenceFromText},
    {"ofrecord", "ofrecord: encoded=u1[] class/label=i4 x=f4[13]~?0", OFRecordFromText},
    {"csv", "csv: -delimiter=; -header=id,x,note x=f8 note=u1[] id@0=i8", CsvFromText},
    {"jsonl", "jsonl: id=i8 text=u1[] v=f4[]? /user/tags=u1[,]", JsonLinesFromText},
    {"lod", "lod: image=f4[,784] words=i8[,1]/1", LoDFromText},
    {"instance", "instance: image=f4[,784] words=i8[,1]/1", InstanceFromText},
    {"tokens", "tokens: u2[1024] as i8", TokensFromText},
    {"tar", "tar: jpg;png=u1[] cls=i8?-1 npy=f4[,128] json/user/id=i8", TarFromText},
    {"mds", "mds: id:int image:jpeg box:ndarray:float32=f4[,4] -note:str",
     SamplesFromText<SampleFamily::kMds>},
    {"litdata", "litdata: id:int image:jpeg ids:no_header_tensor:18 box:tensor=f4[,4] -note:str",
     SamplesFromText<SampleFamily::kLitData>},
};

std::string_view FamilyName(std::string_view text) { return text.substr(0, text.find(':')); }

// `why`, followed by an example of that parser.
Status WithExample(std::string_view text, const Status& why) {
  for (const ParserFamily& family : kParserFamilies) {
    if (family.name != FamilyName(text)) continue;
    return Status(why.code(), why.message() + "\nexpected as in \"" + std::string(family.example) +
                                  "\"\n" + std::string(kTypes));
  }
  return why;
}

std::string UnknownParser(std::string_view text) {
  std::vector<std::string> names;
  std::string known;
  for (const ParserFamily& family : kParserFamilies) {
    if (text == family.name) {
      return "parser \"" + std::string(text) +
             "\" is unknown without its fields\nexpected as in \"" + std::string(family.example) +
             "\"";
    }
    names.emplace_back(family.name);
    known += (known.empty() ? "\"" : " \"") + names.back() + "\"";
  }
  return "parser \"" + std::string(text) + "\" is unknown" + DidYouMean(FamilyName(text), names) +
         "\nexpected " + known + ", as in \"" + std::string(kParserFamilies[2].example) + "\"";
}

std::string DefaultText(const FeatureDefault& missing) {
  if (const auto* text = std::get_if<std::string>(&missing)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&missing)) return std::to_string(*whole);
  std::array<char, 32> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::get<double>(missing));
  return {digits.data(), end.ptr};
}

std::string_view ShortNameOf(DType dtype) {
  for (const ShortName& known : kShortNames) {
    if (known.dtype == dtype) return known.name;
  }
  return DTypeName(dtype);
}

}  // namespace

std::string FieldText(const FeatureSpec& field) {
  std::string text = field.name;
  if (!text.empty()) text += '=';
  text += ShortNameOf(field.dtype);
  for (std::size_t i = 0; i < field.shape.size(); ++i) {
    text += i == 0 ? "[" : ",";
    if (field.shape[i] >= 0) text += std::to_string(field.shape[i]);
  }
  if (!field.shape.empty()) text += ']';
  if (field.missing) text += '?' + DefaultText(*field.missing);
  return text;
}

std::string ParserExamples() {
  std::string examples;
  for (const ParserFamily& family : kParserFamilies) {
    examples += (examples.empty() ? "'" : " | '") + std::string(family.example) + "'";
  }
  return examples;
}

ParserResult ParserFromText(const std::string& text) {
  if (text == "raw") return {Status(), RawParser()};
  try {
    for (const ParserFamily& family : kParserFamilies) {
      const std::string start = std::string(family.name) + ":";
      if (family.make == nullptr || !text.starts_with(start)) continue;
      return {Status(), family.make(std::string_view(text).substr(start.size()))};
    }
  } catch (const Error& error) {
    return {WithExample(text, error.status()), nullptr};
  }
  return {Status(StatusCode::kInvalidArgument, UnknownParser(text)), nullptr};
}

}  // namespace ringfeed
