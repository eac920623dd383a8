// Records of the formats that have a builder: written, and read again by their parsers.
//
// Prints:
//   tf.Example: image 3 bytes, label 7
//   OFRecord: score 1.5, label 7, weight 2, number 4, name 3 bytes
//   LoDTensors: 3 words in rows of 2 and 1
//   Instance: 2 rows of x
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

/// A file of one record.
std::string WriteOne(const std::string& path, const std::string& format,
                     std::span<const std::byte> record) {
  const auto opened = rf::OpenRecordWriter(path, format);
  Need(opened.status);
  Need(opened.writer->Write(record));
  Need(opened.writer->Close());  // only now has the file its name
  return path;
}

rf::Instance ReadOne(const std::string& path, std::shared_ptr<const rf::Parser> parser) {
  rf::Reader batches = rf::Batch(rf::Parse(rf::OpenFiles({path}), std::move(parser)), {.size = 4});
  return batches.ReadNext();
}

void Examples() {
  const std::int64_t label = 7;
  rf::ExampleBuilder builder;
  const std::span<const std::byte> words[] = {std::as_bytes(std::span("one", 3)),
                                              std::as_bytes(std::span("two", 3))};
  builder.AddBytes("image", "abc");
  builder.AddInts("label", std::span(&label, 1));
  builder.AddBytesList("words", words);  // two strings
  const std::string path = WriteOne("one.tfrecord", "tfrecord", builder.Finish());
  const std::vector<rf::FeatureSpec> features = {{"image", rf::kUInt8, {-1}},
                                                 {"label", rf::kInt64, {}}};
  const rf::Instance batch = ReadOne(path, rf::ExampleParser(features));
  std::cout << "tf.Example: image " << batch["image"].bytes << " bytes, label "
            << batch["label"].Values<std::int64_t>()[0] << "\n";
}

void OFRecords() {
  const double score = 1.5;
  const std::int32_t label = 7;
  rf::OFRecordBuilder builder;
  const float weights[] = {1, 2};
  const std::span<const std::byte> words[] = {std::as_bytes(std::span("one", 3)),
                                              std::as_bytes(std::span("two", 3))};
  const std::int64_t numbers[] = {3, 4};
  builder.AddDoubles("score", std::span(&score, 1)).AddInt32s("label", std::span(&label, 1));
  builder.AddFloats("weights", weights);
  builder.AddInts("numbers", numbers);
  builder.AddBytes("name", "one");
  builder.AddBytesList("words", words);
  const std::string path = WriteOne("one.ofrecord", "ofrecord", builder.Finish());
  const rf::OFRecordFeatureSpec wanted = {"score", rf::kFloat32, {}};
  const rf::Instance batch = ReadOne(path, rf::OFRecordParser({wanted,
                                                               {"label", rf::kInt64, {}},
                                                               {"weights", rf::kFloat32, {2}},
                                                               {"numbers", rf::kInt64, {2}},
                                                               {"name", rf::kUInt8, {-1}}}));
  std::cout << "OFRecord: score " << batch["score"].Values<float>()[0] << ", label "
            << batch["label"].Values<std::int64_t>()[0] << ", weight "
            << batch["weights"].Values<float>()[1] << ", number "
            << batch["numbers"].Values<std::int64_t>()[1] << ", name " << batch["name"].bytes
            << " bytes\n";
}

void LoDTensors() {
  rf::LoDTensorBuilder builder;
  builder.Add(rf::MakeRagged(std::vector<std::int64_t>{4, 5, 6}, {2, 1}));
  const std::string path = WriteOne("one.recordio", "recordio", builder.Finish());
  const rf::LoDTensorSpec words = {"words", rf::kInt64, {-1}, 1};
  const rf::Instance batch = ReadOne(path, rf::LoDTensorParser({words}));
  const auto offsets = batch["words"].lod[0];
  std::cout << "LoDTensors: " << batch["words"].shape[0] << " words in rows of " << offsets[1]
            << " and " << offsets[2] - offsets[1] << "\n";
}

void Instances() {
  rf::InstanceBuilder builder;
  builder.Add("x", rf::MakeTensor({2, 2}, std::vector<float>{1, 2, 3, 4}));
  const auto first = builder.Finish();
  const std::vector<std::byte> record(first.begin(), first.end());
  rf::InstanceBuilder more;  // what is not replaced stays as it is
  Need(more.StartFrom(record));
  more.Add("y", rf::MakeScalar<std::int64_t>(1));
  const std::string path = WriteOne("instances-1.recordio", "recordio", more.Finish());
  const rf::Instance batch = ReadOne(path, rf::InstanceProtoParser({{"x", rf::kFloat32, {-1, 2}}}));
  std::cout << "Instance: " << batch["x"].shape[0] << " rows of x\n";
}

int main() try {
  Examples();
  OFRecords();
  LoDTensors();
  Instances();
} catch (const std::exception& error) {
  std::cerr << "record_formats: " << error.what() << "\n";
  return 1;
}
