#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringfeed {

/// What a stand-in for libcufile.so.0 does, and did. It reads files by pread into memory that the
/// process can write to, as emulated devices' is. Set before the library is used; all of it is the
/// process's.
struct StandInCuFile {
  /// What it takes part in: told of each write of its DMA, as it begins and ends.
  using TellWrite = void (*)(void* whom, const std::byte* data, std::size_t bytes);

  // What kind it is.
  std::atomic<bool> reads_directly{false};  ///< else it has a compatibility mode alone
  std::atomic<bool> has_driver{true};       ///< nvidia-fs, of one that reads directly

  // Errors of calls; 0: none.
  std::atomic<int> open_error{0};
  std::atomic<int> parameter_error{0};
  std::atomic<int> file_error{0};
  std::atomic<int> files_before_error{0};  ///< so many are registered first
  std::atomic<int> buffer_error{0};

  // Reads.
  std::atomic<int> read_error{0};             ///< 5000 and more are cuFile's own, else an errno
  std::atomic<std::uint64_t> error_every{0};  ///< read that fails; 0: none
  std::atomic<std::uint64_t> first_error{0};  ///< no read before this one fails
  std::atomic<std::size_t> most_bytes{0};     ///< of one read; 0: any
  std::atomic<std::uint32_t> late_us{0};      ///< so long its bytes take, each read another time
  std::atomic<TellWrite> tell{nullptr};
  std::atomic<void*> whom{nullptr};

  // What came of it.
  std::atomic<int> opens{0};
  std::atomic<int> closes{0};
  std::atomic<int> files{0};    ///< registered now
  std::atomic<int> buffers{0};  ///< the same
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> wrong_calls{0};  ///< on what is not registered, or not open
  std::atomic<long> uses{0};                  ///< the driver's

  /// As it was loaded, but for what is registered.
  void Reset() {
    reads_directly = false;
    has_driver = true;
    open_error = parameter_error = file_error = files_before_error = buffer_error = read_error = 0;
    error_every = first_error = 0;
    most_bytes = 0;
    late_us = 0;
    tell = nullptr;
    opens = closes = 0;
    reads = bytes = wrong_calls = 0;
    uses = 0;  // as in another process
  }
};

/// The name of the call that gives it.
inline constexpr const char* kStandInCall = "RingfeedStandInCuFile";

}  // namespace ringfeed
