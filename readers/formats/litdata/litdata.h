#pragma once

#include <memory>
#include <string>
#include <vector>

#include "readers/formats/data_set_table.h"
#include "readers/formats/format.h"
#include "readers/formats/tokens/tokens.h"

namespace ringfeed {

/// Chunks of LitData (format=litdata). The "index.json" beside a chunk says what its columns are. A
/// record is an item as a plain chunk holds it: the sizes of its columns, u32, then their bytes. Of
/// a data set of tokens (TokensLoader) it is a block, as `tokens` says; token_bytes is not used.
std::shared_ptr<const Format> LitDataFormat(const TokensOptions& tokens);
/// "", "block=2048,tail=drop": what follows "litdata:".
Status ParseLitDataOptions(std::string_view text, TokensOptions* tokens);

/// Sets *files to the chunks that an "index.json" of that text names, in its order; to none if it
/// is no index of LitData. See FindDataSet.
Status ReadLitDataTable(const std::string& table, const std::string& text,
                        std::vector<std::string>* files);

/// Sets *listed to what such an index says of the chunk of that name; to nothing if it does not
/// list it.
Status FindListedChunk(const std::string& table, const std::string& name, ListedFile* listed);

}  // namespace ringfeed
