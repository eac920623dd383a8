#pragma once

#include <memory>
#include <string>
#include <vector>

#include "readers/formats/data_set_table.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// Shards of MosaicML's streaming (format=mds; MdsShard has their layout). A record is a sample as
/// it stands there.
std::shared_ptr<const Format> MdsFormat();

/// Sets *files to the shards that an "index.json" of that text names, in its order; to none if it
/// is no index of MDS. See FindDataSet.
Status ReadMdsTable(const std::string& table, const std::string& text,
                    std::vector<std::string>* files);

/// Sets *listed to what such an index says of the shard of that name; to nothing if it does not
/// list it.
Status FindListedShard(const std::string& table, const std::string& name, ListedFile* listed);

/// A writer of a shard whose samples have one column, the bytes "data": a record each.
RecordWriterResult NewMdsShardWriter(std::unique_ptr<OutputFile> file);

/// Writes the index, "index.json", of shards that such writers made, by their names in its folder.
/// Blocks.
Status WriteMdsTable(const std::string& table, const std::vector<std::string>& shards);

}  // namespace ringfeed
