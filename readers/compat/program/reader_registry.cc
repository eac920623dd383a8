#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/edit_distance.h"
#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/tensor_record.h"
#include "ringfeed/compat/py_reader.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/decorators.h"
#include "ringfeed/slot.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

/// What the registry holds for a kind of reader.
struct ReaderEntry {
  ReaderKind kind;
  ReaderFactory factory;
};

template <typename T>
const T& ValueOf(const std::map<std::string, AttributeValue>& values, const std::string& name,
                 AttributeType type) {
  const auto found = values.find(name);
  if (found == values.end()) {
    Refuse("there is no attribute " + name + ", expected a value of type " +
           AttributeTypeName(type));
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    Refuse("the attribute " + name + " is of type " +
           AttributeTypeName(static_cast<AttributeType>(found->second.index())) + ", not " +
           AttributeTypeName(type));
  }
  return *value;
}

}  // namespace

std::string AttributeTypeName(AttributeType type) {
  constexpr std::array<std::string_view, 6> kNames = {
      "integer", "number", "boolean", "text", "list of integers", "list of texts"};
  static_assert(kNames.size() == std::variant_size_v<AttributeValue>);
  return std::string(kNames.at(static_cast<std::size_t>(type)));
}

Attributes& Attributes::Set(const std::string& name, AttributeValue value) {
  values_.insert_or_assign(name, std::move(value));
  return *this;
}

std::int64_t Attributes::Integer(const std::string& name) const {
  return ValueOf<std::int64_t>(values_, name, AttributeType::kInteger);
}

double Attributes::Number(const std::string& name) const {
  return ValueOf<double>(values_, name, AttributeType::kNumber);
}

bool Attributes::Boolean(const std::string& name) const {
  return ValueOf<bool>(values_, name, AttributeType::kBoolean);
}

const std::string& Attributes::Text(const std::string& name) const {
  return ValueOf<std::string>(values_, name, AttributeType::kText);
}

const std::vector<std::int64_t>& Attributes::Integers(const std::string& name) const {
  return ValueOf<std::vector<std::int64_t>>(values_, name, AttributeType::kIntegers);
}

const std::vector<std::string>& Attributes::Texts(const std::string& name) const {
  return ValueOf<std::vector<std::string>>(values_, name, AttributeType::kTexts);
}

std::size_t Attributes::Size(const std::string& name, std::size_t least) const {
  const std::int64_t value = Integer(name);
  if (value < 0 || static_cast<std::size_t>(value) < least) {
    Refuse(name + " must be at least " + std::to_string(least) + ", not " + std::to_string(value));
  }
  return static_cast<std::size_t>(value);
}

namespace {

constexpr AttributeType kInteger = AttributeType::kInteger;
constexpr AttributeType kNumber = AttributeType::kNumber;
constexpr AttributeType kIntegers = AttributeType::kIntegers;
constexpr AttributeType kBoolean = AttributeType::kBoolean;
constexpr AttributeType kText = AttributeType::kText;
constexpr AttributeType kTexts = AttributeType::kTexts;

void RefuseInputs(const std::vector<Reader>& inputs) {
  if (!inputs.empty()) {
    Refuse("expected no input: it makes the data itself; found " + std::to_string(inputs.size()));
  }
}

OnDamage OnDamageOf(const std::string& text) {
  if (text == "fail") return OnDamage::kFail;
  if (text == "skip") return OnDamage::kSkip;
  Refuse("on_damage is \"fail\" or \"skip\", not \"" + text + "\"");
}

/// `records` parsed as `text` says; as they are if it is empty.
Reader ParsedAs(Reader records, const std::string& text) {
  if (text.empty()) return records;
  ParserResult parser = ParserFromText(text);
  if (!parser.status.ok()) Refuse("parse: " + parser.status.message());
  return Parse(std::move(records), std::move(parser.parser));
}

int ThreadsOf(const Attributes& attributes) {
  const std::size_t threads = attributes.Size("thread_num");
  if (threads > OpenOptions::kMostThreads) {
    Refuse("thread_num must be at most " + std::to_string(OpenOptions::kMostThreads) + ", not " +
           std::to_string(threads) + ": 0 takes one per core");
  }
  return static_cast<int>(threads);
}

std::size_t LodLevelsOf(std::int64_t levels) {
  if (levels < 0 || static_cast<std::size_t>(levels) > kMostLodLevels) {
    Refuse("lod_levels are from 0 to " + std::to_string(kMostLodLevels) + ", not " +
           std::to_string(levels));
  }
  return static_cast<std::size_t>(levels);
}

DType DTypeOf(const std::string& name) {
  const std::optional<DType> found = DTypeOfName(name);
  if (!found)
    Refuse("dtypes: there is no type \"" + name + "\"; there are float32, int64, uint8, …");
  return *found;
}

/// A list with an entry for each slot, or none at all.
void CheckCount(const std::string& name, std::size_t entries, std::size_t slots) {
  if (entries == 0 || entries == slots) return;
  Refuse(name + " has " + std::to_string(entries) + " entries for " + std::to_string(slots) +
         " slots");
}

/// Slots as Paddle's readers declare them: shapes [2, 3, 4] and [5, 6] in one list, with the ranks
/// [3, 2]; dtypes and levels of LoD by slot, float32 and 0 if they are left out.
std::vector<SlotSpec> SlotsOf(const Attributes& attributes) {
  const std::vector<std::int64_t>& dims = attributes.Integers("shape_concat");
  const std::vector<std::int64_t>& ranks = attributes.Integers("ranks");
  const std::vector<std::string>& dtypes = attributes.Texts("dtypes");
  const std::vector<std::int64_t>& levels = attributes.Integers("lod_levels");
  CheckCount("dtypes", dtypes.size(), ranks.size());
  CheckCount("lod_levels", levels.size(), ranks.size());
  std::vector<SlotSpec> slots;
  std::size_t at = 0;
  for (const std::int64_t rank : ranks) {
    if (rank < 0 || static_cast<std::size_t>(rank) > dims.size() - at) {
      Refuse("ranks has " + std::to_string(rank) + " where shape_concat has " +
             std::to_string(dims.size() - at) + " dimensions left");
    }
    const auto first = dims.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t i = slots.size();
    SlotSpec slot{"slot" + std::to_string(i), kFloat32, Shape(first, first + rank)};
    if (!dtypes.empty()) slot.dtype = DTypeOf(dtypes[i]);
    if (!levels.empty()) slot.lod_levels = LodLevelsOf(levels[i]);
    slots.push_back(std::move(slot));
    at += static_cast<std::size_t>(rank);
  }
  if (at != dims.size()) {
    Refuse("ranks are of " + std::to_string(at) + " dimensions, shape_concat has " +
           std::to_string(dims.size()));
  }
  return slots;
}

// Seconds, "close", or "" for neither.
double ReopenUntilOf(const Attributes& attributes) {
  const std::string& text = attributes.Text("reopen_until");
  if (text.empty()) return 0;
  if (text == "close") return OpenOptions::kUntilClose;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0)) {
    Refuse("reopen_until is a number of seconds, as \"30\", or \"close\", not \"" + text + "\"");
  }
  return seconds;
}

Reader OpenFilesReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  RefuseInputs(inputs);
  OpenOptions options;
  // is_test: file after file, in whatever order training reads.
  options.cycle = attributes.Boolean("is_test") ? 1 : attributes.Size("cycle", 1);
  options.stripe_bytes = attributes.Size("stripe_bytes", 1);
  options.on_damage = OnDamageOf(attributes.Text("on_damage"));
  options.format = attributes.Text("format");
  options.threads = ThreadsOf(attributes);
  options.unordered = attributes.Boolean("unordered") && !attributes.Boolean("is_test");
  options.reopen_limit = attributes.Size("reopen_limit");
  options.reopen_until = ReopenUntilOf(attributes);
  options.slots = SlotsOf(attributes);
  attributes.Size("buffer_size");  // the arena bounds what is read ahead; only checked
  const std::size_t passes = attributes.Size("pass_num", 1);
  Reader records = OpenFiles(attributes.Texts("file_names"), options);
  if (passes > 1) records = MultiPass(std::move(records), passes);
  return ParsedAs(std::move(records), attributes.Text("parse"));
}

Reader OpenFileReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  RefuseInputs(inputs);
  OpenOptions options;
  options.reopen_limit = attributes.Size("reopen_limit");
  options.reopen_until = ReopenUntilOf(attributes);
  return OpenFiles({attributes.Text("filename")}, options);
}

Reader RecordIoReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  const std::string& name = attributes.Text("filename");
  if (name.empty() == inputs.empty()) {
    Refuse("create_recordio_reader takes a filename, or an open_file as its input");
  }
  Reader records = inputs.empty() ? OpenFiles({name}, {.format = "recordio"})
                                  : ReadAs(OnlyInput(inputs), "recordio");
  return ParsedAs(std::move(records), attributes.Text("parse"));
}

Reader BatchReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  BatchOptions options;
  options.size = attributes.Size("batch_size", 1);
  options.drop_remainder = attributes.Boolean("discard_leftover");
  return Batch(OnlyInput(inputs), options);
}

Reader ShuffleReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  ShuffleOptions options;
  options.block = attributes.Size("buffer_size", 1);
  options.seed = static_cast<std::uint64_t>(attributes.Integer("seed"));
  return Shuffle(OnlyInput(inputs), options);
}

Reader MultiPassReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  return MultiPass(OnlyInput(inputs), attributes.Size("pass_num", 1));
}

Reader DoubleBufferReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  const std::string& text = attributes.Text("place");
  const auto place = text == "AUTO" ? Place() : PlaceOfName(text);
  if (!place) Refuse("place is \"AUTO\", \"CPU\", \"CUDA:0\" or \"EMU:0\", not \"" + text + "\"");
  return DoubleBufferOn(OnlyInput(inputs), *place, attributes.Size("slots", 2));
}

Reader MultiplexReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  OpenOptions options;
  options.on_damage = OnDamageOf(attributes.Text("on_damage"));
  return ParsedAs(Multiplex(inputs, options), attributes.Text("parse"));
}

Reader RandomDataReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  RefuseInputs(inputs);
  RandomDataOptions options;
  options.low = attributes.Number("low");
  options.high = attributes.Number("high");
  options.seed = static_cast<std::uint64_t>(attributes.Integer("seed"));
  options.count = attributes.Size("count");
  return RandomData(SlotsOf(attributes), options);
}

Reader PyReaderOf(const Attributes& attributes, const std::vector<Reader>& inputs, Scope* scope) {
  RefuseInputs(inputs);
  if (scope == nullptr) Refuse("blocking_queue names a queue of a scope: give one");
  return OpenPyReader(
      scope->Shared<LoDTensorBlockingQueueHolder>(attributes.Text("blocking_queue")));
}

/// The attributes that all readers which declare slots have.
std::vector<AttributeSpec> WithSlots(std::vector<AttributeSpec> attributes, bool required) {
  const std::vector<std::int64_t> none;
  for (const char* name : {"shape_concat", "ranks"}) {
    attributes.push_back({name, kIntegers});
    if (!required) attributes.back().missing = none;
  }
  attributes.push_back({"dtypes", kTexts, std::vector<std::string>()});
  attributes.push_back({"lod_levels", kIntegers, none});
  return attributes;
}

/// The readers that are registered from the start. Add a new one to this table.
std::vector<ReaderEntry> BuiltInReaders() {
  return {
      {{"open_files", WithSlots({{"file_names", kTexts},
                                 {"format", kText, ""},
                                 {"parse", kText, ""},
                                 {"is_test", kBoolean, false},
                                 {"unordered", kBoolean, false},
                                 {"cycle", kInteger, 8},
                                 {"stripe_bytes", kInteger, 1024 * 1024},
                                 {"on_damage", kText, "fail"},
                                 {"pass_num", kInteger, 1},
                                 {"reopen_limit", kInteger, 0},
                                 {"reopen_until", kText, ""},
                                 {"thread_num", kInteger, 0},
                                 {"buffer_size", kInteger, 0}},
                                false)},
       OpenFilesReader},
      {{"open_file",
        {{"filename", kText}, {"reopen_limit", kInteger, 0}, {"reopen_until", kText, ""}}},
       OpenFileReader},
      {{"create_recordio_reader", {{"filename", kText, ""}, {"parse", kText, ""}}}, RecordIoReader},
      {{"create_batch_reader", {{"batch_size", kInteger}, {"discard_leftover", kBoolean, true}}},
       BatchReader},
      {{"create_shuffle_reader", {{"buffer_size", kInteger}, {"seed", kInteger, 0}}},
       ShuffleReader},
      {{"create_multi_pass_reader", {{"pass_num", kInteger}}}, MultiPassReader},
      {{"create_double_buffer_reader", {{"place", kText, "AUTO"}, {"slots", kInteger, 2}}},
       DoubleBufferReader},
      {{"create_multiplex_reader", {{"parse", kText, ""}, {"on_damage", kText, "fail"}}},
       MultiplexReader},
      {{"create_py_reader", {{"blocking_queue", kText}}}, PyReaderOf},
      {{"create_random_data_generator",
        WithSlots(
            {{"low", kNumber}, {"high", kNumber}, {"seed", kInteger, 0}, {"count", kInteger, 0}},
            true)},
       RandomDataReader},
  };
}

void CheckName(std::string_view what, const std::string& name) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  if (name.empty() || digit_first || !std::all_of(name.begin(), name.end(), fits)) {
    Refuse("a " + std::string(what) + " is named by an identifier, not \"" + name + "\"");
  }
}

/// A value as `type`, whole numbers as numbers; false if it is of another type.
bool ConvertTo(AttributeType type, AttributeValue* value) {
  const auto* whole = std::get_if<std::int64_t>(value);
  if (type == AttributeType::kNumber && whole != nullptr) *value = static_cast<double>(*whole);
  return value->index() == static_cast<std::size_t>(type);
}

void CheckKind(ReaderKind* kind) {
  CheckName("reader", kind->name);
  std::vector<std::string> seen = {"name", "input"};
  for (AttributeSpec& attribute : kind->attributes) {
    CheckName("attribute", attribute.name);
    const std::string place = kind->name + ": the attribute " + attribute.name;
    if (std::find(seen.begin(), seen.end(), attribute.name) != seen.end()) {
      Refuse(place + " is declared twice, or is one of name and input");
    }
    seen.push_back(attribute.name);
    if (attribute.missing && !ConvertTo(attribute.type, &*attribute.missing)) {
      Refuse(place + " has a default that is no " + AttributeTypeName(attribute.type));
    }
  }
}

/// "batch_size, discard_leftover".
template <typename Items, typename NameOf>
std::string Listed(const Items& items, NameOf name_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + name_of(item);
  return list.empty() ? "none" : list;
}

std::string ListedAttributes(const ReaderKind& kind) {
  return Listed(kind.attributes, [](const AttributeSpec& attribute) { return attribute.name; });
}

/// The attributes that the factory gets: all declared ones, each of its type.
Attributes Complete(const ReaderKind& kind, const Attributes& given) {
  for (const auto& [name, value] : given.values()) {
    const bool known = std::any_of(kind.attributes.begin(), kind.attributes.end(),
                                   [&n = name](const auto& a) { return a.name == n; });
    if (!known) {
      Refuse(kind.name + " has no attribute " + name + "; it has: " + ListedAttributes(kind));
    }
  }
  Attributes complete;
  for (const AttributeSpec& attribute : kind.attributes) {
    const auto found = given.values().find(attribute.name);
    if (found == given.values().end() && !attribute.missing) {
      Refuse(kind.name + " needs the attribute " + attribute.name +
             "; it has: " + ListedAttributes(kind));
    }
    AttributeValue value = found == given.values().end() ? *attribute.missing : found->second;
    const auto type_found = static_cast<AttributeType>(value.index());
    if (!ConvertTo(attribute.type, &value)) {
      Refuse(kind.name + ": the attribute " + attribute.name + " is of type " +
             AttributeTypeName(attribute.type) + ", not " + AttributeTypeName(type_found));
    }
    complete.Set(attribute.name, std::move(value));
  }
  return complete;
}

/// In programs two readers cannot take from one: the error says what else to do.
void RefuseTaken(const Reader& input) {
  const GraphNode& node = *ReaderAccess::NodeOf(input);
  if (std::holds_alternative<ShareNode>(node.kind()) || !node.HasConsumer()) return;
  Refuse(
      "the input has a consumer already, and a reader has one: create another reader of the same "
      "data for a second chain, or take as input what C++ made by Share");
}

class ReaderRegistry {
 public:
  /// The process's own. Never destroyed: readers may be made until the very end.
  static ReaderRegistry& Instance() {
    static auto* const registry = new ReaderRegistry();
    return *registry;
  }

  void Add(ReaderEntry reader) {
    CheckKind(&reader.kind);
    if (!reader.factory) Refuse(reader.kind.name + ": the factory is empty");
    const std::lock_guard lock(mutex_);
    const std::string name = reader.kind.name;
    if (!readers_.emplace(name, std::move(reader)).second) {
      Refuse("a reader " + name + " is registered already");
    }
  }

  /// A copy, so that the lock is not held while a factory runs.
  ReaderEntry Find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = readers_.find(name);
    if (found == readers_.end()) {
      std::vector<std::string> names;
      for (const auto& [each, reader] : readers_) names.push_back(each);
      Refuse(StatusCode::kNotFound,
             "no reader " + name + " is registered" + DidYouMean(name, names) + "\nthere are: " +
                 Listed(readers_, [](const auto& reader) { return reader.first; }));
    }
    return found->second;
  }

  std::vector<ReaderKind> Kinds() const {
    const std::lock_guard lock(mutex_);
    std::vector<ReaderKind> kinds;
    for (const auto& [name, reader] : readers_) kinds.push_back(reader.kind);
    return kinds;
  }

 private:
  ReaderRegistry() {
    for (ReaderEntry& reader : BuiltInReaders()) Add(std::move(reader));
  }

  mutable std::mutex mutex_;
  std::map<std::string, ReaderEntry> readers_;
};

}  // namespace

void RegisterReader(const std::string& name, std::vector<AttributeSpec> attributes,
                    ReaderFactory factory) {
  ReaderRegistry::Instance().Add({{name, std::move(attributes)}, std::move(factory)});
}

std::vector<ReaderKind> RegisteredReaders() { return ReaderRegistry::Instance().Kinds(); }

Reader CreateReader(const std::string& name, const Attributes& attributes,
                    const std::vector<Reader>& inputs, Scope* scope) {
  const ReaderEntry found = ReaderRegistry::Instance().Find(name);
  const Attributes complete = Complete(found.kind, attributes);
  for (const Reader& input : inputs) {
    if (!input) Refuse(name + ": an input is an empty reader");
    RefuseTaken(input);
  }
  Reader reader = found.factory(complete, inputs, scope);
  if (!reader) Refuse(name + ": the factory made no reader");
  (void)reader.slots();  // throws if the chain cannot work
  return reader;
}

Reader OnlyInput(const std::vector<Reader>& inputs) {
  if (inputs.size() != 1) {
    Refuse("expected one reader as input, found " + std::to_string(inputs.size()));
  }
  return inputs.front();
}

}  // namespace ringfeed
