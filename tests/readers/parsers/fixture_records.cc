#include "tests/readers/parsers/fixture_records.h"

#include <gtest/gtest.h>

#include "readers/formats/format.h"
#include "tests/readers/formats/fixture_file.h"

namespace ringfeed {

std::vector<std::string> RecordsOf(const std::string& format, const std::string& name) {
  const std::string file = ReadFixture(name);
  const auto framer =
      FindFormat(format).format->NewFramer({.file = name, .file_bytes = file.size()});
  HeapFrameMemory memory;
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_TRUE(framer->Frame({bytes, 0, file.size(), true, &memory}, &output).status.ok());
  std::vector<std::string> records;
  for (const RecordSpan& record : output.records) {
    records.emplace_back(reinterpret_cast<const char*>(record.data), record.size);
  }
  return records;
}

}  // namespace ringfeed
