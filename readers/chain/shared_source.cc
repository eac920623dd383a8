#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/session.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

void OwnMemoryOf(Tensor* tensor) {
  struct Copy {
    std::vector<std::byte> values;
    std::vector<std::vector<std::int64_t>> levels;
  };
  auto copy = std::make_shared<Copy>();
  copy->values.assign(tensor->data, tensor->data + tensor->bytes);
  for (auto& level : tensor->lod) {
    copy->levels.emplace_back(level.begin(), level.end());
    level = copy->levels.back();  // its memory does not move when the outer vector grows
  }
  tensor->data = copy->values.data();
  tensor->owner = std::move(copy);
}

}  // namespace

void OwnMemory(Instance* instance) {
  std::for_each(instance->begin(), instance->end(), [](Tensor& each) { OwnMemoryOf(&each); });
}

namespace {

constexpr const char* kName = "a shared reader";

/// Records, a block of the input's at a time.
class SharedRecords final : public RecordProvider {
 public:
  explicit SharedRecords(std::shared_ptr<ReaderSession> input) : input_(std::move(input)) {}

  ReadResult Next(std::span<const std::byte>* record, const std::stop_token& stop,
                  Status* status) override {
    while (next_ == end_) {
      next_ = end_ = 0;
      const ReadResult result = input_->ReadBlock(&block_, nullptr, {.stop = stop});
      if (result == ReadResult::kFailed) *status = input_->status();
      if (result != ReadResult::kRecord) return result;
      end_ = block_.size();
      while (end_ > 0 && block_.records()[end_ - 1].damaged()) --end_;
    }
    while (block_.records()[next_].damaged()) ++next_;  // the last one is not
    *record = block_.records()[next_++].bytes();
    return ReadResult::kRecord;
  }
  bool Ready() const override { return next_ < end_; }
  // The input starts again for all of its chains at once: see GraphNode::ReInit.
  bool ReInit() override {
    LetGo();
    return true;
  }
  // While it holds a block, reads for other chains cannot use the block's memory.
  void LetGo() override {
    block_ = RecordBlock();
    next_ = end_ = 0;
  }
  std::string name() const override { return kName; }

 private:
  const std::shared_ptr<ReaderSession> input_;
  RecordBlock block_;
  std::size_t next_ = 0;
  std::size_t end_ = 0;  ///< one past the block's last record that is not damaged
};

class SharedInstances final : public InstanceSource {
 public:
  explicit SharedInstances(std::shared_ptr<ReaderSession> input) : input_(std::move(input)) {}

  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    const ReadResult result = input_->ReadNext(instance, {.stop = stop});
    if (result == ReadResult::kFailed) *status = input_->status();
    // Rows own their memory; a batch would keep its slot.
    if (result == ReadResult::kRecord && input_->plan().batched) OwnMemory(instance);
    return result;
  }
  bool ReInit() override { return true; }

 private:
  const std::shared_ptr<ReaderSession> input_;
};

}  // namespace

SourceNode SharedSource(std::shared_ptr<ReaderSession> input) {
  SourceNode node;
  node.shared = true;
  const ExecutionPlan& plan = input->plan();
  node.options = plan.source.options;
  node.options.arena_bytes = 0;
  node.generated = plan.source.generated;
  if (plan.parser == nullptr && !plan.passes_instances()) {
    node.records = std::make_shared<SharedRecords>(std::move(input));
    return node;
  }
  node.slots = plan.Slots();
  if (!plan.batched && plan.parser != nullptr) {
    node.batch_parser = MakeParsedRowParser(*plan.parser);
  } else if (!plan.batched) {
    node.batch_parser = plan.source.batch_parser;  // rows of a reader that is shared itself
  }
  node.instances = std::make_shared<SharedInstances>(std::move(input));
  return node;
}

}  // namespace ringfeed
