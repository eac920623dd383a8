#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/samples/columns.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// What becomes of a column.
struct SampleField {
  SampleColumn column;
  /// Its field; none: the column is passed over. Bytes, texts and files are uint8 of shape [-1], an
  /// array has its own type and shape, of which the first dimension may be -1.
  std::optional<FieldSpec> field{};
  bool encoded = false;  ///< an array as its bytes are, in a field as of bytes
};

/// Samples of MDS or LitData by all of their columns, in the files' order. A sample is damaged
/// unless its sizes fill it, and its arrays are of their fields' types and shapes. Throws
/// Error(kInvalidArgument) if a field cannot be one of its column, and Error(kUnsupported) if it is
/// one of a pickle or of an encoding that is not known.
std::shared_ptr<const Parser> SamplesParser(SampleFamily family, std::vector<SampleField> columns);

/// The same of all that a file has (ColumnsText); what arrays are is seen in some samples. Null
/// and the reason if one of them cannot be a field.
std::shared_ptr<const Parser> InferSamplesParser(SampleFamily family, std::string_view columns,
                                                 std::span<const RecordSpan> samples,
                                                 std::string* why);

/// One column by the text that stands for it, "NAME:ENCODING"; with no field.
SampleField SampleFieldOf(SampleFamily family, std::string_view text);
/// The field that a column is without anything else being said; none if its samples must tell.
std::optional<FieldSpec> SampleFieldSpec(SampleFamily family, const SampleColumn& column);
/// What ParserFromText takes for it; "" of another parser.
std::string SamplesParserText(const Parser& parser);

}  // namespace ringfeed
