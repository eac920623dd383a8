#include "io/remote/object_writer.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/process_number.h"
#include "base/refuse.h"
#include "io/remote/http_client.h"

namespace ringfeed {
namespace {

/// S3's most parts are 10,000. From 10 GiB on each part is this share of what was sent before, so
/// that they grow by 1 / 1250 each: 8750 more of them make up 1000 times as much.
constexpr std::uint64_t kPartShare = 1250;
constexpr std::int64_t kAbortPatienceMs = 10'000;

std::string NewMark() {
  std::uint64_t random = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&random), sizeof(random)) != 1) {
    Refuse(StatusCode::kResourceExhausted, "OpenSSL has no random numbers to mark an upload with");
  }
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(random));
  return digits.data();
}

Status AskForHead(ObjectStore* store, const std::string& key, std::int64_t patience_ms,
                  HttpResponse* head) {
  const auto prepare = [&](HttpRequest* request) {
    request->method = "HEAD";
    return store->Prepare(key, {}, request);
  };
  const auto check = [](const HttpResponse& /*response*/) { return Status(); };
  return SendPatiently(store, RetryRule(patience_ms), prepare, check, head);
}

Status LookFor(ObjectStore* store, const std::string& key, std::int64_t patience_ms,
               bool* is_there) {
  HttpResponse head;
  Status status = AskForHead(store, key, patience_ms, &head);
  *is_there = status.ok();
  return head.status == 404 && status.code() == StatusCode::kNotFound ? Status() : status;
}

Status OpenStore(const std::string& text, RemoteAddress* address,
                 std::shared_ptr<ObjectStore>* store) {
  Status status = ParseAddress(text, address);
  if (status.ok() && (address->key.empty() || address->key.ends_with('/'))) {
    status = Status(StatusCode::kInvalidArgument, "it names no object: a name follows the last /");
  }
  return status.ok() ? OpenObjectStore(*address, BlockingHttp(), store) : status;
}

bool HasMark(const HttpResponse& head, const std::string& mark) {
  return std::ranges::any_of(head.headers, [&](const auto& header) {
    return header.first.ends_with(kMarkHeader) && header.second == mark;
  });
}

}  // namespace

ObjectWriter::ObjectWriter(std::shared_ptr<ObjectStore> store, const RemoteAddress& address,
                           const ObjectWriterOptions& options)
    : store_(std::move(store)),
      name_(ShownAddress(address.text)),
      patience_ms_(options.patience_ms),
      process_(ProcessNumber()),
      write_{address.key, NewMark(), options.replaces, {}} {}

Status ObjectWriter::Open(const std::string& text, const ObjectWriterOptions& options,
                          std::unique_ptr<ObjectWriter>* writer) {
  RemoteAddress address;
  std::shared_ptr<ObjectStore> store;
  Status status = OpenStore(text, &address, &store);
  if (!status.ok()) return status.WithPlace({ShownAddress(text), -1, -1});
  std::unique_ptr<ObjectWriter> made(new ObjectWriter(std::move(store), address, options));
  status = made->Note(made->LookAhead());
  if (status.ok()) *writer = std::move(made);
  return status;
}

ObjectWriter::~ObjectWriter() { Abort(); }

// Finds out what can be known before anything is sent.
Status ObjectWriter::LookAhead() {
  HttpRequest request;
  Status status = store_->PrepareWrite(WriteStep::kWhole, write_, {}, &request);
  if (!status.ok() || write_.replaces) return status;
  bool is_there = false;
  status = LookFor(store_.get(), write_.key, patience_ms_, &is_there);
  return status.ok() && is_there ? AlreadyThere() : status;
}

std::size_t ObjectWriter::PartBytesAfter(std::uint64_t sent_bytes) {
  return std::max(kPartBytes, static_cast<std::size_t>(sent_bytes / kPartShare));
}

Status ObjectWriter::Append(std::span<const std::byte> bytes) {
  while (status_.ok() && !bytes.empty()) {
    // More comes, so the object is no small one.
    if (part_.size() == PartBytes() && !Note(SendPart()).ok()) break;
    const std::size_t some = std::min(PartBytes() - part_.size(), bytes.size());
    if (part_.size() + some > part_.capacity()) part_.reserve(PartBytes());
    part_.append(reinterpret_cast<const char*>(bytes.data()), some);
    bytes = bytes.subspan(some);
  }
  return status_;
}

Status ObjectWriter::Finish() { return status_.ok() ? Note(SendAll()) : status_; }

Status ObjectWriter::SendAll() {
  if (!in_parts_) return Send(WriteStep::kWhole, part_);
  Status status = part_.empty() ? Status() : SendPart();
  if (status.ok()) status = Send(WriteStep::kComplete, {});
  if (status.ok()) in_parts_ = false;
  return status;
}

Status ObjectWriter::SendPart() {
  if (!in_parts_) {
    Status status = Send(WriteStep::kBegin, {});
    if (!status.ok()) return status;
    in_parts_ = true;
  }
  Status status = Send(WriteStep::kPart, part_);
  sent_bytes_ += part_.size();
  part_.clear();
  return status;
}

Status ObjectWriter::Send(WriteStep step, std::string_view bytes) {
  if (process_ != ProcessNumber()) {
    return Status(StatusCode::kInvalidArgument,
                  "this process was forked after it was begun, and it is its parent's");
  }
  HttpRequest first;
  Status status;
  if (step == WriteStep::kBegin || step == WriteStep::kAbort) {
    status = store_->PrepareWrite(step, write_, bytes, &first);
    if (!status.ok() || first.url.empty()) return status;
  }
  const auto prepare = [&](HttpRequest* request) {
    return store_->PrepareWrite(step, write_, bytes, request);
  };
  const auto check = [&](const HttpResponse& response) {
    return store_->ReadWrite(step, response, &write_);
  };
  const std::int64_t patience_ms =
      step == WriteStep::kAbort ? std::min(patience_ms_, kAbortPatienceMs) : patience_ms_;
  HttpResponse response;
  status = SendPatiently(store_.get(), RetryRule(patience_ms), prepare, check, &response);
  const bool is_last = step == WriteStep::kWhole || step == WriteStep::kComplete;
  if (status.ok() || !is_last) return status;
  // It may have been sent again, also by libcurl, after an answer that was lost was a good one:
  // then the upload has ended (404), or the object that is there already is this one.
  const bool is_late = response.status == 404 || response.status == 409 || response.status == 412;
  HttpResponse head;
  if (is_late && AskForHead(store_.get(), write_.key, patience_ms, &head).ok() &&
      HasMark(head, write_.mark)) {
    return {};
  }
  return response.status == 412 && !write_.replaces ? AlreadyThere() : status;
}

Status ObjectWriter::AlreadyThere() const {
  return Status(StatusCode::kInvalidArgument,
                "there is an object of that name already: choose another one, remove that, or say "
                "--force to write over it");
}

void ObjectWriter::Abort() noexcept {
  if (!std::exchange(in_parts_, false)) return;
  try {
    (void)Send(WriteStep::kAbort, {});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the store drops it some day
  }
}

Status ObjectWriter::Note(const Status& status) {
  if (status.ok()) return status;
  status_ = status.WithPlace({name_, -1, -1});
  Abort();
  part_ = std::string();
  return status_;
}

Status LookForObject(const std::string& text, std::int64_t patience_ms, bool* is_there) {
  RemoteAddress address;
  std::shared_ptr<ObjectStore> store;
  Status status = OpenStore(text, &address, &store);
  if (status.ok()) status = LookFor(store.get(), address.key, patience_ms, is_there);
  return status.WithPlace({ShownAddress(text), -1, -1});
}

}  // namespace ringfeed
