#pragma once

#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed::detail {

// What the compiler says of a reader that was written for Paddle has these names in it.
struct OverrideReadNextOfInstanceSourceInstead;  // ReadResult(Instance*, std::stop_token, Status*)
struct ReturnKEndFromReadNextInstead;            // in place of HasNext
struct OverrideReInitInstead;                    // bool()
struct EndInTheDestructorInstead;                // a reader that is shut down goes

/// The methods that a reader for Paddle overrides. Nothing here would ever call them, so a class
/// that has one does not compile, and the error names what to write: docs/PORTING.md.
class PaddleOverrides {
 public:
  virtual ReturnKEndFromReadNextInstead HasNext() const = delete;
  virtual OverrideReInitInstead Start() = delete;
  virtual OverrideReInitInstead StartImpl() = delete;
  virtual EndInTheDestructorInstead Shutdown() = delete;
  virtual EndInTheDestructorInstead ShutdownImpl() = delete;

 protected:
  PaddleOverrides() = default;
  ~PaddleOverrides() = default;
  PaddleOverrides(const PaddleOverrides&) = default;
  PaddleOverrides(PaddleOverrides&&) = default;
  PaddleOverrides& operator=(const PaddleOverrides&) = default;
  PaddleOverrides& operator=(PaddleOverrides&&) = default;
};

/// The same for the method that reads. Apart, because FileReader has one of that name.
class PaddleReadNextImpl {
 public:
  virtual OverrideReadNextOfInstanceSourceInstead ReadNextImpl(std::vector<Tensor>* out) = delete;

 protected:
  PaddleReadNextImpl() = default;
  ~PaddleReadNextImpl() = default;
  PaddleReadNextImpl(const PaddleReadNextImpl&) = default;
  PaddleReadNextImpl(PaddleReadNextImpl&&) = default;
  PaddleReadNextImpl& operator=(const PaddleReadNextImpl&) = default;
  PaddleReadNextImpl& operator=(PaddleReadNextImpl&&) = default;
};

}  // namespace ringfeed::detail
