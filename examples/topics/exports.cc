// Tensors for other libraries without a copy, for whoever writes a binding.
//
// Prints:
//   DLPack 1.2: 2 dimensions, float of 32 bits on device type 1
//   read-only: 1, a copy: 0, in a capsule "dltensor_versioned", then "used_dltensor_versioned"
//   before 1.0: the same memory: 1, in "dltensor", then "used_dltensor"
//   of LibTorch's kind: 3 floats
//   __cuda_array_interface__ of host memory: invalid_argument
//   Arrow: 2 rows of "point" (+w:3) and "text" (Z), the first text is 3 bytes long
//   on device type 1, and a stream of batches: 2 rows, then the end
#include <iostream>

#include "ringfeed/export/arrow_c.h"
#include "ringfeed/export/cuda_array_interface.h"
#include "ringfeed/export/dlpack.h"
#include "ringfeed/export/torch_blob.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;
namespace dlpack = ringfeed::dlpack;

void ForDLPack(const rf::Tensor& tensor) {
  const dlpack::ExportOptions options = {.read_only = true};
  dlpack::DLManagedTensorVersioned* exported = dlpack::ExportVersioned(tensor, options);
  const dlpack::DLPackVersion version = exported->version;
  const dlpack::DLTensor& shown = exported->dl_tensor;
  const dlpack::DLDataType type = shown.dtype;
  std::cout << "DLPack " << version.major << "." << version.minor << ": " << shown.ndim
            << " dimensions, "
            << (type.code == dlpack::DLDataTypeCode::kDLFloat ? "float" : "other") << " of "
            << int{type.bits} << " bits on device type " << shown.device.device_type << "\n";
  if (version.major != dlpack::kMajorVersion || version.minor < dlpack::kMinorVersion)
    throw std::runtime_error("of another version");
  std::cout << "read-only: " << ((exported->flags & dlpack::kReadOnlyFlag) != 0)
            << ", a copy: " << ((exported->flags & dlpack::kIsCopiedFlag) != 0)
            << ", in a capsule \"" << dlpack::kVersionedCapsuleName << "\", then \""
            << dlpack::kUsedVersionedCapsuleName << "\"\n";
  const dlpack::DLDevice cpu = {dlpack::DLDeviceType::kDLCPU, 0};
  if (dlpack::DTypeOf(type) != tensor.dtype || dlpack::DataTypeOf(tensor.dtype) != type ||
      dlpack::DeviceOf(tensor.place) != cpu || dlpack::PlaceOf(cpu) != tensor.place) {
    throw std::runtime_error("types or devices are not those of the tensor");
  }
  dlpack::DLManagedTensor* old = dlpack::ExportUnversioned(tensor);
  std::cout << "before 1.0: the same memory: " << (old->dl_tensor.data == shown.data) << ", in \""
            << dlpack::kCapsuleName << "\", then \"" << dlpack::kUsedCapsuleName << "\"\n";
  old->deleter(old);  // the consumer does it, once
  exported->deleter(exported);
}

/// What pyarrow, Polars or DuckDB would take from here.
void ForArrow(const rf::Instance& batch) {
  ArrowSchema schema;
  ArrowArray array;
  if (!rf::ExportArrow(batch, &schema, &array).ok()) throw std::runtime_error("refused");
  std::cout << "Arrow: " << array.length << " rows of";
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    std::cout << (i == 0 ? "" : " and") << " \"" << schema.children[i]->name << "\" ("
              << schema.children[i]->format << ")";
  }
  const auto* offsets = static_cast<const std::int64_t*>(array.children[1]->buffers[1]);
  std::cout << ", the first text is " << offsets[1] - offsets[0] << " bytes long\n";
  array.release(&array);  // the consumer does it, once; until then the batch's slot is taken
  schema.release(&schema);

  ArrowDeviceArray on_device;  // of a batch on a device: with SharedLease::Offsets of each field
  if (!rf::ExportArrowDevice(batch, {}, &schema, &on_device).ok()) return;
  std::cout << "on device type " << on_device.device_type;
  on_device.array.release(&on_device.array);
  schema.release(&schema);

  ArrowArrayStream stream;
  bool is_first = true;  // of a reader: [&](rf::Instance* next) { return reader.TryReadNext(next)
                         //                    == rf::ReadResult::kRecord; }
  const auto next = [&](rf::Instance* filled) {
    *filled = batch;
    return std::exchange(is_first, false);
  };
  rf::ExportArrowStream(next, &stream);
  stream.get_next(&stream, &array);
  std::cout << ", and a stream of batches: " << array.length << " rows";
  array.release(&array);
  stream.get_next(&stream, &array);
  std::cout << (array.release == nullptr ? ", then the end\n" : ", then more\n");
  stream.release(&stream);
}

/// What TorchBlob needs of LibTorch, by names of one's own: for a library like it.
struct FloatArrays {
  struct Tensor {
    const void* data = nullptr;
    rf::Shape shape;
    std::shared_ptr<void> owner;
  };
  static rf::DType ScalarTypeOf(rf::DType dtype) { return dtype; }
  static int Options(rf::DType, bool, int device) { return device; }
  static Tensor Empty(const rf::Shape& shape, int) { return {nullptr, shape, nullptr}; }
  template <typename Deleter>
  static Tensor FromBlob(void* data, const rf::Shape& shape, Deleter deleter, int) {
    return {data, shape, std::shared_ptr<void>(data, std::move(deleter))};
  }
};

int main() try {
  const rf::Tensor tensor = rf::MakeTensor({1, 3}, std::vector<float>{1, 2, 3});
  ForDLPack(tensor);
  const auto blob = rf::TorchBlobBy<FloatArrays>(tensor);
  std::cout << "of LibTorch's kind: " << rf::ShapeElements(blob.shape) << " floats\n";
  rf::CudaArrayInterface described;  // for a tensor on a CUDA device
  const rf::Status status = rf::DescribeCudaArray(tensor, std::nullopt, &described);
  std::cout << "__cuda_array_interface__ of host memory: " << rf::StatusCodeName(status.code())
            << "\n";
  rf::Instance batch = {rf::MakeTensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                        rf::MakeRagged(std::vector<std::string>{"cat", "horse"})};
  batch.set_names(std::make_shared<rf::FieldNames>(std::vector<std::string>{"point", "text"}));
  ForArrow(batch);
} catch (const std::exception& error) {
  std::cerr << "exports: " << error.what() << "\n";
  return 1;
}
