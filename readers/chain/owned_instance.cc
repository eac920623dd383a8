#include "readers/chain/owned_instance.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

void OwnMemoryOf(Tensor* tensor) {
  struct Copy {
    std::vector<std::byte> values;
    std::vector<std::vector<std::int64_t>> levels;
  };
  auto copy = std::make_shared<Copy>();
  copy->values.assign(tensor->data, tensor->data + tensor->bytes);
  for (auto& level : tensor->lod) {
    copy->levels.emplace_back(level.begin(), level.end());
    level = copy->levels.back();  // its memory stays where it is when the outer vector grows
  }
  tensor->data = copy->values.data();
  tensor->owner = std::move(copy);
}

}  // namespace

void OwnMemory(Instance* instance) {
  std::for_each(instance->begin(), instance->end(), [](Tensor& each) { OwnMemoryOf(&each); });
}

}  // namespace ringfeed
