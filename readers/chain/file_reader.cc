#include "ringfeed/file_reader.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/formats/format.h"

namespace ringfeed {
namespace {

struct Registration {
  const std::string tag;
  const std::string magic;
  const std::shared_ptr<const FileReaderFactory> factory;
  const Registration* before = nullptr;
};

/// All formats that were registered, the last one first. None ever goes, and no lock is taken: a
/// child of fork would wait for ever for one that a thread of its parent held.
constinit std::atomic<const Registration*> last_registration{nullptr};

// The one registered first of those for which `says` is true; null if there is none.
template <typename Says>
const Registration* FindRegistration(const Registration* last, Says&& says) {
  const Registration* found = nullptr;
  for (const Registration* each = last; each != nullptr; each = each->before) {
    if (says(*each)) found = each;
  }
  return found;
}

bool IsTag(std::string_view tag) {
  return !tag.empty() && std::all_of(tag.begin(), tag.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

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
  if (!IsTag(tag)) refuse("a tag has lower-case letters, digits and _");
  if (!factory) refuse("the constructor is empty");
  if (FindFormat(tag).status.ok()) refuse("ringfeed has a format of that name");
  std::unique_ptr<Registration> made(
      new Registration{tag, magic, std::make_shared<const FileReaderFactory>(std::move(factory))});
  // Acquire, here and on failure: as in FindFileReader.
  made->before = last_registration.load(std::memory_order_acquire);
  const auto same = [&](const Registration& each) { return each.tag == tag; };
  do {
    if (FindRegistration(made->before, same) != nullptr) refuse("it is registered");
    // Release: pairs with the acquire in FindFileReader, for what was made.
  } while (!last_registration.compare_exchange_weak(
      made->before, made.get(), std::memory_order_release, std::memory_order_acquire));
  (void)made.release();
}

std::shared_ptr<const FileReaderFactory> FindFileReader(const std::string& tag,
                                                        const std::string& file) {
  // Acquire: pairs with the release in RegisterFormat.
  const Registration* const last = last_registration.load(std::memory_order_acquire);
  const auto find = [&](auto says) -> std::shared_ptr<const FileReaderFactory> {
    const Registration* const found = FindRegistration(last, says);
    return found == nullptr ? nullptr : found->factory;
  };
  if (!tag.empty()) return find([&](const auto& each) { return each.tag == tag; });
  auto by_name = find([&](const auto& each) { return NameSays(file, each.tag); });
  if (by_name != nullptr) return by_name;
  return find([&](const auto& each) { return BytesSay(file, each.magic); });
}

}  // namespace ringfeed
