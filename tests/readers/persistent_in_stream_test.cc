#include "ringfeed/compat/persistent_in_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/compressed.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class PersistentInStreamTest : public testing::Test {
 protected:
  std::vector<std::string> Parts(const std::vector<std::string>& contents) {
    std::vector<std::string> names;
    for (const std::string& content : contents) {
      names.push_back(directory_.File("part-" + std::to_string(names.size())));
      WriteBytes(names.back(), BytesOf(content));
    }
    return names;
  }
  static std::vector<std::string> Lines(PersistentInStream* stream) {
    std::vector<std::string> lines;
    std::string line = "old";
    while (stream->ReadLine(&line)) lines.push_back(line);
    EXPECT_FALSE(stream->ReadLine(&line)) << "the end stays";
    return lines;
  }
  static std::vector<std::string> Lines(std::vector<std::string> parts) {
    PersistentInStream stream(std::move(parts));
    return Lines(&stream);
  }
  template <typename Call>
  static Status StatusOf(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.status();
    }
    return {};
  }

  TempDir directory_;
};

using Texts = std::vector<std::string>;

TEST_F(PersistentInStreamTest, TheLastLineOfAPartIsNotJoinedWithTheFirstOfTheNext) {
  EXPECT_EQ(Lines(Parts({"8,16\n9.1,18.03", "1.01,2.02\n2,4"})),
            (Texts{"8,16", "9.1,18.03", "1.01,2.02", "2,4"}));
}

TEST_F(PersistentInStreamTest, EndsOfLinesAreTakenOff) {
  EXPECT_EQ(Lines(Parts({"a\r\nb\n\nc\r\n\r\n", "d\re\n"})),
            (Texts{"a", "b", "", "c", "", "d\re"}));
}

TEST_F(PersistentInStreamTest, EmptyPartsAndNoPartsHaveNoLines) {
  EXPECT_EQ(Lines(Parts({"", "a", "", "", "b\n", ""})), (Texts{"a", "b"}));
  EXPECT_EQ(Lines(Parts({"", ""})), Texts{});
  EXPECT_EQ(Lines(Texts{}), Texts{});
}

TEST_F(PersistentInStreamTest, LinesAtTheEdgesOfTheBufferAreWhole) {
  constexpr std::size_t kBuffer = 256 * 1024;
  for (const std::size_t first : {kBuffer - 2, kBuffer - 1, kBuffer, kBuffer + 1, 3 * kBuffer}) {
    for (const std::string end : {"\n", "\r\n"}) {
      const std::string one(first, 'a');
      EXPECT_EQ(Lines(Parts({one + end + "b" + end + "c", one})), (Texts{one, "b", "c", one}));
    }
  }
}

TEST_F(PersistentInStreamTest, CompressedPartsAreDecompressed) {
  using Kind = CompressedForm::Kind;
  std::string content;
  Texts wanted;
  for (int i = 0; i < 50'000; ++i) {
    wanted.push_back("line " + std::to_string(i));
    content += wanted.back() + (i + 1 < 50'000 ? "\n" : "");
  }
  for (const auto& [kind, ending] :
       {std::pair(Kind::kGzip, ".gz"), {Kind::kZlib, ".zz"}, {Kind::kZstd, ".zst"}}) {
    const Texts parts{directory_.File(std::string("part-0") + ending), directory_.File("part-1")};
    for (const std::string& part : parts) WriteBytes(part, Compress(BytesOf(content), {kind, 3}));
    Texts twice = wanted;
    twice.insert(twice.end(), wanted.begin(), wanted.end());
    EXPECT_EQ(Lines(parts), twice);
  }
}

TEST_F(PersistentInStreamTest, ADamagedPartIsAnErrorBehindTheLinesBeforeIt) {
  const std::string content(300'000, '\n');
  std::vector<std::byte> bytes = Compress(BytesOf(content), {});
  bytes.resize(bytes.size() - 3);
  Texts parts = Parts({"a\nb", "", "c"});
  WriteBytes(parts[1], bytes);
  PersistentInStream stream(parts);
  std::string line;
  std::size_t lines = 0;
  const auto read_all = [&] {
    while (stream.ReadLine(&line)) ++lines;
  };
  const Status status = StatusOf(read_all);
  EXPECT_EQ(status.code(), StatusCode::kTruncated) << status.ToString();
  EXPECT_EQ(status.place().file, parts[1]);
  EXPECT_GT(lines, 2u);
  EXPECT_EQ(status.place().offset, static_cast<std::int64_t>(lines - 2));
  EXPECT_EQ(StatusOf(read_all).ToString(), status.ToString()) << "a failure stays";
}

TEST_F(PersistentInStreamTest, AMissingPartIsAnErrorThatNamesIt) {
  Texts parts = Parts({"a\nb"});
  parts.push_back(directory_.File("part-1"));
  PersistentInStream stream(parts);
  std::string line;
  EXPECT_TRUE(stream.ReadLine(&line) && stream.ReadLine(&line));
  const Status status = StatusOf([&] { (void)stream.ReadLine(&line); });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.place().file, parts[1]);
  const Status folder = StatusOf([&] { Lines(Texts{directory_.path()}); });
  EXPECT_EQ(folder.code(), StatusCode::kInvalidArgument);
}

TEST_F(PersistentInStreamTest, ALineThatIsTooLongIsAnErrorAtItsStart) {
  PersistentInStream stream(Parts({"1234567\n12345678\n123456789\n"}), 8);
  std::string line;
  EXPECT_TRUE(stream.ReadLine(&line) && stream.ReadLine(&line));
  const Status status = StatusOf([&] { (void)stream.ReadLine(&line); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.place().offset, 17);
}

TEST_F(PersistentInStreamTest, RecordsComeFromOnePartEach) {
  const std::string big(700'000, 'x');
  PersistentInStream stream(Parts({"aabb", "", "cc" + big, "d"}));
  const auto read = [&](std::size_t bytes) {
    std::string data(bytes, '?');
    return stream.ReadFully(data.data(), bytes) ? data : "end";
  };
  EXPECT_EQ(read(2), "aa");
  EXPECT_EQ(stream.offset(), 2u);
  EXPECT_EQ(read(0), "");
  EXPECT_EQ(read(2), "bb");
  EXPECT_EQ(read(2), "cc");
  EXPECT_EQ(read(big.size()), big);
  EXPECT_EQ(stream.offset(), big.size() + 2);
  const Status status = StatusOf([&] { read(2); });
  EXPECT_EQ(status.code(), StatusCode::kTruncated);
  EXPECT_EQ(status.place().file, directory_.File("part-3"));
  EXPECT_EQ(status.place().offset, 0);
}

TEST_F(PersistentInStreamTest, TheEndOfAllPartsIsNoError) {
  PersistentInStream stream(Parts({"aa", "bb", ""}));
  std::array<char, 2> pair{};
  EXPECT_TRUE(stream.ReadFully(pair.data(), 2) && stream.ReadFully(pair.data(), 2));
  EXPECT_FALSE(stream.ReadFully(pair.data(), 2));
  EXPECT_FALSE(stream.ReadFully(pair.data(), 2));
}

TEST_F(PersistentInStreamTest, RewindStartsWithTheFirstPartAlsoBehindAFailure) {
  Texts parts = Parts({"a\nb", "c"});
  PersistentInStream stream(parts);
  std::string line;
  EXPECT_TRUE(stream.ReadLine(&line));
  stream.Rewind();
  EXPECT_EQ(stream.part(), "");
  EXPECT_EQ(Lines(&stream), (Texts{"a", "b", "c"}));
  EXPECT_EQ(stream.part(), parts[1]);
  stream.Rewind();
  std::array<char, 4> four{};
  EXPECT_EQ(StatusOf([&] { (void)stream.ReadFully(four.data(), 4); }).code(),
            StatusCode::kTruncated);
  PersistentInStream moved = std::move(stream);
  moved.Rewind();
  EXPECT_EQ(Lines(&moved), (Texts{"a", "b", "c"}));
}

}  // namespace
}  // namespace ringfeed
