#include "readers/formats/tokens/megatron_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "base/log.h"
#include "tests/support/megatron_pair.h"

namespace ringfeed {
namespace {

using Order = MegatronLineOptions::Order;
using Lengths = std::vector<std::int32_t>;
using Numbers64 = std::vector<std::uint64_t>;

Status MakeLine(const std::string& index_bytes, std::uint64_t data_bytes,
                const MegatronLineOptions& options, std::shared_ptr<const MegatronLine>* line,
                const std::string& file = "a.idx") {
  const auto copy = std::make_shared<const std::string>(index_bytes);
  std::shared_ptr<const MegatronIndex> index;
  Status status = MegatronIndex::Read("a.idx", std::as_bytes(std::span(*copy)), copy, &index);
  if (!status.ok()) return status;
  return MegatronLine::Make(file, *index, data_bytes, options, line);
}

std::shared_ptr<const MegatronLine> LineOf(const Lengths& lengths,
                                           const MegatronLineOptions& options) {
  std::shared_ptr<const MegatronLine> line;
  const std::uint64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  const Status status = MakeLine(MegatronIndexBytes(lengths), 2 * elements, options, &line);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return line;
}

MegatronLineOptions AsMegatron(std::uint64_t window, std::uint64_t seed, std::uint64_t samples) {
  MegatronLineOptions options;
  options.window = window;
  options.order = Order::kMegatron;
  options.seed = seed;
  options.samples = samples;
  return options;
}

/// GPTDataset's arrays step by step, as the facts on Megatron-LM in FORMATS.md have them.
struct SlowArrays {
  Numbers64 documents;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> samples;  ///< document, offset
  Numbers64 order;
};

void SlowShuffle(Numbers64* numbers, std::size_t first, std::size_t end, std::mt19937* draws) {
  for (std::size_t i = end - first; i-- > 1;) {
    std::uint32_t mask = 1;
    while (mask < i) mask = 2 * mask + 1;
    std::uint32_t drawn = 0;
    do {
      drawn = static_cast<std::uint32_t>((*draws)()) & mask;
    } while (drawn > i);
    std::swap((*numbers)[first + i], (*numbers)[first + drawn]);
  }
}

SlowArrays SlowMegatron(const Lengths& lengths, std::uint64_t window, std::uint32_t seed,
                        std::uint64_t samples) {
  SlowArrays arrays;
  const std::uint64_t all = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  std::uint64_t epochs = 1;
  while (samples > 0 && epochs * all < samples * window + 1) ++epochs;
  const std::uint64_t before = epochs == 1 ? 0 : ((epochs - 1) * all - 1) / window;
  const auto per_epoch = (all - 1) / window;
  const bool apart = epochs > 1 && samples - before < static_cast<std::uint64_t>(
                                                          0.80 * static_cast<double>(per_epoch));
  std::mt19937 draws(seed);
  for (std::uint64_t e = 0; e < epochs; ++e) {
    for (std::uint64_t d = 0; d < lengths.size(); ++d) arrays.documents.push_back(d);
  }
  const std::size_t seam = apart ? arrays.documents.size() - lengths.size() : 0;
  if (apart) SlowShuffle(&arrays.documents, 0, seam, &draws);
  SlowShuffle(&arrays.documents, seam, arrays.documents.size(), &draws);
  const std::uint64_t count = (epochs * all - 1) / window;
  std::uint64_t document = 0;
  std::uint64_t offset = 0;
  arrays.samples.emplace_back(0, 0);
  for (std::uint64_t j = 0; j < count; ++j) {
    std::uint64_t left = window + 1;
    while (true) {
      const auto here = static_cast<std::uint64_t>(lengths[arrays.documents[document]]) - offset;
      if (left <= here) break;
      left -= here;
      ++document;
      offset = 0;
    }
    offset += left - 1;
    arrays.samples.emplace_back(document, offset);
  }
  arrays.order.resize(count);
  std::iota(arrays.order.begin(), arrays.order.end(), 0);
  if (apart) SlowShuffle(&arrays.order, 0, before, &draws);
  SlowShuffle(&arrays.order, apart ? before : 0, count, &draws);
  return arrays;
}

SlowArrays ArraysOf(const MegatronLine& line, std::uint64_t entries, std::uint64_t window) {
  SlowArrays arrays;
  for (std::uint64_t i = 0; i < entries; ++i) arrays.documents.push_back(line.SequenceAt(i));
  for (std::uint64_t j = 0; j <= line.windows(); ++j) {
    const MegatronLine::Place place = line.Find(j * window);
    // There row 0 is that even if the first document is empty.
    arrays.samples.emplace_back(j == 0 ? 0 : place.entry, place.offset);
    if (j < line.windows()) arrays.order.push_back(line.PlaceOfWindow(j));
  }
  return arrays;
}

/// The elements of all sequences, each as its place in the .bin file, in the order of `documents`.
Numbers64 Joined(const Lengths& lengths, const Numbers64& documents) {
  Numbers64 begins(lengths.size(), 0);
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    begins[i] = begins[i - 1] + static_cast<std::uint64_t>(lengths[i - 1]);
  }
  Numbers64 joined;
  for (const std::uint64_t document : documents) {
    for (std::int32_t i = 0; i < lengths[document]; ++i) {
      joined.push_back(begins[document] + static_cast<std::uint64_t>(i));
    }
  }
  return joined;
}

/// Each window of the line has the elements of `joined` from `places` on, and its pieces end with
/// documents where they say so.
void ExpectWindows(const MegatronLine& line, const Lengths& lengths, const Numbers64& joined,
                   std::uint64_t window) {
  const Numbers64 begins = [&] {
    Numbers64 all(1, 0);
    for (const std::int32_t length : lengths) {
      all.push_back(all.back() + static_cast<std::uint64_t>(length));
    }
    return all;
  }();
  ASSERT_EQ(line.windows(), joined.empty() ? 0 : (joined.size() - 1) / window);
  for (std::uint64_t k = 0; k < line.windows(); ++k) {
    Numbers64 elements;
    for (const MegatronLine::Piece& piece : line.Pieces(k)) {
      ASSERT_GT(piece.elements, 0U);
      const std::uint64_t from = begins[piece.sequence] + piece.element;
      for (std::uint64_t i = 0; i < piece.elements; ++i) elements.push_back(from + i);
      ASSERT_EQ(piece.ends, from + piece.elements == begins[piece.sequence + 1]);
    }
    const auto at = joined.begin() + static_cast<std::ptrdiff_t>(line.PlaceOfWindow(k) * window);
    ASSERT_EQ(elements, Numbers64(at, at + static_cast<std::ptrdiff_t>(window) + 1)) << k;
  }
}

Lengths RandomLengths(std::mt19937_64* random, std::size_t most_documents) {
  Lengths lengths(1 + (*random)() % most_documents);
  for (std::int32_t& length : lengths) {
    length = static_cast<std::int32_t>((*random)() % 3 == 0 ? 0 : (*random)() % 30);
  }
  lengths[(*random)() % lengths.size()] += 3;
  return lengths;
}

TEST(MegatronLineTest, TheArraysAreThoseThatMegatronCoreMade) {
  std::mt19937 draws(1234);
  EXPECT_EQ(draws(), 822569775U);
  EXPECT_EQ(draws(), 2137449171U);
  EXPECT_EQ(draws(), 2671936806U);
  const auto eight = LineOf(Lengths(8, 1), AsMegatron(1, 1234, 0));
  EXPECT_EQ(ArraysOf(*eight, 8, 1).documents, (Numbers64{2, 1, 6, 0, 4, 5, 3, 7}));

  const auto line = LineOf({3, 1, 2}, AsMegatron(2, 1234, 5));
  const SlowArrays arrays = ArraysOf(*line, 6, 2);
  EXPECT_EQ(arrays.documents, (Numbers64{2, 1, 2, 0, 1, 0}));
  EXPECT_EQ(arrays.samples, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                                {0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 0}, {5, 1}}));
  EXPECT_EQ(arrays.order, (Numbers64{2, 0, 4, 3, 1}));

  const auto apart = LineOf({3, 1, 2, 4}, AsMegatron(2, 1234, 6));
  const SlowArrays separate = ArraysOf(*apart, 8, 2);
  EXPECT_EQ(separate.documents, (Numbers64{0, 1, 2, 3, 1, 2, 3, 0}));
  EXPECT_EQ(separate.order, (Numbers64{0, 2, 3, 1, 4, 8, 7, 6, 5}));
}

TEST(MegatronLineTest, MegatronsOrderIsThatOfItsAlgorithmStepByStep) {
  std::mt19937_64 random(7);
  std::size_t apart = 0;
  for (int round = 0; round < 300; ++round) {
    const Lengths lengths = RandomLengths(&random, 200);
    const std::uint64_t window = 1 + random() % 40;
    const std::uint64_t all = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    const std::uint64_t samples = random() % 4 == 0 ? 0 : 1 + random() % (4 * all / window + 2);
    const auto seed = static_cast<std::uint32_t>(random());
    const SlowArrays wanted = SlowMegatron(lengths, window, seed, samples);
    const auto line = LineOf(lengths, AsMegatron(window, seed, samples));
    const SlowArrays found = ArraysOf(*line, wanted.documents.size(), window);
    ASSERT_EQ(found.documents, wanted.documents) << round;
    ASSERT_EQ(found.samples, wanted.samples) << round;
    ASSERT_EQ(found.order, wanted.order) << round;
    ExpectWindows(*line, lengths, Joined(lengths, wanted.documents), window);
    apart += wanted.documents.size() > lengths.size() ? 1 : 0;
  }
  EXPECT_GT(apart, 50U);
}

TEST(MegatronLineTest, DocumentsStandAsOrderMdSaysThatTheyDo) {
  MegatronLineOptions options;
  options.window = 1;
  options.seed = 7;
  EXPECT_EQ(ArraysOf(*LineOf({1, 2, 1, 2, 1}, options), 5, 1).documents,
            (Numbers64{2, 0, 1, 3, 4}));
}

TEST(MegatronLineTest, WindowsRunOverDocumentsInTheOrderOfEachEpochAndOverItsEnd) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 100; ++round) {
    const Lengths lengths = RandomLengths(&random, 300);
    MegatronLineOptions options;
    options.window = 1 + random() % 60;
    options.order = round % 5 == 0 ? Order::kFile : Order::kShuffled;
    options.seed = random();
    options.epochs = 1 + random() % 4;
    options.first = random() % lengths.size();
    options.end = options.first + random() % (lengths.size() - options.first + 1);
    Numbers64 documents;
    for (std::uint32_t e = 0; e < options.epochs; ++e) {
      const std::uint64_t used = options.end - options.first;
      const KeyedPermutation order(used, options.seed, e, DrawPurpose::kDocumentOrder);
      for (std::uint64_t i = 0; i < used; ++i) {
        documents.push_back(options.first + (options.order == Order::kFile ? i : order.At(i)));
      }
    }
    ExpectWindows(*LineOf(lengths, options), lengths, Joined(lengths, documents), options.window);
  }
}

TEST(MegatronLineTest, WhatAnIndexClaimsIsRefusedOrLostWithWords) {
  const Lengths lengths = {5, 3, 4, 6};
  const std::string index = MegatronIndexBytes(lengths);
  MegatronLineOptions options;
  options.window = 2;
  options.order = Order::kFile;
  std::shared_ptr<const MegatronLine> line;
  const auto with = [&](std::size_t at, auto value) {
    std::string changed = index;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    return changed;
  };
  const auto said = [&](const std::string& bytes, const std::string& words) {
    const Status status = MakeLine(bytes, 36, options, &line);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.ToString().find(words), std::string::npos) << status.ToString();
  };
  constexpr std::size_t kHeader = MegatronIndex::kHeaderBytes;
  said(with(18, std::uint64_t{1} << 62), "do not suffice");
  said(with(26, std::uint64_t{1} << 62), "do not suffice");
  said(with(kHeader + 4, std::int32_t{-1}), "gives sequence 1 -1 elements");

  // Windows are 0-2 2-4 4-6 6-8 8-10 10-12 12-14 14-16: sequence 1 has 5 to 7, sequence 3 12 to 17.
  const auto lost = [&](const std::string& bytes, std::uint64_t data_bytes) {
    EXPECT_TRUE(MakeLine(bytes, data_bytes, options, &line).ok());
    Numbers64 windows;
    for (std::uint64_t k = 0; k < line->windows(); ++k) {
      if (!line->WhyLost(k).ok()) windows.push_back(k);
    }
    return windows;
  };
  EXPECT_EQ(lost(index, 36), Numbers64());
  for (const std::int64_t lie : {std::int64_t{2}, std::int64_t{-4}, std::int64_t{1} << 62,
                                 std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(lost(with(kHeader + 16 + 8, lie), 36), (Numbers64{2, 3}));
    EXPECT_NE(line->WhyLost(2).message().find("sequence 1"), std::string::npos);
  }
  EXPECT_EQ(lost(index, 35), (Numbers64{5, 6, 7}));
  EXPECT_EQ(line->WhyLost(5).code(), StatusCode::kTruncated);
  // What follows a wrong length is not where the lengths put it.
  for (const std::int32_t length : {0, 4, 600}) {
    EXPECT_FALSE(lost(with(kHeader + 4, length), 36).empty()) << length;
  }
  said(with(kHeader + 4, std::numeric_limits<std::int32_t>::max()), "not of one data set");
  options.end = 5;
  said(index, "4 sequences");
}

TEST(MegatronLineTest, MoreThanCanBeCountedIsRefused) {
  const std::string index = MegatronIndexBytes(Lengths{3, 1});
  std::shared_ptr<const MegatronLine> line;
  for (const std::uint64_t samples : {std::uint64_t{1} << 32, std::uint64_t{1} << 31}) {
    EXPECT_EQ(MakeLine(index, 8, AsMegatron(1 << 24, 1, samples), &line).code(),
              StatusCode::kUnsupported);
  }
  EXPECT_EQ(LineOf({}, AsMegatron(2, 1, 5))->windows(), 0U);
  EXPECT_EQ(LineOf({0, 0}, AsMegatron(2, 1, 5))->windows(), 0U);
}

TEST(MegatronLineTest, DocumentsThatAreShorterThanAWindowAreTold) {
  static std::vector<std::string> told;
  told.clear();
  SetLog([](LogLevel /*level*/, const std::string& text) noexcept { told.push_back(text); });
  for (const Lengths& lengths : {Lengths{4, 4}, Lengths{}, Lengths{0}, Lengths{3, 4}}) {
    std::shared_ptr<const MegatronLine> line;
    EXPECT_TRUE(MakeLine(MegatronIndexBytes(lengths), 16, {.window = 7}, &line, "short.idx").ok());
  }
  SetLog(nullptr);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("short.idx gives no window: its 7 tokens are fewer than the 8 of one"),
            std::string::npos);
}

}  // namespace
}  // namespace ringfeed
