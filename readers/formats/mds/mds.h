#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/data_set_table.h"
#include "readers/formats/format.h"
#include "readers/formats/samples/sample_table.h"

namespace ringfeed {

/// Shards of MosaicML's streaming (format=mds; MdsShard has their layout). A record is a sample as
/// it stands there. `layout`: of what is written; one without columns: the bytes "data", a record
/// each.
std::shared_ptr<const Format> MdsFormat(const SampleLayout& layout = {});
/// Sets *layout to these columns (ColumnsText). kUnsupported for an encoding that is not known.
Status ParseMdsLayout(std::string_view text, SampleLayout* layout);

/// Sets *files to the shards that an "index.json" of that text names, in its order; to none if it
/// is no index of MDS. See FindDataSet.
Status ReadMdsTable(const std::string& table, const std::string& text,
                    std::vector<std::string>* files);

/// Sets *listed to what such an index says of the shard of that name; to nothing if it does not
/// list it.
Status FindListedShard(const std::string& table, const std::string& name, ListedFile* listed);

/// A writer of a shard. A record is a sample of these columns, as it stands there, or, without
/// columns, the bytes of the only one, "data".
RecordWriterResult NewMdsShardWriter(std::unique_ptr<OutputFile> file, const SampleLayout& layout);
/// An encoder of rows as samples: ragged bytes are `bytes`, numbers themselves, arrays `ndarray`s
/// of their type, and of their shape if that is fixed; truth values are uint8.
RowEncoderResult NewMdsEncoder(const std::vector<FieldSpec>& fields);

/// Writes the index, "index.json", of shards that such writers made, by their names in its folder.
/// Blocks.
Status WriteMdsTable(const std::string& table, const std::vector<std::string>& shards);

}  // namespace ringfeed
