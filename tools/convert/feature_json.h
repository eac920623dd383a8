#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ringfeed::tools {

/// Appends all features of a serialised tf.Example as an object of lists; of a tf.SequenceExample
/// those of its context, and under "feature_lists" a list of lists for each sequence. False where
/// the bytes are neither; *json then holds a part of it.
bool AppendExampleJson(std::span<const std::byte> record, std::string* json);
/// The same of OneFlow's OFRecord.
bool AppendOFRecordJson(std::span<const std::byte> record, std::string* json);

}  // namespace ringfeed::tools
