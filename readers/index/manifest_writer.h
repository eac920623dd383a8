#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "readers/index/manifest.h"
#include "readers/index/open_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The list that the entries of a manifest are of.
struct ManifestList {
  std::uint64_t files = 0;
  std::uint64_t hash = 0;  ///< tells it from others: of its names, and of what is made of them
};
ManifestList ListOf(const std::vector<std::string>& names, const std::string& what);

/// The entry of a file that was indexed as `file`, under the name that a program gives it (`name`).
/// `detected`: its format was not asked for. Its lengths are added by the caller.
ManifestEntry EntryOf(std::uint64_t number, const std::string& name, bool detected,
                      const IndexedFile& file, const OpenedIndex& opened);

/// Whether files of these names can be in a manifest. kUnsupported, with the way out, if one is an
/// address with a query: that may be a secret, which would stand in a file and be shown to others.
Status CheckListable(const std::vector<std::string>& names);

/// Writes a manifest, a part if there are fewer entries than files: others see all of it or
/// nothing. The same entries, in whatever order, give the same bytes. Looks at every page first.
/// kDamaged if one is; kUnsupported for what CheckListable refuses, and beyond the limits. Blocks.
Status WriteManifest(const std::string& path, const ManifestList& list,
                     std::vector<ManifestEntry> entries);

/// Joins parts to one manifest. kInvalidArgument, with what is wrong, if they are of different
/// lists, or a file of the list is in none of them or in two. Blocks.
Status MergeManifests(const std::vector<std::string>& parts, const std::string& path);

}  // namespace ringfeed
