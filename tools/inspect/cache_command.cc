#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "io/remote/piece_cache.h"
#include "tools/command.h"
#include "tools/option_values.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kCacheHelp[] =
    "What a cache of remote objects holds.\n\n"
    "A line for each object, with the pieces of it that are there, and a total. Running jobs may\n"
    "use the cache meanwhile. With --verify the exit status is 1 if a piece was bad: it is gone,\n"
    "and is fetched again when it is needed.\n\n"
    "  ringfeed cache /local/cache\n"
    "  ringfeed cache /local/cache --verify\n"
    "  ringfeed cache /local/cache --trim 100GiB";

/// What is there of an object.
struct CachedShare {
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
};

class CacheCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("cache", kCacheHelp);
    sub->add_option("DIR", folder_, "the folder that --cache named")->required();
    sub->add_flag("--verify", verify_, "read every piece, check every checksum, remove bad pieces");
    trim_ = AddSize(sub, "--trim", &trim_bytes_,
                    "remove the pieces that were not used for longest, until no more are left");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    std::shared_ptr<PieceCache> cache;
    Must(PieceCache::OpenExisting(folder_, &cache));
    if (verify_) {
      Must(cache->Examine(true, [&](const PieceCache::Examined& piece) {
        if (piece.bad) TellBad(piece);
      }));
    }
    if (trim_->count() > 0) Must(cache->Trim(trim_bytes_));
    Must(cache->Examine(false, [&](const PieceCache::Examined& piece) { Take(piece); }));
    json_ ? PrintReport(cache->Stats().removed) : PrintText(cache->Stats().removed);
    return bad_ == 0 ? kExitFine : kExitData;
  }

 private:
  static void Must(const Status& status) {
    if (!status.ok()) throw Error(status);
  }

  void TellBad(const PieceCache::Examined& piece) {
    ++bad_;
    const std::string of = piece.footer ? " of " + piece.footer->object.name : "";
    std::fprintf(stderr, "ringfeed: %s/%s: a bad piece%s\n", folder_.c_str(), piece.file.c_str(),
                 of.c_str());
  }

  void Take(const PieceCache::Examined& piece) {
    if (piece.bad) return TellBad(piece);
    CachedShare& share = objects_[piece.footer->object];
    ++share.pieces;
    share.bytes += piece.footer->piece_bytes();
    ++pieces_;
    file_bytes_ += piece.file_bytes;
  }

  void PrintReport(std::uint64_t removed) const {
    Json list = Json::array();
    for (const auto& [object, share] : objects_) {
      list.push_back({{"name", object.name},
                      {"version", object.version},
                      {"bytes", object.bytes},
                      {"pieces", share.pieces},
                      {"cached_bytes", share.bytes}});
    }
    PrintJson("cache", {{"folder", folder_},
                        {"pieces", pieces_},
                        {"file_bytes", file_bytes_},
                        {"bad", bad_},
                        {"trimmed", removed},
                        {"objects", list}});
  }

  void PrintText(std::uint64_t removed) const {
    TableRows rows;
    for (const auto& [object, share] : objects_) {
      rows.push_back({object.name, BytesText(share.bytes), "of", BytesText(object.bytes)});
    }
    std::printf("%s", TableText(rows).c_str());
    std::printf("total    %s pieces of %zu objects, %s; %s bad, %s trimmed\n",
                CountText(pieces_).c_str(), objects_.size(), BytesText(file_bytes_).c_str(),
                CountText(bad_).c_str(), CountText(removed).c_str());
  }

  std::string folder_;
  bool verify_ = false;
  bool json_ = false;
  std::uint64_t trim_bytes_ = 0;
  const CLI::Option* trim_ = nullptr;
  std::map<CachedObject, CachedShare> objects_;
  std::uint64_t pieces_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t bad_ = 0;
};

}  // namespace

std::unique_ptr<Command> NewCacheCommand() { return std::make_unique<CacheCommand>(); }

}  // namespace ringfeed::tools
