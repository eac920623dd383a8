// Records that other tools wrote: CSV, lines of JSON, rows and arrays of numbers, tar samples.
//
// Prints:
//   csv: x 0.5, name "first"
//   jsonl: 2 values
//   rows: label 3
//   tokens: 4 as int64
//   tar: key 7, members jpg
//   sequence: words int64 [-1]
//   bytes as they are: 5
//   inferred: jsonl, values float64 [2], kind 0 of letters
#include <filesystem>
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

std::string Text(const rf::Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), tensor.bytes};
}

rf::Instance ReadOne(rf::Reader records, std::shared_ptr<const rf::Parser> parser) {
  return rf::Parse(std::move(records), std::move(parser)).ReadNext();
}

/// The first row of each file names its columns.
void Csv() {
  std::ofstream("points.csv") << "x,name\n0.5,first\n";
  const rf::CsvColumns columns = rf::ReadCsvColumns({"points.csv"});
  const rf::CsvField x = {"x", rf::kFloat32, {}}, name = {"name", rf::kUInt8, {-1}};
  rf::CsvOptions options;
  options.header = columns.header;
  auto rows = rf::OpenFiles({"points.csv"}, {.format = columns.format});
  const rf::Instance row = ReadOne(rows, rf::CsvParser({x, name}, options));
  std::cout << "csv: x " << row["x"].Values<float>()[0] << ", name \"" << Text(row["name"])
            << "\"\n";
}

void JsonLines() {
  std::ofstream("values.jsonl") << R"({"values": [1, 2], "other": null})"
                                << "\n";
  const rf::Instance line = ReadOne(rf::OpenFiles({"values.jsonl"}),
                                    rf::JsonLinesParser({{"values", rf::kFloat32, {-1}}}));
  std::cout << "jsonl: " << line["values"].Values<float>().size() << " values\n";
}

/// A file without a name that says what it is: ReadAs, or OpenOptions::format.
void Rows() {
  std::ofstream("table.bin") << std::string("\x03\x00\x00\x00\x00\x00\x80\x3f", 8);
  auto rows = rf::ReadAs(rf::OpenFiles({"table.bin"}), "rows:8");
  const rf::Instance row =
      ReadOne(rows, rf::RowsParser({{"label", rf::kInt32, {}}, {"weight", rf::kFloat32, {}}}));
  std::cout << "rows: label " << row["label"].Values<std::int32_t>()[0] << "\n";
}

void Tokens() {
  std::ofstream("tokens.bin") << std::string(8, '\x01');
  const rf::TokensSpec spec = {.dtype = rf::kUInt16, .as = rf::kInt64};
  const rf::Instance record =
      ReadOne(rf::OpenFiles({"tokens.bin"}, {.format = "rows:8"}), rf::TokensParser(spec));
  std::cout << "tokens: " << record["tokens"].Values<std::int64_t>().size() << " as int64\n";
}

/// A member of a sample is a field (TarParser), or all of them are taken from the record.
void Tar() {
  const auto opened = rf::OpenRecordWriter("samples.tar", "tar:ext=jpg");
  if (!opened.status.ok()) throw rf::Error(opened.status);
  for (int sample = 0; sample < 8; ++sample) {
    const rf::Status status = opened.writer->Write(std::as_bytes(std::span("jpeg", 4)));
    if (!status.ok()) throw rf::Error(status);
  }
  if (!opened.writer->Close().ok()) throw rf::Error(opened.writer->Close());
  rf::Reader samples = rf::OpenFiles({"samples.tar"});
  rf::RecordBlock block;
  if (samples.TryReadBlock(&block) != rf::ReadResult::kRecord) throw rf::Error(samples.status());
  rf::TarSample sample;
  const rf::Status status = rf::SplitTarSample(block.records().back().bytes(), &sample);
  if (!status.ok()) throw rf::Error(status);
  std::cout << "tar: key " << std::stoi(sample.key) << ", members";
  for (const rf::TarMember& member : sample.members) std::cout << " " << member.extension;
  const rf::TarMember* const image = sample.Find("jpg");  // null if there is none
  if (image == nullptr || image->bytes.size() != 4) throw std::runtime_error("the image is gone");
  const rf::Instance row =
      ReadOne(rf::OpenFiles({"samples.tar"}), rf::TarParser({{"jpg;jpeg", rf::kUInt8, {-1}}}));
  if (row[0].bytes != 4) throw std::runtime_error("a member has other bytes");
  std::cout << "\n";
}

/// Of lists of features each step is a row; what a chain delivers can be asked before it reads.
void Sequences() {
  auto parser = rf::SequenceExampleParser({{"id", rf::kInt64, {}}}, {{"words", rf::kInt64, {-1}}});
  rf::Reader records = rf::Parse(rf::OpenFiles({"none.tfrecord"}), parser);
  const rf::FieldSpec words = records.fields()[1];
  std::cout << "sequence: " << words.name << " " << rf::DTypeName(words.dtype) << " "
            << rf::ShapeToString(words.shape) << "\n";
}

/// Files that say what their records hold: the parser is made of that. The folder is the label.
void Inferred() {
  std::filesystem::create_directory("letters");
  std::ofstream("letters/a.jsonl") << R"({"values": [1, 2.5]})"
                                   << "\n";
  const std::vector<std::string> files = {"letters"};
  const rf::InferredParser inferred = rf::InferParser(files);
  const rf::FeatureSpec& values = inferred.fields.front();
  const std::vector<std::string> folders = rf::FindFolders(files);
  const rf::Instance row = ReadOne(rf::OpenFiles(files, {.format = inferred.format}),
                                   rf::FolderLabelParser(inferred.parser, folders, "kind"));
  const auto kind = static_cast<std::size_t>(row["kind"].Values<std::int64_t>()[0]);
  std::cout << "inferred: " << inferred.name << ", " << values.name << " "
            << rf::DTypeName(values.dtype) << " " << rf::ShapeToString(values.shape) << ", kind "
            << kind << " of " << folders[kind] << "\n";
}

int main() try {
  Csv();
  JsonLines();
  Rows();
  Tokens();
  Tar();
  Sequences();
  std::ofstream("plain.txt") << "hello\n";
  const rf::Instance line = ReadOne(rf::OpenFiles({"plain.txt"}), rf::RawParser());
  std::cout << "bytes as they are: " << line["bytes"].bytes << "\n";
  Inferred();
} catch (const std::exception& error) {
  std::cerr << "text_and_tar: " << error.what() << "\n";
  return 1;
}
