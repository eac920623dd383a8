#include "tests/readers/parsers/parse_rows.h"

#include <algorithm>
#include <span>

namespace ringfeed {
namespace {

std::string Slice(const std::byte* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

}  // namespace

std::vector<std::string> CutAndFlipped(const std::string& record) {
  std::vector<std::string> damaged;
  for (std::size_t at = 0; at < record.size(); ++at) {
    damaged.push_back(record.substr(0, at));
    for (int bit = 0; bit < 8; ++bit) {
      damaged.push_back(record);
      damaged.back()[at] = static_cast<char>(record[at] ^ (1 << bit));
    }
  }
  return damaged;
}

ParsedRows RowsRunner::Run(const std::vector<std::string>& records) {
  const std::size_t fields = parser_->fields().size();
  ParsedRows parsed;
  parsed.values.assign(fields, std::vector<std::string>(records.size()));
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<RecordSpan> rows;
  for (const std::string& record : records) {
    memory.push_back(std::make_unique<std::byte[]>(record.size()));
    std::copy_n(reinterpret_cast<const std::byte*>(record.data()), record.size(),
                memory.back().get());
    rows.push_back({memory.back().get(), record.size()});
  }
  std::vector<FieldLocation> all(rows.size() * fields);
  std::vector<RowFailure> failures;
  if (parser_->two_phase()) parser_->Locate(rows, all.data(), scratch_.get(), &failures);
  for (const RowFailure& failure : failures) parsed.failures[failure.row] = failure.status;
  std::vector<RecordSpan> left;
  std::vector<std::size_t> numbers;
  std::vector<FieldLocation> locations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (parsed.failures.count(row) != 0) continue;
    left.push_back(rows[row]);
    numbers.push_back(row);
    locations.insert(locations.end(), all.begin() + static_cast<std::ptrdiff_t>(row * fields),
                     all.begin() + static_cast<std::ptrdiff_t>((row + 1) * fields));
  }
  WriteAll(left, numbers, locations, &parsed);
  return parsed;
}

void RowsRunner::WriteAll(const std::vector<RecordSpan>& rows,
                          const std::vector<std::size_t>& numbers,
                          const std::vector<FieldLocation>& locations, ParsedRows* parsed) {
  const std::vector<FieldSpec>& fields = parser_->fields();
  std::vector<std::unique_ptr<std::byte[]>> columns;
  std::vector<std::vector<std::int64_t>> offsets(fields.size());
  std::vector<ColumnTarget> targets;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    std::size_t units = rows.size();
    if (fields[f].ragged()) {
      units = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) units += locations[r * fields.size() + f].units;
      offsets[f].assign(rows.size() + 1, 0);
    }
    columns.push_back(std::make_unique<std::byte[]>(units * fields[f].unit_bytes()));
    targets.push_back({columns.back().get(), fields[f].ragged() ? offsets[f].data() : nullptr});
  }
  std::vector<RowFailure> failures;
  parser_->Write(rows, parser_->two_phase() ? locations.data() : nullptr, targets, scratch_.get(),
                 &failures);
  for (const RowFailure& failure : failures) {
    parsed->failures[numbers[failure.row]] = failure.status;
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const std::size_t unit = fields[f].unit_bytes();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const bool ragged = fields[f].ragged();
      const std::size_t begin = ragged ? static_cast<std::size_t>(offsets[f][r]) : r;
      const std::size_t end = ragged ? static_cast<std::size_t>(offsets[f][r + 1]) : r + 1;
      parsed->values[f][numbers[r]] = Slice(columns[f].get() + begin * unit, (end - begin) * unit);
    }
  }
}

}  // namespace ringfeed
