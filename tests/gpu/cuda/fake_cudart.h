#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ringfeed {

/// CUDA's runtime as CudaBackend uses it, over plain host memory: linked instead of the real one.
/// Work runs when it is enqueued, in the calling thread, unless its stream is held (Hold) or waits
/// for an event of one that is. Strict where CUDA is: contexts, current devices, captures, copies
/// across registrations. One for the process, as the real one; all functions from any thread.
namespace fake_cudart {

struct Machine {
  int devices = 1;
  int driver_version = CUDART_VERSION;              ///< 0: there is no driver
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< of each device
  int host_numa_node = 1;                           ///< what the attribute says; -1: not supported
  bool knows_numa_attribute = true;
};

/// A new process on that machine: no contexts, nothing allocated, no failures planned. The calling
/// thread becomes a new one too.
void Restart(const Machine& machine = {});

/// The nth call from now of that function, "cudaMalloc", returns `error` without effect. A sticky
/// one breaks the context of the call's device for good.
void FailNth(const std::string& function, int nth, cudaError_t error);
/// As if work that ran earlier on the device had failed: every call on it fails from now on.
void BreakContext(int device, cudaError_t error);

/// As if the program had called cudaDeviceReset there: the device's primary context is another one.
void ResetDevice(int device);

/// Whether what is enqueued on the stream is kept back. cudaStreamLegacy is one stream of the
/// calling thread's device, cudaStreamPerThread one of that thread too, here and in all calls. The
/// first and streams that are not made cudaStreamNonBlocking, the second too, wait for each other,
/// as in CUDA.
void Hold(void* stream, bool hold);
/// As if a graph were captured from the stream.
void CaptureStream(void* stream, bool capturing);
/// As if the stream were made in another context of its device than the primary one, where all
/// events are.
void SetOtherContext(void* stream);
/// As if some thread captured a graph in global mode.
void CaptureGlobally(bool capturing);

/// How often a function was called since Restart.
int Calls(const std::string& function);
/// Calls since Restart, of any function.
int AllCalls();

/// What was made and not given back.
struct Live {
  std::size_t allocations = 0;
  std::size_t registrations = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
};
Live LiveNow();
/// Whether a range is one registration, or within one.
bool IsRegistered(const void* data, std::size_t bytes);
/// Flags of the last cudaHostRegister, cudaEventCreateWithFlags, cudaStreamCreateWithPriority.
unsigned int LastFlags(const std::string& function);
int LastPriority();
/// Whether the device has a context.
bool HasContext(int device);

// Of the calling thread.
int CurrentDevice();
cudaStreamCaptureMode CaptureMode();
/// Without taking it back.
cudaError_t LastError();

/// What a kernel launch is here: work of the stream, or an error.
cudaError_t LaunchHost(void* stream, const std::function<void()>& work);

}  // namespace fake_cudart
}  // namespace ringfeed
