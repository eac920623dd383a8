#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ringfeed::tools {

/// Appends all features of a serialised tf.Example as an object of lists. False where the bytes are
/// none; *json then holds a part of it.
bool AppendExampleJson(std::span<const std::byte> record, std::string* json);
/// The same of OneFlow's OFRecord.
bool AppendOFRecordJson(std::span<const std::byte> record, std::string* json);

}  // namespace ringfeed::tools
