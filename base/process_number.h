#pragma once

#include <cstdint>

namespace ringfeed {

/// A number of this process: a child of fork has another one than each of its ancestors. Process
/// ids do not tell them apart, since the first process of a PID namespace is 1, as its parent may
/// be. Never 0. Takes two loads and no lock. Thread safe, and safe in a child of fork whatever
/// other threads did then.
std::uint64_t ProcessNumber() noexcept;

}  // namespace ringfeed
