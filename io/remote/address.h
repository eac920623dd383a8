#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// The kinds of stores, by the scheme of an address.
enum class StoreKind : std::uint8_t {
  kHttp,         ///< http:// and https://
  kS3,           ///< s3://BUCKET/KEY
  kGoogle,       ///< gs://BUCKET/KEY
  kAzure,        ///< az://CONTAINER/KEY, or az://ACCOUNT/CONTAINER/KEY if the account is not set
  kHuggingFace,  ///< hf://[datasets/|models/|spaces/]ORGANISATION/NAME[@REVISION]/PATH
};

/// The address of an object, or of several by a prefix or a pattern.
struct RemoteAddress {
  StoreKind kind = StoreKind::kHttp;
  std::string text;    ///< as it was given
  std::string bucket;  ///< the bucket, the container; of HTTP "https://HOST[:PORT]"
  std::string key;  ///< not encoded; of HTTP the path and the query as they were given, after '/'
};

/// Whether a name is an address of a scheme that can be read. No path is one: a folder "s3:" would
/// have to be named "./s3:".
bool IsRemote(std::string_view name);

/// Takes an address apart. kInvalidArgument, with what is missing, if it names no object or
/// prefix, or has a user and a password.
Status ParseAddress(const std::string& text, RemoteAddress* address);

/// An address without what may be a secret, its query, for messages and reports.
std::string ShownAddress(std::string_view text);

/// The part of an address up to its last '/', without its query.
std::string FolderOfAddress(const std::string& text);

}  // namespace ringfeed
