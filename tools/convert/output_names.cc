#include "tools/convert/output_names.h"

#include <sys/types.h>
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
#include "tools/given_files.h"

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

// The ending of a format's files; the first one of a format is the one that is written.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kEndings = {
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
     {"megatron", ".idx"},
     {"tokens", ".bin"}}};
constexpr std::string_view kPartial = ".partial-";  // as OutputFile names them: .NAME, -PID-NUMBER

std::string_view FamilyOf(std::string_view format) { return format.substr(0, format.find(':')); }

std::string EndingOf(std::string_view format) {
  const Compression compression = TakeCompression(&format);
  const std::string_view family = FamilyOf(format);
  std::string whole;
  for (const auto& [name, ending] : kEndings) {
    if (name == family && whole.empty()) whole = ending;
  }
  return whole.append(CompressedEnding(compression));
}

bool NamesCompression(std::string_view format) {
  return TakeCompression(&format) != Compression::kNone;
}

// What a name's ending asks for: "+gzip", or nothing.
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

// Whether the process that is called so may still write that temporary file of its.
bool IsWriting(std::uint64_t process, std::uint64_t number) {
  // In a container a process that was killed may have had this one's number.
  if (process == static_cast<std::uint64_t>(getpid())) return number < NextOutputNumber();
  const auto id = static_cast<pid_t>(process);
  return kill(id, 0) == 0 || errno != ESRCH;
}

bool IsStalePartial(const std::string& name,
                    const std::function<bool(const std::string& name)>& is_ours) {
  const std::size_t place = name.rfind(kPartial);
  const bool is_partial = place != std::string::npos && place > 0 && name.front() == '.';
  if (!is_partial || !is_ours(name.substr(1, place - 1))) return false;
  std::string_view rest = std::string_view(name).substr(place + kPartial.size());
  std::uint64_t process = 0;
  std::uint64_t number = 0;
  if (!TakeNumber(&rest, 1, &process) || !rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  return TakeNumber(&rest, 1, &number) && rest.empty() && !IsWriting(process, number);
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
               ".ofrecord, .tar, .txt, .jsonl, .csv or .tsv, with .gz, .zlib or .zst "
               "behind it or without, or name the format: --to");
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

std::vector<std::string> FilesOfOutput(const std::string& output, const std::string& format) {
  return FamilyOf(format) == "megatron" ? WithCompanion(output) : std::vector{output};
}

namespace {

bool IsNewest(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code failure;
  const fs::file_time_type written = fs::last_write_time(output, failure);
  if (failure || !fs::is_regular_file(output, failure)) return false;
  return std::all_of(inputs.begin(), inputs.end(), [&](const std::string& input) {
    if (IsStreamName(input)) return false;
    const fs::file_time_type changed = fs::last_write_time(input, failure);
    return !failure && changed <= written;
  });
}

// Formats that are known by a file's first bytes. What says nothing is believed.
bool MayBeOf(const std::string& output, const std::string& format) {
  if (NamesCompression(format)) return true;
  std::ifstream file(output, std::ios::binary);
  std::array<char, kHeadBytes> head{};
  file.read(head.data(), head.size());
  const auto bytes = std::as_bytes(std::span(head).first(static_cast<std::size_t>(file.gcount())));
  const FormatResult found = DetectFormat("", bytes);
  return bytes.empty() || !found.status.ok() || found.format->name() == FamilyOf(format);
}

}  // namespace

bool IsUpToDate(const std::string& output, const std::string& format,
                const std::vector<std::string>& inputs) {
  const std::vector<std::string> files = FilesOfOutput(output, format);
  const auto is_newest = [&](const std::string& file) { return IsNewest(file, inputs); };
  return std::ranges::all_of(files, is_newest) && MayBeOf(output, format);
}

void MakeOutOfDate(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code failure;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string& input : inputs) {
    const fs::file_time_type changed = fs::last_write_time(input, failure);
    if (!failure) newest = std::max(newest, changed);
  }
  if (newest == fs::file_time_type::min()) return;  // streams, of which nothing is up to date
  fs::last_write_time(output, newest - std::chrono::seconds(1), failure);
}

void RemoveStalePartials(const std::string& folder,
                         const std::function<bool(const std::string& name)>& is_ours) {
  std::error_code failure;
  const fs::path place = folder.empty() ? fs::path(".") : fs::path(folder);
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, failure)) {
    if (IsStalePartial(entry.path().filename().string(), is_ours)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path, failure);  // one left over harms nobody
}

}  // namespace ringfeed::tools
