// Lines of labels and sparse features, as Paddle's reader of click logs took them ("1 17:6001
// 4:6002 9:6001"), by what ringfeed has for a user's own text: lines of compressed files and Map.
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr std::array<std::int64_t, 2> kSlots = {6001, 6002};

std::int64_t NumberOf(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The label, and for each slot its ids, one 0 where a line has none; other slots are passed over.
void SparseLine(const MapInput& input, RowWriter& row) {
  std::string_view rest(reinterpret_cast<const char*>(input.record.data), input.record.size);
  const auto next = [&rest] {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    return word;
  };
  const std::int64_t label = NumberOf(next()) > 0 ? 1 : 0;
  std::array<Ids, kSlots.size()> ids;
  while (!rest.empty()) {
    const std::string_view word = next();
    const std::size_t colon = word.find(':');
    for (std::size_t slot = 0; slot < kSlots.size(); ++slot) {
      if (NumberOf(word.substr(colon + 1)) == kSlots[slot]) ids[slot].push_back(NumberOf(word));
    }
  }
  for (std::size_t slot = 0; slot < kSlots.size(); ++slot) {
    if (ids[slot].empty()) ids[slot].push_back(0);
    row.Ragged(slot, std::as_bytes(std::span(ids[slot])));
  }
  std::memcpy(row.Fixed(kSlots.size()).data(), &label, sizeof(label));
}

/// "1 0.5,1.5 100,200,300": a label, dense numbers, sparse ids.
void DenseAndSparseLine(const MapInput& input, RowWriter& row) {
  std::string_view rest(reinterpret_cast<const char*>(input.record.data), input.record.size);
  const auto next = [&rest](char delimiter) {
    const std::string_view word = rest.substr(0, rest.find(delimiter));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    return word;
  };
  const std::int64_t label = NumberOf(next(' '));
  std::memcpy(row.Fixed(0).data(), &label, sizeof(label));
  std::array<float, 2> dense{};
  for (const char delimiter : {',', ' '}) {
    const std::string_view word = next(delimiter);
    std::from_chars(word.data(), word.data() + word.size(), dense[delimiter == ',' ? 0 : 1]);
  }
  std::memcpy(row.Fixed(1).data(), dense.data(), sizeof(dense));
  Ids ids;
  while (!rest.empty()) ids.push_back(NumberOf(next(',')));
  row.Ragged(2, std::as_bytes(std::span(ids)));
}

class SparseLinesTest : public PipelineTest {};

TEST_F(SparseLinesTest, LabelsAndIdsOfCompressedLinesComeInBatchesTheSameInEveryPass) {
  std::string text;
  for (int line = 0; line < 10; ++line) {
    text += std::to_string(line % 2) + " " + std::to_string(100 + line) + ":6001";
    for (int i = 0; i < line % 3; ++i) text += " " + std::to_string(1000 * line + i) + ":6002";
    text += " 5:9999\n";
  }
  const std::string file = directory_.File("click.txt.gz");
  WriteBytes(file, Compress(std::as_bytes(std::span(text)), {}));
  OpenOptions options = Options();
  options.format = "lines";
  Reader reader = Batch(
      Map(OpenFiles({file}, options),
          {{"6001", kInt64, {-1}}, {"6002", kInt64, {-1}}, {"label", kInt64, {1}}}, SparseLine),
      {.size = 3});
  for (int pass = 0; pass < 2; ++pass) {
    int line = 0;
    for (const std::size_t rows : {3U, 3U, 3U, 1U}) {
      const Instance batch = reader.ReadNext();
      Ids first, second, labels, offsets = {0};
      for (std::size_t row = 0; row < rows; ++row, ++line) {
        first.push_back(100 + line);
        for (int i = 0; i < line % 3; ++i) second.push_back(1000 * line + i);
        if (line % 3 == 0) second.push_back(0);
        offsets.push_back(static_cast<std::int64_t>(second.size()));
        labels.push_back(line % 2);
      }
      const auto values = [&](std::size_t f) {
        const auto span = batch[f].Values<std::int64_t>();
        return Ids(span.begin(), span.end());
      };
      EXPECT_EQ(values(0), first);
      EXPECT_EQ(values(1), second);
      EXPECT_EQ(Ids(batch[1].lod[0].begin(), batch[1].lod[0].end()), offsets);
      EXPECT_EQ(values(2), labels);
      EXPECT_EQ(batch[2].shape, (Shape{static_cast<std::int64_t>(rows), 1}));
    }
    EXPECT_FALSE(reader.HasNext());
    EXPECT_THROW(reader.ReadNext(), EndOfData);
    reader.ReInit();
  }
}

TEST_F(SparseLinesTest, LabelsDenseNumbersAndIdsBelongTogetherInEveryPass) {
  constexpr std::int64_t kLines = 10;
  std::string text;
  for (std::int64_t i = 0; i < kLines; ++i) {
    text +=
        std::to_string(i % 2) + " " + std::to_string(i) + ".5," + std::to_string(i + 1) + ".25 ";
    for (std::int64_t k = 0; k <= i % 3; ++k) {
      text += std::to_string(100 * i + k) + (k == i % 3 ? "\n" : ",");
    }
  }
  const std::string file = directory_.File("click.csv");
  WriteBytes(file, std::as_bytes(std::span(text)));
  OpenOptions options = Options();
  options.format = "lines";
  Reader reader =
      Batch(Map(OpenFiles({file}, options),
                {{"label", kInt64, {1}}, {"dense", kFloat32, {2}}, {"sparse", kInt64, {-1}}},
                DenseAndSparseLine),
            {.size = 3});
  for (int pass = 0; pass < 2; ++pass) {
    std::int64_t line = 0;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto level = batch[2].lod[0];
      const auto rows = static_cast<std::int64_t>(level.size()) - 1;
      EXPECT_EQ(rows, std::min<std::int64_t>(3, kLines - line));
      EXPECT_EQ(batch[0].shape, (Shape{rows, 1}));
      EXPECT_EQ(batch[1].shape, (Shape{rows, 2}));
      for (std::size_t row = 0; row + 1 < level.size(); ++row, ++line) {
        EXPECT_EQ(batch[0].Values<std::int64_t>()[row], line % 2);
        EXPECT_EQ(batch[1].Values<float>()[2 * row], static_cast<float>(line) + 0.5F);
        EXPECT_EQ(batch[1].Values<float>()[2 * row + 1], static_cast<float>(line) + 1.25F);
        ASSERT_EQ(level[row + 1] - level[row], line % 3 + 1);
        for (std::int64_t at = level[row]; at < level[row + 1]; ++at) {
          EXPECT_EQ(batch[2].Values<std::int64_t>()[static_cast<std::size_t>(at)],
                    100 * line + at - level[row]);
        }
      }
    }
    EXPECT_EQ(line, kLines) << reader.status().ToString();
    reader.ReInit();
  }
}

}  // namespace
}  // namespace ringfeed
