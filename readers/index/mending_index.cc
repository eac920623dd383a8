#include "readers/index/mending_index.h"

namespace ringfeed {

Status MendingIndex::Mended(const Status& damage, std::shared_ptr<const PagedIndex>* index) const {
  const std::lock_guard lock(mutex_);
  if (mended_ == nullptr && failure_.ok()) {
    std::shared_ptr<const PagedIndex> made;
    failure_ = build_(&made);
    if (failure_.ok() && made->records() != records()) {
      failure_ =
          Status(StatusCode::kDamaged,
                 damage.message() + ", and the file has " + std::to_string(made->records()) +
                     " records where it had " + std::to_string(records()) + ": it has changed");
    }
    if (failure_.ok()) mended_ = std::move(made);
    remark_ = damage.message() + "; it was made again";
  }
  *index = mended_;
  return failure_;
}

Status MendingIndex::Find(std::span<const std::uint64_t> records,
                          std::span<RecordUnit> units) const {
  Status status = kept_->Find(records, units);
  if (status.code() != StatusCode::kDamaged) return status;
  std::shared_ptr<const PagedIndex> mended;
  status = Mended(status, &mended);
  return status.ok() ? mended->Find(records, units) : status;
}

Status MendingIndex::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  Status status = kept_->FirstFrom(offset, record);
  if (status.code() != StatusCode::kDamaged) return status;
  std::shared_ptr<const PagedIndex> mended;
  status = Mended(status, &mended);
  return status.ok() ? mended->FirstFrom(offset, record) : status;
}

std::string MendingIndex::remark() const {
  const std::lock_guard lock(mutex_);
  return remark_;
}

}  // namespace ringfeed
