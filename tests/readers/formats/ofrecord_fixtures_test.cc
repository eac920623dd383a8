#include <gtest/gtest.h>

#include "readers/formats/format.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/ofrecord_file.h"

namespace ringfeed {
namespace {

struct Fixture {
  std::string name;
  std::size_t records;
  std::string sha256;  // over each record's length as u64 and its payload
};

TEST(OfRecordFixturesTest, FilesOfOneFlowAreReadAsTheirDigestsSay) {
  const std::vector<Fixture> fixtures = {
      {"alltypes/part-0", 4, "01476bae109b4f2848a0248f7f3b1cf24b471ec7f60cb3040c4579b8b4a2d50e"},
      {"ragged/part-0", 8, "3cbddde70cb9a843954bed0b109fe48c2969f6fc629f6356b9a93515538e3280"},
      {"imagenet_like/part-00000", 6,
       "ec18d6bb77d1284f92857c2ecb33a9b903633a78893e45d138feec8cff0456dc"},
      {"nopad12/part-11", 1, "108d2d050c1b631857b1b1c640ea6fae5b3708bca96f1aa1aea663d3b1971f19"},
      {"prefix_suffix3/train.data-000", 10,
       "812dfe9780eb98c5c86ab56ee71437b01fb37e26d50a41036c5f1e1eaf9db2e0"}};
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("ofrecord/" + fixture.name);
    for (const std::string& name : {fixture.name, std::string("data.bin")}) {
      const FormatResult found = DetectFormat(
          name, std::as_bytes(std::span(file)).first(std::min<std::size_t>(file.size(), 4096)));
      ASSERT_TRUE(found.status.ok()) << found.status.ToString();
      EXPECT_EQ(found.format->name(), "ofrecord");
      const Framed framed = FrameAll(*found.format, file, OnDamage::kFail);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      EXPECT_EQ(framed.records.size(), fixture.records);
      EXPECT_EQ(DigestOf(framed.records), fixture.sha256) << fixture.name;
    }
  }
}

}  // namespace
}  // namespace ringfeed
