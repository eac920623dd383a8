#include <openssl/evp.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "tools/command.h"
#include "tools/damage_option.h"
#include "tools/exit_status.h"
#include "tools/file_records.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/sha256.h"

namespace ringfeed::tools {
namespace {

constexpr char kHelp[] =
    "Prints the records of a file, a line for each, in file order.\n\n"
    "  ringfeed cat part-00000.tfrecord --as length | sort -n | tail -1\n"
    "  ringfeed cat damaged.tfrecord --as sha256 --on-damage=skip\n"
    "  ringfeed cat part-00000.tfrecord --as base64 | head -1 | base64 -d | protoc --decode_raw";

enum class Spelling { kSha256, kHex, kBase64, kText, kLength };

std::string Base64Text(std::span<const std::byte> bytes) {
  // Whole groups of three at a time keep the lengths within OpenSSL's int.
  constexpr std::size_t kGroup = std::size_t{3} << 24;
  std::string text;
  for (std::size_t place = 0; place < bytes.size(); place += kGroup) {
    const auto part = bytes.subspan(place, std::min(kGroup, bytes.size() - place));
    const std::size_t start = text.size();
    text.resize(start + (part.size() + 2) / 3 * 4 + 1);
    const int written = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data() + start),
                                        reinterpret_cast<const unsigned char*>(part.data()),
                                        static_cast<int>(part.size()));
    text.resize(start + static_cast<std::size_t>(written));
  }
  return text;
}

// Bytes as they are, except that control characters and backslashes are escaped: a record stays on
// its line.
std::string EscapedText(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const std::byte byte : bytes) {
    const auto c = std::to_integer<unsigned char>(byte);
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
      text += static_cast<char>(c);
    } else {
      text += "\\x" + HexText(std::span(&byte, 1));
    }
  }
  return text;
}

class CatCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    static const std::map<std::string, Spelling> kSpellings = {{"sha256", Spelling::kSha256},
                                                               {"hex", Spelling::kHex},
                                                               {"base64", Spelling::kBase64},
                                                               {"text", Spelling::kText},
                                                               {"length", Spelling::kLength}};
    CLI::App* sub = app->add_subcommand("cat", kHelp);
    sub->add_option("FILE", file_, "a record file, or - for stdin")->required();
    sub->add_option("--as", spelling_, "how a payload is printed; text escapes control characters")
        ->transform(NamedValue(kSpellings))
        ->type_name("sha256|hex|base64|text|length")
        ->default_str("text");
    sub->add_option("--format", format_, "tfrecord, rows:BYTES, raw, …; default: found by content");
    AddDamageOption(sub, &on_damage_);
    return sub;
  }

  int Run() override {
    FileRecords records(file_, format_, on_damage_);
    const Interrupt interrupt([&] { records.Close(); });
    ReadResult read;
    std::span<const RecordSpan> some;
    while ((read = records.Next(&some)) == ReadResult::kRecord) {
      for (const RecordSpan& record : some) {
        if (!record.damaged()) Print(record.bytes());
      }
      if (std::ferror(stdout) != 0) return kExitData;
    }
    std::fflush(stdout);
    const Status status = records.status();
    const auto damage = records.Damage();
    if (read == ReadResult::kFailed) {
      std::fprintf(stderr, "ringfeed: %s\n", status.ToString().c_str());
      return damage.empty() ? ExitStatusOf(status) : kExitData;
    }
    for (const DamagedRange& range : damage) {
      std::fprintf(stderr, "ringfeed: %s: skipped bytes %llu to %llu: %s\n", range.file.c_str(),
                   static_cast<unsigned long long>(range.begin),
                   static_cast<unsigned long long>(range.end), range.reason.c_str());
    }
    return damage.empty() ? kExitFine : kExitData;
  }

 private:
  std::string Spell(std::span<const std::byte> payload) {
    switch (spelling_) {
      case Spelling::kSha256:
        return HexText(sha256_.Of(payload));
      case Spelling::kHex:
        return HexText(payload);
      case Spelling::kBase64:
        return Base64Text(payload);
      case Spelling::kText:
        return EscapedText(payload);
      case Spelling::kLength:
        return std::to_string(payload.size());
    }
    return {};
  }

  void Print(std::span<const std::byte> payload) {
    const std::string line = Spell(payload) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  }

  std::string file_;
  Spelling spelling_ = Spelling::kText;
  std::string format_;
  OnDamage on_damage_ = OnDamage::kFail;
  Sha256 sha256_;
};

}  // namespace

std::unique_ptr<Command> NewCatCommand() { return std::make_unique<CatCommand>(); }

}  // namespace ringfeed::tools
