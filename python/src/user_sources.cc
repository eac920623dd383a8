#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bytes_of.h"
#include "field_specs.h"
#include "gil.h"
#include "held_object.h"
#include "instance_input.h"
#include "module_parts.h"
#include "reader_handle.h"
#include "ringfeed/compat/data_reader.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
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

// `row_of` returns a tuple of buffers, one for each field.
class PythonParser final : public SampleParser {
 public:
  PythonParser(nb::handle row_of, std::vector<FieldSpec> fields, SharedKeeper keeper)
      : row_of_(Hold(row_of)), fields_(std::move(fields)), keeper_(std::move(keeper)) {}

  std::vector<FieldSpec> fields() const override { return fields_; }

  void Parse(std::string_view sample, RowWriter& row) const override {
    CallUser(*keeper_, [&] {
      const nb::object values = row_of_->Get()(nb::bytes(sample.data(), sample.size()));
      for (std::size_t i = 0; i < fields_.size(); ++i) Write(i, values[i], row);
    });
  }

 private:
  void Write(std::size_t field, nb::handle value, RowWriter& row) const {
    const BytesOf buffer(value);
    if (fields_[field].ragged()) return row.Ragged(field, buffer.bytes());
    const std::span<std::byte> place = row.Fixed(field);
    if (place.size() != buffer.bytes().size()) {
      throw std::invalid_argument("field \"" + fields_[field].name + "\" takes " +
                                  std::to_string(place.size()) + " bytes, got " +
                                  std::to_string(buffer.bytes().size()));
    }
    if (!place.empty()) std::memcpy(place.data(), buffer.bytes().data(), place.size());
  }

  std::shared_ptr<HeldObject> row_of_;
  const std::vector<FieldSpec> fields_;
  SharedKeeper keeper_;
};

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

ReaderHandle ParseByPython(const ReaderHandle& input, nb::handle row_of,
                           const std::vector<FieldTuple>& fields) {
  auto keeper = std::make_shared<ThrownKeeper>();
  auto parser = std::make_shared<PythonParser>(row_of, FieldSpecs(fields), keeper);
  return input.On(Unlocked([&] { return ParseSamples(input.reader(), std::move(parser)); }),
                  keeper);
}

}  // namespace

void BindUserSources(nb::module_& module) {
  module.def("from_iterable", &FromPythonIterable, nb::arg("creator"), nb::arg("slots"),
             nb::arg("ahead") = 0, nb::arg("ahead_bytes") = 0,
             "creator() gives an iterator of instances, anew for each pass.");
  module.def("from_dataset", &FromPythonDataset, nb::arg("dataset"), nb::arg("ahead") = 0,
             nb::arg("ahead_bytes") = 0, "A Dataset's samples as records.");
  module.def("parse_samples", &ParseByPython, nb::arg("input"), nb::arg("row_of"),
             nb::arg("fields"), "row_of(sample) gives a tuple of buffers, one for each field.");
}

}  // namespace ringfeed::python
