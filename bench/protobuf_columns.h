#pragma once

#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// What a program does that knows Protobuf alone: parses each record with Protobuf's own parser on
/// an arena that is kept, looks its 40 features up by name, and writes them to the columns of
/// BareFortyFeatureLoop. Same reads, framing and CRCs as the bare loops.
LoopResult RunProtobufFortyFeatures(const std::vector<std::string>& files,
                                    const LoopOptions& options);
/// The same of OFRecords, into the columns of BareOfRecordLoop.
LoopResult RunProtobufOfRecords(const std::vector<std::string>& files, const LoopOptions& options);

}  // namespace ringfeed::bench
