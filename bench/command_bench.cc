// The command as a user runs it, with its start, beside loops and programs that do the same. CPU
// seconds are those of the whole process.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/child_process.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

// Three bytes become four letters, without padding: so records and the whole of them give the same.
constexpr std::size_t kRecordBytes = 1023;
constexpr std::size_t kLineBytes = kRecordBytes / 3 * 4;

// A program that reads `bytes` of records and writes `output`, which is what is digested.
LoopResult RunProgram(const Paths& words, const std::string& output, std::uint64_t bytes,
                      bool digest) {
  LoopResult result = RunChild(words, output);
  result.records = result.bytes = bytes;
  if (digest) result.digest = DigestOfFile(output);
  return result;
}

// Whether a flipped bit in the middle of the last of the files is found.
bool FindsDamage(const Paths& files, const std::string& scratch) {
  fs::copy_file(files.back(), scratch, fs::copy_options::overwrite_existing);
  std::fstream copy(scratch, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(scratch) / 2);
  copy.seekg(middle);
  const auto byte = static_cast<char>(copy.get());
  copy.seekp(middle);
  copy.put(static_cast<char>(byte ^ 1));
  copy.close();
  Paths words{RingfeedCommand(), "verify"};
  words.insert(words.end(), files.begin(), files.end());
  words.back() = scratch;
  int status = 0;
  RunChild(words, "/dev/null", &status);
  fs::remove(scratch);
  return status == 1;
}

// --- commands that read record files to their ends -----------------------------------------------

// Runs a command over files: what it says of each of them goes into *list.
LoopResult RunOverFiles(const std::string& command, const Paths& files, nlohmann::json* list) {
  const std::string output = files[0] + "." + command + ".json";
  Paths words{RingfeedCommand(), command, "--json"};
  words.insert(words.end(), files.begin(), files.end());
  LoopResult result = RunChild(words, output);
  *list = nlohmann::json::parse(ReadWhole(output)).at("files");
  fs::remove(output);
  for (const auto& file : *list) {
    result.records += file["records"].get<std::uint64_t>();
    result.bytes += file["payload_bytes"].get<std::uint64_t>();
  }
  return result;
}

LoopResult Verify(const Paths& files, bool digest) {
  nlohmann::json list;
  LoopResult result = RunOverFiles("verify", files, &list);
  result.digest = digest && FindsDamage(files, files.back() + ".damaged") ? 1 : 0;
  return result;
}

// Whether each checksum is right is all that it tells, and a wrong one ends it.
LoopResult VerifyLoop(const Paths& files, bool digest) {
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

LoopResult Digest(const Paths& files, bool digest) {
  nlohmann::json list;
  LoopResult result = RunOverFiles("digest", files, &list);
  BatchDigest all;
  for (const auto& file : list) AddFile(file["sha256"], file["multiset"], &all);
  result.digest = digest ? all.value() : 0;
  return result;
}

// One file's records, both checksums taken: every payload hashed by itself, and all of them after
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

LoopResult DigestLoop(const Paths& files, bool digest) {
  LoopResult result = Timed([&](LoopResult* sums, BatchDigest* all) {
    for (const std::string& file : files) DigestFile(file, sums, all);
  });
  if (!digest) result.digest = 0;
  return result;
}

// A command, and the loop that does the same work and finds out the same.
struct FileCommand {
  std::string name;
  LoopResult (*run)(const Paths& files, bool digest);
  LoopResult (*loop)(const Paths& files, bool digest);
};

LoopResult OneByOne(const FileCommand& command, const Paths& files) {
  LoopResult sum;
  for (const std::string& file : files) sum += command.run({file}, false);
  return sum;
}

BenchFiles Images(std::size_t files) {
  const BenchFiles images = ImageExamples(std::uint64_t{2} << 30, files);
  BringIntoMemory(images);
  return images;
}

Work LoopWork(const FileCommand& command) {
  return {{{command.name, kRecordsPerCpuS}}, [=] {
            const Paths files = Images(8).paths;
            return Digested([=](bool digest) { return command.run(files, digest); },
                            [=](bool digest) { return command.loop(files, digest); });
          }};
}

// Two files at once, against the command with one of them, and then with the other. Both sides'
// findings could be wrong in the same way: they are held against the loop's.
Work AtOnceWork(const FileCommand& command) {
  return {{{command.name + "_2_files", kGbPerS}}, [=] {
            const Paths files = Images(2).paths;
            return Digested([=](bool digest) { return command.run(files, digest); },
                            [=](bool digest) {
                              return digest ? command.loop(files, true) : OneByOne(command, files);
                            });
          }};
}

// --- commands that write -------------------------------------------------------------------------

// The same records as RecordIO, as nothing but their bytes, and as lines of base64.
struct Base64Files {
  std::string records;
  std::string bytes;
  std::string lines;
  std::uint64_t size = 0;
};

Base64Files MakeBase64Files() {
  Base64Files files;
  const std::uint64_t records = Sized(300'000, 1'000);
  const std::string rows = "rows:" + std::to_string(kRecordBytes);
  files.records = Texts("recordio:fluid,none", kRecordBytes, true, records, 1).paths[0];
  files.bytes = Texts(rows, kRecordBytes, true, records, 1).paths[0];
  files.lines = files.bytes + ".base64";
  files.size = fs::file_size(files.bytes);
  RunChild({"base64", "-w", std::to_string(kLineBytes), files.bytes}, files.lines);
  return files;
}

// Writes the file of records again, byte for byte: the baseline's bytes are what is in it.
Pair Encode() {
  const Base64Files files = MakeBase64Files();
  const std::string records = files.lines + ".recordio";
  const Paths words = {RingfeedCommand(), "encode",    "--to", "recordio:fluid,none",
                       "--input",         files.lines, records};
  const auto ours = [=](bool digest) {
    LoopResult result = RunProgram(words, "/dev/null", files.size, false);
    if (digest && ReadWhole(records) == ReadWhole(files.records)) {
      result.digest = DigestOfFile(files.bytes);
    }
    return result;
  };
  return Digested(ours, [=](bool digest) {
    return RunProgram({"base64", "-d", files.lines}, files.lines + ".decoded", files.size, digest);
  });
}

Pair Decode() {
  const Base64Files files = MakeBase64Files();
  const std::string output = files.lines + ".encoded";
  const Paths theirs = {"base64", "-w", std::to_string(kLineBytes), files.bytes};
  return Digested(
      [=](bool digest) {
        return RunProgram({RingfeedCommand(), "decode", files.records}, output, files.size, digest);
      },
      [=](bool digest) { return RunProgram(theirs, output, files.size, digest); });
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  const FileCommand verify{"command.verify", Verify, VerifyLoop};
  const FileCommand digest{"command.digest", Digest, DigestLoop};
  return {LoopWork(verify),
          LoopWork(digest),
          AtOnceWork(verify),
          AtOnceWork(digest),
          {{{"command.encode", kGbPerCpuS}}, Encode},
          {{{"command.decode", kGbPerCpuS}}, Decode}};
}

}  // namespace ringfeed::bench
