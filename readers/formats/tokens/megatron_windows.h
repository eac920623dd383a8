#pragma once

#include <memory>
#include <string_view>

#include "readers/formats/format.h"
#include "readers/formats/tokens/megatron_line.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What follows "megatron:" if it has windows: "window=2048,seed=7,epochs=3,positions".
struct MegatronWindows {
  MegatronLineOptions line;
  bool positions = false;  ///< fields beside the tokens
  bool segments = false;
  bool mask = false;
};

Status ParseMegatronWindows(std::string_view text, MegatronWindows* windows);

/// Megatron-LM's two files as windows over documents that are laid end to end (MegatronLine). What
/// is read in place of the .bin file is a Source, of which each row is a window: window + 1 tokens
/// as the .bin file has them, then the other fields. So a record's number alone tells its bytes,
/// and every order, position and rank is that of any file of fixed rows.
std::shared_ptr<const Format> MegatronWindowsFormat(const MegatronWindows& windows);

}  // namespace ringfeed
