#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "readers/formats/arrays/arrays.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// Files of nothing but token numbers; a record is a block of so many.
///   llm.c:    256 little-endian i32 (magic, version, count, zeros), then u16 or u32
///   nanoGPT:  the tokens alone, u16; nothing in the file says so
struct TokensOptions {
  std::uint64_t token_bytes = 0;  ///< 2 or 4: there is no header; 0: as llm.c's header says
  std::uint64_t block = 1024;     ///< tokens in a record; the last one may hold fewer
  std::uint64_t stride = 0;       ///< from one record's first to the next one's; 0: `block`
  bool drop_tail = false;         ///< and is left out then
  bool header = false;            ///< written with llm.c's header, though the type is named
};

/// "", "u2", "u4,block=2048", "block=513,stride=512,tail=drop", "u4,llmc": what follows "tokens:".
Status ParseTokensOptions(std::string_view text, TokensOptions* options);

std::shared_ptr<const Format> TokensFormat(const TokensOptions& options);

}  // namespace ringfeed
