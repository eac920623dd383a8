#include "readers/engine/sources/kept_mappings.h"

#include <utility>

#include "io/file_mapping.h"

namespace ringfeed {

void KeptMappings::Note(const InputFile& file) {
  std::shared_ptr<const FileMapping> mapping = file.mapped();
  const bool keeps = mapping != nullptr && FileMapping::Count() <= kMost;
  std::shared_ptr<const FileMapping> replaced;  // unmapped after the lock is given back
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(file.name());
  if (found != by_name_.end()) {
    replaced = std::exchange(found->second, std::move(mapping));
    if (found->second == nullptr) by_name_.erase(found);
  } else if (keeps) {
    by_name_.emplace(file.name(), std::move(mapping));
  }
}

void KeptMappings::Clear() {
  std::unordered_map<std::string, std::shared_ptr<const FileMapping>> all;
  const std::lock_guard lock(mutex_);
  all.swap(by_name_);
}

}  // namespace ringfeed
