// The command as a user runs it, with its start, beside loops and programs that do the same: see
// paired_rows.h for how to run it. CPU seconds are those of the whole process.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/bare_loop.h"
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

// Whether a flipped bit in the middle of a file is found.
bool FindsDamage(const std::string& file, const std::string& scratch) {
  fs::copy_file(file, scratch, fs::copy_options::overwrite_existing);
  std::fstream copy(scratch, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(scratch) / 2);
  copy.seekg(middle);
  const auto byte = static_cast<char>(copy.get());
  copy.seekp(middle);
  copy.put(static_cast<char>(byte ^ 1));
  copy.close();
  const int status = RunChild({RingfeedCommand(), "verify", scratch}, "/dev/null").exit_status;
  fs::remove(scratch);
  return status == 1;
}

LoopResult Verify(const std::vector<std::string>& files, bool digest) {
  const std::string output = files[0] + ".verified.json";
  std::vector<std::string> words{RingfeedCommand(), "verify", "--json"};
  words.insert(words.end(), files.begin(), files.end());
  LoopResult result = Taken(RunChild(words, output), "verify");
  for (const auto& file : nlohmann::json::parse(ReadWhole(output))) {
    result.records += file["records"].get<std::uint64_t>();
    result.bytes += file["payload_bytes"].get<std::uint64_t>();
  }
  fs::remove(output);
  result.digest = digest && FindsDamage(files[0], files[0] + ".damaged") ? 1 : 0;
  return result;
}

PairedRow VerifyRow(const BenchFiles& files) {
  return {"command.verify", "records/CPU s",
          [=](bool digest) { return Verify(files.paths, digest); },
          [=](bool digest) {
            LoopResult result = BareFrameLoop(files.paths, {1, false});
            result.digest = digest ? 1 : 0;
            return result;
          }};
}

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
  const bool smoke = SmokeRun();
  const Base64Files files = MakeBase64Files(smoke ? 1000 : 300'000);
  return {VerifyRow(ImageExamples(smoke ? std::uint64_t{4} << 20 : std::uint64_t{2} << 30, 8)),
          EncodeRow(files), DecodeRow(files)};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
