#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/remote/http.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Percent-encodes all but RFC 3986's unreserved characters, as Signature Version 4 wants it:
/// letters, digits, '-', '.', '_', '~'; and '/' if `with_slashes` is false.
std::string EncodedText(std::string_view text, bool with_slashes = true);
/// The other way; '+' is a space if `plus_is_space`. What is no encoding stays as it is.
std::string DecodedText(std::string_view text, bool plus_is_space = false);
/// "name=value&name=value", encoded and sorted; "" for none.
std::string EncodedQuery(const std::vector<std::pair<std::string, std::string>>& query);

/// A URL's parts. Views of its text.
struct UrlParts {
  std::string_view scheme;  ///< "https"
  std::string_view host;    ///< with its port
  std::string_view path;    ///< from '/' on; "" if there is none
  std::string_view query;   ///< without '?'
};
UrlParts PartsOf(std::string_view url);

/// Sets a header, in the place of one of the same name.
void SetHeader(HttpRequest* request, std::string_view name, std::string value);

/// An environment variable; "" if it is not set.
std::string EnvironmentText(const char* name);
/// Takes an endpoint as users set it, and a '/' off its end. kInvalidArgument, naming `variable`,
/// if it is not http://HOST[/PATH] or https://HOST[/PATH].
Status ReadEndpoint(const std::string& text, const std::string& variable, std::string* endpoint);

/// Text of a peer for a message: its first 200 bytes, without what is not printable.
std::string ShownText(std::string_view text);

}  // namespace ringfeed
