#include "tests/readers/formats/fixture_file.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "tests/readers/formats/tfrecord_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {

std::string FixturePath(const std::string& name) {
  return std::string(RINGFEED_TEST_DATA) + "/" + name;
}

std::string ReadFixture(const std::string& name) { return ReadBytes(FixturePath(name)); }

std::string Sha256(const std::string& bytes) {
  unsigned char digest[32];
  EXPECT_EQ(EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, EVP_sha256(), nullptr), 1);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string DigestOf(const std::vector<std::string>& records) {
  std::string all;
  for (const std::string& record : records) {
    all += PlainLe(static_cast<std::uint64_t>(record.size())) + record;
  }
  return Sha256(all);
}

}  // namespace ringfeed
