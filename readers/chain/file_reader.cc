#include "ringfeed/file_reader.h"

#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/lasting_list.h"
#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/formats/format.h"
#include "readers/formats/registered_format.h"

namespace ringfeed {
namespace {

struct Registration {
  std::string tag;
  std::string magic;
  std::shared_ptr<const FileReaderFactory> factory;
};

constinit LastingList<Registration> registered;

bool NameSays(std::string_view file, const std::string& tag) {
  if (file.ends_with("." + tag)) return true;
  const std::string_view last = file.substr(file.rfind('/') + 1);
  return last.starts_with(tag + "-") || last.starts_with(tag + "_");
}

bool BytesSay(const std::string& file, const std::string& magic) {
  if (magic.empty()) return false;
  std::string head(magic.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return stream && head == magic;
}

}  // namespace

ReadResult FileReader::ReadNext(Instance* instance, std::stop_token /*stop*/, Status* status) {
  if (!ReadNextImpl(instance)) return ReadResult::kEnd;
  *status = CheckInstance(slots_, *instance).WithPlace({path_, -1, read_});
  if (!status->ok()) return ReadResult::kFailed;
  ++read_;
  return ReadResult::kRecord;
}

bool FileReader::ReInit() {
  read_ = 0;
  return ReInitImpl();
}

void RegisterFormat(const std::string& tag, FileReaderFactory factory, const std::string& magic) {
  const auto refuse = [&](const std::string& why) {
    Refuse("RegisterFormat(\"" + tag + "\"): " + why);
  };
  if (!IsFormatTag(tag)) refuse("a tag has lower-case letters, digits and _");
  if (!factory) refuse("the constructor is empty");
  if (FindFormat(tag).status.ok()) refuse("ringfeed has a format of that name");
  Registration made{tag, magic, std::make_shared<const FileReaderFactory>(std::move(factory))};
  if (!registered.Add(std::move(made), [&](const auto& other) { return other.tag == tag; })) {
    refuse("it is registered");
  }
}

std::shared_ptr<const FileReaderFactory> FindFileReader(const std::string& tag,
                                                        const std::string& file) {
  const auto find = [](auto says) -> std::shared_ptr<const FileReaderFactory> {
    const Registration* const found = registered.First(says);
    return found == nullptr ? nullptr : found->factory;
  };
  if (!tag.empty()) return find([&](const auto& each) { return each.tag == tag; });
  auto by_name = find([&](const auto& each) { return NameSays(file, each.tag); });
  if (by_name != nullptr) return by_name;
  return find([&](const auto& each) { return BytesSay(file, each.magic); });
}

}  // namespace ringfeed
