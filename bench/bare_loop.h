#pragma once

#include <string>
#include <vector>

#include "bench/loops.h"

namespace ringfeed::bench {

// The bare loops: what a good programmer writes for one file format and one set of fields, with
// no engine around it and none of ringfeed's readers or parsers in it. One thread; pread of
// 512 KiB from the page cache; framing by hand; both CRCs by ISA-L; fields written with
// non-temporal stores into batches that rotate. Varints are read byte by byte, keys compared one
// after the other in the order that is expected.

using Paths = std::vector<std::string>;

/// "image" (ragged bytes) and "label" (one int64).
LoopResult BareImageLoop(const Paths& files, const LoopOptions& options);

/// The same over mapped files, record by record: the checksum while the bytes come, then the copy
/// while they are in the cache of second level.
LoopResult BareMappedImageLoop(const MappedFiles& files, const LoopOptions& options);

/// Framing and both CRCs alone; nothing is copied.
LoopResult BareFrameLoop(const Paths& files, const LoopOptions& options);

/// "dense" (13 floats), "sparse" (26 int64), "label" (one int64) into three columns.
LoopResult BareSmallExampleLoop(const Paths& files, const LoopOptions& options);

/// Rows of 160 bytes (13 float32, 26 int32, one int32) into three columns.
LoopResult BareRowLoop(const Paths& files, const LoopOptions& options);
inline constexpr std::size_t kRowBytes = 160;
inline constexpr std::size_t kRowColumns[] = {13 * 4, 26 * 4, 4};
inline void WriteRow(const std::byte* row, const FixedBatches& batches) {
  StreamWords(batches.at(0), row, kRowColumns[0]);
  StreamWords(batches.at(1), row + kRowColumns[0], kRowColumns[1]);
  StreamWords(batches.at(2), row + kRowColumns[0] + kRowColumns[1], kRowColumns[2]);
}

/// PaddlePaddle's RecordIO in Fluid's order, of chunks as they are or compressed by snappy: reads
/// each chunk to its place in pieces, takes its CRC-32 by ISA-L while a piece is hot, decompresses
/// by libsnappy. Records are looked at, not copied.
LoopResult BareChunkLoop(const Paths& files, const LoopOptions& options);

/// A gzip file of TFRecord: zlib's gzread, framing and both CRCs.
LoopResult BareZlibLoop(const Paths& files, const LoopOptions& options);

/// Lines by memchr; nothing is copied.
LoopResult BareLineLoop(const Paths& files, const LoopOptions& options);

/// A tar file's members, header and padding with them, copied into batches of bytes.
LoopResult BareTarLoop(const Paths& files, const LoopOptions& options);

/// Two numbers a line by fast_float into two columns of float64.
LoopResult BareCsvLoop(const Paths& files, const LoopOptions& options);

/// OFRecord: "x" (16 floats) and "label" (one int32) into two columns.
LoopResult BareOfRecordLoop(const Paths& files, const LoopOptions& options);

}  // namespace ringfeed::bench
