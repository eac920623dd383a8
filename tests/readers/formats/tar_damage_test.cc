#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "readers/formats/tar/tar.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tar_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, OnDamage on_damage, const Feeding& feeding = {}) {
  return FrameAll(*TarFormat({}), file, on_damage, feeding);
}

// The places of the records among the samples; 1000 for one that is none of them.
std::vector<std::size_t> Which(const Strings& records, const Strings& samples) {
  std::vector<std::size_t> which;
  for (const std::string& record : records) {
    const auto found = std::ranges::find(samples, record);
    which.push_back(found == samples.end() ? 1000
                                           : static_cast<std::size_t>(found - samples.begin()));
  }
  return which;
}

bool IsPrefix(const Strings& some, const Strings& all) {
  return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

bool IsSubsequence(const Strings& some, const Strings& all) {
  std::size_t found = 0;
  for (const std::string& one : all) found += found < some.size() && some[found] == one ? 1 : 0;
  return found == some.size();
}

// The offsets of the headers of a sample.
std::vector<std::size_t> Headers(const std::string& sample) {
  std::vector<std::size_t> headers;
  for (std::size_t at = 0; at < sample.size(); at += 512) {
    if (TarHeaderMatches(std::as_bytes(std::span(sample)).subspan(at, 512))) headers.push_back(at);
  }
  return headers;
}

// Any damage in a header: never an incomplete or a false sample; the neighbours may be lost only
// where nothing that is left says whose the header was.
TEST(TarDamageTest, FlippedHeaderByteNeverGivesAnIncompleteSample) {
  const Strings samples = SomeSamples();
  const std::string file = TarOf(samples);
  std::size_t base = 0;
  for (std::size_t sample = 0; sample < samples.size(); base += samples[sample++].size()) {
    for (const std::size_t header : Headers(samples[sample])) {
      for (std::size_t at = base + header; at < base + header + 512; ++at) {
        for (const char flip : {'\x01', '\x02', '\x10', '\x80', '\xff'}) {
          std::string damaged = file;
          damaged[at] = static_cast<char>(damaged[at] ^ flip);
          const Framed failed = Frame(damaged, OnDamage::kFail);
          if (failed.status.ok()) continue;  // a terminator behind the checksum
          ASSERT_TRUE(IsPrefix(failed.records, samples)) << at;
          ASSERT_GE(failed.records.size() + 1, sample);
          ASSERT_LE(failed.records.size(), sample);
          ASSERT_GE(failed.status.place().offset, 0);
          const Framed skipped = Frame(damaged, OnDamage::kSkip);
          ASSERT_TRUE(skipped.status.ok()) << at << skipped.status.ToString();
          ASSERT_TRUE(IsSubsequence(skipped.records, Without(samples, sample))) << at;
          ASSERT_GE(skipped.records.size() + 2, samples.size()) << at;
          ASSERT_FALSE(skipped.damage.empty());
          ExpectOrderly(skipped);
        }
      }
    }
  }
}

// As above once a whole sample was seen: exactly the header's own sample is lost.
TEST(TarDamageTest, DamagedHeaderCostsItsSampleAlone) {
  const Strings samples = SomeSamples();
  const std::string file = TarOf(samples);
  std::size_t base = samples[0].size();
  for (std::size_t sample = 1; sample < samples.size(); base += samples[sample++].size()) {
    for (const std::size_t header : Headers(samples[sample])) {
      for (const std::size_t field :
           {5u, 9u, 101u, 125u, 130u, 134u, 140u, 150u, 257u, 300u, 511u}) {
        std::string damaged = file;
        damaged[base + header + field] = static_cast<char>(damaged[base + header + field] ^ 1);
        for (const bool known : {true, false}) {
          for (const std::size_t step : {0u, 700u, 1u}) {
            Feeding feeding{.ends = {base, base + 1000}, .limit_step = step, .known_size = known};
            const Framed skipped = Frame(damaged, OnDamage::kSkip, feeding);
            ASSERT_EQ(Which(skipped.records, samples), Which(Without(samples, sample), samples))
                << sample << " header " << header << " byte " << field;
            ASSERT_EQ(skipped.damage.size(), 1U);
            ASSERT_LE(skipped.damage[0].begin, base + header + field);
            ASSERT_GT(skipped.damage[0].end, base + header + field);
            ASSERT_EQ(std::count(skipped.damaged.begin(), skipped.damaged.end(), true), 1);
          }
        }
        ASSERT_EQ(Which(Frame(damaged, OnDamage::kFail).records, samples),
                  Which(First(samples, sample), samples));
      }
    }
  }
}

TEST(TarDamageTest, SamplesOfOneMemberAreLostOneByOne) {
  Strings samples;
  for (int i = 0; i < 5; ++i) samples.push_back(TarFile("00" + std::to_string(i) + ".bin", "abc"));
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    std::string file = TarOf(samples);
    file[sample * 1024 + 130] ^= 1;
    EXPECT_EQ(Which(Frame(file, OnDamage::kSkip).records, samples),
              Which(Without(samples, sample), samples));
    EXPECT_EQ(Which(Frame(file, OnDamage::kFail).records, samples),
              Which(First(samples, sample), samples));
  }
}

TEST(TarDamageTest, ErasedHeaderCostsWhatNobodyCanTellIsWhole) {
  const Strings samples = SomeSamples();
  for (const char filling : {'\0', '\x5a'}) {
    std::string file = TarOf(samples);
    file.replace(samples[0].size() + samples[1].size(), 512, 512, filling);
    const Framed skipped = Frame(file, OnDamage::kSkip);
    // The one in front holds what the first one held, so nothing of it stood there.
    EXPECT_EQ(Which(skipped.records, samples), (std::vector<std::size_t>{0, 1, 3}));
    EXPECT_EQ(Which(Frame(file, OnDamage::kFail).records, samples),
              Which(First(samples, 2), samples));
  }
}

TEST(TarDamageTest, GarbageBetweenSamplesCostsNone) {
  const Strings samples = SomeSamples(5);
  std::mt19937 random(17);
  for (std::size_t behind = 0; behind < samples.size(); ++behind) {
    for (int round = 0; round < 200; ++round) {
      std::string garbage(512, '\0');
      for (char& each : garbage) each = static_cast<char>(random());
      std::string file;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        file += samples[i] + (i == behind ? garbage : "");
      }
      file += TarEnd();
      for (const Feeding& feeding : {Feeding{}, Feeding{.ends = {700, 2200}, .limit_step = 1024},
                                     Feeding{.ends = {3000}, .known_size = false}}) {
        const Framed skipped = Frame(file, OnDamage::kSkip, feeding);
        ASSERT_EQ(Which(skipped.records, samples), Which(samples, samples)) << behind;
        ASSERT_EQ(skipped.damage.size(), 1U);
        ASSERT_EQ(Which(Frame(file, OnDamage::kFail, feeding).records, samples),
                  Which(First(samples, behind + 1), samples));
      }
    }
  }
}

TEST(TarDamageTest, CutFileGivesWholeSamplesAndSaysSo) {
  const Strings samples = SomeSamples(3);
  const std::string file = TarOf(samples);
  const std::size_t content = file.size() - 1024;
  for (std::size_t at = 0; at < content; ++at) {
    const std::string cut = file.substr(0, at);
    std::size_t whole = 0;
    for (std::size_t end = samples[0].size(); end <= at; end += samples[++whole].size()) {
    }
    std::size_t before = 0;
    for (std::size_t i = 0; i < whole; ++i) before += samples[i].size();
    // Between two members nothing tells a cut from the end of an archive without an end mark.
    const bool between = at == before || std::ranges::any_of(Headers(samples[whole]), [&](auto h) {
                           return before + h == at;
                         });
    for (const bool known : {true, false}) {
      const Framed failed = Frame(cut, OnDamage::kFail, {.known_size = known});
      const Framed skipped = Frame(cut, OnDamage::kSkip, {.known_size = known});
      ASSERT_TRUE(skipped.status.ok());
      ExpectOrderly(skipped);
      ASSERT_EQ(failed.status.code(), between ? StatusCode::kOk : StatusCode::kTruncated) << at;
      ASSERT_EQ(skipped.damage.empty(), between) << at;
      ASSERT_EQ(skipped.warnings.empty(), !between) << at;
      if (between) continue;
      ASSERT_TRUE(IsPrefix(failed.records, First(samples, whole))) << at;
      ASSERT_TRUE(IsPrefix(skipped.records, First(samples, whole))) << at;
      const bool named = (at - before) % 512 > 10 || at - before > 512;
      if (named) {
        ASSERT_EQ(failed.records.size(), whole) << at;
        ASSERT_EQ(skipped.records.size(), whole) << at;
      }
    }
  }
}

TEST(TarDamageTest, ForgedSizeIsDamageNotMemory) {
  const Strings samples = SomeSamples(2);
  Strings headers;
  for (const char last : {'\x40', '\x7f'}) {  // 2^62 and the largest there is
    std::string header = TarHeader("x.jpg", 0);
    header.replace(124, 12, std::string("\x80\0\0\0", 4) + last + std::string(7, '\x11'));
    headers.push_back(TarSum(header));
  }
  headers.push_back(TarHeader("x.jpg", 0).replace(124, 12, std::string(12, '\xff')));
  headers.back() = TarSum(headers.back());
  headers.push_back(TarHeader("x.jpg", std::uint64_t{1} << 32));
  headers.push_back(TarPax(PaxRecord("size", "4611686018427387904")) + TarHeader("x.jpg", 0));
  headers.push_back(TarPax(PaxRecord("size", "-1")) + TarHeader("x.jpg", 0));
  for (const std::string& header : headers) {
    const std::string file = samples[0] + header + samples[1] + TarEnd();
    const Framed failed = Frame(file, OnDamage::kFail);
    EXPECT_FALSE(failed.status.ok());
    EXPECT_EQ(Which(failed.records, samples), Which(First(samples, 1), samples));
    const Framed skipped = Frame(file, OnDamage::kSkip);
    EXPECT_EQ(Which(skipped.records, samples), Which(samples, samples));
    ExpectOrderly(skipped);
    ExpectOrderly(Frame(file, OnDamage::kSkip, {.known_size = false}));
    EXPECT_FALSE(Frame(file, OnDamage::kFail, {.known_size = false}).status.ok());
  }
}

TEST(TarDamageTest, SampleAboveTheLimitIsPassedOverWithoutBeingHeld) {
  Strings samples = SomeSamples(3);
  samples[1] =
      TarFile("big.a", "1") + TarFile("big.b", std::string(9000, 'x')) + TarFile("big.c", "2");
  const std::string file = TarOf(samples);
  const Framed failed = FrameAll(*TarFormat({}), file, OnDamage::kFail, {}, 4000);
  EXPECT_EQ(failed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(failed.status.message().find("max_record_bytes"), std::string::npos);
  EXPECT_EQ(Which(failed.records, samples), Which(First(samples, 1), samples));
  for (const bool known : {true, false}) {
    const Framed skipped = FrameAll(*TarFormat({}), file, OnDamage::kSkip,
                                    {.ends = {3000, 5000, 9000}, .known_size = known}, 4000);
    EXPECT_EQ(Which(skipped.records, samples), Which(Without(samples, 1), samples));
    EXPECT_EQ(skipped.damaged, (std::vector<bool>{false, true, false}));
  }
}

TEST(TarDamageTest, GarbageInPaxHeadersIsDamage) {
  const Strings samples = SomeSamples(2);
  for (const std::string records :
       {"garbage", "99999999999999999999 path=x\n", "5 a\n", "8 path=x\n", "0 path=a\n",
        "-1 path=a\n", "11 path=abcd", "3 =\n", "18446744073709551615 path=abc\n"}) {
    const std::string file = samples[0] + TarPax(records) + samples[1] + TarEnd();
    const Framed failed = Frame(file, OnDamage::kFail);
    EXPECT_FALSE(failed.status.ok()) << records;
    EXPECT_TRUE(IsPrefix(failed.records, First(samples, 1)));
    const Framed skipped = Frame(file, OnDamage::kSkip);
    EXPECT_TRUE(IsSubsequence(skipped.records, samples));
    ExpectOrderly(skipped);
  }
}

TEST(TarDamageTest, SparseFilesAreRefusedNotMisread) {
  const std::string file = TarFile("a.x", "1") + TarHeader("b.x", 0, 'S') + TarEnd();
  EXPECT_EQ(Frame(file, OnDamage::kFail).status.code(), StatusCode::kUnsupported);
  const std::string pax = TarPax(PaxRecord("GNU.sparse.major", "1")) + TarFile("b.x", "2");
  EXPECT_EQ(Frame(pax + TarEnd(), OnDamage::kFail).status.code(), StatusCode::kUnsupported);
}

// What cannot be read is no damage: nobody delivers the sample without its member.
TEST(TarDamageTest, SparseMembersAreNotPassedOver) {
  const Strings samples = SomeSamples(2);
  const std::string pax =
      TarPax(PaxRecord("GNU.sparse.major", "1") + PaxRecord("GNU.sparse.name", "b.npy") +
             PaxRecord("path", "GNUSparseFile.7/b.npy"));
  const std::vector<std::string> sparse = {TarHeader("b.npy", 0, 'S'),
                                           pax + TarFile("GNUSparseFile.7/b.npy", "2")};
  for (const std::string& member : sparse) {
    for (const std::string before : {"", "b.cls"}) {
      const std::string own = before.empty() ? "" : TarFile(before, "1");
      const std::string file =
          samples[0] + samples[1] + own + member + TarFile("b.txt", "3") + TarEnd();
      for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
        for (const std::uint64_t step : {0U, 512U}) {
          const Framed framed = Frame(file, on_damage, {.limit_step = step});
          EXPECT_EQ(framed.status.code(), StatusCode::kUnsupported);
          EXPECT_NE(framed.status.message().find("b.npy"), std::string::npos);
          EXPECT_EQ(framed.records, samples);
          EXPECT_TRUE(framed.damage.empty());
        }
      }
    }
  }
  // One that belongs to no sample is in nobody's way.
  const std::string other =
      TarPax(PaxRecord("GNU.sparse.name", "notes") + PaxRecord("path", "GNUSparseFile.7/notes")) +
      TarFile("GNUSparseFile.7/notes", "2");
  EXPECT_EQ(Frame(samples[0] + other + samples[1] + TarEnd(), OnDamage::kFail).records, samples);
}

// Members of samples of one key are never mixed, which costs those behind the damage too.
TEST(TarDamageTest, DamagedHeaderBetweenSamplesOfOneKeyMixesNone) {
  Strings samples;
  for (const std::string label : {"1", "2", "3", "4"}) {
    samples.push_back(TarFile("img.cls", label) + TarFile("img.jpg", label) +
                      TarFile("img.txt", label));
  }
  const std::size_t sample_bytes = samples[0].size();
  samples.push_back(TarFile("img2.jpg", "5"));
  const std::string file = TarOf(samples);
  for (std::size_t header = 0; header < 4 * sample_bytes; header += 1024) {
    const std::size_t sample = header / sample_bytes;
    for (const std::size_t at : {0U, 2U, 4U, 140U}) {  // in the key, the extension, its time
      std::string damaged = file;
      damaged[header + at] = static_cast<char>(damaged[header + at] ^ 1);
      const Framed failed = Frame(damaged, OnDamage::kFail);
      ASSERT_FALSE(failed.status.ok());
      const bool is_prefix = IsPrefix(failed.records, samples);
      EXPECT_TRUE(is_prefix) << header << " " << at;
      const Framed skipped = Frame(damaged, OnDamage::kSkip);
      ASSERT_TRUE(skipped.status.ok());
      const bool is_whole = IsSubsequence(skipped.records, Without(samples, sample));
      EXPECT_TRUE(is_whole) << header << " " << at;
      ASSERT_FALSE(skipped.records.empty());
      EXPECT_EQ(skipped.records.back() == samples.back(), true) << header << " " << at;
      EXPECT_GE(skipped.records.size() + 1, sample) << header << " " << at;
      ExpectOrderly(skipped);
    }
  }
}

TEST(TarDamageTest, ArchiveBehindAnArchiveIsNotLostInSilence) {
  const Strings samples = SomeSamples(2);
  const std::string file = TarOf({samples[0]}) + TarOf({samples[1]});
  const Framed failed = Frame(file, OnDamage::kFail);
  EXPECT_EQ(failed.status.code(), StatusCode::kDamaged);
  EXPECT_EQ(Which(failed.records, samples), Which(First(samples, 1), samples));
  const Framed skipped = Frame(file, OnDamage::kSkip);
  EXPECT_EQ(Which(skipped.records, samples), Which(samples, samples));
  EXPECT_EQ(skipped.damage.size(), 1U);
}

TEST(TarDamageTest, SearchGoesOnOverCallsAndStripes) {
  const Strings samples = SomeSamples(3);
  const std::string garbage(1536, '\x5a');
  const std::string file = samples[0] + garbage + samples[1] + samples[2] + TarEnd();
  for (std::size_t step = 100; step < 3000; step += 97) {
    Feeding feeding{.ends = {}, .limit_step = step};
    for (std::size_t end = step; end < file.size(); end += step) feeding.ends.push_back(end);
    const Framed framed = Frame(file, OnDamage::kSkip, feeding);
    ASSERT_EQ(Which(framed.records, samples), Which(samples, samples)) << step;
    ASSERT_EQ(framed.damage.size(), 1U);
    EXPECT_EQ(framed.damage[0].begin, samples[0].size());
    EXPECT_EQ(framed.damage[0].end, samples[0].size() + 1536);
  }
}

// A member of no sample that is cut: whether its end is known at once or found out later, the
// sample in front of it is whole, and what looks like a member inside it is none.
TEST(TarDamageTest, CutMemberOfNoSampleIsTheSameWhereTheSizeIsNotKnown) {
  const Strings samples = SomeSamples(2);
  const std::string folder = TarHeader("README", 1 << 20);
  for (const std::string& front : {samples[0], std::string()}) {
    const std::string file = front + folder + TarPad("text") + samples[1];
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      const Framed whole = Frame(file, on_damage, {.known_size = false});
      EXPECT_EQ(whole.records.size(), front.empty() ? 0U : on_damage == OnDamage::kFail ? 1U : 2U);
      for (std::size_t end = 512; end < file.size(); end += 512) {
        const Framed split = Frame(file, on_damage, {.ends = {end}, .known_size = false});
        ASSERT_EQ(split.records, whole.records) << end;
        ASSERT_EQ(split.status.ToString(), whole.status.ToString()) << end;
        ASSERT_EQ(split.damage.size(), whole.damage.size()) << end;
      }
    }
  }
}

// Nothing of a loss is forgotten at a lone block of zeros that the search comes to.
TEST(TarDamageTest, ZerosBehindALossBelongToIt) {
  const std::string sample = SomeSamples(1)[0];
  std::string lost = TarFile("other.txt", "text");
  lost[150] = 'x';
  const std::string zeros(512, '\0');
  const Framed framed =
      Frame(lost + TarHeader("link", 0, '2') + zeros + sample + TarEnd(), OnDamage::kSkip);
  ASSERT_EQ(framed.damage.size(), 1U);
  EXPECT_EQ(framed.damage[0].begin, 0U);
}

TEST(TarDamageTest, ManyTinyMembersCostLinearTime) {
  std::string sample;
  for (int i = 0; i < 4000; ++i) sample += TarFile("a." + std::to_string(i), "");
  Feeding feeding;
  for (std::size_t end = 512; end < sample.size(); end += 512) feeding.ends.push_back(end);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Frame(sample, OnDamage::kFail, feeding).records, (Strings{sample}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(TarDamageTest, GarbageOfAllKindsEndsInOrder) {
  Scribbler scribbler;
  const std::string long_name = TarFile("././@LongLink", std::string(300, 'n') + ".jpg", 'L');
  for (int round = 0; round < 1000; ++round) {
    const std::string head = TarPax(PaxRecord("path", "p/q.r")) + TarFile("p", "1") + long_name;
    const std::string file = scribbler.Scribbled(head + TarOf(SomeSamples()), 1 + round % 20);
    for (const bool known : {true, false}) {
      const Feeding feeding{.ends = {100, 3500}, .limit_step = 1000, .known_size = known};
      const Framed framed = Frame(file, OnDamage::kSkip, feeding);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      ExpectOrderly(framed);
      Frame(file, OnDamage::kFail, feeding);
    }
  }
}

}  // namespace
}  // namespace ringfeed
