#include "bench/bench_data.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <span>

#include "bench/harness.h"
#include "io/page_cache.h"
#include "ringfeed/formats.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFloats = 13;
constexpr std::size_t kInts = 26;

// A row of a click log.
struct ClickRow {
  std::array<float, kFloats> floats;
  std::array<std::int64_t, kInts> ints;
  std::int64_t label;
};

void Require(const Status& status) {
  if (!status.ok()) throw Error(status);
}

fs::path DataFolder() {
  const char* named = std::getenv("RINGFEED_BENCH_DATA");
  if (named != nullptr) return named;
  return fs::temp_directory_path() / ("ringfeed-bench-" + std::to_string(::getuid()));
}

// std::mt19937_64 is the same everywhere, the distributions of <random> are not.
double Uniform(std::mt19937_64* random) {
  return static_cast<double>((*random)() >> 11) * 0x1.0p-53;
}

double Normal(std::mt19937_64* random) {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(random)));
  return radius * std::cos(6.283185307179586 * Uniform(random));
}

ClickRow DrawRow(std::mt19937_64* random) {
  ClickRow row;
  for (float& value : row.floats) value = static_cast<float>(Uniform(random));
  for (std::int64_t& value : row.ints) value = static_cast<std::int64_t>((*random)() >> 32);
  row.label = static_cast<std::int64_t>((*random)() % 4 == 0);
  return row;
}

using RecordMaker =
    std::function<std::span<const std::byte>(std::mt19937_64*, std::vector<std::byte>*)>;

std::string EndingOf(const std::string& format) {
  const std::string family = format.substr(0, format.find_first_of(":+"));
  return (family == "lines" ? ".txt" : "." + family) + (format.ends_with("+gzip") ? ".gz" : "");
}

// Makes what is missing of `files` files of `records` records in all.
BenchFiles MakeFiles(const std::string& kind, const std::string& format, std::uint64_t records,
                     std::size_t files, const RecordMaker& make) {
  const fs::path folder = DataFolder();
  fs::create_directories(folder);
  BenchFiles made;
  made.records = records;
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < files; ++i) {
    const std::uint64_t own = records / files + (i < records % files ? 1 : 0);
    const fs::path path =
        folder / (kind + "-v1-" + std::to_string(records) + "-" + std::to_string(i) + "-of-" +
                  std::to_string(files) + EndingOf(format));
    if (!fs::exists(path)) {
      std::mt19937_64 random(i + 1);
      RecordWriterResult out = OpenRecordWriter(path.string(), format);
      Require(out.status);
      for (std::uint64_t r = 0; r < own; ++r) Require(out.writer->Write(make(&random, &buffer)));
      Require(out.writer->Close());
    }
    made.paths.push_back(path.string());
    made.bytes += fs::file_size(path);
  }
  return made;
}

// Log-normal with a mean of 110 KB, cut if a record would be a curiosity.
std::size_t DrawImageBytes(std::mt19937_64* random) {
  constexpr double kMean = 110000;
  constexpr double kSigma = 0.5;
  const double drawn = kMean * std::exp(kSigma * Normal(random) - kSigma * kSigma / 2);
  return static_cast<std::size_t>(std::clamp(drawn, 4096.0, 500000.0));
}

std::span<const std::byte> DrawBytes(std::size_t bytes, std::mt19937_64* random,
                                     std::vector<std::byte>* drawn) {
  drawn->resize(bytes);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    const std::uint64_t word = (*random)();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, drawn->data() + i);
  }
  return *drawn;
}

std::span<const std::byte> DrawImage(std::mt19937_64* random, std::vector<std::byte>* image) {
  return DrawBytes(DrawImageBytes(random), random, image);
}

std::uint64_t ImagesOf(std::uint64_t total_bytes, std::size_t image_bytes = 110000) {
  return std::max<std::uint64_t>(Sized(total_bytes, std::uint64_t{4} << 20) / image_bytes, 8);
}

// Words of two to nine letters, the first ones far more often than the last.
std::vector<std::string> MakeWords() {
  std::mt19937_64 random(1);
  std::vector<std::string> words(4096);
  for (std::string& word : words) {
    word.resize(2 + random() % 8);
    for (char& letter : word) letter = static_cast<char>('a' + random() % 26);
  }
  return words;
}

void AppendWords(std::size_t bytes, std::mt19937_64* random, std::vector<std::byte>* text) {
  static const std::vector<std::string> kWords = MakeWords();
  while (text->size() < bytes) {
    const double share = Uniform(random);
    const auto number = static_cast<std::size_t>(share * share * share * 4096);
    const auto word = std::as_bytes(std::span(kWords[number]));
    text->insert(text->end(), word.begin(), word.end());
    text->push_back(std::byte{' '});
  }
}

}  // namespace

void BringIntoMemory(const BenchFiles& files) {
  for (const std::string& path : files.paths) Require(BringIntoPageCache(path));
}

BenchFiles ImageExamples(std::uint64_t total_bytes, std::size_t files, std::size_t image_bytes) {
  ExampleBuilder builder;
  const bool fixed = image_bytes > 0;
  return MakeFiles(fixed ? "images-" + std::to_string(image_bytes) : "images", "tfrecord",
                   fixed ? ImagesOf(total_bytes, image_bytes) : ImagesOf(total_bytes), files,
                   [&](std::mt19937_64* random, std::vector<std::byte>* image) {
                     DrawBytes(fixed ? image_bytes : DrawImageBytes(random), random, image);
                     const auto label = static_cast<std::int64_t>((*random)() % 1000);
                     builder.AddBytes("image", *image).AddInts("label", {&label, 1});
                     return builder.Finish();
                   });
}

BenchFiles SmallExamples(std::uint64_t records, std::size_t files) {
  ExampleBuilder builder;
  return MakeFiles("small", "tfrecord", records, files,
                   [&](std::mt19937_64* random, std::vector<std::byte>*) {
                     const ClickRow row = DrawRow(random);
                     builder.AddFloats("dense", row.floats)
                         .AddInts("sparse", row.ints)
                         .AddInts("label", {&row.label, 1});
                     return builder.Finish();
                   });
}

BenchFiles FortyFeatureExamples(std::uint64_t records, std::size_t files) {
  ExampleBuilder builder;
  return MakeFiles("forty", "tfrecord", records, files,
                   [&](std::mt19937_64* random, std::vector<std::byte>*) {
                     const ClickRow row = DrawRow(random);
                     builder.AddInts("label", {&row.label, 1});
                     for (std::size_t i = 0; i < kFloats; ++i) {
                       builder.AddFloats("i" + std::to_string(i + 1), {&row.floats[i], 1});
                     }
                     for (std::size_t i = 0; i < kInts; ++i) {
                       builder.AddInts("c" + std::to_string(i + 1), {&row.ints[i], 1});
                     }
                     return builder.Finish();
                   });
}

BenchFiles Texts(const std::string& format, std::size_t bytes, bool exactly, std::uint64_t records,
                 std::size_t files) {
  const std::string compressor = format.find("snappy") != std::string::npos ? "-snappy" : "";
  const std::string kind = "texts-" + std::to_string(bytes) + compressor;
  return MakeFiles(kind, format, records, files,
                   [=](std::mt19937_64* random, std::vector<std::byte>* text) {
                     text->clear();
                     // Half as long to half as long again, if they need not be the same.
                     AppendWords(exactly ? bytes : bytes / 2 + (*random)() % bytes, random, text);
                     if (exactly) text->resize(bytes);
                     return std::span<const std::byte>(*text);
                   });
}

BenchFiles TwoNumberLines(std::uint64_t records, std::size_t files) {
  std::array<char, 64> line;
  return MakeFiles(
      "numbers", "csv", records, files, [&](std::mt19937_64* random, std::vector<std::byte>*) {
        const double first = 2 * Uniform(random) - 1;
        const double second = 2 * Uniform(random) - 1;
        const int bytes = std::snprintf(line.data(), line.size(), "%.17g,%.17g", first, second);
        return std::as_bytes(std::span(line).first(static_cast<std::size_t>(bytes)));
      });
}

BenchFiles OfRecords(std::uint64_t records, std::size_t files) {
  OFRecordBuilder builder;
  return MakeFiles("sixteen", "ofrecord", records, files,
                   [&](std::mt19937_64* random, std::vector<std::byte>*) {
                     std::array<float, 16> floats;
                     for (float& value : floats) value = static_cast<float>(Uniform(random));
                     const auto label = static_cast<std::int32_t>((*random)() % 100);
                     builder.AddFloats("x", floats).AddInt32s("label", {&label, 1});
                     return builder.Finish();
                   });
}

BenchFiles TarSamples(std::uint64_t total_bytes, std::size_t files) {
  return MakeFiles("samples", "tar:ext=jpg", ImagesOf(total_bytes), files, DrawImage);
}

BenchFiles Rows160(std::uint64_t records, std::size_t files) {
  struct PackedRow {
    std::array<float, kFloats> floats;
    std::array<std::int32_t, kInts + 1> ints;
  } row;
  return MakeFiles("rows", "rows:160", records, files,
                   [&](std::mt19937_64* random, std::vector<std::byte>*) {
                     const ClickRow drawn = DrawRow(random);
                     row.floats = drawn.floats;
                     for (std::size_t i = 0; i < kInts; ++i)
                       row.ints[i] = static_cast<std::int32_t>(drawn.ints[i]);
                     row.ints[kInts] = static_cast<std::int32_t>(drawn.label);
                     return std::as_bytes(std::span(&row, 1));
                   });
}

BenchFiles RandomRows(const std::string& kind, const std::string& format, std::size_t row_bytes,
                      std::uint64_t records, std::size_t files) {
  return MakeFiles(kind, format, records, files,
                   [row_bytes](std::mt19937_64* random, std::vector<std::byte>* row) {
                     return DrawBytes(row_bytes, random, row);
                   });
}

}  // namespace ringfeed::bench
