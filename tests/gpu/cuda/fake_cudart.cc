#include "tests/gpu/cuda/fake_cudart.h"

#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/backends/cuda/cuda_error.h"

namespace ringfeed::fake_cudart {
namespace {

// What a record of an event stands for.
struct Point {
  bool done = false;
  double at_ms = 0;
};

struct Work {
  std::function<void()> run;
  std::shared_ptr<Point> waits_for;  // null: for nothing
  std::uint64_t number = 0;          // in the order that work was enqueued, of all streams
};

using Graph = std::vector<std::function<void()>>;  // one after the other

struct Stream {
  int device = 0;
  bool blocking = false;  // waits for the device's default stream, and that one for it
  bool held = false;
  bool captured = false;
  bool other_context = false;  // than the device's primary one
  std::deque<Work> queue{};
  std::unique_ptr<Graph> graph{};  // what is captured; null: nothing
};

struct Event {
  int device = 0;
  bool timed = false;
  std::shared_ptr<Point> recorded{};  // null: never
};

struct Device {
  bool has_context = false;
  std::uintptr_t resets = 0;
  cudaError_t broken_by = cudaSuccess;
  Stream default_stream{};
};

struct Allocation {
  int device = 0;
  std::size_t bytes = 0;
};

struct PlannedFailure {
  int calls_left = 0;
  cudaError_t error = cudaSuccess;
};

struct ThreadState {
  int device = 0;
  bool chosen = false;  ///< the device: its context is the thread's current one
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaError_t last_error = cudaSuccess;
  std::vector<int> pushed{};  ///< devices whose contexts were pushed
};
thread_local ThreadState thread_state;

int Current() {
  return thread_state.pushed.empty() ? thread_state.device : thread_state.pushed.back();
}

struct State {
  Machine machine{};
  std::vector<Device> devices = std::vector<Device>(1);
  std::map<std::string, int> calls{};
  std::multimap<std::string, PlannedFailure> failures{};
  std::map<std::string, unsigned int> flags{};
  int priority = 0;
  bool capturing = false;
  double clock_ms = 0;
  std::uint64_t enqueued = 0;
  std::map<void*, Allocation> allocations{};
  std::map<const std::byte*, std::size_t> registrations{};
  std::map<void*, std::unique_ptr<Stream>> streams{};
  std::map<std::pair<std::thread::id, int>, Stream> per_thread{};  // by device, too
  std::map<void*, std::unique_ptr<Event>> events{};
  std::map<void*, std::unique_ptr<Graph>> graphs{};  // and those that can be launched
};

std::recursive_mutex mutex;

State& Now() {
  static auto* const state = new State;
  return *state;
}

cudaError_t Return(cudaError_t error) {
  const bool is_none = error == cudaSuccess || error == cudaErrorNotReady;
  if (!is_none) thread_state.last_error = error;
  return error;
}

Device& DeviceAt(int device) { return Now().devices.at(static_cast<std::size_t>(device)); }

// Calls that CUDA takes for a mistake while a graph is captured in global mode.
bool UnsafeInCapture(const std::string& function) {
  static const std::set<std::string> kUnsafe = {
      "cudaMalloc",       "cudaFree",           "cudaEventQuery",  "cudaEventSynchronize",
      "cudaHostRegister", "cudaHostUnregister", "cudaStreamQuery", "cudaStreamSynchronize"};
  return kUnsafe.contains(function);
}

cudaError_t TakePlannedFailure(const std::string& function) {
  auto [failure, end] = Now().failures.equal_range(function);
  cudaError_t error = cudaSuccess;
  while (failure != end) {
    if (--failure->second.calls_left > 0) {
      ++failure;
      continue;
    }
    error = failure->second.error;
    failure = Now().failures.erase(failure);
  }
  return error;
}

// The start of every call: of one that needs no context.
cudaError_t Enter(const std::string& function) {
  ++Now().calls[function];
  if (Now().machine.driver_version / 1000 < CUDART_VERSION / 1000) {
    return cudaErrorInsufficientDriver;
  }
  return TakePlannedFailure(function);
}

// The start of a call in the context of a device, which it makes where there is none.
cudaError_t EnterOn(const std::string& function, int device) {
  const cudaError_t planned = Enter(function);
  Device& entered = DeviceAt(device);
  entered.has_context = true;
  if (entered.broken_by != cudaSuccess) return entered.broken_by;
  if (IsSticky(planned)) entered.broken_by = planned;
  if (planned != cudaSuccess) return planned;
  const bool guarded = thread_state.mode != cudaStreamCaptureModeRelaxed;
  if (Now().capturing && guarded && UnsafeInCapture(function)) {
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

// The default stream and blocking ones go in the order that work was enqueued.
bool DefaultStreamAllows(const Stream& stream, std::uint64_t number) {
  const auto is_before = [number](const Stream& other) {
    return !other.queue.empty() && other.queue.front().number < number;
  };
  const Stream& by_default = DeviceAt(stream.device).default_stream;
  if (&stream != &by_default) return !stream.blocking || !is_before(by_default);
  const auto holds_up = [&](const Stream& other) {
    return other.blocking && other.device == stream.device && is_before(other);
  };
  return std::none_of(Now().streams.begin(), Now().streams.end(),
                      [&](const auto& entry) { return holds_up(*entry.second); }) &&
         std::none_of(Now().per_thread.begin(), Now().per_thread.end(),
                      [&](const auto& entry) { return holds_up(entry.second); });
}

bool RunFront(Stream* stream) {
  if (stream->held || stream->queue.empty()) return false;
  const Work& front = stream->queue.front();
  if (front.waits_for != nullptr && !front.waits_for->done) return false;
  if (!DefaultStreamAllows(*stream, front.number)) return false;
  if (front.run != nullptr) front.run();
  stream->queue.pop_front();
  return true;
}

void RunAll() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (auto& [handle, stream] : Now().streams) {
      while (RunFront(stream.get())) moved = true;
    }
    for (auto& [thread, stream] : Now().per_thread) {
      while (RunFront(&stream)) moved = true;
    }
    for (Device& device : Now().devices) {
      while (RunFront(&device.default_stream)) moved = true;
    }
  }
}

Stream* Find(cudaStream_t handle) {
  if (handle == cudaStreamLegacy) return &DeviceAt(Current()).default_stream;
  if (handle == cudaStreamPerThread) {
    const auto found = Now().per_thread.try_emplace({std::this_thread::get_id(), Current()},
                                                    Stream{.device = Current(), .blocking = true});
    return &found.first->second;
  }
  const auto found = Now().streams.find(handle);
  return found == Now().streams.end() ? nullptr : found->second.get();
}

Event* Find(cudaEvent_t handle) {
  const auto found = Now().events.find(handle);
  return found == Now().events.end() ? nullptr : found->second.get();
}

cudaError_t Enqueue(const std::string& function, cudaStream_t handle, Work work) {
  Stream* const stream = Find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const cudaError_t error = EnterOn(function, stream->device);
  if (error != cudaSuccess) return error;
  if (stream->graph != nullptr) {
    if (work.run != nullptr) stream->graph->push_back(std::move(work.run));
    return cudaSuccess;
  }
  work.number = Now().enqueued++;
  stream->queue.push_back(std::move(work));
  RunAll();
  return cudaSuccess;
}

// The registration that covers a byte; its end.
const std::byte* RegisteredUntil(const std::byte* data) {
  auto after = Now().registrations.upper_bound(data);
  if (after == Now().registrations.begin()) return nullptr;
  --after;
  const std::byte* const end = after->first + after->second;
  return data < end ? end : nullptr;
}

bool OverlapsRegistrations(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto next = Now().registrations.lower_bound(begin);
  const bool reaches_next = next != Now().registrations.end() && next->first < begin + bytes;
  return reaches_next || RegisteredUntil(begin) != nullptr;
}

std::size_t FreeBytes(int device) {
  std::size_t free_bytes = Now().machine.memory_bytes;
  for (const auto& [memory, allocation] : Now().allocations) {
    if (allocation.device == device) free_bytes -= allocation.bytes;
  }
  return free_bytes;
}

// CUDA refuses a range that begins in one registration and ends outside of it.
bool CrossesRegistrations(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::byte* const end = RegisteredUntil(begin);
  return end != nullptr && begin + bytes > end;
}

template <class Handle, class Object>
Handle Keep(std::map<void*, std::unique_ptr<Object>>* objects, std::unique_ptr<Object> object) {
  void* const handle = object.get();
  objects->emplace(handle, std::move(object));
  return static_cast<Handle>(handle);
}

// The driver's contexts: a context is its device's number, from 1, and how often that was reset.

constexpr std::uintptr_t kMostDevices = 64;

CUcontext ContextOf(int device) {
  const std::uintptr_t number = DeviceAt(device).resets * kMostDevices;
  return reinterpret_cast<CUcontext>(number + static_cast<std::uintptr_t>(device) + 1);
}

CUresult RetainContext(CUcontext* context, CUdevice device) {
  const std::lock_guard lock(mutex);
  if (device < 0 || device >= Now().machine.devices) return CUDA_ERROR_INVALID_DEVICE;
  *context = ContextOf(device);
  return static_cast<CUresult>(EnterOn("cuDevicePrimaryCtxRetain", device));
}

CUresult PushContext(CUcontext context) {
  const std::lock_guard lock(mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(context) - 1;
  const auto device = static_cast<int>(number % kMostDevices);
  if (context != ContextOf(device)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const cudaError_t error = EnterOn("cuCtxPushCurrent", device);
  if (error == cudaSuccess) thread_state.pushed.push_back(device);
  return static_cast<CUresult>(error);
}

CUresult GetContext(CUcontext* context) {
  const std::lock_guard lock(mutex);
  const bool has_one = thread_state.chosen || !thread_state.pushed.empty();
  *context = has_one ? ContextOf(Current()) : nullptr;
  return CUDA_SUCCESS;
}

CUresult PopContext(CUcontext*) {
  const std::lock_guard lock(mutex);
  thread_state.pushed.pop_back();
  return CUDA_SUCCESS;
}

}  // namespace

void Restart(const Machine& machine) {
  const std::lock_guard lock(mutex);
  for (const auto& [memory, allocation] : Now().allocations) munmap(memory, allocation.bytes);
  Now() = State{};
  Now().machine = machine;
  const int devices = std::max(machine.devices, 1);
  Now().devices.resize(static_cast<std::size_t>(devices));
  for (int device = 0; device < devices; ++device) DeviceAt(device).default_stream.device = device;
  thread_state = {};
}

void FailNth(const std::string& function, int nth, cudaError_t error) {
  const std::lock_guard lock(mutex);
  Now().failures.emplace(function, PlannedFailure{nth, error});
}

void BreakContext(int device, cudaError_t error) {
  const std::lock_guard lock(mutex);
  DeviceAt(device).broken_by = error;
}

void ResetDevice(int device) {
  const std::lock_guard lock(mutex);
  ++DeviceAt(device).resets;
}

void Hold(void* stream, bool hold) {
  const std::lock_guard lock(mutex);
  Find(static_cast<cudaStream_t>(stream))->held = hold;
  RunAll();
}

void CaptureStream(void* stream, bool capturing) {
  const std::lock_guard lock(mutex);
  Find(static_cast<cudaStream_t>(stream))->captured = capturing;
}

void SetOtherContext(void* stream) {
  const std::lock_guard lock(mutex);
  Find(static_cast<cudaStream_t>(stream))->other_context = true;
}

void CaptureGlobally(bool capturing) {
  const std::lock_guard lock(mutex);
  Now().capturing = capturing;
}

int Calls(const std::string& function) {
  const std::lock_guard lock(mutex);
  return Now().calls[function];
}

int AllCalls() {
  const std::lock_guard lock(mutex);
  int all = 0;
  for (const auto& [function, calls] : Now().calls) all += calls;
  return all;
}

Live LiveNow() {
  const std::lock_guard lock(mutex);
  return {Now().allocations.size(), Now().registrations.size(), Now().streams.size(),
          Now().events.size()};
}

bool IsRegistered(const void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  return RegisteredUntil(static_cast<const std::byte*>(data)) != nullptr &&
         !CrossesRegistrations(data, bytes);
}

unsigned int LastFlags(const std::string& function) {
  const std::lock_guard lock(mutex);
  return Now().flags[function];
}

int LastPriority() {
  const std::lock_guard lock(mutex);
  return Now().priority;
}

bool HasContext(int device) {
  const std::lock_guard lock(mutex);
  return DeviceAt(device).has_context;
}

int CurrentDevice() { return Current(); }
cudaStreamCaptureMode CaptureMode() { return thread_state.mode; }
cudaError_t LastError() { return thread_state.last_error; }

cudaError_t LaunchHost(void* stream, const std::function<void()>& work) {
  const std::lock_guard lock(mutex);
  const Stream* const found = Find(static_cast<cudaStream_t>(stream));
  if (found != nullptr && found->device != Current()) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  return Return(Enqueue("launch", static_cast<cudaStream_t>(stream), {work, nullptr}));
}

}  // namespace ringfeed::fake_cudart

using namespace ringfeed;               // what follows stands in for a library in C
using namespace ringfeed::fake_cudart;  // NOLINT

extern "C" {

// Errors.

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(mutex);
  const cudaError_t error = thread_state.last_error;
  thread_state.last_error = DeviceAt(Current()).broken_by;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorName";
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "as CUDA puts it";
}

// The machine.

cudaError_t cudaDriverGetVersion(int* version) {
  const std::lock_guard lock(mutex);
  *version = Now().machine.driver_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaGetDeviceCount");
  if (error != cudaSuccess) return Return(error);
  *count = Now().machine.devices;
  return Return(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaGetDeviceProperties");
  if (error != cudaSuccess) return Return(error);
  *properties = {};
  std::strcpy(properties->name, device == 0 ? "Fake GPU 0" : "Fake GPU n");
  properties->totalGlobalMem = Now().machine.memory_bytes;
  properties->asyncEngineCount = 3;
  properties->hostRegisterSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaDeviceGetAttribute");
  if (error != cudaSuccess) return Return(error);
  if (attribute == cudaDevAttrMultiProcessorCount) {
    *value = 2;
    return cudaSuccess;
  }
  const bool known = attribute == cudaDevAttrHostNumaId && Now().machine.knows_numa_attribute;
  if (!known) return Return(cudaErrorInvalidValue);
  *value = Now().machine.host_numa_node;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int, int) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaDeviceGetPCIBusId");
  if (error == cudaSuccess) std::strcpy(text, "0000:6F:00.0");
  return Return(error);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaMemGetInfo", Current());
  *total = Now().machine.memory_bytes;
  *free = FreeBytes(Current());
  return Return(error);
}

// The calling thread.

cudaError_t cudaGetDevice(int* device) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaGetDevice");
  if (error == cudaSuccess) *device = Current();
  return Return(error);
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(mutex);
  if (device < 0 || device >= Now().machine.devices) return Return(cudaErrorInvalidDevice);
  thread_state.pushed.clear();
  thread_state.device = device;
  thread_state.chosen = true;
  return Return(EnterOn("cudaSetDevice", device));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  const std::lock_guard lock(mutex);
  const std::string name = symbol;
  *function = name == "cuDevicePrimaryCtxRetain" ? reinterpret_cast<void*>(&RetainContext)
              : name == "cuCtxPushCurrent"       ? reinterpret_cast<void*>(&PushContext)
              : name == "cuCtxPopCurrent"        ? reinterpret_cast<void*>(&PopContext)
              : name == "cuCtxGetCurrent"        ? reinterpret_cast<void*>(&GetContext)
                                                 : nullptr;
  return Return(Enter("cudaGetDriverEntryPointByVersion"));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaThreadExchangeStreamCaptureMode");
  if (error == cudaSuccess) std::swap(*mode, thread_state.mode);
  return Return(error);
}

// Memory.

cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned int flags) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaHostRegister", Current());
  if (error != cudaSuccess) return Return(error);
  if (OverlapsRegistrations(data, bytes)) return Return(cudaErrorHostMemoryAlreadyRegistered);
  Now().registrations[static_cast<const std::byte*>(data)] = bytes;
  Now().flags["cudaHostRegister"] = flags;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* data) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaHostUnregister", Current());
  if (error != cudaSuccess) return Return(error);
  const bool known = Now().registrations.erase(static_cast<const std::byte*>(data)) == 1;
  return Return(known ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaMalloc", Current());
  if (error != cudaSuccess) return Return(error);
  if (bytes > FreeBytes(Current())) return Return(cudaErrorMemoryAllocation);
  *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*data == MAP_FAILED) return Return(cudaErrorMemoryAllocation);
  Now().allocations[*data] = {Current(), bytes};
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaFree", Current());
  if (error != cudaSuccess) return Return(error);
  const auto found = Now().allocations.find(data);
  if (found == Now().allocations.end() || found->second.device != Current()) {
    return Return(cudaErrorInvalidValue);
  }
  munmap(data, found->second.bytes);
  Now().allocations.erase(found);
  return cudaSuccess;
}

// Streams.

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const std::lock_guard lock(mutex);
  *least = 0;
  *greatest = -5;
  return Return(EnterOn("cudaDeviceGetStreamPriorityRange", Current()));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaStreamCreateWithPriority", Current());
  if (error != cudaSuccess) return Return(error);
  Now().flags["cudaStreamCreateWithPriority"] = flags;
  Now().priority = priority;
  Stream made{.device = Current(), .blocking = (flags & cudaStreamNonBlocking) == 0};
  *stream = Keep<cudaStream_t>(&Now().streams, std::make_unique<Stream>(std::move(made)));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const Stream* const found = Find(stream);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaStreamDestroy", found->device);
  if (error == cudaSuccess) Now().streams.erase(stream);
  return Return(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const Stream* const found = Find(stream);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaStreamQuery", found->device);
  if (error != cudaSuccess) return Return(error);
  return Return(found->queue.empty() ? cudaSuccess : cudaErrorNotReady);
}

// A test's only thread would wait for itself: what is not done is an error.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const Stream* const found = Find(stream);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaStreamSynchronize", found->device);
  if (error != cudaSuccess) return Return(error);
  return Return(found->queue.empty() ? cudaSuccess : cudaErrorTimeout);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const std::lock_guard lock(mutex);
  const Event* const found = Find(event);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t broken = DeviceAt(found->device).broken_by;
  if (broken != cudaSuccess) return Return(broken);
  return Return(Enqueue("cudaStreamWaitEvent", stream, {nullptr, found->recorded}));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaStreamIsCapturing");
  const Stream* const on = Find(stream);
  if (error != cudaSuccess) return Return(error);
  if (on == nullptr) return Return(cudaErrorInvalidResourceHandle);
  *status = on->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(mutex);
  Stream* const on = Find(stream);
  if (on == nullptr || on->captured) return Return(cudaErrorIllegalState);
  on->captured = true;
  on->graph = std::make_unique<Graph>();
  return Return(EnterOn("cudaStreamBeginCapture", on->device));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  Stream* const on = Find(stream);
  if (on == nullptr || on->graph == nullptr) return Return(cudaErrorIllegalState);
  on->captured = false;
  *graph = Keep<cudaGraph_t>(&Now().graphs, std::move(on->graph));
  return Return(EnterOn("cudaStreamEndCapture", on->device));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(mutex);
  const auto found = Now().graphs.find(graph);
  if (found == Now().graphs.end()) return Return(cudaErrorInvalidValue);
  *made = Keep<cudaGraphExec_t>(&Now().graphs, std::make_unique<Graph>(*found->second));
  return Return(Enter("cudaGraphInstantiate"));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const auto found = Now().graphs.find(graph);
  if (found == Now().graphs.end()) return Return(cudaErrorInvalidValue);
  const auto run = [steps = *found->second] {
    for (const auto& step : steps) step();
  };
  return Return(Enqueue("cudaGraphLaunch", stream, {run, nullptr}));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(mutex);
  return Return(Now().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const std::lock_guard lock(mutex);
  return Return(Now().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = Enter("cudaStreamGetDevice");
  const Stream* const on = Find(stream);
  if (error != cudaSuccess) return Return(error);
  if (on == nullptr) return Return(cudaErrorInvalidResourceHandle);
  *device = on->device;
  return cudaSuccess;
}

// Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  const std::lock_guard lock(mutex);
  const cudaError_t error = EnterOn("cudaEventCreateWithFlags", Current());
  if (error != cudaSuccess) return Return(error);
  Now().flags["cudaEventCreateWithFlags"] = flags;
  auto made = std::make_unique<Event>(
      Event{.device = Current(), .timed = (flags & cudaEventDisableTiming) == 0});
  *event = Keep<cudaEvent_t>(&Now().events, std::move(made));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  const Event* const found = Find(event);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaEventDestroy", found->device);
  if (error == cudaSuccess) Now().events.erase(event);
  return Return(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  Event* const found = Find(event);
  const Stream* const on = Find(stream);
  if (found == nullptr || on == nullptr || found->device != on->device || on->other_context) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  auto point = std::make_shared<Point>();
  const auto reach = [point] {
    point->done = true;
    point->at_ms = ++Now().clock_ms;
  };
  const cudaError_t error = Enqueue("cudaEventRecord", stream, {reach, nullptr});
  if (error == cudaSuccess) found->recorded = point;
  return Return(error);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  const Event* const found = Find(event);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaEventQuery", found->device);
  if (error != cudaSuccess) return Return(error);
  const bool done = found->recorded == nullptr || found->recorded->done;
  return Return(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  const Event* const found = Find(event);
  if (found == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const cudaError_t error = EnterOn("cudaEventSynchronize", found->device);
  if (error != cudaSuccess) return Return(error);
  const bool done = found->recorded == nullptr || found->recorded->done;
  return Return(done ? cudaSuccess : cudaErrorTimeout);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(mutex);
  const Event* const from = Find(begin);
  const Event* const to = Find(end);
  if (from == nullptr || to == nullptr || !from->timed || !to->timed) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const cudaError_t error = EnterOn("cudaEventElapsedTime", from->device);
  if (error != cudaSuccess) return Return(error);
  if (from->recorded == nullptr || to->recorded == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (!from->recorded->done || !to->recorded->done) return Return(cudaErrorNotReady);
  *milliseconds = static_cast<float>(to->recorded->at_ms - from->recorded->at_ms);
  return cudaSuccess;
}

// Copies.

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  if (CrossesRegistrations(host, bytes)) return Return(cudaErrorInvalidValue);
  const auto copy = [to, from, bytes] { std::memcpy(to, from, bytes); };
  return Return(Enqueue("cudaMemcpyAsync", stream, {copy, nullptr}));
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* bytes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* first, std::size_t attribute_count,
                                 cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const bool whole = count > 0 && attribute_count == 1 && first[0] == 0 &&
                     attributes[0].srcAccessOrder == cudaMemcpySrcAccessOrderStream;
  if (!whole || stream == nullptr) return Return(cudaErrorInvalidValue);
  struct Piece {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes[i] == 0 || CrossesRegistrations(from[i], bytes[i])) {
      return Return(cudaErrorInvalidValue);
    }
    pieces.push_back({to[i], from[i], bytes[i]});
  }
  const auto copy = [pieces = std::move(pieces)] {  // the last one first: there is no order
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      std::memcpy(piece->to, piece->from, piece->bytes);
    }
  };
  return Return(Enqueue("cudaMemcpyBatchAsync", stream, {copy, nullptr}));
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  const auto fill = [data, value, bytes] { std::memset(data, value, bytes); };
  return Return(Enqueue("cudaMemsetAsync", stream, {fill, nullptr}));
}

}  // extern "C"
