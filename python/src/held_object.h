#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>

namespace ringfeed::python {

/// Keeps a Python object for code that runs without the lock: the thread that drops the last
/// reference takes the lock for that. Python's collector does not see it, so a cycle through it
/// stays until DropHeldObjects. Thread safe.
class HeldObject {
 public:
  /// Takes a reference. Needs the lock.
  explicit HeldObject(nanobind::handle object) : object_(object.inc_ref().ptr()) {}
  ~HeldObject();
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  /// Needs the lock. Throws std::runtime_error after DropHeldObjects.
  nanobind::object Get();
  /// Needs the lock.
  void Drop();

 private:
  std::mutex mutex_;
  PyObject* object_;
};

/// Call it with the lock.
std::shared_ptr<HeldObject> Hold(nanobind::handle object);

/// At exit, after the last call of them: drops all of them. Needs the lock.
void DropHeldObjects();

}  // namespace ringfeed::python
