#pragma once

#include <memory>

#include "ringfeed/source.h"

namespace ringfeed {

/// A user's source as the readers see it. Its name is asked once. If its functions throw, that
/// becomes a failed Status, or Error from Size. A read that claims more bytes than it was asked for
/// fails. Throws Error if name() does.
std::shared_ptr<Source> Guarded(std::shared_ptr<Source> source);
/// The same for a stream. What its Close throws is dropped, since nothing reads the stream any
/// more.
std::unique_ptr<StreamSource> Guarded(std::unique_ptr<StreamSource> stream);

}  // namespace ringfeed
