#include "readers/opened_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace ringfeed {

namespace {

std::size_t MostOpen() {
  constexpr rlim_t kLeast = 16;
  constexpr rlim_t kMost = 4096;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<std::size_t>(std::clamp(limit.rlim_cur / 2, kLeast, kMost));
}

}  // namespace

OpenedFiles::OpenedFiles(std::shared_ptr<const FileTable> table, const IoOptions& options,
                         std::function<void(const IoChoice&)> opened, std::size_t most)
    : table_(std::move(table)),
      options_(options),
      opened_(std::move(opened)),
      most_(most != 0 ? most : MostOpen()) {
  for (std::size_t file = 0; file <= table_->files(); ++file) {
    first_rows_.push_back(table_->FirstRow(file));
  }
}

std::size_t OpenedFiles::FileOf(RowNumber row) const {
  assert(row < first_rows_.back());
  const auto behind = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
  return static_cast<std::size_t>(behind - first_rows_.begin()) - 1;
}

std::shared_ptr<InputFile> OpenedFiles::Find(std::size_t file) {
  const auto found = kept_.find(file);
  if (found == kept_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.input;
}

std::shared_ptr<InputFile> OpenedFiles::Get(std::size_t file, Status* status) {
  {
    const std::lock_guard lock(mutex_);
    if (auto input = Find(file)) return input;
  }
  // Two lanes may open the same file at once: the first one's stays.
  const DataFile& data = table_->file(file);
  OpenInputResult result = data.source ? OpenInput(data.source)
                                       // What is read in another order is read again and again.
                                       : OpenInput(data.name, options_, true);
  if (!result.status.ok()) {
    *status = result.status.WithPlace({data.name, -1, -1});
    return nullptr;
  }
  std::shared_ptr<InputFile> input = std::move(result.file);
  if (opened_) opened_(input->choice());
  std::shared_ptr<InputFile> let_go;  // closed outside of the lock
  const std::lock_guard lock(mutex_);
  if (auto first = Find(file)) return first;
  if (kept_.size() >= most_) {
    const auto oldest = kept_.find(uses_.back());
    let_go = std::move(oldest->second.input);
    kept_.erase(oldest);
    uses_.pop_back();
  }
  uses_.push_front(file);
  kept_[file] = {input, uses_.begin()};
  return input;
}

}  // namespace ringfeed
