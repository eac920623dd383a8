#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "ringfeed/parsers.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// What some first records show about one feature of a tf.Example.
struct PeekedFeature {
  char kind = 'b';          ///< 'b' bytes, 'f' float, 'i' int64
  std::size_t records = 0;  ///< records that have it
  std::size_t fewest_values = 0;
  std::size_t most_values = 0;
};

/// Features by name; empty if the records are not tf.Examples. Damaged records are passed over.
std::map<std::string, PeekedFeature> PeekExamples(std::span<const RecordSpan> records);

// The fields that some records show, for their parser; none if they show none. What some of them
// lack gets a default. Damaged records are passed over.

/// Of tf.Examples. One number in each record is a scalar.
std::vector<FeatureSpec> InferExampleFields(std::span<const RecordSpan> records);
/// Of lines of JSON: the keys whose values are numbers, truths, strings, or lists of numbers or of
/// strings.
std::vector<FeatureSpec> InferJsonFields(std::span<const RecordSpan> records);
/// Of a tar file's samples: their members. Those that WebDataset decodes as integers are int64 if
/// they are. NumPy's files are their arrays, if these are alike but for the first dimension.
std::vector<FeatureSpec> InferTarFields(std::span<const RecordSpan> samples);
/// Of rows, by the names of their columns. Those without a name are left out; none if two have the
/// same.
std::vector<FeatureSpec> InferCsvFields(const std::vector<std::string>& names,
                                        std::span<const RecordSpan> rows,
                                        const CsvOptions& options);
/// Whether the first row has names in all of its columns, and the others numbers in one of them.
bool IsCsvHeader(std::span<const RecordSpan> rows, const CsvOptions& options);
/// The one field of files that say what their elements are; none if no parser has such a type.
std::vector<FeatureSpec> InferArrayField(const FileElements& elements, std::string name);

}  // namespace ringfeed
