#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device_feed_handle.h"
#include "field_specs.h"
#include "gil.h"
#include "handover.h"
#include "held_object.h"
#include "instance_arrays.h"
#include "module_parts.h"
#include "python_stage.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/ranks.h"
#include "stats_dict.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using CropSides = std::tuple<std::size_t, std::size_t>;
using NormalizeTuple = std::tuple<std::size_t, std::string, std::vector<float>, std::vector<float>,
                                  bool, CropSides, std::optional<std::size_t>>;
using WidenTuple = std::tuple<std::size_t, std::string>;
using PadTuple = std::tuple<std::size_t, std::size_t, nb::bytes>;
using OutputTuple = std::tuple<std::string, std::string, Shape>;

/// The name that Batch uses, too: which rows of a padded last step count.
constexpr const char* kMaskName = "mask";

std::vector<FieldTransform> TransformsOf(const std::vector<NormalizeTuple>& normalize,
                                         const std::vector<WidenTuple>& widen,
                                         const std::vector<PadTuple>& pad) {
  std::vector<FieldTransform> transforms;
  for (const auto& [field, dtype, mean, scale, channels_first, crop, crops] : normalize) {
    const auto [crop_height, crop_width] = crop;
    transforms.emplace_back(NormalizeField{field, DTypeNamed(dtype), mean, scale, channels_first,
                                           crop_height, crop_width, crops});
  }
  for (const auto& [field, dtype] : widen) {
    transforms.emplace_back(WidenField{field, DTypeNamed(dtype)});
  }
  for (const auto& [field, length, padding] : pad) {
    const auto* bytes = reinterpret_cast<const std::byte*>(padding.c_str());
    transforms.emplace_back(PadField{field, length, {bytes, bytes + padding.size()}});
  }
  return transforms;
}

template <typename Value, std::size_t count>
Value Named(const std::pair<const char*, Value> (&values)[count], const std::string& name,
            const char* known) {
  for (const auto& [text, value] : values) {
    if (text == name) return value;
  }
  throw nb::value_error(known);
}

Distribution DistributionNamed(const std::string& name) {
  static constexpr std::pair<const char*, Distribution> kNames[] = {
      {"round_robin", Distribution::kRoundRobin},
      {"split", Distribution::kSplit},
      {"replicate", Distribution::kReplicate}};
  return Named(kNames, name, "a distribution is \"round_robin\", \"split\" or \"replicate\"");
}

LastStep LastStepNamed(const std::string& name) {
  static constexpr std::pair<const char*, LastStep> kNames[] = {{"uneven", LastStep::kUneven},
                                                                {"drop", LastStep::kDrop},
                                                                {"pad", LastStep::kPad},
                                                                {"short", LastStep::kShort}};
  return Named(kNames, name, "a last step is \"uneven\", \"drop\", \"pad\" or \"short\"");
}

constexpr std::pair<const char*, double TransferCosts::*> kCosts[] = {
    {"copy_ns_per_kib", &TransferCosts::copy_ns_per_kib},
    {"link_ns_per_kib", &TransferCosts::link_ns_per_kib},
    {"member_ns", &TransferCosts::member_ns},
    {"row_ns", &TransferCosts::row_ns},
    {"sum_ns", &TransferCosts::sum_ns}};

using CostsByName = std::map<std::string, double>;

TransferCosts CostsNamed(const CostsByName& by_name) {
  TransferCosts costs;
  for (const auto& [name, cost] : by_name) {
    costs.*Named(kCosts, name,
                 "a cost is \"copy_ns_per_kib\", \"link_ns_per_kib\", \"member_ns\", \"row_ns\" "
                 "or \"sum_ns\"") = cost;
  }
  return costs;
}

CostsByName LoadCosts(const std::string& path) {
  const TransferCosts costs = Unlocked([&] { return TransferCosts::Load(path); });
  CostsByName by_name;
  for (const auto& [name, cost] : kCosts) by_name[name] = costs.*cost;
  return by_name;
}

/// Two functions of Python's, for the memory of slots. Called without Python's lock, from any
/// thread.
class PythonMemory {
 public:
  PythonMemory(nb::handle allocate, nb::handle free)
      : allocate_(Hold(allocate)), free_(Hold(free)) {}

  Status Allocate(int device, std::size_t bytes, DeviceStream stream, std::byte** data) const {
    return Ask(StatusCode::kResourceExhausted, [&] {
      const nb::object address = allocate_->Get()(device, bytes, Number(stream.handle));
      *data = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(address));
    });
  }
  Status Free(int device, const std::byte* data, std::size_t bytes, DeviceStream stream) const {
    if (!Py_IsInitialized()) return {};  // it ends with the process
    return Ask(StatusCode::kInternal,
               [&] { free_->Get()(device, Number(data), bytes, Number(stream.handle)); });
  }

 private:
  static std::uintptr_t Number(const void* handle) {
    return reinterpret_cast<std::uintptr_t>(handle);
  }
  template <typename Call>
  static Status Ask(StatusCode code, Call&& call) {
    const GilHeld lock;
    try {
      InPython(call);
      return {};
    } catch (const std::exception& raised) {
      return Status(code, raised.what());
    }
  }

  const std::shared_ptr<HeldObject> allocate_;
  const std::shared_ptr<HeldObject> free_;
};

SlotAllocator AllocatorOf(nb::handle functions) {
  if (functions.is_none()) return {};
  const auto memory = std::make_shared<PythonMemory>(functions[0], functions[1]);
  return {[memory](int device, std::size_t bytes, DeviceStream stream, std::byte** data) {
            return memory->Allocate(device, bytes, stream, data);
          },
          [memory](int device, std::byte* data, std::size_t bytes, DeviceStream stream) {
            return memory->Free(device, data, bytes, stream);
          }};
}

/// Sets the stage, and returns `input` with what its function throws.
ReaderHandle SetStage(const ReaderHandle& input, nb::handle function,
                      const std::vector<OutputTuple>& outputs, FeedOptions* options) {
  if (function.is_none()) return input;
  std::vector<StageOutput> made;
  for (const auto& [name, dtype, row] : outputs) made.push_back({DTypeNamed(dtype), row});
  const auto keeper = std::make_shared<ThrownKeeper>();
  options->stage = StageOf(function, std::move(made), keeper);
  return input.On(input.reader(), keeper);
}

// Returns the reason for "auto".
std::string OpenBackend(const std::string& kind, FeedOptions* options) {
  const GilReleased unlocked;  // a driver may be loaded
  if (kind != "auto") {
    options->backend = OpenDevices(kind);
    return "";
  }
  AutoDevices taken = OpenAutoDevices(std::max(2, FindRank().local_world_size));
  options->backend = std::move(taken.backend);
  return std::move(taken.reason);
}

void MakeFeed(DeviceFeedHandle* self, const ReaderHandle& input, const std::string& kind,
              const std::vector<int>& devices, std::size_t slots, const std::string& distribution,
              const std::string& last_step, std::size_t slot_bytes, bool fixed_slots,
              const std::vector<NormalizeTuple>& normalize, const std::vector<WidenTuple>& widen,
              const std::vector<PadTuple>& pad, std::uintptr_t stream, std::int64_t patience_ms,
              const std::string& transfer, const CostsByName& costs, const std::string& tuned_for,
              std::size_t replicas, std::size_t waiting_batches, bool high_priority,
              nb::object memory, nb::object stage, const std::vector<OutputTuple>& outputs,
              const std::vector<std::size_t>& host_fields) {
  FeedOptions options;
  options.devices = devices;
  options.slots = slots;
  options.distribution = DistributionNamed(distribution);
  options.last_step = LastStepNamed(last_step);
  options.slot_bytes = slot_bytes;
  options.fixed_slots = fixed_slots;
  options.patience_ms = patience_ms;
  options.transforms = TransformsOf(normalize, widen, pad);
  options.transfer = TransferPlanNamed(transfer);
  options.costs = CostsNamed(costs);
  options.tuned_devices = tuned_for;
  options.replicas = replicas;
  options.waiting_batches = waiting_batches;
  options.priority = high_priority ? StreamPriority::kHigh : StreamPriority::kNormal;
  options.slot_allocator = AllocatorOf(memory);
  options.host_fields = host_fields;
  ReaderHandle fed = SetStage(input, stage, outputs, &options);
  std::vector<SlotSpec> slots_of_stage;
  for (const auto& [name, dtype, row] : outputs) {
    slots_of_stage.push_back({name, DTypeNamed(dtype), row});
    slots_of_stage.back().dims.insert(slots_of_stage.back().dims.begin(), -1);
  }
  std::string reason = OpenBackend(kind, &options);
  new (self) DeviceFeedHandle(std::move(fed), std::move(options), std::move(slots_of_stage),
                              std::move(reason), {reinterpret_cast<void*>(stream)});
}

nb::object NextIn(DeviceFeedHandle& handle, std::optional<std::size_t> device,
                  const BatchForm& form) {
  nb::object batch = handle.NextAs(device, form);
  if (!batch.is_valid()) throw nb::stop_iteration();
  return batch;
}

nb::object PartOf(const DeviceFeedHandle& handle, std::optional<std::size_t> device) {
  const auto last = handle.LastPart(device);
  if (!last) return nb::none();
  return nb::make_tuple(last->device, last->rows, last->valid_rows, last->slot, last->generation);
}

nb::dict StatsOf(const DeviceFeedHandle& handle) {
  Reader& reader = handle.input().reader();
  PipelineStats pipeline;
  {
    const GilReleased unlocked;
    pipeline = reader.Stats();
  }
  nb::dict dict = StatsDict(pipeline);
  const std::optional<FeedStats> stats = handle.Stats();
  if (!stats) return dict;
  nb::list devices;
  for (const DeviceFeedStats& device : stats->devices) {
    nb::dict entry;
    entry["device"] = device.device;
    entry["kind"] = handle.kind();
    entry["slots"] = device.slots;
    entry["batches"] = device.batches;
    entry["copied_bytes"] = device.copied_bytes;
    entry["delivered_bytes"] = device.delivered_bytes;
    entry["packed_bytes"] = device.packed_bytes;
    entry["transfer"] = std::string(TransferPlanName(device.transfer));
    entry["transfer_reason"] = device.transfer_reason;
    entry["member_bytes"] = device.member_bytes;
    entry["slab_bytes"] = device.slab_bytes;
    entry["direct_bytes"] = device.direct_bytes;
    entry["unpinned_bytes"] = device.unpinned_bytes;
    entry["grown_slots"] = device.grown_slots;
    entry["slot_bytes"] = device.slot_bytes;
    entry["wait_s"] = device.wait_s;
    entry["step_waits"] = StepWaitsDict(device.step_waits);
    devices.append(entry);
  }
  dict["devices"] = devices;
  dict["devices_reason"] = handle.devices_reason();
  dict["dropped_rows"] = stats->dropped_rows;
  dict["repeated_rows"] = stats->repeated_rows;
  dict["pinning"] = stats->pinning;
  return dict;
}

std::vector<SlotTuple> SlotsOf(const DeviceFeedHandle& handle) {
  std::vector<SlotTuple> slots;
  Reader& reader = handle.input().reader();
  const GilReleased unlocked;
  for (const SlotSpec& slot : reader.slots()) {
    slots.emplace_back(slot.name, DTypeName(slot.dtype), slot.dims, slot.lod_levels);
  }
  for (const SlotSpec& slot : handle.outputs()) {
    slots.emplace_back(slot.name, DTypeName(slot.dtype), slot.dims, slot.lod_levels);
  }
  if (handle.masked()) {
    const auto is_mask = [](const SlotTuple& slot) { return std::get<0>(slot) == kMaskName; };
    if (std::ranges::any_of(slots, is_mask)) {
      throw Error(Status(StatusCode::kInvalidArgument,
                         "the batches have a field \"mask\" already, and last_step=\"pad\" makes "
                         "one: rename it, or take another last_step (\"short\" with pad=True)"));
    }
    slots.emplace_back(kMaskName, DTypeName(DType::kUInt8), std::vector<std::int64_t>{-1}, 0);
  }
  return slots;
}

// Position and moves to other positions.
void BindPlaces(nb::class_<DeviceFeedHandle>* type) {
  type->def("reset", &DeviceFeedHandle::Reset, "Starts again at the first pass.")
      .def("position", &DeviceFeedHandle::Position,
           "After the last batch of which all parts were handed out, as Reader.position.")
      .def("restore", &DeviceFeedHandle::Restore, nb::arg("position"), "As Reader.restore.")
      .def("seek_to", &DeviceFeedHandle::SeekTo, nb::arg("batch"), "As Reader.seek_to.");
}

}  // namespace

void BindDeviceFeed(nb::module_& module) {
  nb::class_<DeviceFeedHandle> type(
      module, "DeviceFeed",
      "Batches of a chain on devices, ahead of the loop. The chain is "
      "its own from now on. Nothing runs before the first batch.");
  type.def("__init__", &MakeFeed, nb::arg("input"), nb::kw_only(), nb::arg("kind"),
           nb::arg("devices"), nb::arg("slots"), nb::arg("distribution"), nb::arg("last_step"),
           nb::arg("slot_bytes"), nb::arg("fixed_slots"), nb::arg("normalize"), nb::arg("widen"),
           nb::arg("pad"), nb::arg("stream"), nb::arg("patience_ms"), nb::arg("transfer"),
           nb::arg("costs"), nb::arg("tuned_for"), nb::arg("replicas") = 0,
           nb::arg("waiting_batches") = 2, nb::arg("high_priority") = true,
           nb::arg("memory") = nb::none(), nb::arg("stage") = nb::none(),
           nb::arg("outputs") = std::vector<OutputTuple>(),
           nb::arg("host_fields") = std::vector<std::size_t>())
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> DeviceFeed"))
      .def(
          "__next__", [](DeviceFeedHandle& h) { return NextIn(h, std::nullopt, BatchForm()); },
          nb::sig("def __next__(self) -> tuple[Array, ...]"),
          "The next batch, of all devices in their turn. Raises as Reader's, and DeviceLost.")
      .def(
          "next_dict",
          [](DeviceFeedHandle& h, const nb::tuple& names, std::optional<std::size_t> device) {
            return NextIn(h, device, BatchForm(names));
          },
          nb::arg("names"), nb::arg("device") = nb::none(),
          nb::sig("def next_dict(self, names: tuple[str, ...], device: int | None = None) -> "
                  "dict[str, Array]"),
          "The next batch, of all devices in their turn or of one, by its place in their list.")
      .def(
          "next_tuple",
          [](DeviceFeedHandle& h, std::size_t device) { return NextIn(h, device, BatchForm()); },
          nb::sig("def next_tuple(self, device: int) -> tuple[Array, ...]"),
          "The next batch of one device.")
      .def(
          "origin", [](const DeviceFeedHandle& h) { return OriginDict(h.Furthest()); },
          nb::sig("def origin(self) -> dict[str, typing.Any] | None"),
          "As Reader.origin, of the furthest batch that was handed out.")
      .def("has_next", &DeviceFeedHandle::HasNext, "As Reader.has_next; while no loop reads.")
      .def_prop_ro(
          "endless", [](const DeviceFeedHandle& h) { return h.input().endless(); },
          "As Reader.endless.")
      .def("part", &PartOf, nb::arg("device") = nb::none(),
           nb::sig("def part(self, device: int | None = None) -> "
                   "tuple[int, int, int, int, int] | None"),
           "Of the batch that was handed out last, or of a device's last one: its device, rows, "
           "valid rows (the rows after them are repeated ones), slot and generation.")
      .def_prop_ro("slots", &SlotsOf, "(name, dtype, dims, levels of LoD) of each field")
      .def_prop_ro(
          "devices", [](DeviceFeedHandle& h) { return h.feed().devices(); },
          "The devices' numbers. Starts the feed.")
      .def_prop_ro(
          "kind", [](const DeviceFeedHandle& h) { return h.kind(); },
          "The devices' kind: \"cuda\", \"emu\"")
      .def_prop_ro(
          "devices_reason", [](const DeviceFeedHandle& h) { return h.devices_reason(); },
          "Which devices \"auto\" took, and why; else empty")
      .def_prop_ro("input", &DeviceFeedHandle::input, nb::rv_policy::reference_internal,
                   "The chain that it feeds from, for questions about its order: nobody else may "
                   "read it.")
      .def("stats", &StatsOf, nb::sig("def stats(self) -> dict[str, typing.Any]"),
           "As Reader.stats, and what each of the devices got.")
      .def("close", &DeviceFeedHandle::Close, "Ends the threads. More calls do nothing.");
  BindPlaces(&type);
  module.def("load_transfer_costs", &LoadCosts, nb::arg("path"),
             "The costs in a file that `ringfeed bench --gpu --costs-out` wrote, by their names.");
}

}  // namespace ringfeed::python
