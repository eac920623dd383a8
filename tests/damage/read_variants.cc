// Reads variants of one file as the library's framers read them, under both policies, and prints
// what came of it: usage: read_variants FORMAT none|gzip|zlib|… < VARIANTS >
// LINES
//
// VARIANTS are files one behind the other, each behind its length (u64, little-endian). A line of
// JSON for each: {"fail": SEEN, "skip": SEEN}, where SEEN has "records" ([length, CRC-32] of each),
// "damage" ([begin, end, reason] of each range), and, of an error, "code", "message", "offset" and
// "record". A variant of two files (of megatron, of litdata) is the length of the index (u16), the
// index and the data. One process for all, without files or threads: thousands of variants take a
// second.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32.h"
#include "base/little_endian.h"
#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/litdata/chunk.h"
#include "readers/formats/tokens/megatron.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// All that decompresses up to the end or damage, which is *status.
std::string ContentOf(DecompressedReader* reader, Status* status) {
  std::string content;
  std::vector<std::byte> room(4096);
  for (std::size_t got = 1; got > 0;) {
    *status = reader->Read(room, &got);
    content.append(reinterpret_cast<const char*>(room.data()), got);
  }
  return content;
}

nlohmann::json Shown(const Framed& framed) {
  nlohmann::json seen;
  seen["records"] = nlohmann::json::array();
  for (const std::string& record : framed.records) {
    seen["records"].push_back({record.size(), Crc32(BytesOf(record))});
  }
  seen["damage"] = nlohmann::json::array();
  for (const DamagedRange& range : framed.damage) {
    seen["damage"].push_back({range.begin, range.end, range.reason});
  }
  if (framed.stuck) seen["code"] = "stuck";
  if (!framed.status.ok()) {
    seen["code"] = StatusCodeName(framed.status.code());
    seen["message"] = framed.status.ToString();
    seen["offset"] = framed.status.place().offset;
    seen["record"] = framed.status.place().record;
  }
  return seen;
}

// The data as its index cuts it; where that is refused nothing is read.
nlohmann::json ReadPair(std::string_view pair, OnDamage on_damage) {
  const std::size_t index_bytes = LoadLe<std::uint16_t>(BytesOf(pair).data());
  // In memory of exactly its size.
  const auto copy = std::make_shared<const std::vector<char>>(
      pair.begin() + 2, pair.begin() + 2 + static_cast<std::ptrdiff_t>(index_bytes));
  std::shared_ptr<const MegatronIndex> index;
  Framed framed;
  framed.status = MegatronIndex::Read("file.idx", std::as_bytes(std::span(*copy)), copy, &index);
  if (!framed.status.ok()) return Shown(framed);
  const std::string data(pair.substr(2 + index_bytes));
  FramerOptions options;
  options.file = "file.bin";
  options.file_bytes = data.size();
  options.on_damage = on_damage;
  return Shown(FrameWith(NewMegatronFramer(options, std::move(index)).get(), data));
}

// A chunk of LitData as its index, which is not damaged, says what it holds.
nlohmann::json ReadChunk(std::string_view pair, OnDamage on_damage) {
  const std::size_t index_bytes = LoadLe<std::uint16_t>(BytesOf(pair).data());
  KnownChunk known;
  Framed framed;
  framed.status =
      ReadLitDataIndex("index.json", std::string(pair.substr(2, index_bytes)), &known.index);
  if (!framed.status.ok()) return Shown(framed);
  known.listed = &known.index->chunks.front();
  const std::string file(pair.substr(2 + index_bytes));
  const auto read = [&file](std::uint64_t offset, std::span<std::byte> to) {
    if (offset > file.size() || to.size() > file.size() - offset) {
      return Status(StatusCode::kInternal, "a place outside of the file is read");
    }
    std::copy_n(BytesOf(file).begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return Status();
  };
  std::shared_ptr<const Format> format;
  framed.status = MakeLitDataFormat(read, file.size(), known, &format);
  return Shown(framed.status.ok() ? FrameAll(*format, file, on_damage) : framed);
}

void Append(const Framed& part, Framed* all) {
  all->records.insert(all->records.end(), part.records.begin(), part.records.end());
  all->damage.insert(all->damage.end(), part.damage.begin(), part.damage.end());
  all->status = part.status;
  all->stuck = all->stuck || part.stuck;
}

// The content, of unknown size. Where it is damaged what there is of a record is dropped, and what
// follows is the content of the next member, where there is one.
Framed ReadContent(const Format& format, Compression compression, std::string_view file,
                   OnDamage on_damage) {
  std::span<const std::byte> rest = BytesOf(file);
  DecompressedReader reader(compression, [&rest](std::span<std::byte> buffer, std::size_t* got) {
    *got = std::min(buffer.size(), rest.size());
    std::copy_n(rest.begin(), *got, buffer.begin());
    rest = rest.subspan(*got);
    return Status();
  });
  FramerOptions options;
  options.file = "file";
  options.on_damage = on_damage;
  Framed all;
  std::uint64_t offset = 0;
  std::unique_ptr<Framer> framer = format.NewFramer(options);
  while (true) {
    Status status;
    const std::string content = ContentOf(&reader, &status);
    const Framed part = FrameWith(framer.get(), content, {.offset = offset, .at_end = status.ok()});
    Append(part, &all);
    if (!all.status.ok() || status.ok()) return all;
    offset += content.size();
    if (on_damage == OnDamage::kFail) {
      all.status = status.WithPlace({"file", -1, -1});
      return all;
    }
    // To be told of what it was passing over; it may want more of a record that is dropped.
    Framed passed = FrameWith(framer.get(), "", {.offset = part.end});
    passed.stuck = false;
    Append(passed, &all);
    std::string loss = status.message();
    framer = format.NewFramerBehindGap(options, offset);
    const bool goes_on = framer != nullptr && reader.FindNextMember(&loss);
    all.damage.push_back({"file", part.end, offset, loss});
    if (!goes_on) return all;
  }
}

nlohmann::json Read(const Format& format, Compression compression, const std::string& file,
                    OnDamage on_damage) {
  if (format.name() == "megatron") return ReadPair(file, on_damage);
  if (format.name() == "litdata") return ReadChunk(file, on_damage);
  if (compression == Compression::kNone) {
    return Shown(FrameAll(*FormatOfFile(format, file), file, on_damage));
  }
  return Shown(ReadContent(format, compression, file, on_damage));
}

int Main(const std::string& name, const std::string& compressed) {
  const FormatResult found = FindFormat(name);
  if (!found.status.ok()) {
    std::cerr << found.status.ToString() << '\n';
    return 2;
  }
  const std::string ending = "+" + compressed;
  std::string_view left = ending;
  const Compression compression = TakeCompression(&left);
  const std::string all((std::istreambuf_iterator<char>(std::cin)), {});
  std::string_view rest = all;
  while (rest.size() >= 8) {
    const auto bytes = static_cast<std::size_t>(LoadLe<std::uint64_t>(BytesOf(rest).data()));
    const std::string file(rest.substr(8, bytes));
    rest.remove_prefix(8 + file.size());
    const nlohmann::json line = {{"fail", Read(*found.format, compression, file, OnDamage::kFail)},
                                 {"skip", Read(*found.format, compression, file, OnDamage::kSkip)}};
    // Messages may show bytes of the file.
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: read_variants FORMAT none|gzip|zlib|… < VARIANTS\n");
    return 2;
  }
  return ringfeed::Main(argv[1], argv[2]);
}
