// The command as a user runs it, with its start, beside loops and programs that do the same: see
// paired_rows.h for how to run it. CPU seconds are those of the whole process.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/bare_loop.h"
#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/child_process.h"
#include "bench/paired_rows.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

// Three bytes become four letters, without padding: so records and the whole of them give the same.
constexpr std::size_t kRecordBytes = 1023;
constexpr std::size_t kLineBytes = kRecordBytes / 3 * 4;

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t DigestOf(const std::string& path) {
  const std::string bytes = ReadWhole(path);
  BatchDigest digest;
  digest.Add(std::as_bytes(std::span(bytes)));
  return digest.value();
}

LoopResult Taken(const ChildFigures& figures, const std::string& what) {
  if (figures.exit_status != 0) throw Error(Status(StatusCode::kInternal, what + " failed"));
  LoopResult result;
  result.cpu_s = figures.cpu_s;
  result.wall_s = figures.wall_s;
  return result;
}

// A program that reads `bytes` of records and writes `output`, which is what is digested.
LoopResult RunProgram(const std::vector<std::string>& words, const std::string& output,
                      std::uint64_t bytes, bool digest) {
  LoopResult result = Taken(RunChild(words, output), words[0]);
  result.records = result.bytes = bytes;
  if (digest) result.digest = DigestOf(output);
  return result;
}

// Whether a flipped bit in the middle of the last of the files is found.
bool FindsDamage(const std::vector<std::string>& files, const std::string& scratch) {
  fs::copy_file(files.back(), scratch, fs::copy_options::overwrite_existing);
  std::fstream copy(scratch, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(scratch) / 2);
  copy.seekg(middle);
  const auto byte = static_cast<char>(copy.get());
  copy.seekp(middle);
  copy.put(static_cast<char>(byte ^ 1));
  copy.close();
  std::vector<std::string> words{RingfeedCommand(), "verify"};
  words.insert(words.end(), files.begin(), files.end());
  words.back() = scratch;
  const int status = RunChild(words, "/dev/null").exit_status;
  fs::remove(scratch);
  return status == 1;
}

// --- commands that read record files to their ends -----------------------------------------------

using Files = std::vector<std::string>;

// Runs a command over files: what it says of each of them goes into *list.
LoopResult RunOverFiles(const std::string& command, const Files& files, nlohmann::json* list) {
  const std::string output = files[0] + "." + command + ".json";
  std::vector<std::string> words{RingfeedCommand(), command, "--json"};
  words.insert(words.end(), files.begin(), files.end());
  LoopResult result = Taken(RunChild(words, output), command);
  *list = nlohmann::json::parse(ReadWhole(output));
  if (list->is_object()) *list = nlohmann::json::array({*list});  // of one file
  fs::remove(output);
  for (const auto& file : *list) {
    result.records += file["records"].get<std::uint64_t>();
    result.bytes += file["payload_bytes"].get<std::uint64_t>();
  }
  return result;
}

LoopResult Verify(const Files& files, bool digest) {
  nlohmann::json list;
  LoopResult result = RunOverFiles("verify", files, &list);
  result.digest = digest && FindsDamage(files, files.back() + ".damaged") ? 1 : 0;
  return result;
}

// Whether each checksum is right is all that it tells, and a wrong one ends it.
LoopResult VerifyLoop(const Files& files, bool digest) {
  LoopResult result = BareFrameLoop(files, {1, false});
  result.digest = digest ? 1 : 0;
  return result;
}

using Sha256Value = std::array<unsigned char, 32>;

// Hashes what is appended, from its making or the last Finish on.
class Sha256 {
 public:
  Sha256() { Begin(); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Append(const void* bytes, std::size_t count) {
    if (EVP_DigestUpdate(context_, bytes, count) != 1) Die("SHA-256");
  }
  Sha256Value Finish() {
    Sha256Value value;
    if (EVP_DigestFinal_ex(context_, value.data(), nullptr) != 1) Die("SHA-256");
    Begin();
    return value;
  }

 private:
  void Begin() {
    // Looked up once: by name for each record it would take time.
    static const EVP_MD* const kMethod = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    if (EVP_DigestInit_ex2(context_, kMethod, nullptr) != 1) Die("SHA-256");
  }

  EVP_MD_CTX* const context_ = EVP_MD_CTX_new();
};

// *sum += hash, both numbers of 32 bytes, the lowest first.
void AddTo(Sha256Value* sum, const Sha256Value& hash) {
  unsigned carry = 0;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    carry += (*sum)[i] + hash[i];
    (*sum)[i] = static_cast<unsigned char>(carry & 255);
    carry >>= 8;
  }
}

template <typename Bytes>
std::string Hex(const Bytes& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void AddFile(const std::string& sha256, const std::string& multiset, BatchDigest* digest) {
  digest->Add(std::as_bytes(std::span(sha256)));
  digest->Add(std::as_bytes(std::span(multiset)));
}

LoopResult Digest(const Files& files, bool digest) {
  nlohmann::json list;
  LoopResult result = RunOverFiles("digest", files, &list);
  BatchDigest all;
  for (const auto& file : list) AddFile(file["sha256"], file["multiset"], &all);
  result.digest = digest ? all.value() : 0;
  return result;
}

// One file's records, both checksums taken: every payload hashed by itself, and all of them behind
// their lengths.
void DigestFile(const std::string& file, LoopResult* result, BatchDigest* digest) {
  Sha256 sequence;
  Sha256 single;
  Sha256Value sum{};
  const auto take = [&](const std::byte* payload, std::size_t bytes) {
    const std::uint64_t length = bytes;
    sequence.Append(&length, sizeof(length));
    sequence.Append(payload, bytes);
    single.Append(payload, bytes);
    AddTo(&sum, single.Finish());
    ++result->records;
    result->bytes += bytes;
  };
  ForEachBlock({file},
               [&](std::span<const std::byte> block) { return TakeTfRecords(block, take); });
  std::reverse(sum.begin(), sum.end());
  AddFile(Hex(sequence.Finish()), Hex(sum), digest);
}

LoopResult DigestLoop(const Files& files, bool digest) {
  LoopResult result = Timed([&](LoopResult* sums, BatchDigest* all) {
    for (const std::string& file : files) DigestFile(file, sums, all);
  });
  if (!digest) result.digest = 0;
  return result;
}

// A command, and the loop that does the same work and finds out the same.
struct FileCommand {
  std::string name;
  LoopResult (*run)(const Files& files, bool digest);
  LoopResult (*loop)(const Files& files, bool digest);
};

PairedRow LoopRow(const FileCommand& command, const BenchFiles& files) {
  return {command.name, "records/CPU s",
          [=](bool digest) { return command.run(files.paths, digest); },
          [=](bool digest) { return command.loop(files.paths, digest); }};
}

LoopResult OneByOne(const FileCommand& command, const Files& files) {
  LoopResult sum;
  for (const std::string& file : files) {
    const LoopResult one = command.run({file}, false);
    sum.cpu_s += one.cpu_s;
    sum.wall_s += one.wall_s;
    sum.records += one.records;
    sum.bytes += one.bytes;
  }
  return sum;
}

// Files at once, against the command with one of them, and then with another. Both sides' findings
// could be wrong in the same way: they are held against the loop's.
PairedRow AtOnceRow(const FileCommand& command, const BenchFiles& files) {
  const std::string name = command.name + "_" + std::to_string(files.paths.size()) + "_files";
  return {name, "GB/s", [=](bool digest) { return command.run(files.paths, digest); },
          [=](bool digest) {
            return digest ? command.loop(files.paths, true) : OneByOne(command, files.paths);
          },
          GigabytesPerSecond};
}

std::vector<PairedRow> FileRows() {
  const std::uint64_t bytes = SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{2} << 30;
  const FileCommand verify{"command.verify", Verify, VerifyLoop};
  const FileCommand digest{"command.digest", Digest, DigestLoop};
  const BenchFiles many = ImageExamples(bytes, 8);
  const BenchFiles two = ImageExamples(bytes, 2);
  BringIntoMemory(two);
  return {LoopRow(verify, many), LoopRow(digest, many), AtOnceRow(verify, two),
          AtOnceRow(digest, two)};
}

// --- commands that write -------------------------------------------------------------------------

// The same records as RecordIO, as nothing but their bytes, and as lines of base64.
struct Base64Files {
  std::string records;
  std::string bytes;
  std::string lines;
  std::uint64_t size = 0;
};

Base64Files MakeBase64Files(std::uint64_t records) {
  Base64Files files;
  const std::string rows = "rows:" + std::to_string(kRecordBytes);
  files.records = Texts("recordio:fluid,none", kRecordBytes, true, records, 1).paths[0];
  files.bytes = Texts(rows, kRecordBytes, true, records, 1).paths[0];
  files.lines = files.bytes + ".base64";
  files.size = fs::file_size(files.bytes);
  const std::vector<std::string> words = {"base64", "-w", std::to_string(kLineBytes), files.bytes};
  Taken(RunChild(words, files.lines), "base64");
  return files;
}

// Writes the file of records again, byte for byte: the baseline's bytes are what is in it.
PairedRow EncodeRow(const Base64Files& files) {
  const std::string decoded = files.lines + ".decoded";
  const std::string records = files.lines + ".recordio";
  const std::vector<std::string> words = {
      RingfeedCommand(), "encode", "--to", "recordio:fluid,none", "--input", files.lines, records};
  return {"command.encode", "bytes/CPU s",
          [=](bool digest) {
            LoopResult result = RunProgram(words, "/dev/null", files.size, false);
            if (digest && ReadWhole(records) == ReadWhole(files.records)) {
              result.digest = DigestOf(files.bytes);
            }
            return result;
          },
          [=](bool digest) {
            return RunProgram({"base64", "-d", files.lines}, decoded, files.size, digest);
          }};
}

PairedRow DecodeRow(const Base64Files& files) {
  const std::string output = files.lines + ".encoded";
  return {
      "command.decode", "bytes/CPU s",
      [=](bool digest) {
        return RunProgram({RingfeedCommand(), "decode", files.records}, output, files.size, digest);
      },
      [=](bool digest) {
        return RunProgram({"base64", "-w", std::to_string(kLineBytes), files.bytes}, output,
                          files.size, digest);
      }};
}

std::vector<PairedRow> Rows() {
  const Base64Files files = MakeBase64Files(SmokeRun() ? 1000 : 300'000);
  std::vector<PairedRow> rows = FileRows();
  rows.push_back(EncodeRow(files));
  rows.push_back(DecodeRow(files));
  return rows;
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
