#include "readers/chain/file_pattern.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "io/data_file.h"
#include "readers/formats/data_set.h"
#include "readers/formats/stranger.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

bool HasWildcard(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

// The mode of what has that name; 0 if there is nothing.
mode_t ModeOf(const std::string& name) {
  struct stat info {};
  return stat(name.c_str(), &info) == 0 ? info.st_mode : 0;
}

Status TooMany(const std::string& pattern) {
  return Status(StatusCode::kInvalidArgument, "\"" + pattern + "\" stands for more than " +
                                                  std::to_string(kMostPatternNames) + " names");
}

// A table of a data set stands for the files that it names, unless one of them was found, too.
Status UseTables(std::vector<std::string>* names) {
  if (std::ranges::none_of(*names, IsTableName)) return {};
  const std::set<std::string> found(names->begin(), names->end());
  std::vector<std::string> files;
  for (std::string& name : *names) {
    std::vector<std::string> named;
    Status status;
    if (IsTableName(name))
      status = IsRemote(name) ? ReadDataSet(name, &named) : FindDataSet(name, &named);
    if (!status.ok()) return status;
    const bool twice =
        std::ranges::any_of(named, [&](const auto& one) { return found.contains(one); });
    if (named.empty()) named.push_back(std::move(name));
    if (!twice) {
      files.insert(files.end(), std::make_move_iterator(named.begin()),
                   std::make_move_iterator(named.end()));
    }
  }
  *names = std::move(files);
  return {};
}

// The same of objects.
Status UseTables(const std::shared_ptr<const RemoteReading>& reading,
                 std::vector<std::shared_ptr<RemoteSource>>* objects) {
  std::vector<std::string> names;
  std::map<std::string, std::shared_ptr<RemoteSource>> found;
  for (const auto& object : *objects) {
    names.push_back(object->address());
    found.emplace(object->address(), object);
  }
  if (std::ranges::none_of(names, IsTableName)) return {};
  Status status = UseTables(&names);
  objects->clear();
  for (const std::string& name : names) {
    std::shared_ptr<RemoteSource>& object = found[name];
    if (status.ok() && object == nullptr) status = RemoteSource::Make(name, reading, &object);
    objects->push_back(object);
  }
  return status;
}

// Leaves out the indexes that other programs put beside their files: a.tar.idx, a.idx of a.tar,
// wids' a.tar.index. The files of a folder, sorted by `name`.
template <typename File, typename NameOf>
void DropIndexes(const NameOf& name, std::vector<File>* files) {
  const auto is_index = [&](const File& file) {
    const std::string own = name(file);
    const std::string indexed = own.substr(0, own.rfind('.'));
    const auto is_there = [&](const std::string& other) {
      return std::ranges::binary_search(*files, other, {}, name);
    };
    if (own.ends_with(".index")) return is_there(indexed);
    return own.ends_with(".idx") && (is_there(indexed) || is_there(indexed + ".tar"));
  };
  std::vector<File> others;
  std::ranges::remove_copy_if(*files, std::back_inserter(others), is_index);
  *files = std::move(others);
}

// Appends the objects that an address without braces stands for.
Status AppendObjects(const std::string& address,
                     const std::shared_ptr<const RemoteReading>& reading,
                     std::vector<std::shared_ptr<RemoteSource>>* objects) {
  std::vector<std::shared_ptr<RemoteSource>> found;
  // Of a data set with a table in its folder nothing is listed.
  std::vector<std::string> named;
  const bool is_folder = address.ends_with('/') && !HasWildcard(address);
  if (is_folder) {
    std::shared_ptr<RemoteSource> table;
    Status status = FindObject(address + "index.json", reading, &table);
    if (table != nullptr) status = ReadDataSet(table->address(), &named);
    if (!status.ok()) return status;
  }
  Status status;
  if (named.empty()) {
    status = ExpandAddress(address, reading, kMostPatternNames, &found);
    if (is_folder) DropIndexes([](const auto& object) { return object->address(); }, &found);
    if (status.ok()) status = UseTables(reading, &found);
  }
  for (const std::string& name : named) {
    found.emplace_back();
    if (status.ok()) status = RemoteSource::Make(name, reading, &found.back());
  }
  if (!status.ok()) return status;
  objects->insert(objects->end(), std::make_move_iterator(found.begin()),
                  std::make_move_iterator(found.end()));
  return {};
}

// A loop of links ends with a failure, after as many as the system follows.
Status AppendFilesIn(const std::string& folder, std::vector<std::string>* names) {
  if (const std::string words = StrangeFolder(folder); !words.empty()) {
    return Status(StatusCode::kUnsupported, words, {folder, -1, -1});
  }
  std::vector<std::string> files;
  std::error_code failure;
  fs::recursive_directory_iterator each(folder, fs::directory_options::follow_directory_symlink,
                                        failure);
  while (!failure && each != fs::end(each)) {
    const bool hidden = each->path().filename().native().starts_with('.');
    if (hidden) each.disable_recursion_pending();
    std::error_code of_link;  // one that leads nowhere is a file, which opening it reports
    if (!hidden && !each->is_directory(of_link)) files.push_back(each->path().string());
    if (files.size() > kMostPatternNames) return TooMany(folder);
    each.increment(failure);
    if (of_link == std::errc::too_many_symbolic_link_levels) failure = of_link;
  }
  if (failure) return StatusFromErrno(failure.value(), "read the folder \"" + folder + "\"");
  if (files.empty()) return Status(StatusCode::kNotFound, "no file is in \"" + folder + "\"");
  std::ranges::sort(files);
  DropIndexes([](const std::string& file) { return file; }, &files);
  if (Status status = UseTables(&files); !status.ok()) return status;
  names->insert(names->end(), std::make_move_iterator(files.begin()),
                std::make_move_iterator(files.end()));
  return {};
}

// An end of a range: "-08" is -8, written with three characters.
struct End {
  std::int64_t value = 0;
  std::size_t width = 0;  // 0: no zeros are added
};

std::optional<End> EndOf(std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.size() > kMostDigits ||
      digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  End end;
  std::from_chars(text.data(), text.data() + text.size(), end.value);
  if (digits.size() > 1 && digits.front() == '0') end.width = text.size();
  return end;
}

std::string NumberText(std::int64_t number, std::size_t width) {
  std::string digits = std::to_string(std::abs(number));
  const std::size_t sign = number < 0 ? 1 : 0;
  if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
  return (number < 0 ? "-" : "") + digits;
}

// The numbers of "000..003" or "0..10..5"; none if it is no such range. Stops after the most.
std::vector<std::string> RangeOf(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  std::string_view second = text.substr(dots + 2);
  std::int64_t step = 1;
  if (const std::size_t more = second.find(".."); more != std::string_view::npos) {
    const std::optional<End> given = EndOf(second.substr(more + 2));
    if (!given) return {};
    step = std::max<std::int64_t>(std::abs(given->value), 1);
    second = second.substr(0, more);
  }
  const std::string_view first = text.substr(0, dots);
  const std::optional<End> from = EndOf(first);
  const std::optional<End> to = EndOf(second);
  if (!from || !to) return {};
  const bool padded = from->width > 0 || to->width > 0;
  const std::size_t width = padded ? std::max(first.size(), second.size()) : 0;
  const bool down = from->value > to->value;
  std::vector<std::string> numbers;
  std::int64_t number = from->value;
  while ((down ? number >= to->value : number <= to->value) &&
         numbers.size() <= kMostPatternNames) {
    numbers.push_back(NumberText(number, width));
    number += down ? -step : step;
  }
  return numbers;
}

// The texts between the outer commas inside a pair of braces.
std::vector<std::string> PartsOf(std::string_view inside) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : inside) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The end of the brace that begins at `open`; npos if it does not end.
std::size_t CloseOf(const std::string& text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (depth == 0) return at;
  }
  return std::string::npos;
}

// The first pair of braces from `begin` on that a shell writes out, and the texts that replace it.
struct Braces {
  std::size_t open = 0;
  std::size_t close = 0;
  std::vector<std::string> parts;  // empty: there is none
};

Braces FindBraces(const std::string& text, std::size_t begin) {
  for (Braces found{text.find('{', begin), 0, {}}; found.open != std::string::npos;
       found.open = text.find('{', found.open + 1)) {
    found.close = CloseOf(text, found.open);
    if (found.close == std::string::npos) continue;
    const std::string_view inside =
        std::string_view(text).substr(found.open + 1, found.close - found.open - 1);
    found.parts = RangeOf(inside);
    if (!found.parts.empty()) return found;
    found.parts = PartsOf(inside);
    if (found.parts.size() > 1) return found;
  }
  return {};
}

// False if there are more than the most.
bool WriteOut(const std::string& text, std::size_t begin, std::vector<std::string>* texts) {
  const Braces braces = FindBraces(text, begin);
  if (braces.parts.empty()) {
    texts->push_back(text);
    return texts->size() <= kMostPatternNames;
  }
  for (const std::string& part : braces.parts) {
    const std::string written = text.substr(0, braces.open) + part + text.substr(braces.close + 1);
    if (!WriteOut(written, braces.open, texts)) return false;
  }
  return true;
}

// kNotFound if nothing matches.
Status Match(const std::string& pattern, std::vector<std::string>* names) {
  glob_t found{};
  const int result = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  if (result == 0) names->insert(names->end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (result == GLOB_NOMATCH) {
    return Status(StatusCode::kNotFound, "no file matches \"" + pattern + "\"");
  }
  if (result != 0) {
    return Status(StatusCode::kIoError, "the folder of \"" + pattern + "\" cannot be read");
  }
  return {};
}

}  // namespace

Status ExpandPattern(const std::string& pattern, std::vector<std::string>* names) {
  if (IsRemote(pattern)) {
    ExpandedFiles files;
    const Status status = ExpandPattern(pattern, ReadingOf({}), &files);
    for (const std::shared_ptr<Source>& source : files.sources) {
      names->push_back(static_cast<const RemoteSource&>(*source).address());
    }
    return status;
  }
  if (Status status = RefuseAddress(pattern); !status.ok()) return status;
  const bool is_name = !HasWildcard(pattern) && pattern.find('{') == std::string::npos;
  const mode_t mode = ModeOf(pattern);
  std::vector<std::string> files;
  if (S_ISDIR(mode) || IsTableName(pattern)) {
    const Status status = FindDataSet(pattern, &files);
    if (!status.ok()) return status;
  }
  if (!files.empty()) {
    names->insert(names->end(), std::make_move_iterator(files.begin()),
                  std::make_move_iterator(files.end()));
    return {};
  }
  if (S_ISDIR(mode)) return AppendFilesIn(pattern, names);
  if (is_name || mode != 0) {
    names->push_back(pattern);
    return {};
  }
  std::vector<std::string> texts;
  if (!WriteOut(pattern, 0, &texts)) return TooMany(pattern);
  const bool is_plain = texts.size() == 1 && texts.front() == pattern;
  if (!is_plain && HasWildcard(pattern)) {
    const Status status = Match(pattern, &files);
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
    if (!files.empty()) texts.clear();
  }
  for (const std::string& text : texts) {
    if (!HasWildcard(text) || (!is_plain && ModeOf(text) != 0)) {
      files.push_back(text);
    } else if (Status status = Match(text, &files); !status.ok()) {
      return status;
    }
  }
  if (Status status = UseTables(&files); !status.ok()) return status;
  names->insert(names->end(), std::make_move_iterator(files.begin()),
                std::make_move_iterator(files.end()));
  return {};
}

Status ExpandPattern(const std::string& pattern,
                     const std::shared_ptr<const RemoteReading>& reading, ExpandedFiles* files) {
  if (!IsRemote(pattern)) {
    const Status status = ExpandPattern(pattern, &files->names);
    files->sources.resize(files->names.size());
    return status;
  }
  std::vector<std::string> texts;
  if (!WriteOut(pattern, 0, &texts)) return TooMany(pattern);
  std::vector<std::shared_ptr<RemoteSource>> objects;
  for (const std::string& text : texts) {
    const Status status = AppendObjects(text, reading, &objects);
    if (!status.ok()) return status;
  }
  for (std::shared_ptr<RemoteSource>& object : objects) {
    files->names.push_back(object->name());
    files->sources.push_back(std::move(object));
  }
  files->any_remote = true;
  return {};
}

}  // namespace ringfeed
