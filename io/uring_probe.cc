#include "io/read_engine.h"

namespace ringfeed {

const UringProbe& ProbeUring() {
  static const UringProbe probe{false, "this build has no io_uring", ""};
  return probe;
}

Status MakeUringEngine(const IoOptions& /*options*/, std::byte* /*arena_data*/,
                       std::size_t /*arena_bytes*/, std::unique_ptr<ReadEngine>* /*engine*/) {
  return Status(StatusCode::kUnsupported, ProbeUring().reason);
}

}  // namespace ringfeed
