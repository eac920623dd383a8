#include <utility>

#include "ringfeed/py_reader.h"

namespace ringfeed {

Reader OpenPyReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder,
                    const OpenOptions& options) {
  auto source = std::make_unique<PyReader>(holder);
  return FromInstanceSource(std::move(source), holder->GetQueue()->slots(), options);
}

}  // namespace ringfeed
