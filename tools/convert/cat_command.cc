#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/record.h"
#include "tools/base64.h"
#include "tools/command.h"
#include "tools/convert/record_json.h"
#include "tools/convert/record_lines.h"
#include "tools/digests.h"
#include "tools/file_records.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

constexpr char kCatHelp[] =
    "Prints the records of a file, a line for each, in file order.\n\n"
    "--as json prints the fields that --parse names: numbers, nested arrays, and bytes as strings, "
    "or as\n{\"base64\": …} if they are no UTF-8; NaN and Infinity as Python's json has them. "
    "Without --parse:\nall features of tf.Examples and OFRecords, lines of JSON, samples of tar "
    "files.\n\n"
    "  ringfeed cat part-00000.tfrecord --as length | sort -n | tail -1\n"
    "  ringfeed cat part-00000.tfrecord --as json --parse 'example: image=u1[] label=i8' | jq "
    ".label\n"
    "  ringfeed cat damaged.tfrecord --as sha256 --on-damage=skip\n"
    "  ringfeed cat 'train-*.tfrecord' --number 17,100-120 --as length\n"
    "  ringfeed cat part-00000.tfrecord --as base64 | head -1 | base64 -d | protoc --decode_raw";

enum class Spelling { kSha256, kHex, kBase64, kText, kLength, kJson };

// Bytes as they are, except that control characters and backslashes are escaped, so that a record
// stays on its line.
void AppendEscaped(std::span<const std::byte> bytes, std::string* text) {
  for (const std::byte byte : bytes) {
    const auto c = std::to_integer<unsigned char>(byte);
    if (c == '\\') {
      *text += "\\\\";
    } else if (c == '\n') {
      *text += "\\n";
    } else if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
      *text += static_cast<char>(c);
    } else {
      *text += "\\x" + HexText(std::span(&byte, 1));
    }
  }
}

class CatCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("cat", kCatHelp);
    sub->add_option("FILE", file_, "a record file, a folder of them, or - for stdin")->required();
    AddChoice(sub, "--as", &spelling_,
              {{"sha256", Spelling::kSha256},
               {"hex", Spelling::kHex},
               {"base64", Spelling::kBase64},
               {"text", Spelling::kText},
               {"length", Spelling::kLength},
               {"json", Spelling::kJson}},
              "how a payload is printed; text escapes control characters");
    sub->add_option("--parse", parse_, "for --as json: " + ParseText());
    sub->add_option("--number", numbers_,
                    "records of these numbers alone, from 0, by the index: 17,100-120");
    sub->add_option("--format", options_.format, FormatText());
    AddRecordOptions(sub, &options_);
    AddTableOptions(sub, &tables_);
    return sub;
  }

  int Run() override {
    if (!parse_.empty() && spelling_ != Spelling::kJson) {
      throw Refuse("--parse goes with --as json");
    }
    const std::string table = TableFormat({file_}, options_, tables_);
    if (!table.empty()) return RunTable(table);
    if (!numbers_.empty()) return RunNumbered();
    if (!parse_.empty()) return RunParsed();
    const SpellRecord spell = Speller();
    FileRecords records(file_, options_);
    const Interrupt interrupt([&] { records.Close(); });
    return PrintRecords(file_, options_.on_damage, &records, spell);
  }

 private:
  std::vector<NumbersInRow> Numbers() const {
    auto ranges = NumbersFromText(numbers_);
    if (ranges) return std::move(*ranges);
    throw Refuse("--number takes numbers of records as 17,100-120, not " + numbers_);
  }

  int RunNumbered() {
    const std::vector<NumbersInRow> numbers = Numbers();
    Reader reader = OpenFiles({file_}, options_);
    if (parse_.empty()) return PrintNumbered(reader, numbers, options_.on_damage, Speller());
    ParserResult found = ParserFromText(parse_);
    if (!found.status.ok()) throw Error(found.status);
    reader = Parse(std::move(reader), std::move(found.parser));
    return PrintNumbered(reader, numbers, options_.on_damage, {});
  }

  int RunParsed() {
    ParserResult found = ParserFromText(parse_);
    if (!found.status.ok()) throw Error(found.status);
    FileRows rows(file_, options_, std::move(found.parser));
    const Interrupt interrupt([&] { rows.Close(); });
    return PrintRows(options_.on_damage, &rows);
  }

  // Its rows have fields, so they are JSON without being asked for.
  int RunTable(const std::string& format) {
    const bool as_json = spelling_ == Spelling::kText || spelling_ == Spelling::kJson;  // not said
    if (!parse_.empty() || !as_json) {
      throw Refuse(
          "rows of tables have fields, which are printed as JSON: leave out --parse and --as");
    }
    if (!numbers_.empty()) {
      return PrintNumbered(OpenTableRows(format, {file_}, options_, tables_), Numbers(),
                           options_.on_damage, {});
    }
    FileRows rows(file_, options_, format, tables_);
    const Interrupt interrupt([&] { rows.Close(); });
    return PrintRows(options_.on_damage, &rows);
  }

  SpellRecord Speller() {
    if (spelling_ != Spelling::kJson) {
      return [this](std::span<const std::byte> payload, std::string* text) {
        Spell(payload, text);
        return Status();
      };
    }
    const std::string format = FormatNameOf(ExpandNames({file_}).front(), options_.format);
    RecordToJson to_json = JsonOfFormat(format);
    if (to_json != nullptr) return to_json;
    throw Refuse(format.empty()
                     ? "of a stream --as json needs --format or --parse"
                     : "nothing in " + format + " tells the fields of its records: add --parse");
  }

  void Spell(std::span<const std::byte> payload, std::string* text) {
    switch (spelling_) {
      case Spelling::kSha256:
        *text += HexText(sha256_.Of(payload));
        break;
      case Spelling::kHex:
        *text += HexText(payload);
        break;
      case Spelling::kBase64:
        return AppendBase64(payload, text);
      case Spelling::kText:
        return AppendEscaped(payload, text);
      case Spelling::kLength:
        *text += std::to_string(payload.size());
        break;
      case Spelling::kJson:  // Speller has it
        break;
    }
  }

  std::string file_;
  Spelling spelling_ = Spelling::kText;
  std::string parse_;
  std::string numbers_;
  OpenOptions options_;
  TableOptions tables_;
  Sha256 sha256_;
};

}  // namespace

std::unique_ptr<Command> NewCatCommand() { return std::make_unique<CatCommand>(); }

}  // namespace ringfeed::tools
