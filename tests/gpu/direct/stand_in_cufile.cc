// A library that is called as cuFile is.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include "gpu/direct/cufile_api.h"
#include "tests/gpu/direct/stand_in.h"

#define RINGFEED_STAND_IN_CALL extern "C" __attribute__((visibility("default")))

namespace {

using ringfeed::StandInCuFile;
using ringfeed::cufile::Descriptor;
using ringfeed::cufile::Handle;
using ringfeed::cufile::Properties;
using ringfeed::cufile::Status;

constexpr int kNotOpen = 5001;
constexpr int kNoSuchHandle = 5027;
constexpr std::size_t kOverrun = std::size_t{1} << 20;

struct File {
  int descriptor = -1;
};

struct State {
  State() {
    const char* const kind = std::getenv("RINGFEED_STAND_IN");
    control.reads_directly = kind != nullptr && std::string_view(kind) == "direct";
  }
  StandInCuFile control;
  std::mutex mutex;  // guards what follows
  bool allow_compat = true;
  std::set<File*> files;
  std::map<const std::byte*, std::size_t> buffers;
};

State& TheState() {
  static auto* const state = new State;
  return *state;
}

Status Error(int error) { return {error, 0}; }

/// What of a read that ends with its file the compatibility mode may write besides.
std::size_t BytesBehind(State* state, const std::byte* end) {
  const std::lock_guard lock(state->mutex);
  for (const auto& [data, bytes] : state->buffers) {
    if (end < data || end >= data + bytes) continue;
    return std::min(kOverrun, static_cast<std::size_t>(data + bytes - end));
  }
  return 0;
}

void Tell(const StandInCuFile& control, const std::byte* data, std::size_t bytes) {
  if (const auto tell = control.tell.load()) tell(control.whom.load(), data, bytes);
}

}  // namespace

RINGFEED_STAND_IN_CALL StandInCuFile* RingfeedStandInCuFile() { return &TheState().control; }

RINGFEED_STAND_IN_CALL Status cuFileDriverOpen() {
  State& state = TheState();
  ++state.control.opens;
  if (const int error = state.control.open_error) return Error(error);
  ++state.control.uses;
  return {};
}

RINGFEED_STAND_IN_CALL Status cuFileDriverClose_v2() {
  State& state = TheState();
  ++state.control.closes;
  --state.control.uses;
  return {};
}

RINGFEED_STAND_IN_CALL long cuFileUseCount() { return TheState().control.uses; }

RINGFEED_STAND_IN_CALL Status cuFileSetParameterBool(int parameter, bool value) {
  State& state = TheState();
  if (const int error = state.control.parameter_error) return Error(error);
  const std::lock_guard lock(state.mutex);
  if (parameter == ringfeed::cufile::kAllowCompatMode) state.allow_compat = value;
  return {};
}

RINGFEED_STAND_IN_CALL Status cuFileDriverGetProperties(Properties* properties) {
  State& state = TheState();
  *properties = Properties();
  if (state.control.reads_directly && state.control.has_driver) properties->major_version = 2;
  return {};
}

RINGFEED_STAND_IN_CALL Status cuFileHandleRegister(Handle* handle, Descriptor* what) {
  State& state = TheState();
  if (const int error = state.control.file_error;
      error != 0 && state.control.files_before_error-- <= 0) {
    return Error(error);
  }
  const std::lock_guard lock(state.mutex);
  if (state.control.uses == 0) {
    ++state.control.wrong_calls;
    return Error(kNotOpen);
  }
  if (!state.control.reads_directly && !state.allow_compat) return Error(kNoSuchHandle);
  auto* const file = new File{what->of.descriptor};
  state.files.insert(file);
  ++state.control.files;
  *handle = file;
  return {};
}

RINGFEED_STAND_IN_CALL void cuFileHandleDeregister(Handle handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  auto* const file = static_cast<File*>(handle);
  if (state.files.erase(file) == 0 || fcntl(file->descriptor, F_GETFD) < 0)
    ++state.control.wrong_calls;
  delete file;
  --state.control.files;
}

RINGFEED_STAND_IN_CALL Status cuFileBufRegister(const void* data, std::size_t bytes, int) {
  State& state = TheState();
  if (const int error = state.control.buffer_error) return Error(error);
  const std::lock_guard lock(state.mutex);
  state.buffers[static_cast<const std::byte*>(data)] = bytes;
  ++state.control.buffers;
  return {};
}

RINGFEED_STAND_IN_CALL Status cuFileBufDeregister(const void* data) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (state.buffers.erase(static_cast<const std::byte*>(data)) == 0) ++state.control.wrong_calls;
  --state.control.buffers;
  return {};
}

RINGFEED_STAND_IN_CALL ssize_t cuFileRead(Handle handle, void* base, std::size_t bytes,
                                          off_t file_offset, off_t buffer_offset) {
  State& state = TheState();
  StandInCuFile& control = state.control;
  const std::uint64_t number = ++control.reads;
  {
    const std::lock_guard lock(state.mutex);
    if (!state.files.contains(static_cast<File*>(handle))) {
      ++control.wrong_calls;
      return -kNoSuchHandle;
    }
  }
  const std::uint64_t every = control.error_every;
  if (every != 0 && number % every == 0 && number >= control.first_error) {
    const int error = control.read_error;
    if (error >= ringfeed::cufile::kFirstError) return -error;
    errno = error;
    return -1;
  }
  if (const std::size_t most = control.most_bytes; most != 0) bytes = std::min(bytes, most);
  std::byte* const to = static_cast<std::byte*>(base) + buffer_offset;
  Tell(control, to, bytes);
  if (const std::uint32_t late_us = control.late_us; late_us != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(number * 7919 % late_us));
  }
  const int descriptor = static_cast<File*>(handle)->descriptor;
  const ssize_t got = pread(descriptor, to, bytes, file_offset);
  struct stat facts {};
  if (got > 0 && fstat(descriptor, &facts) == 0 && file_offset + got >= facts.st_size) {
    const std::size_t behind = BytesBehind(&state, to + got);
    Tell(control, to + got, behind);
    std::memset(to + got, 0x5A, behind);
  }
  Tell(control, to, bytes);
  if (got > 0) control.bytes += static_cast<std::uint64_t>(got);
  return got;
}
