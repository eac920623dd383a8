#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// The registered RecordFormat of that tag; null if there is none. Takes no lock.
std::shared_ptr<const Format> FindRegistered(std::string_view tag);
/// The first one that a file's name, or its first bytes, tell; null if there is none.
std::shared_ptr<const Format> FindRegisteredByName(std::string_view file_name);
std::shared_ptr<const Format> FindRegisteredByBytes(std::span<const std::byte> head);

/// Whether a text may be the tag of a registered format.
bool IsFormatTag(std::string_view text);

}  // namespace ringfeed
