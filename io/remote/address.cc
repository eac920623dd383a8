#include "io/remote/address.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "io/remote/urls.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostAddressBytes = 8192;
constexpr std::size_t kMostShownBytes = 300;

struct Scheme {
  std::string_view name;
  StoreKind kind;
};
constexpr std::array<Scheme, 6> kSchemes = {{{"http", StoreKind::kHttp},
                                             {"https", StoreKind::kHttp},
                                             {"s3", StoreKind::kS3},
                                             {"gs", StoreKind::kGoogle},
                                             {"az", StoreKind::kAzure},
                                             {"hf", StoreKind::kHuggingFace}}};
constexpr std::string_view kHubKinds[] = {"datasets", "models", "spaces"};

/// Null: a path. One '/' is what Python's pathlib leaves of two.
const Scheme* SchemeOf(std::string_view name) {
  for (const Scheme& scheme : kSchemes) {
    if (strncasecmp(name.data(), scheme.name.data(), std::min(name.size(), scheme.name.size())) ==
            0 &&
        name.substr(std::min(name.size(), scheme.name.size())).starts_with(":/")) {
      return &scheme;
    }
  }
  return nullptr;
}

Status Unclear(const std::string& text, std::string_view why) {
  std::string shown = ShownAddress(text);
  if (shown.size() > kMostShownBytes) shown = shown.substr(0, kMostShownBytes) + "...";
  return {StatusCode::kInvalidArgument, "the address " + shown + " " + std::string(why)};
}

/// Takes what stands before the first '/' off, and the '/'. False: there is no '/'.
bool TakePart(std::string_view* rest, std::string* part) {
  const std::size_t slash = rest->find('/');
  *part = std::string(rest->substr(0, slash));
  if (slash == std::string_view::npos) return false;
  rest->remove_prefix(slash + 1);
  return true;
}

/// What may stand in a URL's host and path without being encoded.
bool IsBucketName(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-$";
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

Status ParseHttp(const Scheme& scheme, std::string_view rest, RemoteAddress* address) {
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view host = rest.substr(0, end);
  if (host.empty() || host.front() == ':') return Unclear(address->text, "names no host");
  for (const char c : host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == '\\' || c == '%') {
      return Unclear(address->text, "has a host that is no name");
    }
  }
  address->bucket = std::string(scheme.name) + "://" + std::string(host);
  rest.remove_prefix(end);
  if (rest.empty()) return Unclear(address->text, "names a host and no object of it");
  if (rest.find('#') != std::string_view::npos) {
    return Unclear(address->text, "has a '#': in the name of an object it is written %23");
  }
  address->key = std::string(rest.substr(rest.front() == '/' ? 1 : 0));
  return {};
}

Status ParseBucket(std::string_view rest, RemoteAddress* address) {
  const bool has_key = TakePart(&rest, &address->bucket);
  if (!IsBucketName(address->bucket)) {
    return Unclear(address->text,
                   "names no bucket: its name has letters, digits, '.', '-' and '_'");
  }
  const bool names_account = address->kind == StoreKind::kAzure &&
                             EnvironmentText("AZURE_STORAGE_ACCOUNT").empty() &&
                             EnvironmentText("AZURE_STORAGE_BLOB_ENDPOINT").empty();
  if (names_account) {
    std::string container;
    if (!has_key || !TakePart(&rest, &container) || !IsBucketName(container)) {
      return Unclear(address->text,
                     "names no account: set AZURE_STORAGE_ACCOUNT, or write "
                     "az://ACCOUNT/CONTAINER/NAME");
    }
    address->bucket += "/" + container;
  } else if (!has_key) {
    return Unclear(address->text,
                   "names no object: with a '/' at its end it means all objects of the bucket");
  }
  address->key = std::string(rest);
  return {};
}

/// A revision ends at the next '/', but for the Hub's own "refs/convert/NAME" and "refs/pr/NUMBER".
bool TakeRevision(std::string_view* rest, std::string* revision) {
  std::string part;
  bool more = TakePart(rest, revision);
  if (more && *revision == "refs") {
    more = TakePart(rest, &part) && TakePart(rest, revision);
    *revision = "refs/" + part + "/" + *revision;
  }
  *revision = DecodedText(*revision);
  return more && !revision->empty() && revision->size() <= 255;
}

Status ParseHub(std::string_view rest, RemoteAddress* address) {
  std::string part;
  std::string kind = "models";
  if (!TakePart(&rest, &part)) return Unclear(address->text, "names no repository");
  for (const std::string_view known : kHubKinds) {
    if (part == known) {
      kind = part;
      if (!TakePart(&rest, &part)) return Unclear(address->text, "names no repository");
      break;
    }
  }
  const std::size_t end = rest.find_first_of("@/");
  const std::string name(rest.substr(0, end));
  std::string revision = "main";
  bool has_path = end != std::string_view::npos;
  if (has_path) {
    const bool revised = rest[end] == '@';
    rest.remove_prefix(end + 1);
    if (revised) has_path = TakeRevision(&rest, &revision);
  }
  if (!IsBucketName(part) || !IsBucketName(name) || !has_path) {
    return Unclear(address->text,
                   "is not of the form hf://[datasets/|models/|spaces/]ORGANISATION/NAME"
                   "[@REVISION]/PATH");
  }
  address->bucket = kind + "/" + part + "/" + name + "@" + revision;
  address->key = std::string(rest);
  return {};
}

/// Whether a host ends with ':' and something else than a number, as only a password does.
bool HasNoPort(std::string_view authority) {
  const std::size_t host = authority.starts_with('[') ? authority.find(']') : 0;
  const std::size_t colon = std::min(authority.find(':', host), authority.size());
  return authority.find_first_not_of("0123456789", colon + 1) != std::string_view::npos;
}

/// The user and the password of what follows "://"; empty if there are none. If a password has a
/// '/', '?' or '#' as it is, nobody knows where it ends: then it is all of it.
std::string_view UserOf(std::string_view rest) {
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const std::size_t at = authority.rfind('@');
  const bool has_user = at != std::string_view::npos;
  const bool goes_on = rest.find('@', authority.size()) != std::string_view::npos;
  if (goes_on && (has_user || HasNoPort(authority))) return rest;
  return has_user ? authority.substr(0, at + 1) : std::string_view();
}

}  // namespace

bool IsRemote(std::string_view name) { return SchemeOf(name) != nullptr; }

Status ParseAddress(const std::string& text, RemoteAddress* address) {
  const Scheme* const scheme = SchemeOf(text);
  if (scheme == nullptr) {
    return Unclear(text, "begins with none of http://, https://, s3://, gs://, az:// and hf://");
  }
  if (text.size() > kMostAddressBytes) return Unclear(text, "is longer than 8,192 bytes");
  std::string_view rest = std::string_view(text).substr(scheme->name.size() + 1);
  if (!rest.starts_with("//")) {
    return Unclear(text,
                   "has one '/' where two belong: Python's pathlib takes one away, so give "
                   "addresses as str, not as Path");
  }
  rest.remove_prefix(2);
  if (!UserOf(rest).empty()) {
    return Unclear(text,
                   "has a user or a password in it, which would be shown: give credentials by "
                   "the environment");
  }
  RemoteAddress parsed;
  parsed.kind = scheme->kind;
  parsed.text = text;
  Status status = scheme->kind == StoreKind::kHttp          ? ParseHttp(*scheme, rest, &parsed)
                  : scheme->kind == StoreKind::kHuggingFace ? ParseHub(rest, &parsed)
                                                            : ParseBucket(rest, &parsed);
  if (status.ok()) *address = std::move(parsed);
  return status;
}

std::string ShownAddress(std::string_view text) {
  const Scheme* const scheme = SchemeOf(text);
  if (scheme == nullptr) return std::string(text);
  std::size_t start = scheme->name.size() + 1;
  while (start < text.size() && text[start] == '/') ++start;
  const std::string_view user = UserOf(text.substr(start));
  std::string_view rest = text.substr(start + user.size());
  // Of a pattern of keys '?' is a part, unless "name=value" follows.
  const std::size_t query = rest.find('?');
  if (query != std::string_view::npos &&
      (scheme->kind == StoreKind::kHttp || rest.find('=', query) != std::string_view::npos)) {
    rest = rest.substr(0, query);
  }
  return std::string(text.substr(0, start)) + std::string(rest);
}

std::string FolderOfAddress(const std::string& text) {
  const std::string shown = text.substr(0, text.find_first_of("?#"));
  return shown.substr(0, shown.rfind('/') + 1);
}

}  // namespace ringfeed
