#include "readers/engine/sources/worker_io.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/refusal.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

/// Of one range of an object: a connection gives such a piece at its full rate.
constexpr std::uint64_t kRangeBytes = std::uint64_t{8} << 20;

}  // namespace

void ReadBuffer::Conclude() {
  status = Status();
  valid_end = begin;
  bool whole = true;
  for (const Part& part : parts) {
    if (status.ok()) status = part.status;
    if (whole) valid_end = part.offset + part.got;
    whole = whole && part.got == part.bytes;
  }
  // A last read may be rounded up past the end of the region.
  valid_end = std::min(valid_end, end);
}

WorkerIo::WorkerIo(const IoOptions& options, std::shared_ptr<Arena> arena,
                   const EngineFactory& factory, std::shared_ptr<DirectReads> direct)
    : options_(options), arena_(std::move(arena)), factory_(factory), direct_(std::move(direct)) {}

WorkerIo::~WorkerIo() {
  {
    const std::lock_guard lock(wake_mutex_);
    uring_.reset();
    pool_.reset();
    remote_.reset();
  }
  while (abandoned_ != nullptr) {
    arena_->Free(abandoned_->run);
    abandoned_ = std::move(abandoned_->next);
  }
}

template <typename Make>
ReadEngine* WorkerIo::Made(std::unique_ptr<ReadEngine>* engine, const Make& make) {
  if (*engine == nullptr) {
    std::unique_ptr<ReadEngine> made = make();
    const std::lock_guard lock(wake_mutex_);
    *engine = std::move(made);
  }
  return engine->get();
}

ReadEngine* WorkerIo::EngineFor(const InputFile& file, Status* why_not) {
  if (file.remote() != nullptr) return Made(&remote_, factory_.remote);
  if (direct_ == nullptr && file.choice().path == IoPath::kUring) {
    // A refusal that passes must not exclude it for the rest of the run.
    if (uring_ == nullptr && (uring_refused_.ok() || IsRefusal(uring_refused_))) {
      std::unique_ptr<ReadEngine> made;
      uring_refused_ = factory_.uring(options_, arena_->data(), arena_->bytes(), &made);
      const std::lock_guard lock(wake_mutex_);
      uring_ = std::move(made);
    }
    if (uring_ != nullptr) return uring_.get();
    *why_not = uring_refused_;
    if (options_.path == IoPath::kUring) return nullptr;
  }
  return Made(&pool_, [&] {
    if (direct_ == nullptr) return factory_.pool(options_);
    const auto serve = [direct = direct_.get()](ReadRequest* request, int retries,
                                                ReadEngineStats* stats) {
      direct->Read(request, retries, stats);
    };
    return MakePoolEngine(options_, serve);
  });
}

std::unique_ptr<ReadBuffer> WorkerIo::Request(InputFile* file, ReadEngine* engine, SlabRun run,
                                              std::uint64_t begin, std::uint64_t end,
                                              std::uint64_t read_from) const {
  const std::uint64_t unit = file->alignment();
  MergedRead read;
  read.begin = read_from;
  read.at = static_cast<std::size_t>(read_from - begin);
  read.end = (end + unit - 1) / unit * unit;
  read.input = file;
  read.engine = engine;
  auto buffer = RequestScattered(run, {&read, 1});
  buffer->begin = begin;
  buffer->end = end;
  buffer->valid_end = read_from;
  return buffer;
}

std::unique_ptr<ReadBuffer> WorkerIo::RequestScattered(SlabRun run,
                                                       std::span<const MergedRead> reads) const {
  auto buffer = std::make_unique<ReadBuffer>();
  buffer->run = run;
  buffer->files.reserve(1);
  buffer->parts.reserve(reads.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const MergedRead& read = reads[i];
    const std::uint64_t most = read.input->remote() != nullptr ? kRangeBytes : options_.block_bytes;
    for (std::uint64_t at = read.begin; at < read.end; at += most) {
      ReadBuffer::Part& part = buffer->parts.emplace_back();
      part.whole = buffer.get();
      part.engine = read.engine;
      part.read = static_cast<std::uint32_t>(i);
      part.file = read.input;
      part.offset = at;
      part.buffer = run.data + read.at + (at - read.begin);
      part.bytes = static_cast<std::uint32_t>(std::min(most, read.end - at));
    }
  }
  return buffer;
}

bool WorkerIo::Submit(ReadBuffer* buffer) {
  // Several by one call: if pieces are small, a call for each would cost more than its bytes.
  constexpr std::size_t kMostRequests = 64;
  requests_.clear();
  std::size_t bytes = bytes_in_flight_;
  ReadEngine* const engine = buffer->parts[buffer->parts_submitted].engine;
  // Each read that ends leads to another call: writes only requests that the engine has room for.
  const std::size_t most = std::min(kMostRequests, engine->room());
  for (std::size_t next = buffer->parts_submitted; next < buffer->parts.size(); ++next) {
    ReadBuffer::Part& part = buffer->parts[next];
    if (requests_.size() == most || part.engine != engine) break;
    const bool is_bounded = engine != remote_.get();
    if (is_bounded && bytes > 0 && bytes + part.bytes > options_.in_flight_bytes) break;
    bytes += part.bytes;
    requests_.push_back(&part);
  }
  if (requests_.empty()) return false;
  const std::size_t taken = engine->Submit(requests_);
  for (const ReadRequest* const request : std::span(requests_).first(taken)) {
    bytes_in_flight_ += request->bytes;
  }
  buffer->parts_submitted += taken;
  return taken == requests_.size();
}

void WorkerIo::Pump(ReadBuffer* buffer) {
  while (buffer->parts_submitted < buffer->parts.size() && Submit(buffer)) {
  }
}

void WorkerIo::ReapFrom(ReadEngine* engine, Clock::time_point deadline) {
  std::array<ReadRequest*, 16> finished;
  const std::size_t count = engine->Reap(finished, deadline);
  for (ReadRequest* const request : std::span(finished).first(count)) {
    bytes_in_flight_ -= request->bytes;
    ReadBuffer* const buffer = static_cast<ReadBuffer::Part*>(request)->whole;
    ++buffer->parts_done;
    buffer->bytes_read += request->got;
    if (buffer->complete()) buffer->Conclude();
  }
}

void WorkerIo::Reap(Clock::time_point deadline) {
  std::array<ReadEngine*, 3> busy{};
  std::size_t count = 0;
  for (ReadEngine* const engine : {uring_.get(), pool_.get(), remote_.get()}) {
    if (engine != nullptr && engine->in_flight() > 0) busy[count++] = engine;
  }
  for (std::size_t i = 0; i < count; ++i) {
    // Several engines cannot be waited for together: look at all, wait a little for the last.
    const bool is_last = i + 1 == count;
    const Clock::time_point soon = Clock::now() + std::chrono::milliseconds(1);
    const Clock::time_point until = count == 1 ? deadline
                                    : is_last  ? std::min(deadline, soon)
                                               : Clock::time_point();
    ReapFrom(busy[i], until);
  }
  FreeAbandoned();
}

void WorkerIo::Abandon(std::unique_ptr<ReadBuffer> buffer, std::shared_ptr<InputFile> file) {
  if (buffer == nullptr) return;
  std::vector<std::shared_ptr<InputFile>> files = std::move(buffer->files);
  files.push_back(std::move(file));
  Abandon(std::move(buffer), std::move(files));
}

void WorkerIo::Abandon(std::unique_ptr<ReadBuffer> buffer,
                       std::vector<std::shared_ptr<InputFile>> files) {
  if (buffer == nullptr) return;
  // Parts that were not submitted never will be.
  buffer->parts.resize(buffer->parts_submitted);
  buffer->files = std::move(files);
  buffer->next = std::move(abandoned_);
  abandoned_ = std::move(buffer);
  FreeAbandoned();
}

void WorkerIo::FreeAbandoned() {
  for (std::unique_ptr<ReadBuffer>* each = &abandoned_; *each != nullptr;) {
    if ((*each)->in_flight()) {
      each = &(*each)->next;
      continue;
    }
    arena_->Free((*each)->run);
    *each = std::move((*each)->next);
  }
}

void WorkerIo::Wake() {
  const std::lock_guard lock(wake_mutex_);
  if (uring_) uring_->Wake();
  if (pool_) pool_->Wake();
  if (remote_) remote_->Wake();
}

}  // namespace ringfeed
