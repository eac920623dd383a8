#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "array.h"
#include "bytes_of.h"
#include "field_specs.h"
#include "gil.h"
#include "held_object.h"
#include "instance_input.h"
#include "module_parts.h"
#include "open_options.h"
#include "reader_handle.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
#include "ringfeed/source.h"
#include "text.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using SharedKeeper = std::shared_ptr<ThrownKeeper>;

class PythonDataset final : public Dataset {
 public:
  PythonDataset(nb::handle object, SharedKeeper keeper)
      : object_(Hold(object)), keeper_(std::move(keeper)) {}

  bool Next(std::string* sample) override {
    return CallUser(*keeper_, [&] {
      const nb::object next = CallMethod(object_->Get(), "next");
      if (next.is_none()) return false;
      const BytesOf buffer(next);
      sample->assign(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size());
      return true;
    });
  }

  bool ReInit() override {
    return CallUser(*keeper_,
                    [&] { return CallMethod(object_->Get(), "reset").ptr() != Py_False; });
  }

  // Its next() may wait for anything.
  bool Ready() const override { return false; }

 private:
  std::shared_ptr<HeldObject> object_;
  SharedKeeper keeper_;
};

/// What a Python function is told of its row; valid after the call.
struct Row {
  explicit Row(const MapInput& input)
      : place(input.Place()), pass(input.pass), epoch(input.epoch), draws(input.Draws()) {}

  // A NumPy generator of the row's own.
  nb::object Generator(std::uint64_t k) const {
    const nb::module_ random = nb::module_::import_("numpy.random");
    return random.attr("Generator")(random.attr("Philox")(draws(k)));
  }

  DataPlace place;
  std::uint64_t pass;
  std::uint64_t epoch;
  RowDraws draws;
};

// The record's bytes, or its parsed fields, as Arrays of their own memory by name.
nb::object GivenTo(const MapInput& input) {
  if (input.fields == nullptr) return nb::bytes(input.record.data, input.record.size);
  nb::dict fields;
  for (std::size_t i = 0; i < input.fields->size(); ++i) {
    Tensor tensor = (*input.fields)[i];
    std::shared_ptr<std::byte> memory = NewBytes(tensor.bytes);
    std::copy_n(tensor.data, tensor.bytes, memory.get());
    tensor.data = memory.get();
    tensor.owner = std::move(memory);
    tensor.lod.clear();
    const std::string& name = input.fields->names()->names()[i];
    fields[nb::str(name.c_str(), name.size())] = Array::OfOwnMemory(std::move(tensor));
  }
  return fields;
}

void WriteField(const FieldSpec& field, std::size_t number, nb::handle value, RowWriter& row) {
  const BytesOf buffer(value);
  if (field.ragged()) return row.Ragged(number, buffer.bytes());
  const std::span<std::byte> place = row.Fixed(number);
  if (place.size() != buffer.bytes().size()) {
    throw std::invalid_argument("field \"" + field.name + "\" takes " +
                                std::to_string(place.size()) + " bytes, got " +
                                std::to_string(buffer.bytes().size()));
  }
  if (!place.empty()) std::memcpy(place.data(), buffer.bytes().data(), place.size());
}

// `row_of` returns a tuple of buffers, one for each field.
MapFunction PythonMap(nb::handle row_of, std::vector<FieldSpec> fields, bool takes_row,
                      SharedKeeper keeper) {
  return [row_of = Hold(row_of), fields = std::move(fields), takes_row, keeper = std::move(keeper)](
             const MapInput& input, RowWriter& row) {
    CallUser(*keeper, [&] {
      try {
        const nb::object given = GivenTo(input);
        const nb::object function = row_of->Get();
        const nb::object values = takes_row ? function(given, Row(input)) : function(given);
        for (std::size_t i = 0; i < fields.size(); ++i) WriteField(fields[i], i, values[i], row);
      } catch (nb::python_error& thrown) {
        RethrowDamage(thrown);
        throw;
      }
    });
  };
}

// Instances of an iterator that `creator` makes anew for each pass.
class PythonInstances final : public InstanceSource {
 public:
  PythonInstances(nb::handle creator, std::vector<SlotSpec> slots, SharedKeeper keeper)
      : creator_(Hold(creator)), slots_(std::move(slots)), keeper_(std::move(keeper)) {}

  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    return CallUser(*keeper_, [&] {
      if (iterator_ == nullptr) iterator_ = Hold(nb::iter(creator_->Get()()));
      const nb::object iterator = iterator_->Get();
      const nb::object next = nb::steal(InPython([&] { return PyIter_Next(iterator.ptr()); }));
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      if (!next.is_valid()) return ReadResult::kEnd;
      *instance = InstanceOf(slots_, next, CopyInput::kAlways);
      return ReadResult::kRecord;
    });
  }

  bool ReInit() override {
    iterator_.reset();
    return true;
  }

  std::vector<SlotSpec> slots() const override { return slots_; }

 private:
  std::shared_ptr<HeldObject> creator_;
  const std::vector<SlotSpec> slots_;
  SharedKeeper keeper_;
  std::shared_ptr<HeldObject> iterator_;  // of this pass; null before its first read
};

/// Name, bytes, version, and read_at(offset, bytes).
using SourceTuple = std::tuple<std::string, std::uint64_t, std::string, nb::object>;

class PythonSource final : public Source {
 public:
  PythonSource(const SourceTuple& from, SharedKeeper keeper)
      : name_(std::get<0>(from)),
        size_(std::get<1>(from)),
        version_(std::get<2>(from)),
        read_at_(Hold(std::get<3>(from))),
        keeper_(std::move(keeper)) {}

  std::string name() const override { return name_; }
  std::uint64_t Size() const override { return size_; }
  std::string Version() const override { return version_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    return CallUser(*keeper_, [&] {
      try {
        const BytesOf given(read_at_->Get()(offset, buffer.size()));
        *bytes_read = given.bytes().size();
        if (*bytes_read <= buffer.size())
          std::copy_n(given.bytes().data(), *bytes_read, buffer.data());
        return Status();
      } catch (nb::python_error& thrown) {
        if (!thrown.matches(PyExc_OSError)) throw;
        return Status(StatusCode::kIoError, nb::str(thrown.value()).c_str());
      }
    });
  }

 private:
  const std::string name_;
  const std::uint64_t size_;
  const std::string version_;
  std::shared_ptr<HeldObject> read_at_;
  SharedKeeper keeper_;
};

ReaderHandle OpenPythonSources(const std::vector<SourceTuple>& from, const nb::dict& open) {
  const OpenOptions options = OpenOptionsOf(open);
  auto keeper = std::make_shared<ThrownKeeper>();
  std::vector<std::shared_ptr<Source>> sources;
  for (const SourceTuple& each : from) {
    sources.push_back(std::make_shared<PythonSource>(each, keeper));
  }
  return ReaderHandle(Unlocked([&] { return OpenSources(std::move(sources), options); }), {keeper});
}

OpenOptions Ahead(std::uint64_t records, std::uint64_t bytes) {
  OpenOptions options;
  options.ahead_records = records;
  options.ahead_bytes = bytes;
  return options;
}

ReaderHandle FromPythonIterable(nb::handle creator, const std::vector<SlotTuple>& slots,
                                std::uint64_t ahead, std::uint64_t ahead_bytes) {
  auto keeper = std::make_shared<ThrownKeeper>();
  auto source = std::make_unique<PythonInstances>(creator, SlotSpecs(slots), keeper);
  return ReaderHandle(
      Unlocked([&] { return FromInstanceSource(std::move(source), Ahead(ahead, ahead_bytes)); }),
      {keeper});
}

ReaderHandle FromPythonDataset(nb::handle object, std::uint64_t ahead, std::uint64_t ahead_bytes) {
  auto keeper = std::make_shared<ThrownKeeper>();
  auto dataset = std::make_unique<PythonDataset>(object, keeper);
  return ReaderHandle(
      Unlocked([&] { return FromDataset(std::move(dataset), Ahead(ahead, ahead_bytes)); }),
      {keeper});
}

ReaderHandle MapByPython(const ReaderHandle& input, nb::handle row_of,
                         const std::vector<FieldTuple>& outputs,
                         const std::vector<std::string>& keep, std::uint64_t seed,
                         const std::string& name, bool takes_row, std::int64_t row_timeout_ms) {
  auto keeper = std::make_shared<ThrownKeeper>();
  std::vector<FieldSpec> fields = FieldSpecs(outputs);
  MapFunction function = PythonMap(row_of, fields, takes_row, keeper);
  const MapOptions options{
      .keep = keep, .seed = seed, .name = name, .row_timeout_ms = row_timeout_ms};
  return input.On(Unlocked([&] {
                    return Map(input.reader(), std::move(fields), std::move(function), options);
                  }),
                  keeper);
}

}  // namespace

void BindUserSources(nb::module_& module) {
  module.def("from_iterable", &FromPythonIterable, nb::arg("creator"), nb::arg("slots"),
             nb::arg("ahead") = 0, nb::arg("ahead_bytes") = 0,
             "creator() gives an iterator of instances, anew for each pass.");
  module.def("from_dataset", &FromPythonDataset, nb::arg("dataset"), nb::arg("ahead") = 0,
             nb::arg("ahead_bytes") = 0, "A Dataset's samples as records.");
  module.def("open_sources", &OpenPythonSources, nb::arg("sources"), nb::arg("options"),
             nb::sig("def open_sources(sources: Sequence[tuple[str, int, str, "
                     "object]], options: dict[str, typing.Any]) -> Reader"),
             "(name, bytes, version, read_at) of each; read_at(offset, bytes) gives bytes.");
  module.def("map_python", &MapByPython, nb::arg("input"), nb::arg("row_of"), nb::arg("outputs"),
             nb::arg("keep"), nb::arg("seed"), nb::arg("name"), nb::arg("takes_row"),
             nb::arg("row_timeout_ms"),
             "row_of(record or fields[, row]) gives a tuple of buffers, one for each output.");
  nb::class_<Row>(module, "Row", "The row that a function of yours is called with.")
      .def_prop_ro(
          "file", [](const Row& row) { return FileNameText(row.place.file); },
          "The name of its file; \"\" if it has none.")
      .def_prop_ro(
          "record", [](const Row& row) { return row.place.record; },
          "Its number in the file, from 0; -1 if it is not known.")
      .def_prop_ro(
          "pass_number", [](const Row& row) { return row.pass; },
          "The pass over the data, from 0 in each epoch.")
      .def_prop_ro(
          "epoch", [](const Row& row) { return row.epoch; },
          "The epoch that its random numbers are of.")
      .def(
          "draw", [](const Row& row, std::uint64_t k) { return row.draws(k); }, nb::arg("k") = 0,
          "Random number k of the row, of 64 bits: by seed, epoch, file, record and k alone, so "
          "the\n"
          "same on any number of threads and ranks and after a resume, and new in each epoch. "
          "Torch\n"
          "takes it as a seed: torch.Generator().manual_seed(row.draw()).")
      .def("generator", &Row::Generator, nb::arg("k") = 0,
           "A numpy.random.Generator that draw(k) is the seed of.");
}

}  // namespace ringfeed::python
