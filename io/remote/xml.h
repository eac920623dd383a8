#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// An element that has ended.
struct XmlElement {
  std::string_view path;  ///< its name behind those around it: "ListBucketResult/Contents/Key"
  std::string text;       ///< what stands in it, without its elements'
  bool encoded = false;   ///< it says Encoded="true", as Azure's names do
};

/// Reads a document by expat and calls `ended` for each element; a failure of that ends the reading
/// and is the result. kDamaged if the text is no XML, is longer than 32 MiB, is nested deeper than
/// 16, has a text longer than 16 KiB or declares anything: no entities are expanded.
Status ReadXml(std::string_view text,
               const std::function<Status(const XmlElement& element)>& ended);

/// What a store says of a failure, as far as it does.
struct StoreError {
  std::string code;     ///< "NoSuchKey"
  std::string message;  ///< for people
  std::string region;   ///< where the bucket is
};
/// Reads S3's, Google's, Azure's or STS's; of any other text nothing.
StoreError ReadStoreError(std::string_view text);

}  // namespace ringfeed
