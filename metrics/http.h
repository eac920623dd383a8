#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ringfeed {

/// A client's request. Only GET and HEAD are answered, bodies are not read.
struct PageRequest {
  std::string method;
  std::string path;    ///< without the part after a ?
  std::string host;    ///< without the port; "" if the client named none
  std::string accept;  ///< as it came
};

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// The end of a request's head in `text`: after its empty line. None: more must come.
std::optional<std::size_t> EndOfHead(std::string_view text);
/// None: it is not HTTP.
std::optional<PageRequest> ParseRequest(std::string_view head);
/// Whether the client takes OpenMetrics.
bool AcceptsOpenMetrics(std::string_view accept);
/// Whether the name can only mean this machine, so that a page of another site cannot have it. By a
/// name of its own that leads here, a page of another site could read what is shown to this machine
/// alone.
bool IsLocalName(std::string_view host);
/// The whole answer; without the body for HEAD.
std::string AnswerText(const HttpAnswer& answer, bool with_body);

}  // namespace ringfeed
