#include "tests/readers/parsers/fixture_records.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>

#include "readers/formats/format.h"
#include "tests/readers/formats/fixture_file.h"

namespace ringfeed {

std::vector<std::string> RecordsOf(const std::string& format, const std::string& name) {
  const std::string file = ReadFixture(name);
  const auto framer =
      FindFormat(format).format->NewFramer({.file = name, .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_TRUE(framer->Frame({bytes, 0, file.size(), true}, &output).status.ok());
  std::vector<std::string> records;
  for (const RecordSpan& record : output.records) {
    records.emplace_back(reinterpret_cast<const char*>(record.data), record.size);
  }
  return records;
}

std::string Sha256(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EXPECT_EQ(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr), 1);
  std::string hex;
  for (unsigned i = 0; i < 2 * size; ++i) {
    hex += "0123456789abcdef"[i % 2 == 0 ? digest[i / 2] >> 4 : digest[i / 2] & 15];
  }
  return hex;
}

}  // namespace ringfeed
