#include "ringfeed/instance.h"

#include <algorithm>
#include <numeric>

#include "base/edit_distance.h"
#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostNamed = 10;  // names in a message

}  // namespace

FieldNames::FieldNames(std::vector<std::string> names)
    : names_(std::move(names)), sorted_(names_.size()) {
  std::iota(sorted_.begin(), sorted_.end(), std::uint32_t{0});
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return names_[a] < names_[b]; });
}

std::optional<std::size_t> FieldNames::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), name,
      [this](std::uint32_t field, std::string_view sought) { return names_[field] < sought; });
  if (found == sorted_.end() || names_[*found] != name) return std::nullopt;
  return *found;
}

std::string FieldNames::NearestFirst(std::string_view name) const {
  std::vector<std::pair<std::size_t, std::string_view>> by_distance;
  for (const std::string& each : names_) by_distance.emplace_back(EditDistance(name, each), each);
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(by_distance.size(), kMostNamed); ++i) {
    text.append(i == 0 ? "\"" : ", \"").append(by_distance[i].second).append("\"");
  }
  if (by_distance.size() <= kMostNamed) return text;
  return text + " and " + std::to_string(by_distance.size() - kMostNamed) + " more";
}

const Tensor* Instance::Find(std::string_view name) const& {
  if (names_ == nullptr) return nullptr;
  const std::optional<std::size_t> field = names_->Find(name);
  return field && *field < tensors_.size() ? &tensors_[*field] : nullptr;
}

std::int64_t Instance::Rows() const {
  if (tensors_.empty()) return 0;
  const Tensor& first = tensors_.front();
  if (is_record_) return 1;
  if (!first.lod.empty()) {
    return first.lod[0].empty() ? 0 : static_cast<std::int64_t>(first.lod[0].size()) - 1;
  }
  return first.shape.empty() ? 1 : first.shape[0];
}

std::size_t Instance::NumberOf(std::string_view name) const {
  if (const Tensor* const found = Find(name)) {
    return static_cast<std::size_t>(found - tensors_.data());
  }
  const std::string sought = "there is no field \"" + std::string(name) + "\"";
  Refuse(StatusCode::kNotFound,
         names_ == nullptr || names_->names().empty()
             ? sought + ": the instance has no names, take its tensors by number"
             : sought + ", there are " + names_->NearestFirst(name));
}

void Instance::RefuseNumber(std::size_t field) const {
  Refuse("there is no field " + std::to_string(field) + ": the instance has " +
         std::to_string(tensors_.size()) + ", the first is 0");
}

}  // namespace ringfeed
