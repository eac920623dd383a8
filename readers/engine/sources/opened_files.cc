#include "readers/engine/sources/opened_files.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/refusal.h"
#include "io/data_file.h"
#include "io/file_mapping.h"
#include "io/remote/remote_source.h"

namespace ringfeed {

void KeptMappings::Note(const InputFile& file) {
  std::shared_ptr<const FileMapping> mapping = file.mapped();
  const bool keeps = mapping != nullptr && FileMapping::Count() <= FileMapping::kMostKept;
  std::shared_ptr<const FileMapping> replaced;  // unmapped after the lock is given back
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(file.name());
  if (found != by_name_.end()) {
    replaced = std::exchange(found->second, std::move(mapping));
    if (found->second == nullptr) by_name_.erase(found);
  } else if (keeps) {
    by_name_.emplace(file.name(), std::move(mapping));
  }
}

void KeptMappings::Clear() {
  std::unordered_map<std::string, std::shared_ptr<const FileMapping>> all;
  const std::lock_guard lock(mutex_);
  all.swap(by_name_);
}

namespace {

std::size_t MostOpen() { return PartOfDescriptors(2, 4096); }

// An index tells the places of records in one file, and nothing about another one of that name.
OpenInputResult Known(const DataFile& data, OpenInputResult opened) {
  if (!opened.status.ok()) return opened;
  Status status = CheckOpened(data, *opened.file);
  if (status.ok()) return opened;
  return {std::move(status), nullptr};
}

}  // namespace

OpenedFiles::OpenedFiles(std::shared_ptr<const FileTable> table, const IoOptions& options,
                         FileNews news, const FileRereads& rereads, std::size_t most,
                         std::shared_ptr<DirectReads> direct)
    : table_(std::move(table)),
      options_(options),
      news_(std::move(news)),
      room_(rereads.room),
      most_(most != 0 ? most : MostOpen()),
      direct_(std::move(direct)),
      rows_(*table_),
      reads_(table_->files()) {
  // A path that the user asks for is used in each pass.
  if (options_.path == IoPath::kAuto && direct_ == nullptr && rereads.PayFor(0)) {
    loader_ = std::make_unique<CacheLoader>(table_, room_);
  }
}

std::uint64_t OpenedFiles::Load(std::size_t file, std::uint64_t bytes) {
  if (loader_ == nullptr) return 0;
  const CacheLoader::Loaded loaded = loader_->Load(file, bytes);
  if (!loaded.whole) return loaded.bytes;
  std::shared_ptr<InputFile> let_go;  // closed outside of the lock
  const std::lock_guard lock(mutex_);
  if (const auto kept = kept_.find(*loaded.whole); kept != kept_.end()) {
    let_go = std::move(kept->second.input);
    uses_.erase(kept->second.use);
    kept_.erase(kept);
  }
  return loaded.bytes;
}

bool OpenedFiles::NoteReads(std::size_t file, std::uint64_t wanted, std::uint64_t planned) {
  constexpr std::uint64_t kEnoughToJudge = 128 * 1024;
  constexpr auto kSum = std::memory_order_relaxed;
  Reads& reads = reads_[file];
  wanted += reads.wanted_bytes.fetch_add(wanted, kSum);
  planned += reads.planned_bytes.fetch_add(planned, kSum);
  // If all of the file were needed at this rate, the reads would exceed its size by a quarter.
  return planned > std::min(kEnoughToJudge, table_->file(file).bytes) && planned > wanted / 4 * 5;
}

std::shared_ptr<InputFile> OpenedFiles::Find(std::size_t file) {
  const auto found = kept_.find(file);
  if (found == kept_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.input;
}

std::shared_ptr<InputFile> OpenedFiles::LetGo() {
  if (kept_.empty()) return nullptr;
  const auto oldest = kept_.find(uses_.back());
  std::shared_ptr<InputFile> input = std::move(oldest->second.input);
  kept_.erase(oldest);
  uses_.pop_back();
  return input;
}

OpenInputResult OpenedFiles::OpenOnce(std::size_t file) {
  const std::string& name = table_->file(file).name;
  if (direct_ != nullptr) return OpenDirectInput(name, options_, "read into a device's memory");
  bool is_cached = false;
  {
    const std::lock_guard lock(mutex_);
    is_cached = cached_.contains(file);
  }
  // A file that is read in another order is read again and again.
  return is_cached ? OpenCachedInput(name, options_, nullptr)
                   : OpenInput(name, options_, {.may_map = true});
}

OpenInputResult OpenedFiles::Open(std::size_t file) {
  const DataFile& data = table_->file(file);
  if (data.source) return OpenSource(data.source);
  while (true) {
    OpenInputResult result = Known(data, OpenOnce(file));
    if (result.status.ok() && direct_ != nullptr) direct_->Open(result.file.get());
    if (result.status.ok() || !IsRefusal(result.status)) return result;
    std::shared_ptr<InputFile> let_go;  // closed outside of the lock
    {
      const std::lock_guard lock(mutex_);
      let_go = LetGo();
    }
    if (let_go == nullptr) return result;
  }
}

std::shared_ptr<InputFile> OpenedFiles::Get(std::size_t file, Status* status) {
  {
    const std::lock_guard lock(mutex_);
    if (auto input = Find(file)) return input;
  }
  // Two lanes may open the same file at once: the first one's stays.
  OpenInputResult result = Open(file);
  if (!result.status.ok()) {
    if (news_.failed) news_.failed(table_->file(file).name, result.status);
    *status = result.status.WithPlace({table_->file(file).name, -1, -1});
    return nullptr;
  }
  std::shared_ptr<InputFile> input = std::move(result.file);
  std::shared_ptr<InputFile> let_go;  // closed outside of the lock
  const std::lock_guard lock(mutex_);
  if (auto first = Find(file)) return first;
  if (news_.opened) news_.opened(*input);
  Keep(file, input, &let_go);
  return input;
}

void OpenedFiles::Keep(std::size_t file, std::shared_ptr<InputFile> input,
                       std::shared_ptr<InputFile>* let_go) {
  if (kept_.size() >= most_) *let_go = LetGo();
  uses_.push_front(file);
  kept_[file] = {std::move(input), uses_.begin()};
}

std::shared_ptr<InputFile> OpenedFiles::Cache(std::size_t file, const InputFile& before,
                                              std::uint64_t* loads) {
  *loads = 0;
  const DataFile& data = table_->file(file);
  if (data.source != nullptr || before.cached()) return nullptr;
  std::shared_ptr<InputFile> let_go;  // closed outside of the lock
  const std::lock_guard lock(mutex_);
  const bool again = cached_.contains(file);
  // Another lane's file may be here already.
  if (auto kept = again ? Find(file) : nullptr; kept != nullptr) return kept;
  if (!again && room_->Take(data.name, before.size()) == CacheRoom::Taken::kNone) return nullptr;
  OpenInputResult result =
      Known(data, OpenCachedInput(data.name, options_, again ? nullptr : loads));
  if (!result.status.ok()) return nullptr;
  cached_.insert(file);
  std::shared_ptr<InputFile> input = std::move(result.file);
  if (news_.opened) news_.opened(*input);
  if (const auto kept = kept_.find(file); kept != kept_.end()) {
    let_go = std::exchange(kept->second.input, input);
  } else {
    Keep(file, input, &let_go);
  }
  return input;
}

namespace {

/// Whether all records are inside the mapping.
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
    file->shrunk = file->open->shrank();
    file->direct = file->direct && !file->shrunk;
  }
  return file;
}

void LaneFiles::Open(std::size_t number, LaneFile* file) const {
  file->failure = Status();
  file->input = files_->Get(number, &file->failure);
  file->fatal = IsNoDamage(file->failure, IsOfStore(file->data->source.get()));
  if (file->input != nullptr) Take(std::move(file->input), file);
}

void LaneFiles::Take(std::shared_ptr<InputFile> input, LaneFile* file) const {
  file->input = std::move(input);
  file->engine = nullptr;
  file->mapping = file->input->mapping();
  file->direct = file->fixed && !file->mapping.empty() &&
                 Covers(file->mapping, *file->fixed, file->data->index->records());
  const IoChoice& choice = file->input->choice();
  const bool of_store = file->input->remote() != nullptr;  // its cache is its engine's
  if ((choice.resident && !of_store) || choice.path == IoPath::kMmap) return;
  Status why_not;
  file->engine = context_->io->EngineFor(*file->input, &why_not);
  if (file->engine != nullptr) return;
  file->failure = why_not;
  file->fatal = true;
  file->input.reset();
}

bool LaneFiles::NoteReads(std::size_t number, std::uint64_t wanted, std::uint64_t planned) {
  if (context_->direct != nullptr) return false;  // always past the cache
  const bool too_much = files_->NoteReads(number, wanted, planned);
  LaneFile* const file = Use(number);
  if (file->engine != nullptr && file->open != nullptr && !file->open->cached()) {
    context_->read_bytes->Add(files_->Load(number, planned));
  }
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
