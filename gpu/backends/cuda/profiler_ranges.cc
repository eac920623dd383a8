// CudaBackend's ranges, in the domain "ringfeed" of whichever profiler is attached by NVTX.

#include <nvtx3/nvToolsExt.h>

#include "gpu/backends/cuda/cuda_backend.h"

namespace ringfeed {
namespace {

// Never destroyed: threads may have ranges open while the program ends.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("ringfeed");
  return domain;
}

}  // namespace

void CudaBackend::BeginRange(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(Domain(), &attributes);
}

void CudaBackend::EndRange() { nvtxDomainRangePop(Domain()); }

}  // namespace ringfeed
