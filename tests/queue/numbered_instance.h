#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ringfeed/slot.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The slots of Numbered: a number, and two words of one sequence.
inline std::vector<SlotSpec> NumberSlots() {
  return {{"number", kInt64, {1}, 0}, {"words", kInt64, {2}, 1}};
}

/// An instance that tells its number; both tensors share one owner.
inline Instance Numbered(std::int64_t number) {
  struct Content {
    std::int64_t values[3];
    std::int64_t ends[2] = {0, 2};
  };
  const auto content = std::make_shared<const Content>(Content{{number, -number, number + 1}});
  const auto bytes = [](const std::int64_t* at) { return reinterpret_cast<const std::byte*>(at); };
  Instance instance(2);
  instance[0] = {kInt64, {1}, bytes(content->values), 8, {}, content};
  instance[1] = {kInt64, {2}, bytes(content->values + 1), 16, {content->ends}, content};
  return instance;
}

/// The number of an instance, -1 where its tensors do not belong together.
inline std::int64_t NumberOf(const Instance& instance) {
  const std::int64_t number = instance.at(0).Values<std::int64_t>()[0];
  const auto words = instance.at(1).Values<std::int64_t>();
  return words[0] == -number && words[1] == number + 1 ? number : -1;
}

}  // namespace ringfeed
