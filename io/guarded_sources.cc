#include "io/guarded_sources.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/side_thread.h"
#include "base/user_call.h"
#include "io/read_progress.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

// Calls the user's read(&status, &got), which has room for `asked` bytes.
template <typename Call>
Status Checked(const char* who, std::size_t asked, std::size_t* bytes_read, Call&& read) {
  *bytes_read = 0;
  Status status;
  std::size_t got = 0;
  const Status thrown = CallUser(who, [&] { status = read(&got); });
  if (!thrown.ok()) return thrown;
  if (got > asked) {
    return Status(StatusCode::kUserError, std::string(who) + " says that it gave " +
                                              std::to_string(got) + " bytes of " +
                                              std::to_string(asked) + " that it was asked for");
  }
  *bytes_read = got;
  return status;
}

template <typename Its>
std::string NameOf(const Its& source) {
  std::string name;
  CallUserOrThrow("the source's name", [&] { name = source.name(); });
  return name;
}

// A user's ReadAt, checked.
Status ReadOnce(Source* source, std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) {
  return Checked("ReadAt", buffer.size(), bytes_read,
                 [&](std::size_t* got) { return source->ReadAt(offset, buffer, got); });
}

// Reads of a source that may hang: side threads read into memory of their own, since one that is
// given up may write there when the call returns. As many threads as there are calls at once.
class TimedReads {
 public:
  TimedReads(std::shared_ptr<Source> source, const SourceLimits& limits)
      : source_(std::move(source)), limits_(limits) {}

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read) {
    std::unique_ptr<Lane> lane;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        lane = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (lane == nullptr) lane = std::make_unique<Lane>(source_);
    Call& call = *lane->call;
    call.offset = offset;
    call.bytes.resize(buffer.size());
    if (!lane->thread.Run(std::chrono::milliseconds(limits_.read_timeout_ms))) {
      limits_.given_up_reads->fetch_add(1, std::memory_order_relaxed);
      return Status(StatusCode::kIoError, "ReadAt did not return within " +
                                              std::to_string(limits_.read_timeout_ms) +
                                              " ms; its thread is given up");
    }
    *bytes_read = call.got;
    std::copy_n(call.bytes.begin(), call.got, buffer.begin());
    Status status = std::exchange(call.status, Status());
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(lane));
    return status;
  }

 private:
  struct Call {
    explicit Call(std::shared_ptr<Source> its_source) : source(std::move(its_source)) {}

    const std::shared_ptr<Source> source;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    std::size_t got = 0;
    Status status;
  };
  struct Lane {
    explicit Lane(const std::shared_ptr<Source>& source)
        : call(std::make_shared<Call>(source)),
          thread("the thread of a Source, which read_timeout_ms asks for,", [call = call] {
            call->status = ReadOnce(call->source.get(), call->offset, call->bytes, &call->got);
          }) {}
    const std::shared_ptr<Call> call;
    SideThread thread;
  };

  const std::shared_ptr<Source> source_;
  const SourceLimits limits_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;  ///< guarded by mutex_
};

class GuardedSource final : public Source {
 public:
  GuardedSource(std::shared_ptr<Source> source, const SourceLimits& limits)
      : source_(std::move(source)), name_(NameOf(*source_)), retries_(limits.retries) {
    CallUserOrThrow("Version", [this] { version_ = source_->Version(); });
    if (limits.read_timeout_ms > 0) timed_ = std::make_unique<TimedReads>(source_, limits);
  }

  std::string name() const override { return name_; }
  std::uint64_t Size() const override {
    std::uint64_t size = 0;
    CallUserOrThrow("Size", [&] { size = source_->Size(); });
    return size;
  }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    for (int tries = 0;; ++tries) {
      *bytes_read = 0;
      const Status status = timed_ != nullptr ? timed_->ReadAt(offset, buffer, bytes_read)
                                              : ReadOnce(source_.get(), offset, buffer, bytes_read);
      if (status.code() != StatusCode::kIoError || tries >= retries_) {
        return status.WithPlace({name_, static_cast<std::int64_t>(offset), -1});
      }
      std::this_thread::sleep_for(BackOff(tries + 1));
    }
  }
  std::string Version() const override { return version_; }

 private:
  const std::shared_ptr<Source> source_;
  const std::string name_;
  const int retries_;
  std::string version_;
  std::unique_ptr<TimedReads> timed_;  ///< null without a timeout
};

class GuardedStream final : public StreamSource {
 public:
  explicit GuardedStream(std::unique_ptr<StreamSource> stream)
      : stream_(std::move(stream)), name_(NameOf(*stream_)) {}

  std::string name() const override { return name_; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override {
    return Checked("Read", buffer.size(), bytes_read,
                   [&](std::size_t* got) { return stream_->Read(buffer, got, std::move(stop)); })
        .WithPlace({name_, -1, -1});
  }
  Status Reopen(std::stop_token stop) override {
    Status status;
    const Status thrown = CallUser("Reopen", [&] { status = stream_->Reopen(std::move(stop)); });
    return thrown.ok() ? status : thrown;
  }
  void Close() override {
    (void)CallUser("Close", [&] { stream_->Close(); });
  }
  bool ComesOnce() const override {
    bool once = false;
    CallUserOrThrow("ComesOnce", [&] { once = stream_->ComesOnce(); });
    return once;
  }

 private:
  const std::unique_ptr<StreamSource> stream_;
  const std::string name_;
};

}  // namespace

std::shared_ptr<Source> Guarded(std::shared_ptr<Source> source, const SourceLimits& limits) {
  return std::make_shared<GuardedSource>(std::move(source), limits);
}

std::unique_ptr<StreamSource> Guarded(std::unique_ptr<StreamSource> stream) {
  return std::make_unique<GuardedStream>(std::move(stream));
}

}  // namespace ringfeed
