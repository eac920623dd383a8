#include "base/calls_end.h"

#include <utility>

namespace ringfeed {
namespace {

thread_local constinit const CallsEnd* end_of_thread = nullptr;

}  // namespace

CallsEnd::CallsEnd(Asked should_end)
    : should_end_(std::move(should_end)), outer_(std::exchange(end_of_thread, this)) {}

CallsEnd::~CallsEnd() { end_of_thread = outer_; }

CallsEnd::Asked CallsEnd::OfThread() {
  return end_of_thread != nullptr ? end_of_thread->should_end_ : Asked();
}

}  // namespace ringfeed
