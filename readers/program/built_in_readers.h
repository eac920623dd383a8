#pragma once

#include <vector>

#include "ringfeed/compat/registry.h"

namespace ringfeed {

/// What the registry knows of a kind of reader.
struct ReaderEntry {
  ReaderKind kind;
  ReaderFactory factory;
};

/// The readers that are registered from the start: the one table that a new one is added to.
std::vector<ReaderEntry> BuiltInReaders();

}  // namespace ringfeed
