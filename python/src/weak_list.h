#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace ringfeed::python {

/// Objects to be handled at exit or at other times, if they still exist then. Thread safe.
template <typename T>
class WeakList {
 public:
  void Note(const std::shared_ptr<T>& object) {
    const std::scoped_lock lock(mutex_);
    if (objects_.size() >= sweep_at_) {
      std::erase_if(objects_, [](const auto& noted) { return noted.expired(); });
      sweep_at_ = 2 * objects_.size() + 64;
    }
    objects_.push_back(object);
  }

  /// Calls it for each that still exists.
  template <typename Function>
  void ForEach(Function&& function) {
    std::vector<std::weak_ptr<T>> objects;
    {
      const std::scoped_lock lock(mutex_);
      objects = objects_;
    }
    for (const std::weak_ptr<T>& noted : objects) {
      if (const std::shared_ptr<T> object = noted.lock()) function(*object);
    }
  }

  /// The same; empties the list.
  template <typename Function>
  void TakeEach(Function&& function) {
    std::vector<std::weak_ptr<T>> objects;
    {
      const std::scoped_lock lock(mutex_);
      objects.swap(objects_);
    }
    for (const std::weak_ptr<T>& noted : objects) {
      if (const std::shared_ptr<T> object = noted.lock()) function(*object);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<T>> objects_;
  std::size_t sweep_at_ = 64;  // entries, before those that ended are dropped
};

}  // namespace ringfeed::python
