#include <array>
#include <vector>

#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/formats/compression/snappy_frames.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

using Result = Decompressor::Result;

// Streams may promise a thousandfold: as much as this of one is looked at.
constexpr std::size_t kMostContent = 8192;
constexpr int kMostCalls = 200;

struct Content {
  std::string bytes;
  std::string problem;
  int members = 0;
  bool inside = false;
  bool ended = false;  ///< all of the stream was read, or it is damaged
};

/// Takes a stream apart in pieces of at most so many bytes, each way.
Content Decompressed(Decompressor* decompressor, std::span<const std::byte> stream,
                     std::size_t in_bytes, std::size_t out_bytes) {
  Content content;
  decompressor->Restart();
  std::span<const std::byte> input;
  bool has_more = false;
  std::size_t taken = 0;
  const std::unique_ptr<std::byte[]> room(new std::byte[out_bytes]);
  for (int calls = 0; calls < kMostCalls && content.bytes.size() < kMostContent; ++calls) {
    if (input.empty() && !has_more) {
      if (taken == stream.size()) {
        content.ended = true;
        break;
      }
      input = stream.subspan(taken, std::min(in_bytes, stream.size() - taken));
      taken += input.size();
    }
    std::span<const std::byte> in = input;
    std::span<std::byte> out(room.get(), out_bytes);
    const Result result = decompressor->Decompress(&in, &out);
    FuzzExpect(in.size() <= input.size() && out.size() <= out_bytes, "both spans get shorter");
    const std::size_t used = input.size() - in.size();
    content.bytes.append(reinterpret_cast<const char*>(room.get()), out_bytes - out.size());
    input = input.subspan(used);
    if (result == Result::kDamaged) {
      content.problem = decompressor->problem();
      content.ended = true;
      FuzzExpect(!content.problem.empty(), "damage has a reason");
      break;
    }
    has_more = result == Result::kNeedsRoom;
    FuzzExpect(result != Result::kNeedsRoom || out.empty(),
               "room is asked for where there is none");
    FuzzExpect(result != Result::kNeedsInput || in.empty(), "input is asked for where all is used");
    FuzzExpect(used > 0 || out.size() < out_bytes || result != Result::kNeedsRoom,
               "every call makes progress");
    if (result == Result::kMemberEnds) {
      ++content.members;
      FuzzExpect(!decompressor->inside_member(), "behind a member no other one has begun");
    }
  }
  content.inside = decompressor->inside_member();
  return content;
}

std::string Described(const Content& content) {
  return std::to_string(content.bytes.size()) + " bytes, " + std::to_string(content.members) +
         " members, \"" + content.problem + "\"" + (content.inside ? ", inside of one" : "");
}

bool Intact(const Content& content) {
  return content.ended && content.problem.empty() && !content.inside;
}

// What is delivered of a damaged stream up to the place where that is noticed is the same only
// where zlib decompresses. ISA-L 2.30 notices a distance too far back only within one call, and
// else by the checksum; zstd 1.5.4 gives nothing of a last block where it sees in the same call
// that the frame promised more.
bool GivesTheSame(Compression compression, const Content& a, const Content& b) {
  if (compression != Compression::kZlib && !Intact(a) && !Intact(b)) return true;
  const std::size_t common = std::min(a.bytes.size(), b.bytes.size());
  return a.bytes.compare(0, common, b.bytes, 0, common) == 0;
}

void ExpectSame(Compression compression, const Content& whole, const Content& pieces) {
  const auto seen = [&] { return Described(whole) + "; in pieces " + Described(pieces); };
  FuzzExpect(GivesTheSame(compression, whole, pieces), "a stream gives the same bytes in pieces",
             seen);
  if (!whole.ended || !pieces.ended) return;
  FuzzExpect(Intact(whole) || !Intact(pieces), "a damaged stream is damaged in pieces", seen);
  if (!Intact(whole)) return;
  FuzzExpect(pieces.problem.empty() && whole.members == pieces.members &&
                 whole.bytes.size() == pieces.bytes.size() && whole.inside == pieces.inside,
             "an intact stream gives as much in pieces", seen);
}

/// What a reader of a whole file gives, and where it went on behind damage.
struct FileRead {
  Content content;
  Status status;  ///< the first damage
  std::vector<std::size_t> gaps;
};

FileRead ReadFile(Compression compression, std::span<const std::byte> stream, std::size_t piece,
                  std::size_t room_bytes = 1000) {
  std::span<const std::byte> rest = stream;
  DecompressedReader reader(compression,
                            [&rest, piece](std::span<std::byte> buffer, std::size_t* got) {
                              *got = std::min({buffer.size(), rest.size(), piece});
                              std::copy_n(rest.begin(), *got, buffer.begin());
                              rest = rest.subspan(*got);
                              return Status();
                            });
  FileRead file;
  std::vector<std::byte> room(room_bytes);
  while (file.content.bytes.size() < kMostContent) {
    std::size_t got = 0;
    const Status status = reader.Read(room, &got);
    file.content.bytes.append(reinterpret_cast<const char*>(room.data()), got);
    if (got > 0) continue;
    if (file.status.ok()) file.status = status;
    std::string loss;
    if (status.ok() || !reader.FindNextMember(&loss)) break;
    file.gaps.push_back(file.content.bytes.size());
    FuzzExpect(file.gaps.size() <= stream.size(), "behind damage reading goes on further on");
  }
  file.content.ended = true;
  if (!file.status.ok()) file.content.problem = file.status.message();
  return file;
}

// The reader of whole files agrees with its decompressor up to the first damage, and ends.
void ReadContent(Compression compression, std::span<const std::byte> stream, const Content& whole) {
  const FileRead file = ReadFile(compression, stream, 100);
  Content first = file.content;
  if (!file.gaps.empty()) first.bytes.resize(file.gaps.front());
  FuzzExpect(GivesTheSame(compression, whole, first), "a file is its stream's bytes",
             [&] { return Described(whole) + "; as a file " + Described(first); });
  // Not the other way round: zeros behind a member are padding to the reader only.
  FuzzExpect(!Intact(whole) || file.status.ok(), "an intact stream is an intact file",
             [&] { return file.status.ToString() + "; " + Described(whole); });
  // Also where it is damaged, whatever decompresses it.
  const FileRead roomy = ReadFile(compression, stream, 100, 100'000);
  FuzzExpect(file.content.bytes.size() >= kMostContent ||
                 (roomy.content.bytes == file.content.bytes && roomy.gaps == file.gaps),
             "how much each call asks for makes no difference",
             [&] { return Described(file.content) + "; at once " + Described(roomy.content); });
  if (compression != Compression::kZlib || file.content.bytes.size() >= kMostContent) return;
  const FileRead again = ReadFile(compression, stream, 7);
  FuzzExpect(again.content.bytes == file.content.bytes && again.gaps == file.gaps,
             "behind damage the same is found in pieces of any size", [&] {
               return Described(file.content) + "; in small ones " + Described(again.content);
             });
}

void DecompressInput(Compression compression, Decompressor* decompressor,
                     std::span<const std::byte> input) {
  constexpr std::array<std::size_t, 8> kIn = {1, 2, 5, 16, 33, 100, 1000, 4096};
  constexpr std::array<std::size_t, 8> kOut = {1, 3, 20, 64, 100, 700, 4096, 4096};
  const unsigned control = TakeByte(&input);
  const ExactCopy copy(input);
  const std::span<const std::byte> stream = copy.bytes();
  const Content whole = Decompressed(decompressor, stream, stream.size() + 1, 8192);
  const Content pieces =
      Decompressed(decompressor, stream, kIn[control & 7], kOut[control >> 3 & 7]);
  ExpectSame(compression, whole, pieces);
  // It costs more than all else here: its buffer is a large one.
  if (control >> 4 == 15) ReadContent(compression, stream, whole);
}

void SnappyInput(SnappyFraming framing, std::span<const std::byte> input) {
  const unsigned control = TakeByte(&input);
  const ExactCopy stream(input);
  std::size_t promised = 0;
  if (SnappyFramedSize(framing, stream.bytes(), &promised).empty()) {
    FuzzExpect(promised <= input.size() * 65536, "what a stream promises is bounded by its size");
    if (promised > 1 << 20) return;
    const std::unique_ptr<std::byte[]> room(new std::byte[promised]);
    (void)SnappyFramedDecompress(framing, stream.bytes(), {room.get(), promised});
  }
  if ((control & 3) != 3) return;
  std::vector<std::byte> compressed;
  SnappyFramedCompress(framing, input, &compressed);
  FuzzExpect(SnappyFramedSize(framing, compressed, &promised).empty() && promised == input.size(),
             "what was compressed has its size");
  const ExactCopy back(compressed);
  std::vector<std::byte> again(input.size());
  FuzzExpect(SnappyFramedDecompress(framing, back.bytes(), again).empty() &&
                 std::equal(again.begin(), again.end(), input.begin()),
             "what was compressed comes back");
}

}  // namespace

FuzzTarget DecompressTarget(const char* compression) {
  const std::string ending = std::string("+") + compression;
  std::string_view left = ending;
  const Compression kind = TakeCompression(&left);
  // One for all inputs: to make one costs more than to run it, and Restart forgets.
  const std::shared_ptr<Decompressor> decompressor = MakeDecompressor(kind);
  return
      [=](std::span<const std::byte> input) { DecompressInput(kind, decompressor.get(), input); };
}

FuzzTarget SnappyTarget(const char* framing) {
  const SnappyFraming kind =
      std::string_view(framing) == "stream" ? SnappyFraming::kStream : SnappyFraming::kOfficial;
  return [=](std::span<const std::byte> input) { SnappyInput(kind, input); };
}

}  // namespace ringfeed
