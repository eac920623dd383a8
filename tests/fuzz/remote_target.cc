// What remote reading takes from users, from files and from servers.
#include <algorithm>
#include <map>
#include <string>

#include "io/remote/address.h"
#include "io/remote/aws_settings.h"
#include "io/remote/content_range.h"
#include "io/remote/credentials.h"
#include "io/remote/direct_request.h"
#include "io/remote/listing.h"
#include "io/remote/urls.h"
#include "io/remote/xml.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

std::string TextOf(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

void CheckPage(const ListingPage& page) {
  FuzzExpect(page.objects.size() <= 10'000, "a page has a limit");
  for (const ListedObject& object : page.objects) {
    FuzzExpect(!object.key.empty(), "an object has a name");
    FuzzExpect(object.bytes >> 63 == 0, "a size is an offset");
  }
}

void CheckCredentials(const Status& status, const Credentials& credentials) {
  if (!status.ok()) return;
  const std::string sent = credentials.access_key + credentials.session_token;
  FuzzExpect(std::ranges::all_of(sent, [](char c) { return c > ' ' && c < 0x7f; }),
             "what goes into a header is a line", [&] { return sent; });
  FuzzExpect(!credentials.access_key.empty() && !credentials.secret_key.empty(),
             "credentials are whole");
}

}  // namespace

FuzzTarget RemoteAddressTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const std::string text = TextOf(input);
    const std::string shown = ShownAddress(text);
    FuzzExpect(ShownAddress(shown).size() <= shown.size(), "what is shown hides no less");
    FuzzExpect(DecodedText(EncodedText(text)) == text, "a text is what its encoding says");
    RemoteAddress address;
    const Status status = ParseAddress(text, &address);
    FuzzExpect(status.ok() || status.code() == StatusCode::kInvalidArgument,
               "a text is refused for itself", [&] { return status.ToString(); });
    if (!status.ok()) return;
    FuzzExpect(IsRemote(text) && address.text == text, "an address is none of a path");
    const UrlParts parts = PartsOf(
        address.kind == StoreKind::kHttp ? address.bucket : "https://" + address.bucket + "/");
    FuzzExpect(!parts.host.empty(), "a bucket has a name", [&] { return address.bucket; });
    FuzzExpect(address.bucket.find_first_of(" ?#\\\n\r") == std::string::npos ||
                   address.kind == StoreKind::kHuggingFace,
               "a bucket stays in its place of a URL", [&] { return address.bucket; });
  };
}

FuzzTarget RemoteHeadTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const ExactCopy copy(input);
    const std::string text = TextOf(copy.bytes());
    (void)ReadContentRange(text);
    HttpResponse head;
    if (!ReadDirectHead(text, &head)) return;
    FuzzExpect(text.starts_with("HTTP/1.1 ") && text.ends_with("\r\n\r\n"), "a head is whole");
    FuzzExpect(head.status >= 200 && head.status <= 999, "an answer has a status");
    for (const auto& header : head.headers) {
      FuzzExpect(
          !header.first.empty() && header.first.find_first_of(" \t:\r\n") == std::string::npos,
          "a header has a name", [&] { return header.first; });
      FuzzExpect(header.second.find_first_of("\r\n") == std::string::npos, "a header is a line",
                 [&] { return header.second; });
    }
    const auto lengths = [](const auto& header) { return header.first == "content-length"; };
    FuzzExpect(std::ranges::count_if(head.headers, lengths) <= 1, "a body has one length");
  };
}

FuzzTarget RemoteListingTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const unsigned kind = TakeByte(&input) % 3;
    const std::string text = TextOf(input);
    const std::string link = text.substr(0, text.find('\n'));
    ListingPage page;
    const Status status =
        kind == 0 ? ReadS3Listing(text, &page)
        : kind == 1
            ? ReadAzureListing(text, &page)
            : ReadHuggingFaceListing({200, {{"link", link}}, text.substr(link.size())}, &page);
    FuzzExpect(status.ok() || status.code() == StatusCode::kDamaged, "a page is damaged or read",
               [&] { return status.ToString(); });
    CheckPage(page);
    (void)ReadStoreError(text);
  };
}

FuzzTarget CredentialsTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const unsigned kind = TakeByte(&input) % 3;
    const std::string text = TextOf(input);
    Credentials credentials;
    if (kind == 1) CheckCredentials(ReadCredentialsJson(text, &credentials), credentials);
    if (kind == 2) CheckCredentials(ReadCredentialsXml(text, &credentials), credentials);
    if (kind != 0) return;
    std::map<std::string, NamedValues> sections;
    const Status status = ParseAwsFile(text, &sections);
    FuzzExpect(status.ok() || status.message().starts_with("line "),
               "a message names a line alone");
    for (const auto& [section, values] : sections) {
      for (const auto& [name, value] : values) {
        FuzzExpect(!name.empty() && Trimmed(value) == value,
                   "a value is without what is around it");
      }
    }
  };
}

}  // namespace ringfeed
