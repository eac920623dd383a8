#pragma once

#include <string>
#include <vector>

#include "bench/loop_result.h"
#include "bench/mapped_files.h"

namespace ringfeed::bench {

/// The bare loops: what a good programmer writes for one file format and one set of fields, with
/// no engine around it and none of ringfeed's readers or parsers in it. One thread; pread of
/// 512 KiB from the page cache; framing by hand; both CRCs by ISA-L; fields written with
/// non-temporal stores into kRotatingBatches batches in huge pages. Varints are read byte by byte,
/// keys compared one after the other in the order that is expected. Bad data ends the program.

/// "image" (ragged bytes) and "label" (one int64).
LoopResult BareImageLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// The same over mapped files, record by record: the checksum while the bytes come, then the copy
/// while they are in the cache of second level.
LoopResult BareMappedImageLoop(const MappedFiles& files, const LoopOptions& options);

/// Framing and both CRCs alone; nothing is copied.
LoopResult BareFrameLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// "dense" (13 floats), "sparse" (26 int64), "label" (one int64) into three columns.
LoopResult BareSmallExampleLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// "label", "i1" to "i13" (a float each), "c1" to "c26" (an int64 each) into 40 columns.
LoopResult BareFortyFeatureLoop(const std::vector<std::string>& files, const LoopOptions& options);

/// Rows of 160 bytes (13 float32, 26 int32, one int32) into three columns.
LoopResult BareRowLoop(const std::vector<std::string>& files, const LoopOptions& options);

// Over the other formats.

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
