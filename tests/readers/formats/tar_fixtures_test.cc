#include <gtest/gtest.h>

#include <algorithm>

#include "readers/formats/format.h"
#include "ringfeed/formats.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

struct Fixture {
  std::string name;
  std::vector<std::string> keys;
  std::string fields_sha256;  // the members' bytes, by extension within a sample
};

TEST(TarFixturesTest, FilesOfWebDatasetAreReadAsTheirDigestsSay) {
  const std::vector<Fixture> fixtures = {
      {"basic.tar",
       {"000010", "000011"},
       "54e50ca2beacb823a9f58204a38a72a8194b91f9c910d6587f721e3e9dc008b5"},
      {"nested_keys.tar",
       {"train/n00/img_0", "train/n01/img_1", "train/n02/img_2", "train/n00/img_3",
        "train/n01/img_4", "train/n02/img_5"},
       "379c36d5afae6652ea58a1e4091f78719c26e54c9c6fbeb4987771801418d3ef"},
      {"empty_fields.tar",
       {"e0", "e1", "e2", "e3"},
       "7ccf4f71f89a3044e9b43cab963a72afd745507e4e7dc461c68e423d26249ac1"},
  };
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("webdataset/" + fixture.name);
    const FormatResult found =
        DetectFormat("data", std::as_bytes(std::span(file)).first(std::size_t{4096}));
    ASSERT_TRUE(found.status.ok()) << found.status.ToString();
    ASSERT_EQ(found.format->name(), "tar");
    const Framed framed = FrameAll(*found.format, file, OnDamage::kFail);
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    std::string fields;
    std::vector<std::string> keys;
    for (const std::string& record : framed.records) {
      TarSample sample;
      ASSERT_TRUE(SplitTarSample(std::as_bytes(std::span(record)), &sample).ok());
      keys.push_back(sample.key);
      std::ranges::sort(sample.members, {}, &TarMember::extension);
      for (const TarMember& member : sample.members) {
        const auto size = static_cast<std::uint64_t>(member.bytes.size());
        fields.append(reinterpret_cast<const char*>(&size), sizeof(size));
        fields += Bytes(member.bytes);
      }
    }
    EXPECT_EQ(keys, fixture.keys);
    EXPECT_EQ(Sha256(fields), fixture.fields_sha256) << fixture.name;
  }
}

}  // namespace
}  // namespace ringfeed
