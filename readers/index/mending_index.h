#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "readers/formats/record_index.h"
#include "readers/index/paged_index.h"

namespace ringfeed {

/// A kept index of which a page may turn out damaged when it is used: then it is made again, once,
/// and the call goes on with that. Thread safe; a call blocks while the file is read for it.
class MendingIndex final : public RecordIndex {
 public:
  using Build = std::function<Status(std::shared_ptr<const PagedIndex>*)>;

  MendingIndex(std::shared_ptr<const PagedIndex> kept, Build build)
      : kept_(std::move(kept)), build_(std::move(build)) {}

  std::uint64_t records() const override { return kept_->records(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return kept_->damage(); }
  IndexLoss loss() const override { return kept_->loss(); }
  std::string remark() const override;

 private:
  /// The index that was made in place of the kept one.
  Status Mended(const Status& damage, std::shared_ptr<const PagedIndex>* index) const;

  const std::shared_ptr<const PagedIndex> kept_;
  const Build build_;
  mutable std::mutex mutex_;  ///< guards what follows
  mutable std::shared_ptr<const PagedIndex> mended_;
  mutable Status failure_;
  mutable std::string remark_;
};

}  // namespace ringfeed
