#include "tests/combinations/submit_fault.h"

#include <cerrno>
#include <utility>

#include "io/input_file.h"
#include "tests/support/restrictions.h"

namespace ringfeed {

namespace {

thread_local bool refused = false;

class SubmitFaultEngine final : public ReadEngine {
 public:
  SubmitFaultEngine(std::unique_ptr<ReadEngine> inner, std::uint64_t calls)
      : inner_(std::move(inner)), calls_(calls) {}

  std::string name() const override { return "refused+" + inner_->name(); }
  std::string Describe() const override { return inner_->Describe(); }
  std::size_t Submit(std::span<ReadRequest* const> requests) override {
    const bool is_due = calls_ == 0 && !refused && !requests.empty();
    if (calls_ > 0) --calls_;
    if (!is_due) return inner_->Submit(requests);
    // Some were handed in before and are under way, the others are refused.
    const std::size_t before = inner_->in_flight() > 0 ? 0 : (requests.size() + 1) / 2;
    std::size_t taken = before == 0 ? 0 : inner_->Submit(requests.first(before));
    if (taken < before) return taken;
    refused = ForbidUringSubmits(EPERM);
    if (taken < requests.size()) taken += inner_->Submit(requests.subspan(taken));
    return taken;
  }
  std::size_t room() const override { return inner_->room(); }
  std::size_t Reap(std::span<ReadRequest*> finished,
                   std::chrono::steady_clock::time_point deadline) override {
    return inner_->Reap(finished, deadline);
  }
  void Wake() override { inner_->Wake(); }
  std::size_t in_flight() const override { return inner_->in_flight(); }
  ReadEngineStats stats() const override { return inner_->stats(); }

 private:
  const std::unique_ptr<ReadEngine> inner_;
  std::uint64_t calls_;
};

}  // namespace

std::unique_ptr<ReadEngine> MakeSubmitFaultEngine(std::unique_ptr<ReadEngine> inner,
                                                  std::uint64_t calls) {
  return std::make_unique<SubmitFaultEngine>(std::move(inner), calls);
}

std::int64_t ShortAfterRefusal::OnResult(const InputFile& file, std::uint64_t /*offset*/,
                                         std::uint32_t /*bytes*/, std::int64_t result) {
  if (!refused || result <= 0) return result;
  const auto unit = static_cast<std::int64_t>(file.alignment());
  return result > unit ? (result / 2 + unit - 1) / unit * unit : -EAGAIN;
}

}  // namespace ringfeed
