#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "readers/formats/format.h"
#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {
namespace {

TEST(RegistryTest, UnknownFormatListsWhatThereIs) {
  const FormatResult found = FindFormat("parquet");
  EXPECT_EQ(found.format, nullptr);
  EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
  for (const std::string name : {"parquet", "tfrecord", "rows:BYTES", "raw"}) {
    EXPECT_NE(found.status.message().find(name), std::string::npos) << name;
  }
}

TEST(RegistryTest, TfRecordIsKnownByItsNames) {
  for (const std::string name :
       {"a.tfrecord", "/x/b.tfrecords", "train.tfrecord-00000-of-00010", "tfrecord-1-of-2"}) {
    const FormatResult found = DetectFormat(name, {});
    EXPECT_TRUE(found.status.ok()) << name;
  }
  for (const std::string name :
       {"a.bin", "train-00000-of-00010", "tfrecord-of-2", "tfrecord/x", "a.tfrecord/b"}) {
    EXPECT_EQ(DetectFormat(name, {}).format, nullptr) << name;
  }
}

TEST(RegistryTest, FailureSaysWhatWasLookedFor) {
  const auto said = [](const std::string& head) {
    const FormatResult found = DetectFormat("a.bin", std::as_bytes(std::span(head)));
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
    return found.status.message();
  };
  EXPECT_EQ(said("hello, this is a text file"),
            "the format of a.bin was not recognised by its name or its first bytes (nearest is "
            "lines: it is text)\n"
            "name it (format=, in C++ OpenOptions::format, for the command --format): most likely "
            "\"lines\", \"csv:header\" or \"jsonl\"; all: docs/FORMATS.md");
  EXPECT_EQ(said("\x01\x80\xff\xfe"),
            "the format of a.bin was not recognised by its name or its first bytes\n"
            "name it (format=, in C++ OpenOptions::format, for the command --format): most likely "
            "\"rows:BYTES\", \"tokens:u2\" or \"raw\"; all: docs/FORMATS.md");
  EXPECT_NE(
      said("\x01\xff\xfe\x04\x03\x02\x01").find("\"recordio\", \"rows:BYTES\" or \"tokens:u2\""),
      std::string::npos);
}

TEST(RegistryTest, AnUnknownFormatIsRefusedWithTheNearest) {
  EXPECT_EQ(FindFormat("tfrecrod").status.message(),
            "format \"tfrecrod\" is unknown; did you mean tfrecord?\n"
            "there are: tfrecord, recordio, ofrecord, rows, tar, npy, tokens, megatron, mds, "
            "litdata, arrayrecord, lines, jsonl, "
            "csv, tsv, raw; some take more (rows:BYTES), most +gzip, +zlib, +zstd, "
            "+bzip2, +xz, +lz4 or +brotli: "
            "docs/FORMATS.md");
  EXPECT_EQ(FindFormat("parquet").status.message().find("mean"), std::string::npos);
}

TEST(RegistryTest, SlipsInFormatsWithParametersAreRefusedWithTheNearest) {
  const auto said = [](std::string_view name) {
    const FormatResult found = FindFormat(name);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument) << name;
    return found.status.message();
  };
  const auto expect_nearest = [&](std::string_view name, const std::string& nearest) {
    const std::string all = said(name);
    EXPECT_NE(all.find("; did you mean " + nearest + "?"), std::string::npos) << all;
  };
  expect_nearest("tokns:u2", "tokens");
  expect_nearest("rwos:8", "rows");
  expect_nearest("cvs:header+gzip", "csv");
  expect_nearest("tfrecrod+zstd", "tfrecord");
  expect_nearest("tfrecord+gzp", "+gzip");
  expect_nearest("csv:headr", "header");
  expect_nearest("csv:header,delimitr=;", "delimiter=");
  expect_nearest("tsv:haeder=61", "header=");
  expect_nearest("tokens:u2,blok=5", "block=");
  expect_nearest("tokens:u2,block=1024,strde=512", "stride=");
  expect_nearest("tokens:u2,block=5,tail=drp", "tail=drop");
  expect_nearest("tokens:llcm", "llmc");
  expect_nearest("recordio:flluid", "fluid");
  expect_nearest("recordio:go,snapy", "snappy");
  expect_nearest("rows:8,heder=4", "header=");
  expect_nearest("rows:8,header=4,strid=16", "stride=");
  expect_nearest("tar:etx=jpg", "ext=");
  // The word is right, what is behind it is not; or it is like nothing.
  for (const char* name : {"tokens:u2,block=x", "tokens:u2,nothing", "csv:delimiter=\"", "csv:q",
                           "rows:8,stride=x", "recordio:q", "tar:q", "tfrecord+lzo"}) {
    EXPECT_EQ(said(name).find("did you mean"), std::string::npos) << said(name);
  }
}

TEST(RegistryTest, WhatIsKnownAndNotReadIsToldWithAWayToReadIt) {
  struct Case {
    std::string head;
    std::vector<std::string> words;
  };
  using namespace std::string_literals;
  const auto zip = [](const std::string& first) {
    return "PK\x03\x04" + std::string(22, '\0') + static_cast<char>(first.size()) + "\0\0\0"s +
           first;
  };
  const std::vector<Case> cases = {
      {"PAR1\x15\x04", {"Parquet", "ringfeed.parquet", "`ringfeed feed`", "convert"}},
      {"ARROW1\0\0"s, {"Arrow IPC (Feather)", "ringfeed.arrow_ipc"}},
      {"\xff\xff\xff\xff\x70\0\0\0"s, {"Arrow IPC stream", "ringfeed.arrow_ipc"}},
      {"ORC\x0a", {"ORC", "ringfeed.table("}},
      {zip("a.txt"), {"zip", "unpack"}},
      {zip("model/data.pkl"), {"PyTorch's .pt", "torch.load", ".npy"}},
      {zip("arr_0.npy"), {"NumPy's .npz", "unpack"}},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
       {"PyTorch's .pt", "torch.load"}},
      {"\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\""s, {"safetensors", "weights", ".npy"}},
      {"\x89HDF\r\n\x1a\n", {"HDF5", ".npy"}},
      {std::string(512, '\0') + "\x89HDF\r\n\x1a\n", {"HDF5 (MATLAB 7.3)", ".npy"}},
      {std::string(16, '\0') + "\xde\xc0\xef\xbe\x01\0\0\0"s, {"LMDB", "TFRecord"}},
      {"snappy\0"s, {"a snappy stream", "snzip"}},
      {"RIFF\x24\0\0\0WAVEfmt "s, {"WAV", "\"raw\""}},
      {"\0\0\0\x18"s + "ftypmp42", {"MP4", "\"raw\""}},
      {"\x89PNG\r\n\x1a\n", {"PNG", "\"raw\""}},
      {"\xff\xd8\xff\xe0", {"JPEG", "\"raw\""}},
      {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"s, {"BMP", "\"raw\""}},
      {"\x1c\0\0\0TFL3"s, {"TensorFlow Lite", "weights"}},
      {"TNTIDX\0\0\1"s, {"fairseq's index", "--dataset-impl mmap", "megatron"}},
      {"\x80\x04\x95 ", {"pickle", ".npy"}}};
  for (const Case& each : cases) {
    const std::string all =
        DetectFormat("a.bin", std::as_bytes(std::span(each.head))).status.message();
    for (const std::string& word : each.words) {
      EXPECT_NE(all.find(word), std::string::npos) << all;
    }
    EXPECT_LE(std::count(all.begin(), all.end(), '\n'), 2) << all;
    // Numbers or tokens made of such a file are garbage.
    for (const char* garbage : {"rows:", "tokens:", "csv:"}) {
      EXPECT_EQ(all.find(garbage), std::string::npos) << all;
    }
    const bool whole = each.words.back() == "\"raw\"";
    EXPECT_EQ(all.find("not read here") == std::string::npos, whole) << all;
  }
  // Words of text are none of these.
  for (const std::string text :
       {"column1,WAVE,x\n1,2,3\n", "the ftyp of it\n", "BM\n", "BMW and other makers of cars\n"}) {
    const std::string all = DetectFormat("a", std::as_bytes(std::span(text))).status.message();
    EXPECT_NE(all.find("nearest is lines"), std::string::npos) << all;
  }
  // Indexes that others leave beside their files: numbers, text, and a pickle.
  for (const std::string name : {"a.tar.idx", "a.jsonl.idx", "a.tfrecord.idx", "a.tar.index"}) {
    for (const std::string& head : {std::string(16, '\0'), "0 57\n57 60\n"s, "\x80\x04\x95 "s}) {
      const FormatResult found = DetectFormat(name, std::as_bytes(std::span(head)));
      EXPECT_EQ(found.status.code(), StatusCode::kUnsupported) << name;
      EXPECT_NE(found.status.message().find("name the file that it is of"), std::string::npos)
          << found.status.message();
    }
  }
  EXPECT_NE(DetectFormat("000005.ldb", {}).status.message().find("LevelDB"), std::string::npos);
  EXPECT_NE(DetectFormat("part.lance", {}).status.message().find("lance.dataset"),
            std::string::npos);
}

TEST(RegistryTest, FailureNamesWhatTheFileIsNearestTo) {
  const auto said = [](const std::string& head) {
    return DetectFormat("a.bin", std::as_bytes(std::span(head))).status.message();
  };
  EXPECT_NE(said("hello, this is a text file").find("nearest is lines"), std::string::npos);
  EXPECT_NE(said("PAR1 and so on").find("Parquet"), std::string::npos);
  EXPECT_NE(said(std::string(4096, '\0')).find("zeros"), std::string::npos);
  EXPECT_NE(said("").find("empty"), std::string::npos);
  EXPECT_NE(
      said("\x01\xff\xfe\x04\x03\x02\x01").find("recordio: its magic number stands at byte 3"),
      std::string::npos);
  std::string record = PlainHeader(20) + "\x0a" + std::string(19, 'x');
  record[9] = static_cast<char>(record[9] ^ 1);
  EXPECT_NE(said(record).find("nearest is tfrecord"), std::string::npos);
  const std::string like_ofrecord =
      std::string("\x14\0\0\0\0\0\0\0\x0a\xff\xff", 11) + std::string(20, '\xfe');
  EXPECT_NE(said(like_ofrecord).find("nearest is ofrecord"), std::string::npos);
  std::string tar(512, '\x01');
  tar.replace(257, 5, "ustar");
  EXPECT_NE(said(tar).find("nearest is tar"), std::string::npos);
  EXPECT_EQ(said("\x01\x80\xff\xfe").find("nearest"), std::string::npos);
}

TEST(RegistryTest, AFormatsNameSaysHowItIsCompressed) {
  const FormatResult found = FindFormat("csv:header+gzip");
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  EXPECT_EQ(found.compression, Compression::kGzip);
  EXPECT_EQ(FindFormat("tfrecord+zstd").compression, Compression::kZstd);
  EXPECT_EQ(FindFormat("tfrecord").compression, Compression::kNone);
  for (const char* name : {"raw+gzip", "rows:8+zlib", "tfrecord+lzo", "+gzip", "megatron+zstd"}) {
    EXPECT_FALSE(FindFormat(name).status.ok()) << name;
  }
}

TEST(RegistryTest, DamagedFirstRecordDoesNotHideTheFormat) {
  for (std::size_t size = 0; size < 2000; ++size) {
    std::string file = PlainHeader(size) + std::string(size, 'x');
    file[9] = static_cast<char>(file[9] ^ 1);
    EXPECT_TRUE(DetectFormat("a.tfrecord", std::as_bytes(std::span(file))).status.ok()) << size;
  }
}

TEST(RegistryTest, StripesAreCountedByTheBytesBegun) {
  const auto format = FindFormat("tfrecord").format;
  EXPECT_EQ(format->Stripes(0, 1024), 0U);
  EXPECT_EQ(format->Stripes(1, 1024), 1U);
  EXPECT_EQ(format->Stripes(1024, 1024), 1U);
  EXPECT_EQ(format->Stripes(1025, 1024), 2U);
}

// gzip of "hello, hello, hello\n" with a time, and zstd of the same, without what is damaged.
const std::string kGzip(
    "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\xd7\x51\xc8\x40\x90\x5c\0"
    "\x1e\x9c\x4c\xe4\x14\0\0\0",
    30);
const std::string kZstd("\x28\xb5\x2f\xfd\x20\x14\x75\0\0\x38hello, \x0a\x01\0\x54\xad\x33", 23);

FormatResult Detected(const std::string& name, const std::string& head) {
  return DetectFormat(name, std::as_bytes(std::span(head)));
}

TEST(RegistryTest, ADamagedMagicOfACompressedFileDoesNotMakeTextOfIt) {
  for (const auto& [ending, kind, bytes] : {std::tuple(".gz", Compression::kGzip, kGzip),
                                            std::tuple(".zst", Compression::kZstd, kZstd)}) {
    for (const std::string name : {"a.txt", "a.jsonl", "a.csv", "a.tsv", "a.ndjson"}) {
      for (std::size_t bit = 0; bit < 16; ++bit) {
        std::string file = bytes;
        file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8);
        const FormatResult found = Detected(name + ending, file);
        ASSERT_TRUE(found.status.ok()) << found.status.ToString();
        EXPECT_EQ(found.compression, kind) << name << ending << bit;
      }
      const FormatResult zeros = Detected(name + ending, std::string(512, '\0') + bytes);
      EXPECT_EQ(zeros.compression, kind);
      EXPECT_EQ(Detected(name + ending, bytes.substr(0, 2)).compression, kind);
      // What servers that decompress leave.
      const FormatResult plain = Detected(name + ending,
                                          "gr\xc3\xb6\xc3\x9f"
                                          "e\tplain text\r\n");
      ASSERT_TRUE(plain.status.ok());
      EXPECT_EQ(plain.compression, Compression::kNone);
    }
  }
}

TEST(RegistryTest, ANamedFormatIsNotReadFromADamagedCompressedFileEither) {
  std::string file = kGzip;
  file[0] ^= 1;
  EXPECT_EQ(ChooseFormat("lines", "a.gz", std::as_bytes(std::span(file))).compression,
            Compression::kGzip);
  // Its bytes are the user's own business.
  EXPECT_EQ(ChooseFormat("raw", "a.gz", std::as_bytes(std::span(file))).compression,
            Compression::kNone);
}

TEST(RegistryTest, WhyNothingOfACompressedFileComesIsToldWhereNothingTellsItsFormat) {
  std::string file = kGzip;
  file[2] = 9;
  const FormatResult found = Detected("a.gz", file);
  EXPECT_EQ(found.status.code(), StatusCode::kDamaged);
  EXPECT_NE(found.status.message().find("gzip"), std::string::npos) << found.status.message();
}

TEST(RegistryTest, ANameOfTextMakesNoTextOfWhatIsKnownToBeNone) {
  const std::string parquet("PAR1\x15\x04\x15\0\0", 9);
  for (const std::string name : {"a.csv", "a.txt", "a.jsonl"}) {
    const FormatResult found = Detected(name, parquet);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(found.status.message().find("Parquet"), std::string::npos);
    EXPECT_TRUE(Detected(name, "PAR1,PAR2\n1,2\n").status.ok());
  }
  const std::string snappy("snappy\0\x01\0\0\0", 11);
  for (const std::string format : {"lines", "csv:header", "jsonl"}) {
    const FormatResult found = ChooseFormat(format, "a.txt.sz", std::as_bytes(std::span(snappy)));
    EXPECT_EQ(found.status.code(), StatusCode::kUnsupported);
    EXPECT_NE(found.status.message().find("snappy"), std::string::npos);
  }
}

TEST(RegistryTest, TextInUtf16IsToldByItsNameWhereNothingElseTells) {
  const FormatResult found = Detected("a", "\xff\xfe" + std::string("i\0d\0\n\0", 6));
  EXPECT_EQ(found.status.code(), StatusCode::kUnsupported);
  EXPECT_NE(found.status.message().find("UTF-16"), std::string::npos);
}

TEST(RegistryTest, AFirstLineOfJsonDoesNotOverruleAName) {
  const std::string object = "{\"a\": 1}\n";
  EXPECT_EQ(Detected("a.txt", object).format->name(), "lines");
  EXPECT_EQ(Detected("a.csv", object).format->name(), "csv");
  EXPECT_EQ(Detected("a.tfrecord", object).format->name(), "tfrecord");
  EXPECT_EQ(Detected("a.json", object).format->name(), "jsonl");
  EXPECT_EQ(Detected("part-00000", object).format->name(), "jsonl");
  EXPECT_EQ(Detected("a.log", "\xef\xbb\xbf\n" + object).format->name(), "jsonl");
}

}  // namespace
}  // namespace ringfeed
