#include <algorithm>
#include <optional>

#include "metrics/http.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

void CheckRequest(const PageRequest& request) {
  const auto seen = [&] { return request.method + " " + request.path + " of " + request.host; };
  FuzzExpect(
      request.path.starts_with('/') && request.path.find_first_of("? \n") == std::string::npos,
      "a path begins at the root and ends before its query", seen);
  FuzzExpect(std::ranges::all_of(request.method, [](char c) { return c >= 'A' && c <= 'Z'; }),
             "a method is a word", seen);
  FuzzExpect((request.host + request.accept).find('\n') == std::string::npos, "a header is a line",
             seen);
  if (!IsLocalName(request.host) || request.host.empty()) return;
  FuzzExpect(request.host == "localhost" || request.host == "[::1]" ||
                 (request.host.starts_with("127.") &&
                  request.host.find_first_not_of("0123456789.") == std::string::npos),
             "no other name means this machine", seen);
}

}  // namespace

FuzzTarget HttpTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const std::size_t piece = TakeByte(&input);
    const ExactCopy copy(input);
    const std::string_view text(reinterpret_cast<const char*>(copy.bytes().data()),
                                copy.bytes().size());
    const std::optional<std::size_t> end = EndOfHead(text);
    const std::optional<std::size_t> before = EndOfHead(text.substr(0, piece));
    FuzzExpect(!before || before == end, "what comes later does not move the end of a head");
    FuzzExpect(!end || *end <= text.size(), "a head ends in its text");
    const std::optional<PageRequest> request =
        ParseRequest(text.substr(0, end.value_or(text.size())));
    if (!request) return;
    CheckRequest(*request);
    (void)AcceptsOpenMetrics(request->accept);
  };
}

}  // namespace ringfeed
