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
struct OverrideReadNextImplOfFileReaderInstead {};  // bool(Instance*)
struct ReturnFalseFromReadNextImplInstead {};
struct OverrideReInitImplInstead {};  // bool()

// A class that derives from these has methods of the same names and other parameters, and hides
// these on purpose. (g++ warns at the hidden method.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"

/// The methods that a reader for Paddle overrides, also with Paddle's tensors named anew. Nothing
/// here would ever call them, so a class that has one does not compile, and the error names what to
/// write.
template <class Read, class End, class Begin>
class PaddleOverrides {
 public:
  virtual Read& ReadNext(std::vector<Tensor>* out) = delete;
  virtual Read& ReadNext(std::vector<Instance>* out) = delete;
  virtual Read& ReadNext(Instance* out) = delete;
  virtual Read& ReadNextImpl(std::vector<Tensor>* out) = delete;
  virtual Read& ReadNextImpl(std::vector<Instance>* out) = delete;
  virtual End& HasNext() const = delete;
  virtual Begin& Start() = delete;
  virtual Begin& StartImpl() = delete;
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

#pragma GCC diagnostic pop

using PaddleSourceOverrides = PaddleOverrides<OverrideReadNextOfInstanceSourceInstead,
                                              ReturnKEndFromReadNextInstead, OverrideReInitInstead>;
using PaddleFileOverrides =
    PaddleOverrides<OverrideReadNextImplOfFileReaderInstead, ReturnFalseFromReadNextImplInstead,
                    OverrideReInitImplInstead>;

}  // namespace ringfeed::detail
