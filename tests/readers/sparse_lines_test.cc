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

}  // namespace
}  // namespace ringfeed
