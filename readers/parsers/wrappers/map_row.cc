#include "readers/parsers/wrappers/map_row.h"

#include "base/philox.h"
#include "base/user_call.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

constexpr std::uint32_t Low(std::uint64_t number) { return static_cast<std::uint32_t>(number); }
constexpr std::uint32_t High(std::uint64_t number) { return Low(number >> 32); }

}  // namespace

Status MapRow::Fill(const RecordSpan& record, const CurrentRows* rows) {
  // A function may take long: Close waits for only one call.
  if (WorkerStop::Requested()) return WorkerStop::Why();
  Status status;
  const Instance* fields = view_.Parse(record, &status);
  if (!status.ok()) return status;
  status = CallFunction(record, fields, rows);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < rules_.kept.size(); ++i) {
    const Tensor& from = view_.column(rules_.kept[i]);
    place_.Set(rules_.own_fields + i, {from.data, from.bytes});
  }
  return Status();
}

Status MapRow::CallFunction(const RecordSpan& record, const Instance* fields,
                            const CurrentRows* rows) {
  const std::string& name = rules_.options.name;
  MapInput input{.record = record, .fields = fields};
  input.seed = rules_.options.seed;
  input.rows = rows;
  if (input.rows != nullptr) {
    input.row = input.rows->IndexOf(record);
    input.pass = input.rows->PassOf(input.row);
  }
  input.epoch = rules_.first_epoch + input.pass;
  Status status = CallUser(
      name, [&] { rules_.function(input, place_); }, ThrownError::kKeepsDamage);
  if (const std::string* const why = place_.refused(); status.ok() && why != nullptr) {
    status = Status(StatusCode::kDamaged, *why);
  }
  if (status.code() == StatusCode::kDamaged) {
    return Status(StatusCode::kDamaged, name + " refused the row: " + status.message());
  }
  if (!status.ok()) return status;
  // Otherwise the batch would show old bytes of its memory.
  const FieldSpec* const unwritten = place_.Unwritten(rules_.own_fields);
  if (unwritten == nullptr) return Status();
  return Status(StatusCode::kUserError, "field \"" + unwritten->name + "\" was not written by " +
                                            name +
                                            ": it must write every declared field of every row" +
                                            (unwritten->ragged() ? " (an empty one, too)" : ""));
}

DataPlace MapInput::Place() const { return rows != nullptr ? rows->PlaceOf(row) : DataPlace(); }

RowDraws MapInput::Draws() const {
  const FileRecord at = rows != nullptr ? rows->RecordOf(row) : FileRecord();
  return RowDraws(seed, epoch, at.file, at.record);
}

// The record number has 40 bits (kRecordBits): the file's takes the rest of that word.
RowDraws::RowDraws(std::uint64_t seed, std::uint64_t epoch, std::uint32_t file,
                   std::uint64_t record)
    : key_(Philox4x32({Low(record), file << 8 | High(record), Low(epoch),
                       static_cast<std::uint32_t>(DrawPurpose::kRowNumbers)},
                      {Low(seed), High(seed)})) {}

std::uint64_t RowDraws::operator()(std::uint64_t k) const {
  const auto words = Philox4x32({Low(k), High(k), key_[2], key_[3]}, {key_[0], key_[1]});
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace ringfeed
