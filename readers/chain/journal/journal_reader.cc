#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "readers/chain/journal/journal_line.h"
#include "ringfeed/journal.h"

namespace ringfeed {

/// The file and the line that stands in front.
struct JournalReader::Input {
  enum class Found : std::uint8_t { kLine, kEnd, kTooLong, kFailed };

  explicit Input(const std::string& path) : file(std::fopen(path.c_str(), "rbe")) {}
  ~Input() {
    if (file != nullptr) std::fclose(file);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // At the end `line` has what is left.
  Found NextLine() {
    line.clear();
    while (true) {
      const std::string_view rest(piece.data() + at, filled - at);
      const std::size_t newline = rest.find('\n');
      line += rest.substr(0, newline);
      if (line.size() > kMostJournalLine) return Found::kTooLong;
      if (newline != std::string_view::npos) {
        at += newline + 1;
        return Found::kLine;
      }
      at = 0;
      filled = std::fread(piece.data(), 1, piece.size(), file);
      if (filled == 0) return std::ferror(file) != 0 ? Found::kFailed : Found::kEnd;
    }
  }

  std::FILE* const file;
  std::string line;
  std::array<char, 65536> piece;
  std::size_t at = 0;
  std::size_t filled = 0;
};

JournalReader::JournalReader(std::string path)
    : path_(std::move(path)), input_(std::make_unique<Input>(path_)) {
  if (input_->file == nullptr) throw Error(StatusFromErrno(errno, "open the journal " + path_));
}

JournalReader::~JournalReader() = default;

ReadResult JournalReader::Fail(StatusCode code, const std::string& what) {
  DataPlace place;
  place.file = path_;
  status_ = Status(code, "line " + std::to_string(line_) + " of the journal: " + what, place);
  return ReadResult::kFailed;
}

ReadResult JournalReader::Next(JournalEntry* entry) {
  if (!status_.ok()) return ReadResult::kFailed;
  const Input::Found found = input_->NextLine();
  const std::string& line = input_->line;
  if (found == Input::Found::kFailed) {
    status_ = StatusFromErrno(errno, "read the journal " + path_);
    return ReadResult::kFailed;
  }
  const bool nothing = found == Input::Found::kEnd && line.empty();
  if (!nothing) ++line_;
  const bool first = line_ == 1 && !nothing;
  if (first && !std::string_view(line).starts_with(kJournalMagic.substr(0, line.size()))) {
    return Fail(StatusCode::kInvalidArgument, "the file is no journal of this version");
  }
  if (found == Input::Found::kEnd) {
    cut_bytes_ += line.size();
    return ReadResult::kEnd;
  }
  if (found == Input::Found::kTooLong) return Fail(StatusCode::kDamaged, "it is too long");
  const Status parsed = ParseJournalLine(line, entry);
  if (!parsed.ok()) return Fail(StatusCode::kDamaged, parsed.message());
  return ReadResult::kRecord;
}

}  // namespace ringfeed
