#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>

namespace ringfeed::python {

/// Keeps a Python object for code that runs without the lock: whoever lets go of it last takes the
/// lock for that. Python's collector does not see it, so what refers to itself by it stays until
/// DropHeldObjects. Thread safe.
class HeldObject {
 public:
  /// Takes a reference. Needs the lock.
  explicit HeldObject(nanobind::handle object) : object_(object.inc_ref().ptr()) {}
  ~HeldObject();
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  /// Needs the lock. Throws std::runtime_error behind DropHeldObjects.
  nanobind::object Get();
  /// Needs the lock.
  void Drop();

 private:
  std::mutex mutex_;
  PyObject* object_;
};

/// To be made with the lock.
std::shared_ptr<HeldObject> Hold(nanobind::handle object);

/// At exit, when nobody calls them any more: lets go of all of them. Needs the lock.
void DropHeldObjects();

}  // namespace ringfeed::python
