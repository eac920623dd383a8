#include "io/guarded_sources.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "base/user_call.h"
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

class GuardedSource final : public Source {
 public:
  explicit GuardedSource(std::shared_ptr<Source> source)
      : source_(std::move(source)), name_(NameOf(*source_)) {}

  std::string name() const override { return name_; }
  std::uint64_t Size() const override {
    std::uint64_t size = 0;
    CallUserOrThrow("Size", [&] { size = source_->Size(); });
    return size;
  }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    return Checked("ReadAt", buffer.size(), bytes_read,
                   [&](std::size_t* got) { return source_->ReadAt(offset, buffer, got); })
        .WithPlace({name_, static_cast<std::int64_t>(offset), -1});
  }

 private:
  const std::shared_ptr<Source> source_;
  const std::string name_;
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

std::shared_ptr<Source> Guarded(std::shared_ptr<Source> source) {
  return std::make_shared<GuardedSource>(std::move(source));
}

std::unique_ptr<StreamSource> Guarded(std::unique_ptr<StreamSource> stream) {
  return std::make_unique<GuardedStream>(std::move(stream));
}

}  // namespace ringfeed
