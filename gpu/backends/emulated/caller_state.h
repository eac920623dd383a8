#pragma once

#include <cstdint>

namespace ringfeed {

/// What the calling thread said of itself to one set of devices, for each of the actors that it
/// stands for.
struct CallerState {
  int bound_device = -1;  ///< -1: none
  bool hot = false;       ///< must not block
};

/// A number for a set of devices that no other has or had.
std::uint64_t NewOwner();
/// Stays valid until the thread asks for another.
CallerState& StateOfCaller(std::uint64_t owner, int actor);
/// Forgets what the calling thread said to the owner, which ends.
void ForgetOwner(std::uint64_t owner);

}  // namespace ringfeed
