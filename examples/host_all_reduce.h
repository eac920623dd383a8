#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ringfeed/devices/device_backend.h"

/// Adds up arrays of floats of several devices, through host memory that copies of all devices
/// take.
///
/// A stand-in for NCCL's ncclAllReduce, which a real loop enqueues on the stream: there the sum
/// goes from device to device, and no host thread waits for it.
///
/// Thread safety: one thread per member.
class HostAllReduce {
 public:
  using Function = std::function<void(std::span<const float> sum)>;

  /// `on_sum` is called with each sum, by one of the members while all others wait; it must not
  /// throw. Throws ringfeed::Error where the memory cannot be registered.
  HostAllReduce(std::shared_ptr<ringfeed::DeviceBackend> backend, std::size_t members,
                std::size_t count, Function on_sum);
  /// No copy from or to the memory may be in flight.
  ~HostAllReduce();
  HostAllReduce(const HostAllReduce&) = delete;
  HostAllReduce& operator=(const HostAllReduce&) = delete;

  /// What the member adds; to be filled before it calls Sum.
  std::span<float> Addend(std::size_t member);
  /// Blocks until all members that have not left are here. The sum stays as it is until all of
  /// them have filled their addends again and are in the next Sum.
  std::span<const float> Sum();
  /// The member's last call: the others go on without it.
  void Leave(std::size_t member);

 private:
  struct alignas(4096) Page {  // registrations are of whole pages
    std::byte bytes[4096];
  };
  struct AddUp {
    HostAllReduce* all_reduce;
    void operator()() noexcept;
  };

  float* Array(std::size_t number) { return floats_ + number * count_; }

  const std::shared_ptr<ringfeed::DeviceBackend> backend_;
  const std::size_t members_;
  const std::size_t count_;
  const Function on_sum_;
  std::atomic<std::size_t> left_{0};
  std::vector<Page> pages_;
  float* const floats_;  ///< in the pages: an addend per member, then the sum
  std::barrier<AddUp> barrier_;
};
