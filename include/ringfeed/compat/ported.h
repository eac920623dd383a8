#pragma once

#include <stop_token>

#include "ringfeed/detail/paddle_overrides.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/reader.h"
#include "ringfeed/status.h"

namespace ringfeed {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"  // hides Paddle's on purpose

/// The base of a reader that you port from Paddle: Ported<InstanceSource>, Ported<DecoratedReader>
/// or Ported<FileReader>. A class that still has a method of Paddle's readers (HasNext, Start,
/// Shutdown) does not compile, and the error names what to write instead: docs/PORTING.md. After
/// that it may derive from Base itself.
template <class Base>
class Ported : public Base, private detail::PaddleSourceOverrides {
 public:
  using Base::Base;
  /// As Base has it.
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override = 0;
};

/// The same of a reader of a file.
template <>
class Ported<FileReader> : public FileReader, private detail::PaddleFileOverrides {
  using Base = FileReader;

 public:
  using Base::Base;

 protected:
  bool ReadNextImpl(Instance* instance) override = 0;
};

#pragma GCC diagnostic pop

}  // namespace ringfeed
