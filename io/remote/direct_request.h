#pragma once

#include <string>
#include <string_view>

#include "io/remote/http.h"

namespace ringfeed {

/// A GET as it goes over a connection of our own.
struct DirectRequest {
  std::string origin;  ///< "https://host:port": what a connection leads to
  std::string text;    ///< the request's head, with the blank line
  bool is_tls = false;
};

/// Writes an ordinary GET over HTTP/1.1 (RFC 9112), with the headers that libcurl would add. False
/// for everything else, which only libcurl can send: other methods, a body, a
/// user's name in the URL, characters that no URL or header has.
bool WriteDirectRequest(const HttpRequest& request, DirectRequest* direct);

/// The head of an answer, whose last bytes are its blank line, if it is ordinary in every way: a
/// status line of HTTP/1.1, "NAME: VALUE" in each line, no header that is folded, and each header
/// that frames the body once. False if libcurl has to read the answer.
bool ReadDirectHead(std::string_view head, HttpResponse* response);

}  // namespace ringfeed
