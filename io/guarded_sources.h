#pragma once

#include <memory>

#include "ringfeed/source.h"

namespace ringfeed {

/// A user's source as the readers see it. Its name is asked once. What its functions throw is a
/// failed Status, or Error from Size, and no read claims more bytes than it was asked for. Throws
/// Error if name() does.
std::shared_ptr<Source> Guarded(std::shared_ptr<Source> source);
/// The same of a stream. What its Close throws is dropped: nobody reads it any more.
std::unique_ptr<StreamSource> Guarded(std::unique_ptr<StreamSource> stream);

}  // namespace ringfeed
