#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ringfeed {

/// What a client asks for. Only GET and HEAD are answered, bodies are not read.
struct HttpRequest {
  std::string method;
  std::string path;    ///< without what follows a ?
  std::string host;    ///< without the port; "" where the client said none
  std::string accept;  ///< as it came
};

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Where the head of a request ends in `text`: behind its empty line. None: more must come.
std::optional<std::size_t> EndOfHead(std::string_view text);
/// None: it is no HTTP.
std::optional<HttpRequest> ParseRequest(std::string_view head);
/// Whether the client takes OpenMetrics.
bool AcceptsOpenMetrics(std::string_view accept);
/// Whether a page of another site cannot have this name: of this machine alone. A name of its own
/// that leads here is how a page elsewhere could read what is shown to this machine alone.
bool IsLocalName(std::string_view host);
/// The whole answer; without the body for HEAD.
std::string AnswerText(const HttpAnswer& answer, bool with_body);

}  // namespace ringfeed
