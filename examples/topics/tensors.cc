// Tensors of values of one's own: made, named, looked at, checked.
//
// Prints:
//   x: float32 [2, 3], 24 bytes on CPU, 6 elements
//   rows of 2 and 1 steps: 0 2 3
//   sentences of words: 2 levels of LoD
//   uint16_t may stand for bfloat16: 1
//   invalid_argument: slot 1 "label": expected int64[], found int32[]
//   nearest to "lable": "label"
#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>

#include "ringfeed/ringfeed.h"
#include "ringfeed/slot.h"

namespace rf = ringfeed;

void Describe(const std::string& name, const rf::Tensor& tensor) {
  std::cout << name << ": " << rf::DTypeName(tensor.dtype) << " " << rf::ShapeToString(tensor.shape)
            << ", " << rf::DTypeBytes(tensor.dtype) * tensor.Values<float>().size() << " bytes on "
            << rf::PlaceName(tensor.place) << ", " << rf::ShapeElements(tensor.shape)
            << " elements\n";
}

/// The largest element, whichever of two types the tensor has.
double Largest(const rf::Tensor& tensor) {
  double largest = 0;
  if (rf::IsElementOf<float>(tensor.dtype)) {
    for (const float value : tensor.Values<float>()) largest = std::max<double>(largest, value);
  } else if (rf::IsElementOf<std::int32_t>(tensor.dtype)) {
    for (const int value : tensor.Values<std::int32_t>())
      largest = std::max<double>(largest, value);
  } else {
    rf::RefuseDType(tensor.dtype, rf::DTypeOf<float>());  // throws, with both names
  }
  return largest;
}

int main() try {
  // Values are moved into the tensor. MakeTensorOver takes memory that is there.
  const rf::Tensor x = rf::MakeTensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto memory = std::make_shared<std::array<float, 6>>();
  const rf::Tensor same = rf::MakeTensorOver(x.dtype, x.shape, memory->data(), 6, memory);
  Describe("x", x);
  if (Largest(x) != 6 || Largest(same) != 0) return 1;

  const rf::Tensor rows = rf::MakeRagged(std::vector<std::int64_t>{7, 8, 9}, {2, 1});
  std::cout << "rows of 2 and 1 steps:";
  for (const std::int64_t offset : rows.lod[0]) std::cout << " " << offset;
  const rf::Tensor words = rf::WithLoD(rf::MakeTensor(std::vector<std::int64_t>(5)),
                                       {{0, 2, 3}, rf::OffsetsOf({1, 2, 2})});
  std::cout << "\nsentences of words: " << words.lod.size() << " levels of LoD\n";

  const rf::DType half = rf::DTypeOfName("bfloat16").value();
  std::cout << "uint16_t may stand for bfloat16: " << rf::IsElementOf<std::uint16_t>(half) << "\n";
  const rf::Place gpu = {rf::DeviceType::kCuda, 1};
  if (rf::PlaceOfName("CUDA:1") != gpu) return 1;

  // What a queue or a reader of one's own is to deliver can be declared and checked.
  const std::vector<rf::SlotSpec> slots = {{"x", rf::kFloat32, {-1, 3}}, {"label", rf::kInt64, {}}};
  rf::Instance instance = {x, rf::MakeScalar<std::int32_t>(1)};
  instance.set_names(std::make_shared<rf::FieldNames>(std::vector<std::string>{"x", "label"}));
  if (!rf::CheckTensor(slots[0], instance["x"]).ok()) return 1;
  const rf::Status status = rf::CheckInstance(slots, instance);
  std::cout << rf::StatusCodeName(status.code()) << ": " << status.message() << "\n"
            << "nearest to \"lable\": " << rf::FieldNames({"label"}).NearestFirst("lable") << "\n";
} catch (const rf::Error& error) {
  std::cerr << "tensors: " << error.status().ToString() << "\n";
  return 1;
}
