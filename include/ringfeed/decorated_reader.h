#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// A decorator that you write: a reader over another one, which may be such a decorator itself.
/// Override ReadNext, and slots if it delivers something else than its input. FromInstanceSource
/// makes a Reader of it. One thread of ringfeed's calls it at a time, while others prepare its
/// input.
class DecoratedReader : public InstanceSource {
 public:
  /// `input` must not be read yet and have no other consumer. (Share makes one that may have
  /// several.)
  explicit DecoratedReader(Reader input) : input_(std::move(input)) {}

  Reader input() const final { return input_; }
  std::vector<SlotSpec> slots() const override { return input_.slots(); }
  /// Override it to drop instances held back from the input, which starts again by itself.
  bool ReInit() override { return true; }

 protected:
  /// Reads the next instance of the input, whose memory is the instance's own: a batch is copied.
  /// Blocks. kFailed puts the reason into *status; that happens soon after `stop` is requested,
  /// too.
  ReadResult ReadInput(Instance* instance, const std::stop_token& stop, Status* status);
  /// As ReadInput, but does not copy: a batch takes one of the input's slots as long as its tensors
  /// are held. They may be handed on to other threads. Call HoldBatches first.
  ReadResult ReadInputHeld(Instance* instance, const std::stop_token& stop, Status* status);
  /// Says before the first read how many batches of the input are held at a time, as
  /// Reader::ReserveBatches.
  void HoldBatches(std::size_t batches);

 private:
  const Reader input_;
};

/// Makes one instance of another (of a batch, after Batch): fills `output`, which is empty, with a
/// tensor per slot that owns its memory. Tensors of `input` may be handed on, with their LoD. What
/// it throws becomes the stream's failure. Called by one thread at a time.
using PreprocessFunction = std::function<void(const Instance& input, Instance* output)>;
/// Calls a function of yours with whole instances, in their order, in one thread. `slots` declares
/// what it makes. Map is faster if rows do not depend on each other: it runs in parallel. Throws
/// Error(kInvalidArgument) for an empty function.
Reader Preprocess(Reader input, std::vector<SlotSpec> slots, PreprocessFunction function);

}  // namespace ringfeed
