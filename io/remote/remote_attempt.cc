#include "io/remote/remote_attempt.h"

#include <algorithm>
#include <optional>

#include "io/remote/content_range.h"

namespace ringfeed {

void Attempt::Restart(RangeRead* its_read) {
  read = its_read;
  begin = its_read->have;
  got = 0;
  skip = 0;
  is_judged = false;
  verdict = Status();
  answer.status = 0;
  answer.headers.clear();
  answer.body.clear();
  begun = Clock::now();
  last_byte = begun;
  first_byte = {};
}

void Attempt::Judge() {
  is_judged = true;
  first_byte = Clock::now() - begun;
  if (answer.status != 200 && answer.status != 206) return;
  verdict = read->source->CheckState(answer);
  if (!verdict.ok()) return;
  const std::uint64_t from = read->request->offset + begin;
  const auto odd = [&](const std::string& what) {
    verdict = Status(StatusCode::kIoError,
                     "the server answers bytes from " + std::to_string(from) + " on by " + what);
  };
  const std::uint64_t size = read->source->Size();
  if (answer.status == 200) {
    const auto length = ReadLength(answer.Header("content-length"));
    if (length && *length != size) return odd("an object of another size");
    skip = from;
    return;
  }
  const auto range = ReadContentRange(answer.Header("content-range"));
  if (!range) return odd("206 without a Content-Range that can be read");
  if (range->begin != from || range->end > read->end()) {
    return odd("the range from " + std::to_string(range->begin) + " to " +
               std::to_string(range->end));
  }
  if (range->size && *range->size != size) odd("a range of another size");
}

std::span<std::byte> Attempt::Room() const {
  return {read->request->buffer + begin + got, read->expected - begin - got};
}

void Attempt::Took(std::size_t bytes) {
  got += static_cast<std::uint32_t>(bytes);
  last_byte = Clock::now();
  read->have = std::max(read->have, begin + got);
}

}  // namespace ringfeed
