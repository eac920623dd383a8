#include <gtest/gtest.h>

#include "readers/formats/arrays/arrays.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

std::string Npy(const std::string& dict, const std::string& data, int version = 1) {
  const auto low = static_cast<char>(dict.size() & 0xff);
  const auto high = static_cast<char>(dict.size() >> 8);
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += low;
  file += high;
  if (version > 1) file += std::string(2, '\0');
  return file + dict + data;
}

std::string Dict(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }  \n";
}

Framed Frame(const std::string& file, OnDamage on_damage = OnDamage::kFail,
             const Feeding& feeding = {}) {
  return FrameAll(*NpyFormat({}), file, on_damage, feeding);
}

struct Fixture {
  std::string name;
  std::size_t rows;
  std::string sha256;  // of the elements in C order
};

TEST(NpyTest, FilesOfNumpyAreReadAsTheirDigestsSay) {
  const std::vector<Fixture> fixtures = {
      {"t_b1.npy", 5, "69801b353a8f248b5399788172cf8a7758625782651ae1e8b733fd3f5cd875a8"},
      {"t_i1.npy", 5, "4a5cb2942cb120b93e9f93363a6e875f37a77f16a2b709c8a3bd2464a19b5b89"},
      {"t_u1.npy", 5, "59f07ffafc014b0c73c568f8fc9d83b26f3e3ea13ac4bf5bfa6529b3c8e91dc4"},
      {"t_i2.npy", 5, "200473197d1ef9d0a4363d2dbadcf03d850e6a6beaed69f7fd22e17d434f09cf"},
      {"t_u2.npy", 5, "10f704acbe724fa512e44d0ded89dd191117d40a5873b6a74654e183c8ee21bd"},
      {"t_i4.npy", 5, "0d743319570ec6b2b327961c315fa32d1864fa679c29d53cb3b0145ea0a68e52"},
      {"t_i8.npy", 5, "44f7ee2ca15aebf9676495d91daddc642a10f313facd45bf2c6257c899e0bc6a"},
      {"t_u8.npy", 5, "8161bcfd7211cf240cdda733a3be99450e456624f58c09b7a619e98623ea885e"},
      {"t_f2.npy", 5, "e43c7eb622c660ed2170c4050fe0a3ff78e02fd3bd96c85b1e76e57a58847ebb"},
      {"t_f4.npy", 5, "fa1df4add9726bb812695cc5396bf78ad3436ebb95f6122207903ab7ed5b94fc"},
      {"t_f8.npy", 5, "fa84dbd203b205b74a96de6a27ebcdc33964097d507e5526d4031fd52e2e5dfc"},
      {"t_c8.npy", 5, "521b2f603a117b817a07e351f5a9f968c3f9d8fc6fed90213a8ecb8bb29205ba"},
      {"fortran_f4.npy", 4, "eae973f70bad350b0144e3dd586a8a2a4f1fd0983cc3ffaa91ca86fe9fe379b0"},
      {"big_endian_i4.npy", 3, "2abd9540bfaa4f1138fc54270624193b63e4c45bce21ed1f62198ddaf143b36d"},
      {"scalar.npy", 1, "42b215bc5c10e8a6453db424667de747070305824b7e67e63df3aca31215898f"},
      {"empty_0x7.npy", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"one_dim.npy", 100, "0914116557e78ac6d6c10016d319d56f4e3e6580362256bcc7a2c073c6900dbf"},
      {"version2.npy", 2, "e2c0a71510b5394df7773b63fb5f54372b84c3564e67811bde7d665be227976d"},
  };
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("numpy/" + fixture.name);
    const FormatResult found = DetectFormat("data", std::as_bytes(std::span(file)));
    ASSERT_TRUE(found.status.ok()) << found.status.ToString();
    ASSERT_EQ(found.format->name(), "npy");
    const Framed framed = Frame(file);
    ASSERT_TRUE(framed.status.ok()) << fixture.name << framed.status.ToString();
    EXPECT_EQ(framed.records.size(), fixture.rows) << fixture.name;
    std::string all;
    for (const std::string& record : framed.records) all += record;
    EXPECT_EQ(Sha256(all), fixture.sha256) << fixture.name;
  }
}

TEST(NpyTest, EverySplitAndStripeGivesTheSame) {
  for (const bool fortran : {false, true}) {
    const std::string file = Npy(Dict("<u2", "(3, 4)", fortran), "aabbccddeeffgghhiijjkkll");
    const Strings rows = fortran ? Strings{"aaddggjj", "bbeehhkk", "ccffiill"}
                                 : Strings{"aabbccdd", "eeffgghh", "iijjkkll"};
    for (const bool known : {true, false}) {
      for (std::size_t split = 0; split < file.size(); ++split) {
        const Framed framed =
            Frame(file, OnDamage::kFail, {.ends = {split, split + 3}, .known_size = known});
        ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
        ASSERT_EQ(framed.records, rows);
        ASSERT_FALSE(framed.stuck);
      }
      for (std::uint64_t stripe = 1; stripe < file.size(); ++stripe) {
        const Feeding feeding{.ends = {}, .limit_step = stripe, .known_size = known};
        ASSERT_EQ(Frame(file, OnDamage::kFail, feeding).records, rows) << stripe;
      }
    }
  }
}

TEST(NpyTest, AllVersionsAndQuotesAndSpacesAreRead) {
  const std::string odd = "{\"shape\":(2L,),\"descr\":\"|S3\" , \"fortran_order\":False}";
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(Frame(Npy(odd, "abcdef", version)).records, (Strings{"abc", "def"}));
  }
}

TEST(NpyTest, RowsOfThreeDimensionsAreGatheredInCOrder) {
  // Element (i, j, k) of a 2 x 2 x 3 array is its number in C order.
  std::string data(12, '?');
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 3; ++k) {
        data[static_cast<std::size_t>(i + 2 * j + 4 * k)] =
            static_cast<char>('a' + 6 * i + 3 * j + k);
      }
    }
  }
  EXPECT_EQ(Frame(Npy(Dict("|u1", "(2, 2, 3)", true), data)).records,
            (Strings{"abcdef", "ghijkl"}));
}

TEST(NpyTest, WhatIsNotSupportedIsSaid) {
  const Strings dicts = {Dict("|O", "(2,)"), Dict("<f4", "(5, 0)"), Dict("xx", "(2,)"),
                         "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"};
  for (const std::string& dict : dicts) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      const Framed framed = Frame(Npy(dict, "12345678"), on_damage);
      EXPECT_EQ(framed.status.code(), StatusCode::kUnsupported) << dict;
      EXPECT_TRUE(framed.records.empty());
    }
  }
  EXPECT_EQ(Frame(Npy(Dict("|u1", "(1,)"), "1", 4)).status.code(), StatusCode::kUnsupported);
  std::string minor = Npy(Dict("|u1", "(1,)"), "1");
  minor[7] = 1;
  EXPECT_EQ(Frame(minor).status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(Frame(Npy(Dict("|u1", "(01,)"), "1")).status.code(), StatusCode::kDamaged);
}

TEST(NpyTest, HostileHeadersAreDamageNotMemory) {
  const Strings dicts = {Dict("<f8", "(4611686018427387904, 4611686018427387904)"),
                         Dict("<f8", "(18446744073709551616,)"),
                         Dict("<f8", "(2305843009213693952,)"),
                         Dict("<f8", "(-1,)"),
                         Dict("<f8", "(1,2"),
                         "{'descr': '<f8', 'fortran_order': False}",
                         "{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,)}",
                         "{'descr': '<f8",
                         "",
                         std::string(300, '{'),
                         Dict("<f8", "(" + std::string(300, '1') + ",)")};
  for (const std::string& dict : dicts) {
    for (const bool known : {true, false}) {
      const Feeding feeding{.known_size = known};
      const Framed failed = Frame(Npy(dict, "12345678"), OnDamage::kFail, feeding);
      EXPECT_EQ(failed.status.code(), StatusCode::kDamaged) << dict;
      const Framed skipped = Frame(Npy(dict, "12345678"), OnDamage::kSkip, feeding);
      EXPECT_TRUE(skipped.status.ok());
      EXPECT_EQ(skipped.damage.size(), 1U);
      EXPECT_TRUE(skipped.records.empty());
    }
  }
  std::string longest = Npy("", "12345678", 2);
  longest.replace(8, 4, "\xff\xff\xff\x7f");
  EXPECT_EQ(Frame(longest).status.code(), StatusCode::kDamaged);
}

TEST(NpyTest, CutFileGivesItsWholeRowsAndSaysSo) {
  const std::string file = Npy(Dict("|u1", "(4, 3)"), "aaabbbcccddd");
  const std::size_t header = file.size() - 12;
  for (std::size_t at = 0; at < file.size(); ++at) {
    // A reader's last stripe ends where the file does.
    for (const Feeding& feeding : {Feeding{}, Feeding{.known_size = false},
                                   Feeding{.limit_step = at}, Feeding{.limit_step = 8}}) {
      const Framed failed = Frame(file.substr(0, at), OnDamage::kFail, feeding);
      ASSERT_EQ(failed.status.code(), StatusCode::kTruncated) << at;
      ASSERT_EQ(failed.records.size(), at < header ? 0 : (at - header) / 3);
      const Framed skipped = Frame(file.substr(0, at), OnDamage::kSkip, feeding);
      ASSERT_TRUE(skipped.status.ok());
      ASSERT_EQ(skipped.records, failed.records);
    }
  }
}

TEST(NpyTest, WhatStandsBehindTheArrayIsNotLostInSilence) {
  for (const bool fortran : {false, true}) {
    const std::string file = Npy(Dict("|u1", "(2, 2)", fortran), "abab") + "more";
    for (const bool known : {true, false}) {
      const Feeding feeding{.ends = {file.size() - 4}, .known_size = known};
      const Framed failed = Frame(file, OnDamage::kFail, feeding);
      EXPECT_EQ(failed.status.code(), StatusCode::kDamaged);
      EXPECT_EQ(failed.records.size(), 2U);
    }
  }
}

TEST(NpyTest, EveryByteOfTheHeaderFlippedEndsInOrder) {
  const std::string file = Npy(Dict("<u2", "(3, 4)", true), "aabbccddeeffgghhiijjkkll");
  for (std::size_t at = 0; at < file.size() - 24; ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      ASSERT_FALSE(Frame(damaged, OnDamage::kSkip, {.ends = {7, 40}}).stuck);
    }
  }
}

TEST(NpyTest, RowsAboveTheLimitAreRefused) {
  const std::string file = Npy(Dict("|u1", "(2, 100)"), std::string(200, 'x'));
  const Framed framed = FrameAll(*NpyFormat({}), file, OnDamage::kSkip, {}, 99);
  EXPECT_EQ(framed.status.code(), StatusCode::kResourceExhausted);
  const std::string whole = Npy(Dict("|u1", "(20, 10)", true), std::string(200, 'x'));
  EXPECT_EQ(FrameAll(*NpyFormat({}), whole, OnDamage::kFail, {}, 99).status.code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringfeed
