#include "readers/engine/sources/lane_files.h"

#include "base/refusal.h"

namespace ringfeed {

namespace {

/// Whether all records stand inside of the mapping.
bool Covers(std::span<const std::byte> mapping, const FixedUnits& fixed, std::uint64_t records) {
  if (records == 0) return true;
  const std::uint64_t bytes = mapping.size();
  if (fixed.offset > bytes || fixed.record_bytes > bytes - fixed.offset) return false;
  const std::uint64_t room = bytes - fixed.offset - fixed.record_bytes;
  return fixed.stride_bytes == 0 || records - 1 <= room / fixed.stride_bytes;
}

}  // namespace

void LaneFiles::StartPart(std::vector<std::shared_ptr<InputFile>>* inputs) {
  if (used_.size() > kMostKept) used_.clear();
  inputs_ = inputs;
  ++part_;
}

LaneFile* LaneFiles::Peek(std::size_t number) {
  LaneFile& file = used_[number];
  if (file.data == nullptr) {
    file.data = &files_->table()->file(number);
    if (file.data->index != nullptr) file.fixed = file.data->index->fixed();
  }
  return &file;
}

LaneFile* LaneFiles::UseFirst(std::size_t number) {
  LaneFile* const file = Peek(number);
  if (file->input == nullptr && (file->failure.ok() || IsRefusal(file->failure))) {
    Open(number, file);
  }
  file->part = part_;
  file->open = file->input.get();
  if (file->open == nullptr) return file;
  inputs_->push_back(file->input);
  if (file->mapping.empty()) {
    file->input.reset();  // the part has it now
  } else {
    file->shrunk = file->open->damaged();
    file->direct = file->direct && !file->shrunk;
  }
  return file;
}

void LaneFiles::Open(std::size_t number, LaneFile* file) const {
  file->failure = Status();
  file->input = files_->Get(number, &file->failure);
  file->fatal = IsRefusal(file->failure);
  if (file->input != nullptr) Take(std::move(file->input), file);
}

void LaneFiles::Take(std::shared_ptr<InputFile> input, LaneFile* file) const {
  file->input = std::move(input);
  file->engine = nullptr;
  file->mapping = file->input->mapping();
  file->direct = file->fixed && !file->mapping.empty() &&
                 Covers(file->mapping, *file->fixed, file->data->index->records());
  const IoChoice& choice = file->input->choice();
  if (choice.resident || choice.path == IoPath::kMmap || file->input->descriptor() < 0) return;
  Status why_not;
  file->engine = context_->io->EngineFor(*file->input, &why_not);
  if (file->engine != nullptr) return;
  file->failure = why_not;
  file->fatal = true;
  file->input.reset();
}

bool LaneFiles::NoteReads(std::size_t number, std::uint64_t wanted, std::uint64_t planned) {
  const bool too_much = files_->NoteReads(number, wanted, planned);
  LaneFile* const file = Use(number);
  if (!too_much || file->stays || file->open == nullptr || file->open->cached()) return false;
  std::uint64_t loads = 0;
  std::shared_ptr<InputFile> cached = files_->Cache(number, *file->open, &loads);
  file->stays = cached == nullptr;
  if (cached == nullptr) return false;
  context_->read_bytes->Add(loads);
  Take(std::move(cached), file);
  return true;
}

UnitFramer* LaneFiles::Framer(LaneFile* file) const {
  if (file->framer == nullptr) {
    const DataFile& data = *file->data;
    file->framer = data.format->NewUnitFramer(
        {data.name, data.bytes, context_->options->on_damage, context_->options->max_record_bytes});
  }
  return file->framer.get();
}

}  // namespace ringfeed
