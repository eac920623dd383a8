#include "io/remote/xml.h"

#include <expat.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::size_t kMostBytes = 32 << 20;
constexpr std::size_t kMostTextBytes = 16 << 10;
constexpr std::size_t kMostNameBytes = 256;
constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kMostErrorBytes = 64 << 10;

Status Damaged(const std::string& why) { return {StatusCode::kDamaged, "the answer's XML " + why}; }

class Walk {
 public:
  explicit Walk(const std::function<Status(const XmlElement&)>& ended)
      : ended_(ended), parser_(XML_ParserCreate(nullptr), XML_ParserFree) {}

  Status Run(std::string_view text) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(),
        [](void* self, const char* name, const char** attributes) {
          static_cast<Walk*>(self)->Begin(name, attributes);
        },
        [](void* self, const char* /*name*/) { static_cast<Walk*>(self)->End(); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text_of_it, int bytes) {
      static_cast<Walk*>(self)->Append({text_of_it, static_cast<std::size_t>(bytes)});
    });
    XML_SetStartDoctypeDeclHandler(
        parser_.get(),
        [](void* self, const char* /*name*/, const char* /*system*/, const char* /*public*/,
           int /*internal*/) { static_cast<Walk*>(self)->Stop(Damaged("declares a type")); });
    const auto parsed = XML_Parse(parser_.get(), text.data(), static_cast<int>(text.size()), 1);
    if (!failure_.ok() || parsed == XML_STATUS_OK) return failure_;
    return Damaged(std::string("is none: ") + XML_ErrorString(XML_GetErrorCode(parser_.get())) +
                   " in line " + std::to_string(XML_GetCurrentLineNumber(parser_.get())));
  }

 private:
  struct Open {
    std::size_t path_bytes;  // of those around it
    XmlElement element;
  };

  void Stop(Status failure) {
    if (!failure_.ok()) return;
    failure_ = std::move(failure);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  void Begin(std::string_view name, const char** attributes) {
    if (!failure_.ok()) return;
    if (open_.size() >= kMostDepth) return Stop(Damaged("is nested too deeply"));
    if (name.size() > kMostNameBytes) return Stop(Damaged("has a name that is too long"));
    open_.push_back({path_.size(), {}});
    if (!path_.empty()) path_ += '/';
    path_ += name;
    for (; attributes[0] != nullptr; attributes += 2) {
      open_.back().element.encoded |=
          attributes[0] == std::string_view("Encoded") && attributes[1] == std::string_view("true");
    }
  }

  void Append(std::string_view text) {
    if (!failure_.ok() || open_.empty()) return;
    std::string& its = open_.back().element.text;
    if (its.size() + text.size() > kMostTextBytes) return Stop(Damaged("has too long a text"));
    its += text;
  }

  void End() {
    if (!failure_.ok() || open_.empty()) return;
    Open& open = open_.back();
    open.element.path = path_;
    Status status = ended_(open.element);
    path_.resize(open.path_bytes);
    open_.pop_back();
    if (!status.ok()) Stop(std::move(status));
  }

  const std::function<Status(const XmlElement&)>& ended_;
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser_;
  std::string path_;
  std::vector<Open> open_;
  Status failure_;
};

}  // namespace

Status ReadXml(std::string_view text, const std::function<Status(const XmlElement&)>& ended) {
  if (text.size() > kMostBytes) return Damaged("is longer than 32 MiB");
  return Walk(ended).Run(text);
}

StoreError ReadStoreError(std::string_view text) {
  StoreError error;
  if (text.size() > kMostErrorBytes) return error;
  const Status status = ReadXml(text, [&](const XmlElement& element) {
    std::string_view path = element.path;
    if (path.starts_with("ErrorResponse/")) path.remove_prefix(14);  // STS
    if (path == "Error/Code") error.code = element.text;
    if (path == "Error/Message") error.message = element.text;
    if (path == "Error/Region") error.region = element.text;
    return Status();
  });
  return status.ok() ? error : StoreError();
}

}  // namespace ringfeed
