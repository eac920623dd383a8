#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// A decorator that the user writes: a reader over another one, built-in or user's own, any number
/// of times over each other. Override ReadNext, and slots where it delivers something else than its
/// input; FromInstanceSource makes a Reader of it. Called by one thread of ringfeed's, while others
/// prepare its input.
class DecoratedReader : public InstanceSource {
 public:
  /// `input` is not yet read and has no other consumer; Share makes one that may have several.
  explicit DecoratedReader(Reader input) : input_(std::move(input)) {}

  Reader input() const final { return input_; }
  std::vector<SlotSpec> slots() const override { return input_.slots(); }
  /// Forgets what it holds back of its input, which starts again by itself.
  bool ReInit() override { return true; }

 protected:
  /// The next instance of the input; its memory is the instance's own. Blocks. kFailed puts the
  /// reason into *status, soon after `stop` is requested too.
  ReadResult ReadInput(Instance* instance, const std::stop_token& stop, Status* status);
  /// The same without a copy: a batch is held as long as its tensors are, which may be handed on to
  /// other threads. Says before the first read how many are held at a time.
  ReadResult ReadInputHeld(Instance* instance, const std::stop_token& stop, Status* status);
  void HoldBatches(std::size_t batches);

 private:
  const Reader input_;
};

/// What a Preprocessor makes of one instance (a batch behind Batch): fills `output` with a tensor
/// per slot, whose memory it owns. Tensors of `input` may be handed on, with their LoD. What it
/// throws becomes the stream's failure.
using PreprocessFunction = std::function<void(const Instance& input, Instance* output)>;
/// A user's function over whole instances, in order, by one thread. Map is faster where rows do not
/// depend on each other: it runs in parallel.
Reader Preprocess(Reader input, std::vector<SlotSpec> slots, PreprocessFunction function);

}  // namespace ringfeed
