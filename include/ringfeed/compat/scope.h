#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// A place in a Scope that holds one reader, or none yet. May be used by several threads.
class ReaderHolder {
 public:
  /// Holds `reader` from now on, and drops the one before.
  void Reset(Reader reader);
  /// Holds none.
  void Clear() { Reset(Reader()); }
  bool empty() const;
  /// The reader: a handle, copies are the same. Throws Error if there is none.
  Reader Get() const;

  // The reader's own calls; each throws Error if there is none.
  Instance ReadNext() { return Get().ReadNext(); }
  ReadResult TryReadNext(Instance* instance, const ReadOptions& options = {}) {
    return Get().TryReadNext(instance, options);
  }
  bool HasNext() { return Get().HasNext(); }
  void ReInit() { Get().ReInit(); }
  /// Starts all chains that the reader belongs to again, at all their end points.
  void ResetAll() { Get().ResetAll(); }
  std::vector<Shape> shapes() const { return Get().shapes(); }

 private:
  mutable std::mutex mutex_;  ///< guards reader_
  Reader reader_;
};

/// Variables by name, each of one type for its life: readers (as ReaderHolder), queues, tensors,
/// counters, whatever a program uses. A variable keeps its address until the scope's end. Finding
/// and creating may be done by several threads at once; what the variables do is their types' own.
class Scope {
 public:
  Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The variable of that name; if there is none, a new T. Throws Error(kInvalidArgument) if
  /// it is of another type.
  template <typename T>
  T& Var(const std::string& name) {
    return *static_cast<T*>(FindOrMake(name, typeid(T), [] { return std::make_shared<T>(); }));
  }
  /// The variable of that name. Throws Error: kNotFound if there is none, kInvalidArgument if
  /// it is of another type.
  template <typename T>
  T& Get(const std::string& name) const {
    return *Shared<T>(name);
  }
  /// Makes the variable of that name of `value`, which the scope shares with its other owners.
  /// Throws Error(kInvalidArgument) for null and if there is a variable of that name.
  template <typename T>
  void Put(const std::string& name, std::shared_ptr<T> value) {
    Add(name, typeid(T), std::move(value));
  }
  /// As Get, but the pointer keeps the variable alive beyond the scope's end.
  template <typename T>
  std::shared_ptr<T> Shared(const std::string& name) const {
    return std::static_pointer_cast<T>(FindOrThrow(name, typeid(T)));
  }
  /// The variable of that name; null if there is none of that name and type.
  template <typename T>
  T* Find(const std::string& name) const {
    return static_cast<T*>(FindOrNull(name, typeid(T)));
  }
  /// Whether there is a variable of that name, of any type.
  bool Has(const std::string& name) const;
  /// The names of all variables, sorted.
  std::vector<std::string> Names() const;

 private:
  struct Variable {
    std::type_index type;
    std::shared_ptr<void> value;
  };
  using Maker = std::function<std::shared_ptr<void>()>;

  void Add(const std::string& name, const std::type_info& type, std::shared_ptr<void> value);
  void* FindOrMake(const std::string& name, const std::type_info& type, const Maker& make);
  std::shared_ptr<void> FindOrThrow(const std::string& name, const std::type_info& type) const;
  void* FindOrNull(const std::string& name, const std::type_info& type) const;

  mutable std::mutex mutex_;  ///< guards variables_
  std::map<std::string, Variable> variables_;
};

}  // namespace ringfeed
