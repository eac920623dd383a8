#include "io/remote/listing.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>

#include "base/strict_json.h"
#include "io/remote/urls.h"
#include "io/remote/xml.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostObjects = 10'000;
constexpr std::size_t kMostJsonBytes = 32 << 20;
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

Status Damaged(const std::string& why) { return {StatusCode::kDamaged, "the listing " + why}; }

bool ReadSize(std::string_view text, std::uint64_t* bytes) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *bytes);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         *bytes <= kMostBytes;
}

/// Puts an object that is whole on the page.
Status Add(ListedObject* object, bool has_size, ListingPage* page) {
  if (object->key.empty()) return Damaged("has an object without a name");
  if (!has_size) return Damaged("has an object without a size");
  if (page->objects.size() >= kMostObjects) return Damaged("has more than 10,000 objects a page");
  page->objects.push_back(std::exchange(*object, {}));
  return {};
}

/// The URL that the header names as the next page; "" if there is none (RFC 8288).
std::string NextLink(std::string_view header) {
  while (!header.empty()) {
    const std::size_t open = header.find('<');
    const std::size_t close = header.find('>', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const std::size_t end = std::min(header.find(",", close), header.size());
    const std::string_view parameters = header.substr(close, end - close);
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(header.substr(open + 1, close - open - 1));
    }
    header.remove_prefix(end);
  }
  return {};
}

}  // namespace

Status ReadS3Listing(std::string_view text, ListingPage* page) {
  ListingPage read;
  ListedObject object;
  bool has_size = false;
  bool encoded = false;
  bool truncated = false;
  bool is_listing = false;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    const std::string_view path = element.path;
    if (path == "ListBucketResult/Contents/Key") object.key = element.text;
    if (path == "ListBucketResult/Contents/ETag") object.etag = element.text;
    if (path == "ListBucketResult/Contents/Size") {
      has_size = ReadSize(element.text, &object.bytes);
    }
    if (path == "ListBucketResult/EncodingType") encoded = element.text == "url";
    if (path == "ListBucketResult/IsTruncated") truncated = element.text == "true";
    if (path == "ListBucketResult/NextContinuationToken") read.next = element.text;
    if (path == "ListBucketResult") is_listing = true;
    if (path != "ListBucketResult/Contents") return Status();
    return Add(&object, std::exchange(has_size, false), &read);
  });
  if (!status.ok()) return status;
  if (!is_listing) return Damaged("is none of S3's");
  if (truncated && read.next.empty()) return Damaged("goes on and does not say where");
  if (!truncated) read.next.clear();
  if (encoded) {
    for (ListedObject& its : read.objects) its.key = DecodedText(its.key, true);
  }
  *page = std::move(read);
  return {};
}

Status ReadAzureListing(std::string_view text, ListingPage* page) {
  ListingPage read;
  ListedObject object;
  bool has_size = false;
  bool is_folder = false;
  bool is_listing = false;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    const std::string_view path = element.path;
    if (path == "EnumerationResults/Blobs/Blob/Name") {
      object.key = element.encoded ? DecodedText(element.text) : element.text;
    }
    if (path == "EnumerationResults/Blobs/Blob/Properties/Content-Length") {
      has_size = ReadSize(element.text, &object.bytes);
    }
    if (path == "EnumerationResults/Blobs/Blob/Properties/ResourceType") {
      is_folder = element.text == "directory";
    }
    if (path == "EnumerationResults/Blobs/Blob/Properties/Etag" && !element.text.empty()) {
      const bool quoted = element.text.front() == '"';
      object.etag = quoted ? element.text : '"' + element.text + '"';
    }
    if (path == "EnumerationResults/NextMarker") read.next = element.text;
    if (path == "EnumerationResults") is_listing = true;
    if (path != "EnumerationResults/Blobs/Blob") return Status();
    const bool sized = std::exchange(has_size, false);
    if (!std::exchange(is_folder, false)) return Add(&object, sized, &read);
    object = {};
    return Status();
  });
  if (!status.ok()) return status;
  if (!is_listing) return Damaged("is none of Azure's");
  *page = std::move(read);
  return {};
}

Status ReadHuggingFaceListing(const HttpResponse& response, ListingPage* page) {
  if (response.body.size() > kMostJsonBytes) return Damaged("is longer than 32 MiB");
  ListingPage read;
  try {
    const nlohmann::ordered_json tree = ParseStrictJson(response.body);
    if (!tree.is_array()) return Damaged("is none of Hugging Face's");
    for (const nlohmann::ordered_json& entry : tree) {
      if (entry.at("type") != "file") continue;
      ListedObject object;
      object.key = entry.at("path").get<std::string>();
      object.bytes = CountAt(entry, "size", kMostBytes);
      Status status = Add(&object, true, &read);
      if (!status.ok()) return status;
    }
  } catch (const std::exception& error) {
    return Damaged("is none of Hugging Face's: " + ShownText(error.what()));
  }
  read.next = NextLink(response.Header("link"));
  *page = std::move(read);
  return {};
}

}  // namespace ringfeed
