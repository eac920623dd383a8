#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/read_engine.h"
#include "io/remote/curl_handle.h"
#include "io/remote/http.h"
#include "io/remote/http_client.h"
#include "io/remote/remote_source.h"
#include "ringfeed/status.h"

namespace ringfeed {

class DirectConnection;
class HostShare;
struct Attempt;

/// One request of the engine's caller.
struct RangeRead {
  using Clock = std::chrono::steady_clock;

  explicit RangeRead(ReadRequest* its_request)
      : request(its_request),
        source(its_request->file->remote()),
        rule(source->patience_ms(), source->failures()) {}

  std::uint64_t offset() const { return request->offset + have; }
  std::uint64_t end() const { return request->offset + expected; }

  ReadRequest* request;
  const RemoteSource* source;
  std::uint32_t expected = 0;  ///< bytes, up to the end of the object
  std::uint32_t have = 0;      ///< of them, from the first on
  RetryRule rule;
  Clock::time_point begun;
  Clock::time_point again_at{};  ///< while no attempt runs
  int lessons = 0;
  int odd_answers = 0;
  bool was_hedged = false;
  bool is_unusual = false;  ///< its answer is one that libcurl has to read
  std::array<std::unique_ptr<Attempt>, 2> attempts{};  ///< those that run
};

/// One request of a range, or of its rest, and how far its answer came. Either libcurl sends it, or
/// a connection of our own.
struct Attempt {
  using Clock = std::chrono::steady_clock;

  /// Makes it one of `read`, from the first byte that is missing.
  void Restart(RangeRead* its_read);
  /// Looks at the head of the answer, before its first byte is taken: `verdict` says whether its
  /// bytes are those that were asked for.
  void Judge();
  /// Where the next bytes of the range go.
  std::span<std::byte> Room() const;
  /// So many bytes came there.
  void Took(std::size_t bytes);

  RangeRead* read = nullptr;
  HostShare* share = nullptr;  ///< that it counts in
  std::uint32_t begin = 0;     ///< in the read's buffer: where its bytes go
  std::uint32_t got = 0;
  std::uint64_t skip = 0;  ///< bytes of a whole object in front of the range
  bool is_judged = false;  ///< the head was looked at
  Status verdict;          ///< why the bytes are not taken
  HttpResponse answer;     ///< its head; the body only if it is no range
  Clock::time_point begun;
  Clock::time_point last_byte;  ///< or its beginning; of a connection of our own
  Clock::duration first_byte{};
  std::unique_ptr<CurlHandle> handle;      ///< made when libcurl first sends
  bool is_of_library = false;              ///< libcurl sends it
  DirectConnection* connection = nullptr;  ///< else; null if it ended
};

}  // namespace ringfeed
