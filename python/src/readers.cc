#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "field_specs.h"
#include "gil.h"
#include "instance_arrays.h"
#include "module_parts.h"
#include "open_options.h"
#include "parsers.h"
#include "reader_handle.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/ranks.h"
#include "ringfeed/source.h"
#include "ringfeed/tuning.h"
#include "stats_dict.h"
#include "steps_tuple.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

template <typename T>
constexpr const char* WhatIs() {
  if constexpr (std::is_same_v<T, bool>) return "True or False";
  if constexpr (std::is_same_v<T, std::string>) return "a str";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  if constexpr (std::is_unsigned_v<T>) return "an integer from 0";
  return "an integer";
}

template <typename T>
void Take(const nb::dict& options, const char* name, T* value) {
  if (!options.contains(name)) return;
  const nb::object given = options[name];
  if (nb::try_cast(given, *value)) return;
  const std::string text =
      std::string(name) + " is " + WhatIs<T>() + ", not " + nb::repr(given).c_str();
  if (std::is_integral_v<T> && !std::is_same_v<T, bool> && PyLong_Check(given.ptr())) {
    throw nb::value_error(text.c_str());
  }
  throw nb::type_error(text.c_str());
}

IoPath PathNamed(const std::string& name) {
  for (const IoPath path : {IoPath::kAuto, IoPath::kUring, IoPath::kPread, IoPath::kMmap}) {
    if (IoPathName(path) == name) return path;
  }
  throw nb::value_error("io is \"auto\", \"uring\", \"pread\" or \"mmap\"");
}

}  // namespace

OpenOptions OpenOptionsOf(const nb::dict& from) {
  OpenOptions options;
  std::string tuned;
  Take(from, "tuned", &tuned);
  // First, so that options given along with it override it.
  if (!tuned.empty()) options = Unlocked([&] { return OpenOptions::Tuned(tuned); });
  Take(from, "format", &options.format);
  Take(from, "cycle", &options.cycle);
  Take(from, "stripe_bytes", &options.stripe_bytes);
  Take(from, "max_damaged", &options.max_damaged);
  Take(from, "max_record_bytes", &options.max_record_bytes);
  Take(from, "strict", &options.strict);
  Take(from, "unordered", &options.unordered);
  Take(from, "reopen_limit", &options.reopen_limit);
  Take(from, "reopen_until", &options.reopen_until);
  Take(from, "ahead", &options.ahead_records);
  Take(from, "ahead_bytes", &options.ahead_bytes);
  Take(from, "first_epoch", &options.first_epoch);
  Take(from, "index_folder", &options.index_folder);
  Take(from, "subset", &options.subset);
  Take(from, "cache", &options.cache);
  Take(from, "cache_bytes", &options.cache_bytes);
  Take(from, "note_records", &options.note_records);
  Take(from, "threads", &options.threads);
  Take(from, "arena_bytes", &options.arena_bytes);
  Take(from, "shuffle_files", &options.files.shuffle);
  Take(from, "seed", &options.files.seed);
  Take(from, "block_bytes", &options.io.block_bytes);
  Take(from, "in_flight_bytes", &options.io.in_flight_bytes);
  Take(from, "direct", &options.io.direct);
  Take(from, "retries", &options.io.retries);
  Take(from, "read_timeout_ms", &options.io.read_timeout_ms);
  Take(from, "remote_patience_ms", &options.io.remote_patience_ms);
  std::string text;
  Take(from, "io", &text);
  if (!text.empty()) options.io.path = PathNamed(text);
  bool flag = false;
  Take(from, "skip_damaged", &flag);
  if (flag) options.on_damage = OnDamage::kSkip;
  flag = true;
  Take(from, "index", &flag);
  if (!flag) options.index = IndexUse::kNever;
  return options;
}

namespace {

std::tuple<std::size_t, std::size_t, std::string, std::string> TunedFeed(const std::string& path) {
  const Tuning tuning = Unlocked([&] { return ReadTuning(path); });
  return {tuning.slots, tuning.device_slots, tuning.transfer, tuning.devices};
}

ShuffleMode ModeNamed(const std::string& name) {
  static constexpr std::pair<const char*, ShuffleMode> kModes[] = {
      {"none", ShuffleMode::kNone},     {"window", ShuffleMode::kWindow},
      {"block", ShuffleMode::kBlock},   {"stripes", ShuffleMode::kStripes},
      {"global", ShuffleMode::kGlobal},
  };
  for (const auto& [known, mode] : kModes) {
    if (known == name) return mode;
  }
  throw nb::value_error("a shuffle is \"none\", \"window\", \"block\", \"stripes\" or \"global\"");
}

ReaderHandle ShuffleBy(const ReaderHandle& input, const std::string& mode, std::size_t size,
                       std::uint64_t seed) {
  ShuffleOptions options{.seed = seed, .mode = ModeNamed(mode)};
  (options.mode == ShuffleMode::kBlock ? options.block : options.window) = size;
  return input.On(Unlocked([&] { return Shuffle(input.reader(), options); }));
}

RankTuple TupleOf(const Rank& rank) {
  return {rank.rank,   rank.world_size, rank.local_rank, rank.local_world_size,
          rank.source, rank.replica,    rank.replicas};
}

RankTuple FindRankTuple() { return TupleOf(FindRank()); }

RankTuple DataRankTuple(const RankTuple& rank, int tensor, int context, int pipeline,
                        const std::string& order) {
  return TupleOf(DataRank(RankOf(rank), {tensor, context, pipeline}, order));
}

ReaderHandle BatchBy(const ReaderHandle& input, std::size_t size, bool drop_remainder, bool pad,
                     std::size_t slots, const std::optional<RankTuple>& rank, bool split_by_files,
                     bool empty_batches, const std::string& field,
                     const std::optional<StepsTuple>& steps) {
  BatchOptions options{.size = size, .drop_remainder = drop_remainder, .slots = slots, .pad = pad};
  if (!steps) options.empty_batches = empty_batches;
  options.field = field;
  options.steps = StepsOf(steps);
  if (rank) options.rank = RankOf(*rank);
  options.split_by_files = split_by_files;
  return input.On(Unlocked([&] { return Batch(input.reader(), options); }));
}

using MixTuple = std::tuple<const ReaderHandle*, double, std::uint64_t, std::uint64_t>;

using WeightsTuple = std::tuple<std::uint64_t, std::vector<double>>;

ReaderHandle MixBy(const std::vector<MixTuple>& sets, const std::vector<WeightsTuple>& schedule,
                   const nb::dict& open) {
  std::vector<MixSet> mixed;
  ReaderHandle::Keepers keepers;
  bool endless = true;
  for (const auto& [handle, weight, passes, most_records] : sets) {
    endless = endless && passes == 0 && most_records == 0;
    mixed.push_back({handle->reader(), weight, passes, most_records});
    keepers.insert(keepers.end(), handle->keepers().begin(), handle->keepers().end());
  }
  MixOptions mix;
  for (const auto& [from_step, weights] : schedule) mix.schedule.push_back({from_step, weights});
  const OpenOptions options = OpenOptionsOf(open);
  ReaderHandle mixture(Unlocked([&] { return Mix(mixed, mix, options); }), std::move(keepers));
  mixture.set_endless(endless);
  return mixture;
}

nb::object NextIn(const ReaderHandle& handle, const BatchForm& form) {
  nb::object instance = handle.NextAs(form);
  if (!instance.is_valid()) throw nb::stop_iteration();
  return instance;
}

nb::object NextArrays(const ReaderHandle& handle) { return NextIn(handle, BatchForm()); }

// `names` are the fields', made once.
nb::object NextDict(const ReaderHandle& handle, const nb::tuple& names) {
  return NextIn(handle, BatchForm(names));
}

nb::object OriginOf(const ReaderHandle& handle) { return OriginDict(handle.LastOrigin()); }

ReaderHandle MultiplexBy(const std::vector<const ReaderHandle*>& streams, const nb::dict& open) {
  std::vector<Reader> joined;
  for (const ReaderHandle* handle : streams) joined.push_back(handle->reader());
  const OpenOptions options = OpenOptionsOf(open);
  return ReaderHandle(Unlocked([&] { return Multiplex(joined, options); }));
}

std::vector<SlotTuple> SlotsOf(const ReaderHandle& handle) {
  std::vector<SlotTuple> slots;
  for (const SlotSpec& slot : Unlocked([&] { return handle.reader().slots(); })) {
    slots.emplace_back(slot.name, DTypeName(slot.dtype), slot.dims, slot.lod_levels);
  }
  return slots;
}

std::map<std::string, std::string> LogicalTypesOf(const ReaderHandle& handle) {
  std::map<std::string, std::string> types;
  for (const FieldSpec& field : Unlocked([&] { return handle.reader().fields(); })) {
    if (!field.logical_type.empty()) types[field.name] = field.logical_type;
  }
  return types;
}

using PlaceTuple =
    std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t>;

std::vector<PlaceTuple> WhichOf(const ReaderHandle& handle, std::uint64_t batch,
                                const std::string& position) {
  const auto which = [&](const Reader& reader) { return reader.Which(batch, position); };
  std::vector<PlaceTuple> places;
  for (const BatchRecord& at : handle.ReadByNumber(which)) {
    places.emplace_back(at.number, at.file, at.record, at.row, at.units);
  }
  return places;
}

// Records by their numbers.
void BindNumbers(nb::class_<ReaderHandle>* type) {
  type->def(
          "record_at",
          [](const ReaderHandle& h, std::uint64_t number) {
            return DictOf(h.ReadByNumber([&](const Reader& r) { return r.RecordAt(number); }));
          },
          nb::sig("def record_at(self, number: int) -> dict[str, Array]"), nb::arg("number"),
          "The record of that number in the data set, from 0, as the chain makes a row of it. "
          "Reads "
          "it from its file, in this thread. Raises Damaged, with its place, if it cannot be had.")
      .def(
          "records_at",
          [](const ReaderHandle& h, const std::vector<std::uint64_t>& numbers) {
            return DictOf(h.ReadByNumber([&](const Reader& r) { return r.RecordsAt(numbers); }));
          },
          nb::sig("def records_at(self, numbers: typing.Sequence[int]) -> dict[str, Array]"),
          nb::arg("numbers"), "Several of them, as a batch in that order.")
      .def(
          "which", &WhichOf, nb::arg("batch"), nb::arg("position") = "",
          "Which records that batch has, by the order alone: (number in the data set, file, number "
          "in it, row, units) of each. With a position: of a run that began there.")
      .def(
          "file_names",
          [](const ReaderHandle& h) {
            return h.ReadByNumber([](const Reader& r) { return r.FileNames(); });
          },
          "The names of the files that file_records counts.");
}

// Position and moves to other positions.
void BindPlaces(nb::class_<ReaderHandle>* type) {
  type->def(
          "reset", [](const ReaderHandle& h) { h.Restart([](Reader& r) { r.ReInit(); }); },
          "Starts again at the first pass, at any time. Raises Unsupported for a stream, before "
          "anything is lost.")
      .def(
          "reset_all", [](const ReaderHandle& h) { h.Restart([](Reader& r) { r.ResetAll(); }); },
          "The same for all chains that this reader is part of.")
      .def("position", &ReaderHandle::Position,
           "Where the chain stands after what was handed out, as a line of JSON of at most 1 KiB. "
           "Raises an Error if its order does not come again.")
      .def(
          "restore",
          [](const ReaderHandle& h, const std::string& position) {
            h.MakeIndex(IndexPurpose::kCounting);
            h.Restart([&](Reader& r) { r.Restore(position); });
          },
          nb::arg("position"),
          "Goes on there. Raises InvalidArgument, with what changed, if the data or the chain "
          "are others, before anything is lost.")
      .def(
          "seek_to",
          [](const ReaderHandle& h, std::uint64_t batch) {
            h.MakeIndex(IndexPurpose::kCounting);
            h.Restart([&](Reader& r) { r.SeekTo(batch); });
          },
          nb::arg("batch"), "Goes on with that instance, from 0 at the beginning.")
      .def("skip_batches", &ReaderHandle::SkipBatches, nb::arg("batches"),
           "Leaves the next ones out.");
}

void BindReaderClass(nb::module_& module) {
  nb::class_<ReaderHandle> type(
      module, "Reader",
      "A chain of readers. Nothing runs before the first read. Its iterator "
      "gives a tuple of Arrays, one per field; a chain is read by one loop.");
  type.def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> Reader"))
      .def("__next__", &NextArrays, nb::sig("def __next__(self) -> tuple[Array, ...]"),
           "The next instance, after `batch` [rows, …] each. Waits; Ctrl-C ends the wait. Raises "
           "an Error with file, offset and record, or what a function of the user's threw; "
           "ResourceExhausted if every place for a batch is held.")
      .def("next_dict", &NextDict,
           nb::sig("def next_dict(self, names: tuple[str, ...]) -> dict[str, Array]"),
           nb::arg("names"),
           "The next instance by the fields' names, a tuple of text. StopIteration at the end. "
           "Raises what the chain failed of, as __next__ does; ValueError if there is not one "
           "name for each field.")
      .def("origin", &OriginOf, nb::sig("def origin(self) -> dict[str, typing.Any] | None"),
           "Where the last instance came from: its number and its pass from 0, and with "
           "note_records the ranges (file, first, count) of its records. None before the first.")
      .def("next_pass", &ReaderHandle::NextPass,
           "The pass that the next instance begins in, from 0; None at the end. Waits for it; "
           "Ctrl-C ends the wait.")
      .def("has_next", &ReaderHandle::HasNext,
           "Whether an instance or an error follows. Waits for it; Ctrl-C ends the wait.")
      .def_prop_ro("endless", &ReaderHandle::endless,
                   "Whether its data have no end and no beginning to go back to: multi_pass(…, 0), "
                   "a queue.")
      .def_prop_ro("slots", &SlotsOf, "(name, dtype, dims, levels of LoD) of each field")
      .def_prop_ro("logical_types", &LogicalTypesOf,
                   "What the numbers of a table's times and decimals stand for, by the fields' "
                   "names, as pyarrow spells it: \"timestamp[us]\", \"decimal128(10, 2)\".")
      .def(
          "file_records",
          [](const ReaderHandle& h) {
            return h.ReadByNumber([](const Reader& r) { return r.FileRecords(); });
          },
          "Records of each file, by its index, which is made if it is missing. Raises an Error "
          "if there can be none.")
      .def(
          "count_batches",
          [](const ReaderHandle& h) {
            return h.ReadByNumber([](const Reader& r) { return r.CountBatches(); });
          },
          "Batches from the beginning to the end of all passes, as origin counts them, by the "
          "files' index; planned ones are planned for it. Reads no record. Raises Unsupported if "
          "the number cannot be known.")
      .def(
          "batches_of_step", [](const ReaderHandle& h) { return h.reader().BatchesOfStep(); },
          "In how many batches this rank gets a step, by which positions count: 1, but for "
          "token_batch over several shares.")
      .def(
          "reserve_batches",
          [](const ReaderHandle& h, std::size_t n) { h.reader().ReserveBatches(n); },
          nb::arg("batches"),
          "Before the first read: the loop holds up to so many at a time, so there are more.")
      .def(
          "stats",
          [](const ReaderHandle& h) {
            return StatsDict(Unlocked([&] { return h.reader().Stats(); }));
          },
          nb::sig("def stats(self) -> dict[str, typing.Any]"),
          "What was read and delivered (records, bytes), left out and found damaged, and where the "
          "stages waited (seconds).")
      .def("close", &ReaderHandle::Close,
           "Ends the chain's threads; reads then raise Cancelled, batches that are held stay "
           "valid. More calls do nothing.")
      .def("close_ends", &ReaderHandle::CloseEnds,
           "The same for the ends of all chains that this reader is part of.");
  BindPlaces(&type);
  BindNumbers(&type);
}

void BindDecoratorsOfReaders(nb::module_& module) {
  const auto input = nb::arg("input");
  module.def(
      "parse",
      [](const ReaderHandle& from, const ParserHandle& parser, std::uint64_t seed) {
        return from.On(Unlocked([&] {
          Reader rows = Parse(from.reader(), parser.parser);
          return parser.then ? parser.then(std::move(rows), seed) : rows;
        }));
      },
      input, nb::arg("parser"), nb::arg("seed"));
  module.def("shuffle", &ShuffleBy, input, nb::arg("mode"), nb::arg("size"), nb::arg("seed"));
  module.def("batch", &BatchBy, input, nb::arg("size"), nb::arg("drop_remainder"), nb::arg("pad"),
             nb::arg("slots"), nb::arg("rank").none(), nb::arg("split_by_files"),
             nb::arg("empty_batches"), nb::arg("field"), nb::arg("steps").none());
  module.def(
      "multi_pass",
      [](const ReaderHandle& from, std::uint64_t passes) {
        ReaderHandle joined = from.On(Unlocked([&] { return MultiPass(from.reader(), passes); }));
        joined.set_endless(passes == 0 || from.endless());
        return joined;
      },
      input, nb::arg("passes"));
  module.def(
      "double_buffer",
      [](const ReaderHandle& from, std::size_t slots) {
        return from.On(Unlocked([&] { return DoubleBuffer(from.reader(), slots); }));
      },
      input, nb::arg("slots"));
  module.def(
      "share",
      [](const ReaderHandle& from) {
        return from.On(Unlocked([&] { return Share(from.reader()); }));
      },
      input);
}

/// (parser's name, its fields, delimiter, header, format, why there are none, the parser).
nb::tuple Inferred(const std::vector<std::string>& names, const nb::dict& options) {
  const OpenOptions open = OpenOptionsOf(options);
  const InferredParser found = Unlocked([&] { return InferParser(names, open); });
  std::vector<FieldTuple> fields;
  for (const FeatureSpec& field : found.fields) {
    nb::object missing = nb::none();
    if (field.missing) {
      const double* const number = std::get_if<double>(&*field.missing);
      missing = number != nullptr ? nb::object(nb::float_(*number)) : nb::object(nb::list());
    }
    fields.emplace_back(field.name, DTypeName(field.dtype), field.shape, std::move(missing));
  }
  const std::string& header = found.csv.header;
  return nb::make_tuple(found.name, fields, std::string(1, found.csv.delimiter),
                        nb::bytes(header.data(), header.size()), found.format, found.why,
                        ParserHandle{found.parser});
}

}  // namespace

void BindReaders(nb::module_& module) {
  BindReaderClass(module);
  BindDecoratorsOfReaders(module);
  module.def(
      "read_csv_columns",
      [](const std::vector<std::string>& names, const nb::dict& options) {
        const OpenOptions open = OpenOptionsOf(options);
        const CsvColumns columns = Unlocked([&] { return ReadCsvColumns(names, open); });
        return std::make_pair(nb::bytes(columns.header.data(), columns.header.size()),
                              columns.format);
      },
      nb::arg("names"), nb::arg("options"),
      nb::sig("def read_csv_columns(names: Sequence[str], options: dict[str, typing.Any]) -> "
              "tuple[bytes, str]"));
  module.def("infer_parser", &Inferred, nb::arg("names"), nb::arg("options"),
             nb::sig("def infer_parser(names: Sequence[str], options: dict[str, typing.Any]) -> "
                     "tuple[str, list[tuple[str, str, list[int], typing.Any]], str, bytes, str, "
                     "str, RecordParser]"));
  module.def(
      "open_files",
      [](const std::vector<std::string>& names, const nb::dict& options) {
        const OpenOptions open = OpenOptionsOf(options);
        return ReaderHandle(Unlocked([&] { return OpenFiles(names, open); }));
      },
      nb::arg("names"), nb::arg("options"),
      nb::sig("def open_files(names: Sequence[str], options: dict[str, typing.Any]) -> Reader"));
  module.def(
      "write_subset",
      [](const ReaderHandle& reader, const std::string& path,
         const std::optional<nb::bytes>& numbers) {
        std::vector<std::uint64_t> kept(numbers ? numbers->size() / sizeof(std::uint64_t) : 0);
        if (!kept.empty()) {
          std::memcpy(kept.data(), numbers->data(), kept.size() * sizeof(std::uint64_t));
        }
        Unlocked([&] {
          numbers ? WriteSubset(reader.reader(), kept, path) : WriteSubset(reader.reader(), path);
        });
      },
      nb::arg("reader"), nb::arg("path"), nb::arg("numbers").none(),
      "numbers: of eight bytes each; None: those of the records that the chain delivers.");
  module.def("mix", &MixBy, nb::arg("sets"), nb::arg("schedule"), nb::arg("options"),
             nb::sig("def mix(sets: Sequence[tuple[Reader, float, int, int]], "
                     "schedule: Sequence[tuple[int, Sequence[float]]], "
                     "options: dict[str, typing.Any]) -> Reader"),
             "(reader, weight, passes, most_records) each; (from step, weights) each.");
  module.def("multiplex", &MultiplexBy, nb::arg("streams"), nb::arg("options"),
             nb::sig("def multiplex(streams: Sequence[Reader], options: dict[str, typing.Any]) "
                     "-> Reader"));
  module.def("find_rank", &FindRankTuple,
             "(rank, world_size, local_rank, local_world_size, source, replica, replicas)");
  module.def("data_rank", &DataRankTuple, nb::arg("rank"), nb::arg("tensor"), nb::arg("context"),
             nb::arg("pipeline"), nb::arg("order"), "The same, among those with different data.");
  module.def("tuned_feed", &TunedFeed, nb::arg("path"),
             "What a tuning says of batches in memory and on each device (0: nothing), and of how "
             "they come there (\"\": nothing), and for which kind of devices (\"\": any).");
  module.def("is_stream_name", &IsStreamName, nb::arg("name"),
             "Whether it names what can be read once: \"-\", a FIFO, a socket.");
}

}  // namespace ringfeed::python
