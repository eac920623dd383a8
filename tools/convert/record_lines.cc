#include "tools/convert/record_lines.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/convert/record_json.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kManyBytes = 128 * 1024;

/// Lines to stdout, many at a time.
class LineOutput {
 public:
  /// The text to append to.
  std::string* text() { return &text_; }
  /// Writes it out if it has become long.
  Status EndLine() { return text_.size() < kManyBytes ? Status() : Flush(); }
  /// Writes it out in any case, for a reader at the other end of a pipe.
  Status Flush() {
    std::fwrite(text_.data(), 1, text_.size(), stdout);
    text_.clear();
    Status status = FlushOutput();
    if (!status.ok()) OutputFailureIsTold();  // by the caller
    return status;
  }

 private:
  std::string text_;
};

// Reports on stderr what a run skipped and how it ended; returns the exit status for it.
int TellEnd(OnDamage on_damage, const Status& status, const std::vector<DamagedRange>& damage) {
  if (on_damage == OnDamage::kSkip) TellSkipped(damage, status);
  TellFailure(status);
  return damage.empty() ? ExitStatusOf(status) : kExitData;
}

// The lines of some records; `first` is the number of the first one.
Status PrintSome(std::span<const RecordSpan> some, const std::string& file, std::int64_t first,
                 OnDamage on_damage, const SpellRecord& spell, LineOutput* output,
                 std::vector<DamagedRange>* damage) {
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::size_t start = output->text()->size();
    Status status = spell(some[i].bytes(), output->text());
    if (!status.ok()) {
      output->text()->resize(start);
      const std::int64_t number = first + static_cast<std::int64_t>(i);
      status = status.WithPlace({file, -1, number});
      if (on_damage == OnDamage::kFail) return status;
      damage->push_back({file, 0, 0, "record " + std::to_string(number) + ": " + status.message()});
      continue;
    }
    *output->text() += '\n';
    status = output->EndLine();
    if (!status.ok()) return status;
  }
  return output->Flush();
}

}  // namespace

int PrintRecords(const std::string& file, OnDamage on_damage, FileRecords* records,
                 const SpellRecord& spell) {
  LineOutput output;
  std::vector<DamagedRange> unspelled;
  std::int64_t number = 0;
  ReadResult read;
  std::span<const RecordSpan> some;
  Status status;
  while ((read = records->Next(&some)) == ReadResult::kRecord) {
    status = PrintSome(some, file, number, on_damage, spell, &output, &unspelled);
    if (!status.ok()) break;
    number += static_cast<std::int64_t>(some.size());
  }
  const Status flushed = output.Flush();
  if (status.ok()) status = read == ReadResult::kFailed ? records->status() : flushed;
  std::vector<DamagedRange> damage = records->Damage().ranges;
  damage.insert(damage.end(), unspelled.begin(), unspelled.end());
  return TellEnd(on_damage, status, damage);
}

int PrintNumbered(const Reader& reader, std::span<const NumbersInRow> numbers, OnDamage on_damage,
                  const SpellRecord& spell) {
  LineOutput output;
  const std::vector<FieldSpec> fields = reader.fields();
  std::vector<DamagedRange> damage;
  Status status;
  for (const auto& [first, last] : numbers) {
    for (std::uint64_t number = first; status.ok(); ++number) {
      const std::size_t start = output.text()->size();
      try {
        const Instance record = reader.RecordAt(number);
        if (spell) {
          status = spell({record[0].data, record[0].bytes}, output.text());
        } else {
          AppendRowJson(fields, record, output.text());
        }
      } catch (const Error& error) {
        status = error.status();
      }
      if (status.ok()) {
        *output.text() += '\n';
        status = output.EndLine();
      } else {
        output.text()->resize(start);
        const bool skips = on_damage == OnDamage::kSkip && ExitStatusOf(status) == kExitData;
        if (skips) {
          damage.push_back({status.place().file, 0, 0,
                            "record " + std::to_string(number) + ": " + status.message()});
          status = Status();
        }
      }
      if (number == last) break;
    }
  }
  const Status flushed = output.Flush();
  return TellEnd(on_damage, status.ok() ? flushed : status, damage);
}

int PrintRows(OnDamage on_damage, FileRows* rows) {
  LineOutput output;
  const std::vector<FieldSpec> fields = rows->fields();
  Status status;
  Instance row;
  ReadResult read;
  while ((read = rows->Next(&row)) == ReadResult::kRecord) {
    AppendRowJson(fields, row, output.text());
    *output.text() += '\n';
    status = output.EndLine();
    if (!status.ok()) break;
  }
  const Status flushed = output.Flush();
  if (status.ok()) status = read == ReadResult::kFailed ? rows->status() : flushed;
  return TellEnd(on_damage, status, rows->Damage().ranges);
}

}  // namespace ringfeed::tools
