#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ringfeed {

class KeyedPermutation;

/// Samples of your own: bytes, one sample after another, made by one function. FromDataset makes
/// them the records of a chain, which parses, shuffles and batches them like those of files. One
/// thread of ringfeed's calls it at a time, and no further ahead of the loop than
/// OpenOptions::ahead_records says. If one of its functions calls the reader that waits for it,
/// that call throws Error. If it waits for another thread that does so, it waits for ever.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Puts the next sample into *sample, which is empty; false at the end of the pass. May block.
  /// What it or another function throws becomes the stream's failure, after the samples before it.
  virtual bool Next(std::string* sample) = 0;
  /// Starts the next pass; false if that cannot be done.
  virtual bool ReInit() { return false; }
  /// The number of the pass that Next is in. Override it, and StartPass, if passes differ from each
  /// other: a chain's position names the pass that it counts from.
  virtual std::uint64_t Pass() const { return 0; }
  /// Starts that pass, from its first sample; false if that cannot be done.
  virtual bool StartPass(std::uint64_t /*pass*/) { return ReInit(); }
  /// Whether Next makes its sample without waiting, as from files: then samples are handed on
  /// together. Override it if Next may wait for something else than a disk: false hands on each
  /// sample at once.
  virtual bool Ready() const { return true; }
  /// Shown in reports and errors.
  virtual std::string name() const { return "data set"; }
};

/// Samples that have numbers. Each pass goes through all of them in order.
class RandomAccessDataset : public Dataset {
 public:
  /// How many samples there are; does not change.
  virtual std::uint64_t Size() const = 0;
  /// Puts sample `index`, less than Size(), into *sample, which is empty. Throws as Next.
  virtual void At(std::uint64_t index, std::string* sample) = 0;

  bool Next(std::string* sample) override;
  bool ReInit() override;

 private:
  std::uint64_t next_ = 0;
};

/// Which samples of a data set a rank gets in a pass, and in which order. The samples are put in an
/// order first (shuffled by (seed, pass), or as they stand), the same on all ranks; then each rank
/// takes its share of that.
struct DistributedOptions {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  /// Consecutive samples for each rank; if the division leaves a remainder, each of the first ranks
  /// has one more. Else every `ranks`-th.
  bool contiguous = false;
  bool shuffle = false;
  std::uint64_t seed = 0;  ///< the same on all ranks
  /// Ranks that have one sample less than others get one sample twice, so that all have equally
  /// many: rank r gets the sample at place r modulo Size().
  bool pad = false;
};

/// The share of one rank in each pass over a data set: all ranks together get every sample once,
/// and none twice but for `pad`. Throws Error for a rank that is none of the ranks, and without a
/// data set. Each ReInit starts the next pass, Reader's too: call it on all ranks alike. Restore,
/// SeekTo and SkipBatches go to places of the passes since the last one of Reader.
class DistributedTrainingDataset final : public Dataset {
 public:
  DistributedTrainingDataset(std::unique_ptr<RandomAccessDataset> dataset,
                             const DistributedOptions& options);
  ~DistributedTrainingDataset() override;

  bool Next(std::string* sample) override;
  bool ReInit() override { return StartPass(pass_ + std::uint64_t{1}); }
  std::uint64_t Pass() const override { return pass_; }
  bool StartPass(std::uint64_t pass) override;
  bool Ready() const override { return dataset_->Ready(); }
  std::string name() const override { return dataset_->name(); }

 private:
  /// The place in the order of the rank's sample number next_.
  std::uint64_t Place(std::uint64_t size, std::uint64_t own) const;

  const std::unique_ptr<RandomAccessDataset> dataset_;
  const DistributedOptions options_;
  std::unique_ptr<const KeyedPermutation> order_;  ///< of this pass, once it was needed
  std::uint32_t pass_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace ringfeed
