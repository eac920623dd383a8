#include "gpu/direct/cufile_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "base/per_process.h"

namespace ringfeed {

namespace {

constexpr const char* kLibrary = "libcufile.so.0";

/// Some versions close descriptor 0 as their driver opens or closes.
class KeepsStandardInput {
 public:
  KeepsStandardInput() : copy_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {}
  ~KeepsStandardInput() {
    if (copy_ < 0) return;
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) (void)dup2(copy_, STDIN_FILENO);
    (void)close(copy_);
  }
  KeepsStandardInput(const KeepsStandardInput&) = delete;
  KeepsStandardInput& operator=(const KeepsStandardInput&) = delete;

 private:
  const int copy_;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

std::string NamedPath() {
  const char* const named = std::getenv("RINGFEED_CUFILE");
  return named == nullptr ? "" : named;
}

struct Libraries {
  std::mutex mutex;  // guards what follows
  std::map<std::string, std::shared_ptr<CuFileLibrary>> by_path;
};

}  // namespace

std::string_view CuFilePathName(CuFilePath path) {
  switch (path) {
    case CuFilePath::kDriver:
      return "GPUDirect by NVIDIA's driver (nvidia-fs)";
    case CuFilePath::kPeerToPeer:
      return "GPUDirect by peer-to-peer DMA";
    case CuFilePath::kCompatible:
      return "cuFile's compatibility mode (by way of host memory)";
    case CuFilePath::kUnknown:
      break;
  }
  return "cuFile, which does not tell whether by GPUDirect or in its compatibility mode";
}

Status CuFileFailure(const char* call, cufile::Status status) {
  if (status.error == 0) return {};
  std::string text = std::string(call) + ": error " + std::to_string(status.error);
  if (status.error == cufile::kCudaError) text += ", CUDA's " + std::to_string(status.cuda_error);
  return Status(StatusCode::kUnsupported, std::move(text));
}

Status CuFileReadFailure(ssize_t result, int error_number) {
  if (result >= 0) return {};
  if (result > -cufile::kFirstError) return StatusFromErrno(error_number, "cuFileRead");
  return CuFileFailure("cuFileRead", {static_cast<int>(-result), 0});
}

std::shared_ptr<CuFileLibrary> CuFileLibrary::Of(const std::string& path) {
  static constinit PerProcess<Libraries> of_process;
  Libraries& libraries = of_process.Get();
  const std::string which = path.empty() ? NamedPath() : path;
  const std::lock_guard lock(libraries.mutex);
  std::shared_ptr<CuFileLibrary>& library = libraries.by_path[which];
  if (library == nullptr) library = std::make_shared<CuFileLibrary>(which);
  return library;
}

bool CuFileLibrary::IsNamed() { return !NamedPath().empty(); }

CuFileLibrary::CuFileLibrary(std::string path) : named_(!path.empty()) {
  if (path.empty()) path = kLibrary;
  why_not_ = Load(path);
}

std::string CuFileLibrary::Load(const std::string& path) {
  // Stays loaded: threads that it started do not end.
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = dlerror();
    return std::string("no cuFile: ") + (why == nullptr ? path : why);
  }
  Find(library, "cuFileDriverOpen", &api_.driver_open);
  Find(library, "cuFileDriverClose_v2", &api_.driver_close);
  if (api_.driver_close == nullptr) Find(library, "cuFileDriverClose", &api_.driver_close);
  Find(library, "cuFileDriverGetProperties", &api_.driver_properties);
  Find(library, "cuFileHandleRegister", &api_.handle_register);
  Find(library, "cuFileHandleDeregister", &api_.handle_deregister);
  Find(library, "cuFileBufRegister", &api_.buffer_register);
  Find(library, "cuFileBufDeregister", &api_.buffer_deregister);
  Find(library, "cuFileRead", &api_.read);
  Find(library, "cuFileUseCount", &api_.use_count);
  Find(library, "cuFileSetParameterBool", &api_.set_parameter);
  const bool whole = api_.driver_open != nullptr && api_.driver_close != nullptr &&
                     api_.driver_properties != nullptr && api_.handle_register != nullptr &&
                     api_.handle_deregister != nullptr && api_.buffer_register != nullptr &&
                     api_.buffer_deregister != nullptr && api_.read != nullptr;
  return whole ? "" : path + " lacks some of cuFile's calls";
}

Status CuFileLibrary::Open(bool allow_compat) {
  if (api_.set_parameter != nullptr) {
    Status status = CuFileFailure("cuFileSetParameterBool",
                                  api_.set_parameter(cufile::kAllowCompatMode, allow_compat));
    if (status.ok() && !allow_compat) {
      status = CuFileFailure("cuFileSetParameterBool",
                             api_.set_parameter(cufile::kForceCompatMode, false));
    }
    if (!status.ok()) return status;
  }
  return OpenAsItIs();
}

Status CuFileLibrary::OpenAsItIs() {
  const KeepsStandardInput keeps;
  return CuFileFailure("cuFileDriverOpen", api_.driver_open());
}

Status CuFileLibrary::Try(CuFilePath path, const std::function<Status()>& try_read) {
  path_ = path;
  Status status = try_read();
  is_open_ = status.ok();
  if (!is_open_) Close();
  return status;
}

void CuFileLibrary::Close() {
  const KeepsStandardInput keeps;
  (void)api_.driver_close();
}

CuFilePath CuFileLibrary::path() const {
  const std::lock_guard lock(mutex_);
  return path_;
}

Status CuFileLibrary::OpenDriver(bool only_direct, const std::function<Status()>& try_read) {
  const std::lock_guard lock(mutex_);
  if (!why_not_.empty()) return Status(StatusCode::kUnsupported, why_not_);
  const auto is_direct = [this] {
    return path_ == CuFilePath::kDriver || path_ == CuFilePath::kPeerToPeer;
  };
  if (is_open_) {
    if (!only_direct || is_direct()) return try_read();
    return Status(StatusCode::kUnsupported,
                  "the driver is open: " + std::string(CuFilePathName(path_)));
  }
  const bool others = api_.use_count != nullptr && api_.use_count() > 0;
  const bool tells = api_.set_parameter != nullptr && !others;
  if (only_direct && !tells) {
    return Status(StatusCode::kUnsupported,
                  others ? "the program opened cuFile's driver itself: whether it reads directly "
                           "does not show"
                         : "this cuFile, older than 1.14, does not tell whether it reads directly");
  }
  Status status;
  if (tells) {
    status = Open(false);
    if (status.ok()) {
      cufile::Properties properties;
      (void)api_.driver_properties(&properties);
      status = Try(properties.major_version > 0 ? CuFilePath::kDriver : CuFilePath::kPeerToPeer,
                   try_read);
    }
    if (status.ok() || only_direct) return status;
  }
  status = others ? OpenAsItIs() : Open(true);
  if (!status.ok()) return status;
  return Try(tells ? CuFilePath::kCompatible : CuFilePath::kUnknown, try_read);
}

}  // namespace ringfeed
