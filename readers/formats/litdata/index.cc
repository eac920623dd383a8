#include "readers/formats/litdata/index.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/remote/remote_source.h"
#include "readers/formats/data_set_table.h"
#include "readers/formats/litdata/litdata.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostDepth = 32;
constexpr std::size_t kMostLeaves = 1 << 16;

// A member of an object; null if it has none.
const Json& MemberOf(const Json& object, const char* name) {
  static const Json kNone;
  return object.is_object() && object.contains(name) ? object[name] : kNone;
}

std::string TextMember(const Json& object, const char* name) {
  const Json& member = MemberOf(object, name);
  return member.is_string() ? member.get<std::string>() : std::string();
}

// The real reader leaves such a chunk in place of the compressed one: "chunk-0-0.zstd:19.bin".
std::string DecompressedName(std::string name) {
  constexpr std::string_view kEnding = ".bin";
  const std::size_t codec = name.find(".zstd");
  if (codec != std::string::npos && name.ends_with(kEnding)) {
    name.erase(codec, name.size() - codec - kEnding.size());
  }
  return name;
}

/// Reads one index.
class IndexReader {
 public:
  IndexReader(const std::string& table, const Json& json) : table_(table), json_(json) {}

  Status Read(LitDataIndex* index);

 private:
  Status Bad(const std::string& why, StatusCode code = StatusCode::kDamaged) const {
    return BadTable(table_, code, why);
  }
  Status RefuseOthers() const;
  Status ReadChunk(const Json& chunk, LitDataIndex* index) const;
  Status ReadSpec(const Json& config, LitDataIndex* index) const;
  Status ReadNode(const Json& node, std::vector<std::string> path, LitDataIndex* index) const;
  Status ReadColumns(const Json& config, LitDataIndex* index) const;

  const std::string& table_;
  const Json& json_;
};

Status IndexReader::RefuseOthers() const {
  const Json& config = MemberOf(json_, "config");
  const std::string loader = TextMember(config, "item_loader");
  if (!MemberOf(config, "encryption").is_null()) {
    return Bad("says that its chunks are encrypted, which is not read: write them without",
               StatusCode::kUnsupported);
  }
  if (!loader.empty() && loader != "PyTreeLoader" && loader != "TokensLoader") {
    return Bad("says that its chunks are for LitData's " + loader +
                   ", which is not read: PyTreeLoader and TokensLoader are",
               StatusCode::kUnsupported);
  }
  const std::string compression = TextMember(config, "compression");
  if (!compression.empty() && compression != "zstd" && !compression.starts_with("zstd:")) {
    return Bad("says that its chunks are compressed by \"" + compression + "\": zstd is read",
               StatusCode::kUnsupported);
  }
  return {};
}

Status IndexReader::ReadChunk(const Json& chunk, LitDataIndex* index) const {
  LitDataIndex::Chunk found{TextMember(chunk, "filename")};
  const std::string number = std::to_string(index->chunks.size());
  if (!LeadsBelow(found.name)) {
    return Bad("names no file below its folder as chunk " + number + ": \"" + found.name + "\"");
  }
  const Json& items = MemberOf(chunk, "chunk_size");
  if (!items.is_number_unsigned()) return Bad("has no number of items for chunk " + number);
  found.items = items.get<std::uint64_t>();
  const Json& tokens = MemberOf(chunk, "dim");
  if (tokens.is_number_unsigned()) found.tokens = tokens.get<std::uint64_t>();
  index->places.emplace(found.name, index->chunks.size());
  index->places.emplace(DecompressedName(found.name), index->chunks.size());
  index->chunks.push_back(std::move(found));
  return {};
}

// "[1, {"type": …, "context": …, "children_spec": […]}]" inside a text.
Status IndexReader::ReadSpec(const Json& config, LitDataIndex* index) const {
  const Json spec = Json::parse(TextMember(config, "data_spec"), nullptr, false);
  if (!spec.is_array() || spec.size() != 2) return Bad("does not say what its items are made of");
  return ReadNode(spec[1], {}, index);
}

Status IndexReader::ReadNode(const Json& node, std::vector<std::string> path,
                             LitDataIndex* index) const {
  if (path.size() > kMostDepth || index->leaves.size() >= kMostLeaves) {
    return Bad("says that its items are nested more deeply than is read", StatusCode::kUnsupported);
  }
  const Json& type = MemberOf(node, "type");
  const Json& children = MemberOf(node, "children_spec");
  if (!node.is_object() || !children.is_array()) return Bad("has no spec of its items");
  if (type.is_null()) {
    index->leaves.push_back({std::move(path), {}});
    return {};
  }
  const std::string name = TextMember(node, "type");
  const bool keyed = name == "builtins.dict" || name == "collections.OrderedDict";
  if (!keyed && name != "builtins.list" && name != "builtins.tuple" &&
      name != "collections.deque") {
    return Bad("has items of the type \"" + name + "\", which is not read: dicts and lists are",
               StatusCode::kUnsupported);
  }
  const Json keys = keyed ? Json::parse(TextMember(node, "context"), nullptr, false) : Json();
  if (keyed && (!keys.is_array() || keys.size() != children.size())) {
    return Bad("has other keys than children");
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::vector<std::string> inner = path;
    const bool text = keyed && keys[i].is_string();
    inner.push_back(text ? keys[i].get<std::string>() : keyed ? keys[i].dump() : std::to_string(i));
    Status status = ReadNode(children[i], std::move(inner), index);
    if (!status.ok()) return status;
  }
  return {};
}

Status IndexReader::ReadColumns(const Json& config, LitDataIndex* index) const {
  const Json& formats = MemberOf(config, "data_format");
  if (!formats.is_array() || formats.size() != index->leaves.size() || formats.empty()) {
    return Bad("has other formats than leaves");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    LitDataIndex::Leaf& leaf = index->leaves[i];
    if (!formats[i].is_string()) return Bad("has a format that is no text");
    leaf.encoding = formats[i].get<std::string>();
    SampleColumn column{leaf.path.empty() ? "value" : "", leaf.encoding};
    for (const std::string& part : leaf.path)
      column.name += (column.name.empty() ? "" : ".") + part;
    if (!names.insert(column.name).second) {
      return Bad("names a column twice: \"" + column.name + "\"");
    }
    if ((column.name + column.encoding).find_first_of("\t\n") != std::string::npos) {
      return Bad("has a column with a tab or a line end in its name", StatusCode::kUnsupported);
    }
    index->layout.columns += ColumnsText({&column, 1});
    index->layout.sizes_bytes += SampleTable::kNumberBytes;
  }
  index->layout.may_be_frames = true;
  if (TextMember(config, "item_loader") != "TokensLoader") return {};
  const SampleEncoding tokens = EncodingOf(SampleFamily::kLitData, index->leaves[0].encoding);
  if (formats.size() != 1 || tokens.kind != SampleEncoding::Kind::kArray || !tokens.dtype) {
    return Bad("is for LitData's TokensLoader, and does not say the type of its tokens");
  }
  index->tokens = tokens.dtype;
  return {};
}

Status IndexReader::Read(LitDataIndex* index) {
  const Json& config = MemberOf(json_, "config");
  Status status = RefuseOthers();
  for (const Json& chunk : json_["chunks"]) {
    if (!status.ok()) return status;
    status = ReadChunk(chunk, index);
  }
  if (status.ok() && index->chunks.empty()) status = Bad("names no chunk");
  if (status.ok()) status = ReadSpec(config, index);
  return status.ok() ? ReadColumns(config, index) : status;
}

/// The index that was read last: chunks of one data set come one after the other.
class LastIndex {
 public:
  using Key = std::pair<std::string, std::string>;  ///< its name, and its state

  std::shared_ptr<const LitDataIndex> Get(const Key& key) {
    const std::lock_guard lock(mutex_);
    return key == key_ ? index_ : nullptr;
  }
  void Set(Key key, std::shared_ptr<const LitDataIndex> index) {
    const std::lock_guard lock(mutex_);
    key_ = std::move(key);
    index_ = std::move(index);
  }

 private:
  std::mutex mutex_;
  Key key_;
  std::shared_ptr<const LitDataIndex> index_;
};

// What differs if the table is written anew; empty if there is none.
Status StateOfTable(const std::string& table, std::string* state) {
  if (IsRemote(table)) {
    std::shared_ptr<RemoteSource> object;
    Status status = FindObject(table, ReadingOf({}), &object);
    if (object != nullptr) *state = object->Version();
    return status;
  }
  struct stat facts {};
  if (stat(table.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  for (const auto number : {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size,
                            static_cast<off_t>(facts.st_ino)}) {
    *state += std::to_string(number) + ".";
  }
  return {};
}

}  // namespace

Status ReadLitDataIndex(const std::string& table, const std::string& text,
                        std::shared_ptr<const LitDataIndex>* index) {
  index->reset();
  const Json json = Json::parse(text, nullptr, false);
  // As its writer begins it. Other files of that name may be lines of JSON.
  if (json.is_discarded() && text.starts_with("{\"chunks\"")) {
    return BadTable(table, StatusCode::kDamaged, "is no JSON");
  }
  if (!MemberOf(json, "chunks").is_array() || !MemberOf(json, "config").is_object()) return {};
  auto read = std::make_shared<LitDataIndex>();
  Status status = IndexReader(table, json).Read(read.get());
  if (status.ok()) *index = std::move(read);
  return status;
}

Status FindLitDataIndex(const std::string& chunk, std::shared_ptr<const LitDataIndex>* index) {
  static LastIndex last;
  const std::string table = NameBeside(chunk, "index.json");
  LastIndex::Key key(table, "");
  index->reset();
  if (Status status = StateOfTable(table, &key.second); !status.ok()) return status;
  if (key.second.empty()) return {};
  *index = last.Get(key);
  if (*index != nullptr) return {};
  std::string text;
  Status status = ReadDataSetTable(table, &text);
  if (status.ok()) status = ReadLitDataIndex(table, text, index);
  if (status.ok() && *index != nullptr) last.Set(key, *index);
  return status;
}

// Of old data sets it says fewer bytes than there are, and of tokens it counts items, not blocks.
Status FindListedChunk(const std::string& table, const std::string& name, ListedFile* listed) {
  std::shared_ptr<const LitDataIndex> index;
  Status status = FindLitDataIndex(NameBeside(table, name), &index);
  if (!status.ok() || index == nullptr || index->tokens) return status;
  const LitDataIndex::Chunk* const chunk = index->Find(name);
  if (chunk != nullptr) listed->records = chunk->items;
  return {};
}

Status ReadLitDataTable(const std::string& table, const std::string& text,
                        std::vector<std::string>* files) {
  std::shared_ptr<const LitDataIndex> index;
  Status status = ReadLitDataIndex(table, text, &index);
  if (!status.ok() || index == nullptr) return status;
  for (const LitDataIndex::Chunk& chunk : index->chunks) {
    std::string decompressed = NameBeside(table, DecompressedName(chunk.name));
    std::error_code missing;  // as in a store
    const bool is_there = fs::exists(decompressed, missing);
    files->push_back(is_there ? std::move(decompressed) : NameBeside(table, chunk.name));
  }
  return {};
}

}  // namespace ringfeed
