#pragma once

#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {
class Instance;
}  // namespace ringfeed

namespace ringfeed::detail {

// What the compiler says of a reader that was written for Paddle has these names in it.
struct OverrideReadNextOfInstanceSourceInstead {};  // with Instance*, std::stop_token, Status*
struct ReturnKEndFromReadNextInstead {};            // in place of HasNext
struct OverrideReInitInstead {};                    // bool()
struct EndInTheDestructorInstead {};                // shutting down a reader is destroying it

// The same for a reader of a file.
struct OverrideReadNextImplOfFileReaderInstead  // bool(Instance*)
    : OverrideReadNextOfInstanceSourceInstead {};
struct ReturnFalseFromReadNextImplInstead : ReturnKEndFromReadNextInstead {};
struct OverrideReInitImplInstead : OverrideReInitInstead {};  // bool()

// A class that derives from these has methods of the same names and other parameters, and hides
// these on purpose. (g++ warns at the hidden method, clang++ at the hiding one.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"

/// The methods that a reader for Paddle overrides, also with Paddle's tensors named anew. Nothing
/// here would ever call them, so a class that has one does not compile, and the error names what to
/// write: docs/PORTING.md.
class PaddleOverrides {
 public:
  virtual OverrideReadNextOfInstanceSourceInstead& ReadNext(std::vector<Tensor>* out) = delete;
  virtual OverrideReadNextOfInstanceSourceInstead& ReadNext(std::vector<Instance>* out) = delete;
  virtual OverrideReadNextOfInstanceSourceInstead& ReadNext(Instance* out) = delete;
  virtual OverrideReadNextOfInstanceSourceInstead& ReadNextImpl(std::vector<Tensor>* out) = delete;
  virtual OverrideReadNextOfInstanceSourceInstead& ReadNextImpl(std::vector<Instance>* out) =
      delete;
  virtual ReturnKEndFromReadNextInstead& HasNext() const = delete;
  virtual OverrideReInitInstead& Start() = delete;
  virtual OverrideReInitInstead& StartImpl() = delete;
  virtual EndInTheDestructorInstead& Shutdown() = delete;
  virtual EndInTheDestructorInstead& ShutdownImpl() = delete;

 protected:
  PaddleOverrides() = default;
  ~PaddleOverrides() = default;
  PaddleOverrides(const PaddleOverrides&) = default;
  PaddleOverrides(PaddleOverrides&&) = default;
  PaddleOverrides& operator=(const PaddleOverrides&) = default;
  PaddleOverrides& operator=(PaddleOverrides&&) = default;
};

/// The same for FileReader, for which other methods are to be written. Base is what it derives
/// from.
template <class Base>
class PaddleFileOverrides : public Base {
 public:
  OverrideReadNextImplOfFileReaderInstead& ReadNext(std::vector<Tensor>* out) override = delete;
  OverrideReadNextImplOfFileReaderInstead& ReadNext(std::vector<Instance>* out) override = delete;
  OverrideReadNextImplOfFileReaderInstead& ReadNext(Instance* out) override = delete;
  OverrideReadNextImplOfFileReaderInstead& ReadNextImpl(std::vector<Tensor>* out) override = delete;
  OverrideReadNextImplOfFileReaderInstead& ReadNextImpl(std::vector<Instance>* out) override =
      delete;
  ReturnFalseFromReadNextImplInstead& HasNext() const override = delete;
  OverrideReInitImplInstead& Start() override = delete;
  OverrideReInitImplInstead& StartImpl() override = delete;
};

#pragma GCC diagnostic pop

}  // namespace ringfeed::detail
