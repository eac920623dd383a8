#pragma once

#include <string>

namespace ringfeed {

/// Samples of the user's own: bytes, one sample after another, made by one function. FromDataset
/// makes them the records of a chain, which parses, shuffles and batches them like those of files.
/// Called by one thread of ringfeed's.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Replaces *sample, which is empty, by the next one; false at the end of the pass. What it
  /// throws becomes the stream's failure behind the samples before it.
  virtual bool Next(std::string* sample) = 0;
  /// Starts the next pass; false where that cannot be done.
  virtual bool ReInit() { return false; }
  /// Whether Next makes its sample without waiting, as from files: then samples are handed on
  /// together. Override it where Next may wait for something else than a disk: each sample is
  /// delivered at once then.
  virtual bool Ready() const { return true; }
  /// Shown in reports and errors.
  virtual std::string name() const { return "data set"; }
};

}  // namespace ringfeed
