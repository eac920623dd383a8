#include "tools/convert/output_names.h"

#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "readers/formats/compression/decompressor.h"
#include "readers/formats/format.h"
#include "readers/formats/writing/output_file.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/digests.h"

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

// The endings of a format's files; the first one of a format is used for output.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kEndings = {
    {{"tfrecord", ".tfrecord"},
     {"tfrecord", ".tfrecords"},
     {"recordio", ".recordio"},
     {"ofrecord", ".ofrecord"},
     {"tar", ".tar"},
     {"lines", ".txt"},
     {"jsonl", ".jsonl"},
     {"jsonl", ".ndjson"},
     {"csv", ".csv"},
     {"tsv", ".tsv"},
     {"rows", ".rows"},
     {"raw", ".raw"},
     {"npy", ".npy"},
     {"mds", ".mds"},
     {"megatron", ".idx"},
     {"tokens", ".bin"}}};
constexpr std::string_view kPartial = kPartialFileMark;

// It is renamed with its file, and is lost when another file takes the name.
constexpr char kAttribute[] = "user.ringfeed.recipe";
constexpr std::size_t kMostBytes = 256;  // of one that any program wrote

std::string EndingOf(std::string_view format) {
  const Compression compression = TakeCompression(&format);
  const std::string_view family = format.substr(0, format.find(':'));
  std::string whole;
  for (const auto& [name, ending] : kEndings) {
    if (name == family && whole.empty()) whole = ending;
  }
  return whole.append(CompressedEnding(compression));
}

bool NamesCompression(std::string_view format) {
  return TakeCompression(&format) != Compression::kNone;
}

// The compression that a name's ending asks for: "+gzip", or nothing.
std::string CompressionByName(std::string_view file) {
  const Compression compression = TakeCompressedEnding(&file);
  return compression == Compression::kNone ? "" : std::string("+") + CompressionName(compression);
}

std::string_view Stem(std::string_view name) {
  TakeCompressedEnding(&name);
  for (const auto& [format, ending] : kEndings) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      return name.substr(0, name.size() - ending.size());
    }
  }
  return name;
}

// Takes a number of at least `digits` digits from the front.
bool TakeNumber(std::string_view* text, std::size_t digits, std::uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  const auto taken = static_cast<std::size_t>(end - text->data());
  text->remove_prefix(taken);
  return error == std::errc() && taken >= digits;
}

// Whether the process of that id may still write its temporary file of that number.
bool IsWriting(std::uint64_t process, std::uint64_t number) {
  // In a container, a process that was killed may have had this process's id.
  if (process == static_cast<std::uint64_t>(getpid())) return number < NextOutputNumber();
  const auto id = static_cast<pid_t>(process);
  return kill(id, 0) == 0 || errno != ESRCH;
}

// The name of a format if all its files begin with a mark that tells it from others, else nothing.
std::string_view MarkOf(const Format& format) {
  constexpr std::array<std::string_view, 6> kMarked = {"tfrecord", "recordio", "ofrecord",
                                                       "tar",      "npy",      "megatron"};
  const auto* const found = std::find(kMarked.begin(), kMarked.end(), format.name());
  return found == kMarked.end() ? std::string_view() : *found;
}

// Empty if the file cannot be read.
std::vector<std::byte> HeadOf(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kHeadBytes, '\0');
  const auto read = [&](std::size_t begin) {
    stream.read(text.data() + begin, static_cast<std::streamsize>(text.size() - begin));
    text.resize(begin + static_cast<std::size_t>(stream.gcount()));
  };
  read(0);
  const std::size_t needed = HeadBytesOf(std::as_bytes(std::span(text)));
  if (text.size() == kHeadBytes && needed > kHeadBytes) {
    text.resize(needed);
    read(kHeadBytes);
  }
  const std::span<const std::byte> head = std::as_bytes(std::span(text));
  return {head.begin(), head.end()};
}

bool IsStalePartial(const std::string& name,
                    const std::function<bool(const std::string& name)>& is_ours) {
  const std::size_t place = name.rfind(kPartial);
  if (place == std::string::npos) return false;
  const std::string output = name.substr(0, place);
  const bool hidden = output.starts_with('.') && is_ours(output.substr(1));
  if (!hidden && !is_ours(output)) return false;  // ringfeed 0.2 did not hide them
  std::string_view rest = std::string_view(name).substr(place + kPartial.size());
  std::uint64_t process = 0;
  std::uint64_t number = 0;
  if (!TakeNumber(&rest, 1, &process) || !rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  if (!TakeNumber(&rest, 1, &number)) return false;
  // Random digits, which ringfeed 0.2 did not have.
  const bool whole =
      rest.empty() || (rest.size() == 17 && rest.front() == '-' &&
                       rest.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos);
  return whole && !IsWriting(process, number);
}

}  // namespace

std::string OutputFormat(const std::string& output, const std::string& asked) {
  const std::string compression = NamesCompression(asked) ? "" : CompressionByName(output);
  const FormatResult found =
      asked.empty() ? DetectFormat(output, {}) : FindFormat(asked + compression);
  if (found.status.ok()) {
    return (asked.empty() ? std::string(found.format->name()) : asked) + compression;
  }
  if (!asked.empty()) throw Error(found.status);
  throw Refuse("the name " + output +
               " does not tell in which format to write; end it in .tfrecord, .recordio, "
               ".ofrecord, .tar, .mds, .txt, .jsonl, .csv or .tsv, with .gz, .zlib or .zst "
               "after it or without, or name the format: --to");
}

std::string NameInFolder(const std::string& input, const std::string& folder,
                         const std::string& format) {
  const std::string name = fs::path(input).filename().string();
  return (fs::path(folder) / Stem(name)).string() + EndingOf(format);
}

std::string PartName(const std::string& output, std::size_t part) {
  const std::string_view stem = Stem(output);
  std::array<char, 32> number;
  std::snprintf(number.data(), number.size(), "-%05zu", part);
  return std::string(stem) + number.data() + output.substr(stem.size());
}

bool IsPartName(const std::string& output, const std::string& name) {
  const std::string_view stem = Stem(output);
  std::string_view rest = name;
  std::uint64_t part = 0;
  if (!rest.starts_with(stem)) return false;
  rest.remove_prefix(stem.size());
  if (!rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  return TakeNumber(&rest, 5, &part) && rest == std::string_view(output).substr(stem.size());
}

bool IsUpToDate(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  std::error_code failure;
  fs::file_time_type written = fs::file_time_type::max();
  for (const std::string& output : outputs) {
    written = std::min(written, fs::last_write_time(output, failure));
    if (failure || !fs::is_regular_file(output, failure)) return false;
  }
  return std::all_of(inputs.begin(), inputs.end(), [&](const std::string& input) {
    if (IsStreamName(input)) return false;
    const fs::file_time_type changed = fs::last_write_time(input, failure);
    return !failure && changed <= written;
  });
}

bool MayBeOfFormat(const std::string& output, const std::string& format) {
  const FormatResult asked = FindFormat(format);
  if (!asked.status.ok()) return false;
  const std::vector<std::byte> head = HeadOf(output);
  if (head.empty()) return asked.compression == Compression::kNone;
  const FormatResult found = DetectFormat("", head);  // without a name: by the bytes alone
  if (asked.format->decompresses() && found.compression != asked.compression) return false;
  const std::string_view mark = found.status.ok() ? MarkOf(*found.format) : "";
  return mark == MarkOf(*asked.format);
}

void MakeOutOfDate(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code failure;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string& input : inputs) {
    const fs::file_time_type changed = fs::last_write_time(input, failure);
    if (!failure) newest = std::max(newest, changed);
  }
  if (newest == fs::file_time_type::min()) return;  // streams: no output of these is up to date
  fs::last_write_time(output, newest - std::chrono::seconds(1), failure);
}

std::string RecipeOf(const std::vector<std::string>& files_read, const std::string& from,
                     const std::string& to, std::uint64_t records_per_file) {
  std::string text = from + '\n' + to + '\n' + std::to_string(records_per_file) + '\n';
  for (const std::string& file : files_read) {
    if (IsStreamName(file)) return {};
    std::error_code failure;
    const fs::path place = fs::weakly_canonical(file, failure);
    const std::uintmax_t bytes = fs::file_size(file, failure);
    text += (failure ? file : place.string()) + '\0' + std::to_string(bytes) + '\n';
  }
  return HexText(Sha256().Of(std::as_bytes(std::span(text))));
}

void NoteRecipe(const std::vector<std::string>& outputs, const std::string& recipe) {
  if (recipe.empty()) return;
  for (const std::string& output : outputs) {
    (void)setxattr(output.c_str(), kAttribute, recipe.data(), recipe.size(), 0);
  }
}

bool HasOtherRecipe(const std::vector<std::string>& outputs, const std::string& recipe) {
  return std::ranges::any_of(outputs, [&recipe](const std::string& output) {
    std::array<char, kMostBytes> noted;
    const ssize_t bytes = getxattr(output.c_str(), kAttribute, noted.data(), noted.size());
    return bytes > 0 && std::string_view(noted.data(), static_cast<std::size_t>(bytes)) != recipe;
  });
}

void RemoveStalePartials(const std::string& folder,
                         const std::function<bool(const std::string& name)>& is_ours) {
  std::error_code failure;
  const fs::path place = folder.empty() ? fs::path(".") : fs::path(folder);
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, failure)) {
    if (IsStalePartial(entry.path().filename().string(), is_ours)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path, failure);  // one left over does no harm
}

}  // namespace ringfeed::tools
