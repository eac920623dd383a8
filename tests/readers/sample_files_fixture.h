#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "readers/parsers/parser.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {

/// Data sets of many files as chains read them.
class SampleFilesTest : public PipelineTest {
 protected:
  /// A copy of the folder of that name in tests/data.
  std::string Copied(const std::string& name) const {
    std::string folder = directory_.File(std::filesystem::path(name).filename().string());
    std::filesystem::copy(FixturePath(name), folder);
    return folder;
  }
  std::vector<std::string> RecordsOf(Reader reader) const {
    std::vector<std::string> records;
    RecordBlock block;
    while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
      for (const RecordSpan& record : block.records()) {
        records.emplace_back(reinterpret_cast<const char*>(record.data), record.size);
      }
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return records;
  }
  std::vector<std::string> RecordsOf(const std::vector<std::string>& names) const {
    OpenOptions options = Options();
    options.threads = 1;
    options.cycle = 1;
    return RecordsOf(OpenFiles(names, options));
  }
  /// Rows of a chain's batches, a row's bytes as its own text.
  static std::vector<std::string> RowsOf(Reader* reader, std::size_t most_batches) {
    std::vector<std::string> rows;
    Instance batch;
    while (most_batches-- > 0 && reader->TryReadNext(&batch) == ReadResult::kRecord) {
      const auto ends = batch[0].lod[0];
      for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
        rows.emplace_back(reinterpret_cast<const char*>(batch[0].data) + ends[row],
                          static_cast<std::size_t>(ends[row + 1] - ends[row]));
      }
    }
    EXPECT_TRUE(reader->status().ok()) << reader->status().ToString();
    return rows;
  }
  /// Checks that each order gives the records of a folder once, on three ranks and with restores.
  void ExpectEveryOrder(const std::string& folder, std::size_t records) const {
    auto expected = RecordsOf({folder});
    ASSERT_EQ(expected.size(), records);
    std::sort(expected.begin(), expected.end());
    const auto chain = [&](ShuffleMode mode, int rank) {
      Reader reader = OpenFiles({folder}, Options());
      const std::size_t window = mode == ShuffleMode::kStripes ? 8 : 0;
      if (mode != ShuffleMode::kNone) {
        reader = Shuffle(reader, {.window = window, .seed = 5, .mode = mode});
      }
      BatchOptions batching{.size = 6};
      batching.rank = {rank, 3};
      return Batch(Parse(reader, RawParser()), batching);
    };
    for (const ShuffleMode mode :
         {ShuffleMode::kNone, ShuffleMode::kStripes, ShuffleMode::kGlobal}) {
      std::vector<std::string> all;
      for (int rank = 0; rank < 3; ++rank) {
        Reader whole = chain(mode, rank);
        const auto rows = RowsOf(&whole, records);
        Reader first = chain(mode, rank);
        auto parts = RowsOf(&first, 2);
        Reader second = chain(mode, rank);
        second.Restore(first.Position());
        const auto rest = RowsOf(&second, records);
        parts.insert(parts.end(), rest.begin(), rest.end());
        EXPECT_EQ(parts, rows);
        all.insert(all.end(), rows.begin(), rows.end());
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, expected) << static_cast<int>(mode);
    }
  }
  /// The bytes of each field in all rows, and the fields, with the parser that the files tell.
  std::map<std::string, std::vector<std::string>> ValuesOf(const std::string& folder,
                                                           InferredParser* inferred) const {
    OpenOptions options = Options();
    options.threads = 1;
    options.cycle = 1;
    *inferred = InferParser({folder}, options);
    Reader reader = Parse(OpenFiles({folder}, options), inferred->parser);
    std::map<std::string, std::vector<std::string>> values;
    Instance row;
    while (reader.TryReadNext(&row) == ReadResult::kRecord) {
      for (std::size_t f = 0; f < inferred->fields.size(); ++f) {
        values[inferred->fields[f].name].emplace_back(reinterpret_cast<const char*>(row[f].data),
                                                      row[f].bytes);
      }
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return values;
  }
};

}  // namespace ringfeed
