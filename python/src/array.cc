#include "array.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gil.h"
#include "ringfeed/export/cuda_array_interface.h"
#include "ringfeed/export/dlpack.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

nb::tuple TupleOf(std::span<const std::int64_t> values) {
  nb::list list;
  for (const std::int64_t value : values) list.append(value);
  return nb::tuple(list);
}

void DeleteUnused(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kCapsuleName) != 0) {
    auto* managed =
        static_cast<dlpack::DLManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kCapsuleName));
    managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, dlpack::kVersionedCapsuleName) != 0) {
    auto* managed = static_cast<dlpack::DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule, dlpack::kVersionedCapsuleName));
    managed->deleter(managed);
  }
}

// Makes the consumer's stream wait for a device's array, and later the memory for that stream. Host
// memory has no streams: None, or -1 for no wait.
void MakeReadyOn(nb::handle stream, const Array& array) {
  std::int64_t number = 0;
  const bool is_number = nb::try_cast(stream, number, false);
  if (array.tensor().place.type != DeviceType::kCuda) {
    if (stream.is_none() || (is_number && number == SharedLease::kNoWait)) return;
    throw nb::buffer_error("an array in host memory is given to no stream");
  }
  if (!is_number && !stream.is_none()) throw nb::type_error("a stream is a number, or None");
  if (array.lease() == nullptr) return;  // it is ready
  try {
    const GilReleased unlocked;
    array.lease()->UseOnNumbered(is_number ? std::optional(number) : std::nullopt);
  } catch (const Error& error) {
    throw nb::buffer_error(error.what());
  }
}

// What the consumer's work must come after; see SharedLease::InterfaceStream. None: the data are
// ready, and do not change.
std::optional<std::uintptr_t> InterfaceStream(const Array& array) {
  if (array.lease() == nullptr || array.tensor().place.type != DeviceType::kCuda) {
    return std::nullopt;
  }
  const GilReleased unlocked;
  return static_cast<std::uintptr_t>(array.lease()->InterfaceStream(array.told_stream()));
}

// A check whether an array has it (hasattr) gets no, without an exception.
nb::dict ArrayInterface(const Array& array) {
  const Tensor& tensor = array.tensor();
  nb::dict interface;
  try {
    array.NeedHost();
    interface["typestr"] = array.TypeString();
  } catch (const nb::builtin_exception& error) {
    throw nb::attribute_error(error.what());
  }
  interface["version"] = 3;
  interface["shape"] = TupleOf(tensor.shape);
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data), false);
  return interface;
}

// NumPy tries this last. Without it, NumPy would take an array that it cannot read for one Python
// object.
nb::object ArrayOfNumpy(nb::handle self, nb::handle dtype, nb::handle copy) {
  const auto& array = nb::cast<const Array&>(self);
  array.NeedHost();
  (void)array.TypeString();
  return nb::module_::import_("numpy").attr("array")(self, nb::arg("dtype") = dtype,
                                                     nb::arg("copy") = copy);
}

nb::dict CudaInterface(const Array& array) {
  CudaArrayInterface described;
  const Status status = DescribeCudaArray(array.tensor(), InterfaceStream(array), &described);
  if (!status.ok()) throw nb::attribute_error(status.message().c_str());
  nb::dict interface;
  interface["version"] = described.version;
  interface["shape"] = TupleOf(described.shape);
  interface["typestr"] = described.typestr;
  interface["data"] = nb::make_tuple(described.data, false);
  interface["stream"] = described.stream ? nb::cast(*described.stream) : nb::none();
  return interface;
}

Array LodLevel(const Array& array, std::size_t number) {
  const Tensor& tensor = array.tensor();
  const std::span<const std::int64_t> offsets = tensor.lod[number];
  Tensor level;
  level.dtype = DType::kInt64;
  level.shape = {static_cast<std::int64_t>(offsets.size())};
  level.data = reinterpret_cast<const std::byte*>(offsets.data());
  level.bytes = offsets.size_bytes();
  level.owner = tensor.owner;
  return array.HostViewOf(std::move(level));
}

nb::list Lod(const Array& array) {
  nb::list levels;
  for (std::size_t i = 0; i < array.tensor().lod.size(); ++i) levels.append(LodLevel(array, i));
  return levels;
}

const char* BufferFormat(DType dtype) {
  static constexpr const char* kFormats[] = {"?", "B", "b", "H",     "h", "I", "i",
                                             "Q", "q", "e", nullptr, "f", "d"};
  return kFormats[static_cast<std::size_t>(dtype)];
}

constexpr const char* kForked =
    "this process was forked, and the memory of the batch is its parent's: hand over a copy "
    "(array.copy())";

// The arrays that a Py_buffer points to.
struct BufferShape {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

// Whether C order and Fortran order are the same: at most one dimension has several elements.
bool IsInEitherOrder(const Shape& shape) {
  const auto several = [](std::int64_t dim) { return dim != 1; };
  return ShapeElements(shape) == 0 || std::ranges::count_if(shape, several) <= 1;
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;  // for a failure
  const Array* array = nullptr;
  if (!nb::try_cast(nb::handle(self), array) || array == nullptr) {
    PyErr_SetString(PyExc_BufferError, "this Array was not made yet");
    return -1;
  }
  const Tensor& tensor = array->tensor();
  const char* format = BufferFormat(tensor.dtype);
  if (!array->IsHere()) {
    PyErr_SetString(PyExc_RuntimeError, kForked);
    return -1;
  }
  if (tensor.place.type == DeviceType::kCuda || format == nullptr) {
    PyErr_SetString(PyExc_BufferError, "this array's memory or type has no buffer: use DLPack");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !IsInEitherOrder(tensor.shape)) {
    PyErr_SetString(PyExc_BufferError, "this array is in C order, not in Fortran's: copy it");
    return -1;
  }
  auto* dims = new BufferShape;
  dims->shape.assign(tensor.shape.begin(), tensor.shape.end());
  dims->strides.resize(dims->shape.size());
  const auto item = static_cast<Py_ssize_t>(DTypeBytes(tensor.dtype));
  Py_ssize_t stride = item;
  for (std::size_t i = dims->shape.size(); i-- > 0; stride *= dims->shape[i]) {
    dims->strides[i] = stride;
  }
  view->buf = const_cast<std::byte*>(tensor.data);
  view->obj = nb::handle(self).inc_ref().ptr();
  view->len = static_cast<Py_ssize_t>(tensor.bytes);
  view->itemsize = item;
  view->readonly = 0;
  view->ndim = static_cast<int>(dims->shape.size());
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? dims->shape.data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = dims;
  return 0;
}

void ReleaseBuffer(PyObject*, Py_buffer* view) { delete static_cast<BufferShape*>(view->internal); }

PyType_Slot array_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&ReleaseBuffer)},
    {0, nullptr},
};

bool InCOrder(const nb::ndarray<>& array) {
  if (array.size() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

// Its elements one after another, in C order.
void CopyStrided(const nb::ndarray<>& array, std::size_t dim, const std::byte* from,
                 std::size_t item, std::byte** to) {
  const std::int64_t step = array.stride(dim) * static_cast<std::int64_t>(item);
  for (std::size_t i = 0; i < array.shape(dim); ++i, from += step) {
    if (dim + 1 < array.ndim()) {
      CopyStrided(array, dim + 1, from, item, to);
    } else {
      std::memcpy(*to, from, item);
      *to += item;
    }
  }
}

Tensor DescribeInput(const nb::ndarray<>& array) {
  const nb::dlpack::dtype type = array.dtype();
  const auto dtype = dlpack::DTypeOf({type.code, type.bits, type.lanes});
  if (!dtype) throw nb::type_error("ringfeed has no such dtype");
  Tensor tensor;
  tensor.dtype = *dtype;
  tensor.shape.resize(array.ndim());
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    tensor.shape[i] = static_cast<std::int64_t>(array.shape(i));
  }
  tensor.bytes = static_cast<std::size_t>(ShapeElements(tensor.shape)) * DTypeBytes(*dtype);
  tensor.data = static_cast<const std::byte*>(array.data());
  return tensor;
}

// NumPy's scalars of times export one dimension without the strides, which nanobind reads there.
bool LacksStrides(nb::handle source) {
  Py_buffer view;
  if (PyObject_CheckBuffer(source.ptr()) == 0) return false;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();  // it may have DLPack
    return false;
  }
  const bool lacks = view.ndim > 0 && view.strides == nullptr;
  PyBuffer_Release(&view);
  return lacks;
}

// Read-only memory (bytes, a frozen array) is taken for reading only.
nb::ndarray<> InputOf(nb::handle source, bool* writable) {
  nb::ndarray<nb::device::cpu> array;
  // None: nanobind takes it for a missing array.
  const bool is_no_array = source.is_none() || LacksStrides(source);
  *writable = !is_no_array && nb::try_cast(source, array, false);
  if (*writable) return nb::ndarray<>(array);
  nb::ndarray<nb::ro, nb::device::cpu> frozen;
  if (is_no_array || !nb::try_cast(source, frozen, false)) {
    throw nb::type_error("an array is needed: what exports a buffer or DLPack of host memory");
  }
  return nb::ndarray<>(frozen);
}

// What Torch's tensors have, and NumPy's arrays do not.
constexpr std::array<std::string_view, 14> kTorchsNames = {
    "to",  "cuda",     "cpu",       "float",   "double",     "half",   "long",
    "int", "backward", "unsqueeze", "permute", "pin_memory", "detach", "is_cuda"};

void RefuseAttribute(const Array& array, const std::string& name) {
  std::string told = "an Array has no attribute '" + name + "'";
  if (!name.starts_with('_')) {
    const bool on_gpu = array.tensor().place.type == DeviceType::kCuda;
    const bool is_torchs = on_gpu || std::ranges::find(kTorchsNames, name) != kTorchsNames.end();
    told += ": it is memory for other packages, so convert it, which copies nothing: ";
    if (!is_torchs) told += "array.numpy()." + name + ", or ";
    told += "torch.from_dlpack(array)." + name;
  }
  throw nb::attribute_error(told.c_str());
}

// How other libraries take an Array.
void BindExchange(nb::class_<Array>* array) {
  array
      ->def(
          "__dlpack__",
          [](const Array& a, nb::handle stream, std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            nb::object capsule = a.Dlpack(max_version, dl_device, copy);
            MakeReadyOn(stream, a);
            return capsule;
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: int | None = None, "
                  "max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, "
                  "copy: bool | None = None) -> typing.Any"),
          "DLPack's capsule. Raises BufferError for a stream if the memory is the host's, for "
          "another device, and for a copy of a device's memory.")
      .def(
          "__dlpack_device__",
          [](const Array& a) {
            const dlpack::DLDevice device = dlpack::DeviceOf(a.tensor().place);
            return std::pair<int, int>(device.device_type, device.device_id);
          },
          "DLPack's numbers: (kind, number).")
      .def_prop_ro("__array_interface__", &ArrayInterface,
                   nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"))
      .def("__array__", &ArrayOfNumpy, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) "
                   "-> typing.Any"))
      .def_prop_ro("__cuda_array_interface__", &CudaInterface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"))
      .def("on", &Array::OnStream, nb::arg("stream"), nb::sig("def on(self, stream: int) -> Array"),
           "The same array for work on that stream, as DLPack numbers streams: it waits for the "
           "data, the memory is written again after what is enqueued there until the batch's last "
           "array goes, and __cuda_array_interface__ names it. For those who take arrays by that "
           "interface and compute on a stream that does not wait for the default one. Raises "
           "ValueError for a number below 1, BufferError if the memory is the host's.")
      .def(
          "numpy",
          [](nb::handle self) { return nb::module_::import_("numpy").attr("asarray")(self); },
          nb::sig("def numpy(self) -> typing.Any"),
          "As a NumPy array that shares the memory. Raises TypeError for a device's memory and for "
          "bfloat16.")
      .def(
          "tobytes",
          [](const Array& a) {
            a.NeedHost();
            return nb::bytes(a.tensor().data, a.tensor().bytes);
          },
          "A copy of the elements in C order. Raises TypeError for a device's memory.");
}

}  // namespace

nb::object Array::Dlpack(std::optional<std::pair<int, int>> max_version,
                         std::optional<std::pair<int, int>> device,
                         std::optional<bool> copy) const {
  NeedHere();
  const dlpack::DLDevice here = dlpack::DeviceOf(tensor_.place);
  if (device && *device != std::pair<int, int>(here.device_type, here.device_id)) {
    throw nb::buffer_error("the array does not lie on that device, and is copied to no other");
  }
  Tensor exported = tensor_;
  if (copy.value_or(false)) {
    if (tensor_.place.type == DeviceType::kCuda) {
      throw nb::buffer_error("ringfeed copies no device's memory: copy what you took of it");
    }
    const GilReleased unlocked;
    exported = CopyOf(tensor_);
  }
  if (max_version && max_version->first >= 1) {
    auto* managed = dlpack::ExportVersioned(exported, {.read_only = false});
    if (copy.value_or(false)) managed->flags |= dlpack::kIsCopiedFlag;
    return nb::steal(PyCapsule_New(managed, dlpack::kVersionedCapsuleName, &DeleteUnused));
  }
  auto* managed = dlpack::ExportUnversioned(exported, {.read_only = false});
  return nb::steal(PyCapsule_New(managed, dlpack::kCapsuleName, &DeleteUnused));
}

std::optional<Array> Array::Offsets() const {
  if (tensor_.lod.empty()) return std::nullopt;
  if (lease_ == nullptr) return LodLevel(*this, 0);
  std::optional<Tensor> offsets = lease_->Offsets(field_);
  if (!offsets) return LodLevel(*this, 0);  // of a field that stays on the host
  return ViewOf(std::move(*offsets));
}

const char* Array::TypeString() const {
  static constexpr const char* kNames[] = {"|b1", "|u1", "|i1", "<u2",   "<i2", "<u4", "<i4",
                                           "<u8", "<i8", "<f2", nullptr, "<f4", "<f8"};
  const char* name = kNames[static_cast<std::size_t>(tensor_.dtype)];
  if (name == nullptr) throw nb::type_error("NumPy has no bfloat16: take it by DLPack");
  return name;
}

void Array::NeedHost() const {
  if (tensor_.place.type == DeviceType::kCuda) {
    throw nb::type_error(("the array lies on " + PlaceName(tensor_.place)).c_str());
  }
  NeedHere();
}

bool Array::IsHere() const { return forks_ == kEveryProcess || forks_ == ForkCount(); }

void Array::NeedHere() const {
  if (!IsHere()) throw std::runtime_error(kForked);
}

Array Array::OnStream(std::int64_t stream) const {
  if (stream < 1) {
    throw nb::value_error("a stream is 1 (CUDA's default), 2 (the thread's own) or its handle");
  }
  MakeReadyOn(nb::int_(stream), *this);
  Array told = *this;
  told.told_stream_ = stream;
  return told;
}

Array Array::ViewOf(Tensor part) const {
  Array view(std::move(part), lease_);
  view.told_stream_ = told_stream_;
  view.forks_ = forks_;
  return view;
}

Array Array::HostViewOf(Tensor part) const {
  Array view = ViewOf(std::move(part));
  view.lease_ = nullptr;
  return view;
}

Array Array::OfOwnMemory(Tensor tensor) {
  Array array(std::move(tensor));
  array.forks_ = kEveryProcess;
  return array;
}

std::shared_ptr<std::byte> NewBytes(std::size_t bytes) {
  return std::shared_ptr<std::byte>(new std::byte[bytes == 0 ? 1 : bytes],
                                    std::default_delete<std::byte[]>());
}

Tensor CopyOf(const Tensor& tensor, const Allocate& allocate) {
  Tensor copy = tensor;
  const std::shared_ptr<std::byte> bytes = allocate(tensor.bytes);
  if (tensor.bytes > 0) std::memcpy(bytes.get(), tensor.data, tensor.bytes);
  copy.data = bytes.get();
  copy.owner = bytes;
  copy.lod.clear();
  return copy;
}

Tensor TensorOf(nb::handle source, CopyInput copy, const Allocate& allocate) {
  const Array* array = nullptr;
  if (nb::try_cast(source, array) && array != nullptr) {
    array->NeedHost();
    if (copy != CopyInput::kAlways) return array->tensor();
    const GilReleased unlocked;
    return CopyOf(array->tensor(), allocate);
  }
  bool writable = false;
  const nb::ndarray<> input = InputOf(source, &writable);
  Tensor tensor = DescribeInput(input);
  const bool in_order = InCOrder(input);
  if (copy != CopyInput::kAlways && in_order && writable) {
    // The thread that drops the last reference need not hold the lock.
    tensor.owner = std::shared_ptr<const void>(new nb::ndarray<>(input), [](const void* held) {
      if (!Py_IsInitialized()) return;
      const GilHeld lock;
      delete static_cast<const nb::ndarray<>*>(held);
    });
    return tensor;
  }
  if (copy == CopyInput::kNever) {
    throw nb::value_error(in_order ? "the array is read-only: to share it is unsafe, copy it"
                                   : "the array is not in C order: it must be copied");
  }
  const GilReleased unlocked;
  if (in_order) return CopyOf(tensor, allocate);
  const std::shared_ptr<std::byte> bytes = allocate(tensor.bytes);
  std::byte* to = bytes.get();
  CopyStrided(input, 0, tensor.data, DTypeBytes(tensor.dtype), &to);
  tensor.data = bytes.get();
  tensor.owner = bytes;
  return tensor;
}

void BindArray(nb::module_& module) {
  nb::class_<Array> array(module, "Array", nb::type_slots(array_slots), nb::is_weak_referenceable(),
                          "A tensor of a batch: a view that keeps its memory. numpy.from_dlpack, "
                          "torch.from_dlpack and jax.dlpack.from_dlpack take it without a copy.");
  array
      .def_prop_ro(
          "shape", [](const Array& a) { return TupleOf(a.tensor().shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"),
          "Of a batch's field [rows, …]; of a ragged one [values of all rows, …].")
      .def_prop_ro(
          "dtype", [](const Array& a) { return std::string(DTypeName(a.tensor().dtype)); },
          "Its name: \"float32\", \"uint8\", …")
      .def_prop_ro(
          "nbytes", [](const Array& a) { return a.tensor().bytes; }, "Bytes of all elements.")
      .def_prop_ro(
          "ndim", [](const Array& a) { return a.tensor().shape.size(); }, "Dimensions.")
      .def_prop_ro(
          "device", [](const Array& a) { return PlaceName(a.tensor().place); },
          "Where the memory lies: \"CPU\", \"CUDA:0\", \"EMU:1\" (emulated, in host memory).")
      .def_prop_ro(
          "lod", &Lod, nb::sig("def lod(self) -> list[Array]"),
          "Of a ragged field the offsets of its rows, int64 [rows + 1], a list of one; of "
          "nested sequences a level each, the top one first. Empty for others. In host memory, "
          "also if the values lie on a device: see offsets.")
      .def_prop_ro(
          "offsets", &Array::Offsets,
          "lod[0] in the memory that the values lie in: int64 [rows + 1] on the device of a batch "
          "that lies there. None for fields that are not ragged, or were padded.");
  // Asked only for what there is not.
  array.def("__getattr__", &RefuseAttribute, nb::arg("name"),
            nb::sig("def __getattr__(self, name: str, /) -> typing.NoReturn"));
  BindElements(&array);
  BindExchange(&array);
  BindArrowExchange(&array);
}

}  // namespace ringfeed::python
