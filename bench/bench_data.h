#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed::bench {

/// Files of one kind that benchmarks read, made once per parameters and kept: below
/// $RINGFEED_BENCH_DATA, else in a folder of this user under the temporary directory. The same
/// parameters give the same bytes on every machine.
struct BenchFiles {
  std::vector<std::string> paths;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  ///< of the files
};

/// Reads them once, so that they stand in the page cache if memory suffices: that they were
/// written once does not keep them there. Throws Error.
void BringIntoMemory(const BenchFiles& files);

/// TFRecord of tf.Example: "image" (`image_bytes` bytes; 0: log-normal, about 110 KB) and "label"
/// (one int64). In a smoke run 4 MiB.
BenchFiles ImageExamples(std::uint64_t total_bytes, std::size_t files, std::size_t image_bytes = 0);

/// TFRecord of tf.Example: "dense" (13 floats), "sparse" (26 int64) and "label" (one int64). The
/// integers are hashes of 32 bits, as click logs have them: about 250 bytes a record.
BenchFiles SmallExamples(std::uint64_t records, std::size_t files);

/// The same values in 40 features of their own: "label", "i1" to "i13", "c1" to "c26".
BenchFiles FortyFeatureExamples(std::uint64_t records, std::size_t files);

/// Text of words in records of `bytes`, or about as many: written as "lines",
/// "recordio:fluid,none", "tfrecord+gzip", … It comes to a third or so when it is compressed.
BenchFiles Texts(const std::string& format, std::size_t bytes, bool exactly, std::uint64_t records,
                 std::size_t files);

/// CSV of two numbers between -1 and 1 a line, with 17 digits.
BenchFiles TwoNumberLines(std::uint64_t records, std::size_t files);

/// OFRecord: "x" (16 floats) and "label" (one int32).
BenchFiles OfRecords(std::uint64_t records, std::size_t files);

/// Tar files of samples of one member of about 110 KB. In a smoke run 4 MiB.
BenchFiles TarSamples(std::uint64_t total_bytes, std::size_t files);

/// Rows of 160 bytes: 13 float32, 26 int32, one int32, without a header.
BenchFiles Rows160(std::uint64_t records, std::size_t files);

/// Rows of so many random bytes, a multiple of eight, without a header; "rows:110000" or tokens.
BenchFiles RandomRows(const std::string& kind, const std::string& format, std::size_t row_bytes,
                      std::uint64_t records, std::size_t files);

}  // namespace ringfeed::bench
