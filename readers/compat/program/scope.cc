#include "ringfeed/compat/scope.h"

#include <utility>

#include "base/refuse.h"
#include "base/type_name.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

[[noreturn]] void RefuseType(const std::string& name, std::type_index held,
                             std::type_index wanted) {
  Refuse("the variable \"" + name + "\" is a " + TypeName(held) + ", not a " + TypeName(wanted));
}

}  // namespace

void ReaderHolder::Reset(Reader reader) {
  // The old reader is released after the lock: its end may wait for its threads.
  const std::lock_guard lock(mutex_);
  std::swap(reader_, reader);
}

bool ReaderHolder::empty() const {
  const std::lock_guard lock(mutex_);
  return !reader_;
}

Reader ReaderHolder::Get() const {
  const std::lock_guard lock(mutex_);
  if (!reader_) Refuse("the holder has no reader: Reset gives it one, or a program's startup");
  return reader_;
}

bool Scope::Has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return variables_.contains(name);
}

std::vector<std::string> Scope::Names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables_) names.push_back(name);
  return names;
}

void Scope::Add(const std::string& name, const std::type_info& type, std::shared_ptr<void> value) {
  if (value == nullptr) Refuse("the variable \"" + name + "\" is null");
  const std::lock_guard lock(mutex_);
  if (variables_.emplace(name, Variable{type, std::move(value)}).second) return;
  Refuse("there is a variable \"" + name + "\" already: take another name");
}

void* Scope::FindOrMake(const std::string& name, const std::type_info& type, const Maker& make) {
  const std::lock_guard lock(mutex_);
  auto found = variables_.find(name);
  if (found == variables_.end()) found = variables_.emplace(name, Variable{type, make()}).first;
  if (found->second.type != type) RefuseType(name, found->second.type, type);
  return found->second.value.get();
}

std::shared_ptr<void> Scope::FindOrThrow(const std::string& name,
                                         const std::type_info& type) const {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    Refuse(StatusCode::kNotFound,
           "there is no variable \"" + name + "\", expected a " + TypeName(type));
  }
  if (found->second.type != type) RefuseType(name, found->second.type, type);
  return found->second.value;
}

void* Scope::FindOrNull(const std::string& name, const std::type_info& type) const {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(name);
  const bool fits = found != variables_.end() && found->second.type == type;
  return fits ? found->second.value.get() : nullptr;
}

}  // namespace ringfeed
