#include "python_stage.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "array.h"
#include "held_object.h"
#include "instance_arrays.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

thread_local bool within_stage = false;

struct WithinStage {
  WithinStage() { within_stage = true; }
  ~WithinStage() { within_stage = false; }
};

/// Whoever has it has an Array of the call's, or what was made of one.
using Memory = std::shared_ptr<const std::byte>;

Instance OwnedBy(const Memory& memory, std::span<const Tensor> tensors) {
  Instance owned;
  for (const Tensor& tensor : tensors) {
    owned.push_back(tensor);
    owned.back().owner = memory;
  }
  return owned;
}

nb::tuple OffsetsOf(const Memory& memory, const StageCall& call) {
  nb::list offsets;
  for (std::size_t f = 0; f < call.fields.size(); ++f) {
    const Tensor& field = call.fields[f];
    if (field.lod.empty()) {
      offsets.append(nb::none());
      continue;
    }
    const bool is_on_host = call.offsets[f] == nullptr;
    const std::int64_t* data = is_on_host ? field.lod[0].data() : call.offsets[f];
    const std::size_t count = field.lod[0].size();
    Tensor tensor;
    tensor.dtype = DType::kInt64;
    tensor.shape = {static_cast<std::int64_t>(count)};
    tensor.data = reinterpret_cast<const std::byte*>(data);
    tensor.bytes = count * sizeof(std::int64_t);
    tensor.place = field.place;
    tensor.owner = memory;
    offsets.append(Array(std::move(tensor)));
  }
  return nb::tuple(offsets);
}

}  // namespace

DeviceStage StageOf(nb::handle function, std::vector<StageOutput> outputs,
                    std::shared_ptr<ThrownKeeper> keeper) {
  const auto call_python = [held = Hold(function),
                            keeper = std::move(keeper)](const StageCall& call) -> Status {
    const Memory memory = std::make_shared<std::byte>();
    const WithinStage within;
    CallUser(*keeper, [&] {
      const nb::object stream =
          call.stream ? nb::cast(reinterpret_cast<std::uintptr_t>(call.stream.handle)) : nb::none();
      held->Get()(ArraysOf(OwnedBy(memory, call.fields)), OffsetsOf(memory, call),
                  ArraysOf(OwnedBy(memory, call.outputs)), call.device, stream, call.valid_rows);
    });
    if (memory.use_count() == 1) return {};
    return Status(StatusCode::kUserError,
                  "its function keeps an array of the batch, or what it made of one, beyond the "
                  "call: the memory is written again, so copy what is to stay");
  };
  return {.outputs = std::move(outputs), .enqueue = call_python, .on_host = call_python};
}

void RefuseWithinStage() {
  if (!within_stage) return;
  Raise(Status(StatusCode::kInvalidArgument,
               "a stage calls a feed, which may wait for that stage: read in the loop"));
}

}  // namespace ringfeed::python
