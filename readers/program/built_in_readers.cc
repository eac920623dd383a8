#include "readers/program/built_in_readers.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "readers/parsers/parser.h"
#include "readers/parsers/tensor_record.h"
#include "ringfeed/compat/py_reader.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_double_buffer.h"
#include "ringfeed/slot.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

constexpr AttributeType kInteger = AttributeType::kInteger;
constexpr AttributeType kNumber = AttributeType::kNumber;
constexpr AttributeType kIntegers = AttributeType::kIntegers;
constexpr AttributeType kBoolean = AttributeType::kBoolean;
constexpr AttributeType kText = AttributeType::kText;
constexpr AttributeType kTexts = AttributeType::kTexts;

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

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

/// `records` taken apart as `text` says; as they are where it is empty.
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

/// Slots as Paddle's readers declare them: shapes [2, 3, 4] and [5, 6] stand behind each other,
/// with the ranks [3, 2]; dtypes and levels of LoD by slot, float32 and 0 where they are left out.
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

Reader OpenFilesReader(const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
  RefuseInputs(inputs);
  OpenOptions options;
  // is_test: file after file, whatever the training order is.
  options.cycle = attributes.Boolean("is_test") ? 1 : attributes.Size("cycle", 1);
  options.stripe_bytes = attributes.Size("stripe_bytes", 1);
  options.on_damage = OnDamageOf(attributes.Text("on_damage"));
  options.format = attributes.Text("format");
  options.threads = ThreadsOf(attributes);
  options.unordered = attributes.Boolean("unordered") && !attributes.Boolean("is_test");
  options.reopen_limit = attributes.Size("reopen_limit");
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

/// What the readers have in common that declare slots.
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

}  // namespace

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
                                 {"thread_num", kInteger, 0},
                                 {"buffer_size", kInteger, 0}},
                                false)},
       OpenFilesReader},
      {{"open_file", {{"filename", kText}, {"reopen_limit", kInteger, 0}}}, OpenFileReader},
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

}  // namespace ringfeed
