#include "held_object.h"

#include <stdexcept>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

struct AllHeld {
  std::mutex mutex;
  std::vector<std::weak_ptr<HeldObject>> objects;
  std::size_t sweep_at = 64;  // entries, before those that are gone are dropped
};

AllHeld& TheHeld() {
  static auto* held = new AllHeld;  // outlasts whatever ends at exit
  return *held;
}

}  // namespace

HeldObject::~HeldObject() {
  if (object_ == nullptr || !Py_IsInitialized()) return;
  const nb::gil_scoped_acquire lock;
  Drop();
}

nb::object HeldObject::Get() {
  const std::scoped_lock lock(mutex_);
  if (object_ == nullptr) throw std::runtime_error("the interpreter ends");
  return nb::borrow(object_);
}

void HeldObject::Drop() {
  nb::object dropped;  // outside of the mutex: its destructor may run anything
  const std::scoped_lock lock(mutex_);
  dropped = nb::steal(std::exchange(object_, nullptr));
}

std::shared_ptr<HeldObject> Hold(nb::handle object) {
  auto held = std::make_shared<HeldObject>(object);
  AllHeld& all = TheHeld();
  const std::scoped_lock lock(all.mutex);
  if (all.objects.size() >= all.sweep_at) {
    std::erase_if(all.objects, [](const auto& noted) { return noted.expired(); });
    all.sweep_at = 2 * all.objects.size() + 64;
  }
  all.objects.push_back(held);
  return held;
}

void DropHeldObjects() {
  std::vector<std::weak_ptr<HeldObject>> objects;
  {
    const std::scoped_lock lock(TheHeld().mutex);
    objects.swap(TheHeld().objects);
  }
  for (const std::weak_ptr<HeldObject>& noted : objects) {
    if (const std::shared_ptr<HeldObject> held = noted.lock()) held->Drop();
  }
}

}  // namespace ringfeed::python
