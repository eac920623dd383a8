// A table as a data set: groups of rows that come decoded, here made by this program, elsewhere by
// a reader of Parquet or a database; and what an Arrow stream gives.
//
// Prints:
//   fields: id name, 12 rows in 3 batches, 3 groups opened, 12 rows decoded
//   from the second batch on: 8 rows
//   in memory: 6 rows, the last is "horse"
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/export/arrow_c.h"
#include "ringfeed/ringfeed.h"
#include "ringfeed/tables/table_source.h"

namespace rf = ringfeed;

/// Exports one batch of columns "id" and "name".
void Export(std::vector<std::int64_t> ids, const std::vector<std::string>& names,
            ArrowArrayStream* stream) {
  rf::Instance rows = {rf::MakeTensor(std::move(ids)), rf::MakeRagged(names)};
  rows.set_names(std::make_shared<rf::FieldNames>(std::vector<std::string>{"id", "name"}));
  bool was_given = false;
  const auto next = [rows, was_given](rf::Instance* batch) mutable {
    *batch = rows;
    return !std::exchange(was_given, true);
  };
  rf::ExportArrowStream(next, stream);
}

/// Three groups of four rows. A group is opened when its rows are needed.
class Words final : public rf::TableSource {
 public:
  std::string name() const override { return "words"; }
  std::uint64_t groups() const override { return 3; }
  std::uint64_t rows(std::uint64_t) const override { return 4; }
  bool in_memory() const override { return false; }             // decoded when it is opened
  std::string group_name(std::uint64_t group) const override {  // in reports
    return "word group " + std::to_string(group);
  }
  std::uint64_t read_bytes() const override { return 0; }  // of files, in reports: it has none
  std::string identity(std::uint64_t) const override { return "words, version 1"; }
  void Describe(const std::vector<std::string>&, ArrowSchema* schema) override {
    ArrowArrayStream none;  // so that no group is opened for the columns' types
    Export({}, {}, &none);
    none.get_schema(&none, schema);
    none.release(&none);
  }
  void Open(std::uint64_t group, const std::vector<std::string>& columns,
            ArrowArrayStream* stream) override {
    (void)columns;  // the wanted ones; more may come
    const auto first = static_cast<std::int64_t>(group * 4);
    Export({first, first + 1, first + 2, first + 3}, {"a", "cat", "or", "a horse"}, stream);
  }
};

rf::Reader Batches() {
  rf::TableOptions options;
  options.columns = {"id", "name"};
  options.nulls = rf::NullOptions{rf::OnNull::kDefault, 0};
  rf::Reader rows = rf::OpenTable(std::make_shared<Words>(), options);
  // The groups permuted, their rows shuffled in a window.
  rows = rf::Shuffle(rows, {.window = 6, .seed = 7, .mode = rf::ShuffleMode::kStripes});
  return rf::Batch(rows, {.size = 4});
}

int main() try {
  rf::Reader batches = Batches();
  std::cout << "fields:";
  for (const rf::FieldSpec& field : batches.fields()) std::cout << " " << field.name;
  rf::Instance batch;
  std::string position;
  int read = 0;
  while (batches.TryReadNext(&batch) == rf::ReadResult::kRecord) {
    if (++read == 1) position = batches.Position();
  }
  const rf::TableStats cost = batches.Stats().tables;
  std::cout << ", " << cost.taken_rows << " rows in " << read << " batches, " << cost.opened_groups
            << " groups opened, " << cost.decoded_rows << " rows decoded\n";

  rf::Reader again = Batches();
  again.Restore(position);
  std::int64_t rows = 0;
  while (again.TryReadNext(&batch) == rf::ReadResult::kRecord) rows += batch.Rows();
  std::cout << "from the second batch on: " << rows << " rows\n";

  ArrowArrayStream stream;
  Export({1, 2, 3, 4, 5, 6}, {"a", "b", "c", "d", "e", "horse"}, &stream);
  rf::Reader kept = rf::Batch(rf::OpenTable(rf::TableOfStream(&stream)), {.size = 6});
  batch = kept.ReadNext();
  const auto letters = batch["name"].Values<char>();
  const auto begin = static_cast<std::size_t>(batch["name"].lod[0][5]);
  std::cout << "in memory: " << batch.Rows() << " rows, the last is \""
            << std::string(letters.begin() + begin, letters.end()) << "\"\n";
} catch (const std::exception& error) {
  std::cerr << "tables: " << error.what() << "\n";
  return 1;
}
