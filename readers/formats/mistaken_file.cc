#include "readers/formats/mistaken_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace ringfeed {
namespace {

// Longer files are no pointers, and no error in a line: errors are short.
constexpr std::size_t kMostPointerBytes = 1024;
constexpr std::size_t kMostErrorBytes = 4096;

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool StartsWithTag(std::string_view text, std::string_view tag) {
  if (text.size() <= tag.size()) return false;
  const bool same = std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
    return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
  });
  return same && (text[tag.size()] == '>' || kBlanks.find(text[tag.size()]) != kBlanks.npos);
}

// The text between two tags; "" without them.
std::string_view Between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + begin.size());
  return text.substr(0, std::min(text.find(end), text.size()));
}

// A short piece of the text on one line, for a message.
std::string Shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text.size() > kMost ? shown + "…" : shown;
}

std::string PointerWords(std::string_view head) {
  if (head.starts_with(std::string_view("ringfeed files\n\0", 16))) {
    return "the file is a manifest, not data: it stands for its files if no other file is named";
  }
  if (head.size() >= kMostPointerBytes) return {};
  if (head.starts_with("version https://git-lfs.github.com/spec/") &&
      head.find("\noid ") != std::string_view::npos) {
    const std::string size(Between(head, "\nsize ", "\n"));
    return "the file is a pointer of Git LFS" + (size.empty() ? "" : " to " + size + " bytes") +
           ", not these: fetch them (git lfs pull)";
  }
  if (head.starts_with("/annex/objects/") || head.starts_with("../.git/annex/objects/")) {
    return "the file is a pointer of git-annex, not the data: fetch them (git annex get)";
  }
  return {};
}

std::string PageWords(std::string_view text) {
  constexpr std::string_view kSaved = " was saved in place of the data: download the file again";
  if (StartsWithTag(text, "<!doctype html") || StartsWithTag(text, "<html")) {
    const std::string title = Shown(WithoutBlanks(Between(text, "<title>", "</title>")));
    return "the file is an HTML page" + (title.empty() ? "" : " (\"" + title + "\")") +
           ": an answer of a web server" + std::string(kSaved);
  }
  const bool xml = text.starts_with("<?xml") || text.starts_with("<Error>");
  const std::string_view code = Between(text, "<Code>", "</Code>");
  if (xml && !code.empty() && text.find("<Error>") != std::string_view::npos) {
    return "the file is an error of an object store (" + Shown(code) + "), which" +
           std::string(kSaved);
  }
  static constexpr std::array<std::string_view, 5> kAnswers = {
      "404: Not Found", "404 Not Found", "Not Found", "404 page not found", "Entry not found"};
  if (std::find(kAnswers.begin(), kAnswers.end(), text) != kAnswers.end()) {
    return "the file is an answer of a web server (\"" + std::string(text) + "\"), which" +
           std::string(kSaved);
  }
  return {};
}

// webdataset's table of shards; in a text inside other JSON its quotes would be escaped.
bool IsWidsTable(std::string_view text) {
  return text.starts_with('{') && text.find("\"wids_version\"") != std::string_view::npos;
}

// A file of one object that begins with an error.
bool IsErrorObject(std::string_view text) {
  if (text.size() < 2 || text.size() >= kMostErrorBytes) return false;
  if (text.front() != '{' || text.back() != '}') return false;
  const std::string_view inside = WithoutBlanks(text.substr(1));
  static constexpr std::array<std::string_view, 4> kKeys = {"\"error\"", "\"errors\"",
                                                            "\"message\"", "\"detail\""};
  const bool error = std::any_of(kKeys.begin(), kKeys.end(),
                                 [&](std::string_view key) { return inside.starts_with(key); });
  // Lines of JSON have an object each.
  return error && text.find("}\n{") == std::string_view::npos &&
         text.find("}\r\n{") == std::string_view::npos;
}

}  // namespace

MistakenFile FindMistake(std::span<const std::byte> head) {
  const std::string_view all(reinterpret_cast<const char*>(head.data()), head.size());
  if (std::string words = PointerWords(all); !words.empty()) return {Mistake::kPointer, words};
  const std::string_view text = WithoutBlanks(all);
  if (IsWidsTable(text)) {
    return {Mistake::kPointer,
            "the file is a table of wids (webdataset), not data: it counts the samples of shards; "
            "name these in place of it (\"DIR/*.tar\")"};
  }
  if (std::string words = PageWords(text); !words.empty()) return {Mistake::kPage, words};
  if (!IsErrorObject(text)) return {};
  return {Mistake::kErrorObject, "the file is an error of a web server (" + Shown(text) +
                                     "), which was saved in place of the data: download it again"};
}

}  // namespace ringfeed
