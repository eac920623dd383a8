#include "ringfeed/dataset.h"

#include <utility>

#include "base/balanced_split.h"
#include "base/keyed_permutation.h"
#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {

bool RandomAccessDataset::Next(std::string* sample) {
  if (next_ >= Size()) return false;
  At(next_++, sample);
  return true;
}

bool RandomAccessDataset::ReInit() {
  next_ = 0;
  return true;
}

DistributedTrainingDataset::DistributedTrainingDataset(std::unique_ptr<RandomAccessDataset> dataset,
                                                       const DistributedOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (dataset_ == nullptr) Refuse("the data set is null");
  if (options_.rank >= options_.ranks) {
    Refuse("rank " + std::to_string(options_.rank) + " of " + std::to_string(options_.ranks) +
           " ranks: the first is 0");
  }
}

DistributedTrainingDataset::~DistributedTrainingDataset() = default;

std::uint64_t DistributedTrainingDataset::Place(std::uint64_t size, std::uint64_t own) const {
  if (next_ >= own) return options_.rank % size;  // padding
  if (!options_.contiguous) return next_ * options_.ranks + options_.rank;
  return BalancedRange(size, options_.ranks, options_.rank).begin + next_;
}

bool DistributedTrainingDataset::Next(std::string* sample) {
  const std::uint64_t size = dataset_->Size();
  // Both ways of splitting give the first ranks one more.
  const std::uint64_t own = BalancedRange(size, options_.ranks, options_.rank).size();
  const std::uint64_t most = BalancedRange(size, options_.ranks, 0).size();
  if (next_ >= (options_.pad ? most : own)) return false;
  std::uint64_t index = Place(size, own);
  if (options_.shuffle) {
    if (order_ == nullptr) {
      order_ =
          std::make_unique<KeyedPermutation>(size, options_.seed, pass_, DrawPurpose::kSampleOrder);
    }
    index = order_->At(index);
  }
  ++next_;
  dataset_->At(index, sample);
  return true;
}

bool DistributedTrainingDataset::StartPass(std::uint64_t pass) {
  pass_ = static_cast<std::uint32_t>(pass);
  order_.reset();
  next_ = 0;
  return true;
}

}  // namespace ringfeed
