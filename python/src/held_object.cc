#include "held_object.h"

#include <stdexcept>
#include <utility>

#include "fork_guard.h"
#include "gil.h"
#include "weak_list.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

WeakList<HeldObject>& TheHeld() {
  static constinit OneInProcess<WeakList<HeldObject>> held;
  return held.Get();
}

}  // namespace

HeldObject::~HeldObject() {
  if (object_ == nullptr || !Py_IsInitialized()) return;
  const GilHeld lock;
  Drop();
}

nb::object HeldObject::Get() {
  const std::scoped_lock lock(mutex_);
  if (object_ == nullptr) throw std::runtime_error("the interpreter ends");
  return nb::borrow(object_);
}

void HeldObject::Drop() {
  nb::object dropped;  // destroyed outside of the mutex: may run any code
  const std::scoped_lock lock(mutex_);
  dropped = nb::steal(std::exchange(object_, nullptr));
}

std::shared_ptr<HeldObject> Hold(nb::handle object) {
  auto held = std::make_shared<HeldObject>(object);
  TheHeld().Note(held);
  return held;
}

void DropHeldObjects() {
  TheHeld().TakeEach([](HeldObject& held) { held.Drop(); });
}

}  // namespace ringfeed::python
