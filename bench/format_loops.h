#pragma once

#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// Bare loops over the other formats: what is said in bare_loop.h holds for them too.

/// PaddlePaddle's RecordIO in Fluid's order, of chunks as they are or compressed by snappy: reads
/// each chunk to its place in pieces, takes its CRC-32 by ISA-L while a piece is hot, decompresses
/// by libsnappy. Records are looked at, not copied.
LoopResult BareChunkLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// A gzip file of TFRecord: zlib's inflate in pieces, framing and both CRCs.
LoopResult BareZlibLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// Lines by memchr; nothing is copied.
LoopResult BareLineLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// A tar file's members, header and padding with them, copied into batches of bytes.
LoopResult BareTarLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// Two numbers a line by fast_float into two columns of float64.
LoopResult BareCsvLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// OFRecord: "x" (16 floats) and "label" (one int32) into two columns.
LoopResult BareOfRecordLoop(const std::vector<std::string>& files, const LoopOptions& options);

}  // namespace ringfeed::bench
