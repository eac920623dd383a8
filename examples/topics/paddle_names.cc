// Paddle's readers by their names there, and kinds of readers by name and attributes.
//
// Prints:
//   2 batches in 2 passes
//   3 instances at once
//   create_batch_reader: batch_size integer discard_leftover boolean
#include <iostream>

#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Three LoDTensor records.
void WriteRecords(const std::string& path) {
  const auto opened = rf::OpenRecordWriter(path, "recordio");
  if (!opened.status.ok()) throw rf::Error(opened.status);
  rf::LoDTensorBuilder builder;
  for (float x = 0; x < 3; ++x) {
    builder.Add(rf::MakeTensor({1, 2}, std::vector{x, x}));
    if (const auto status = opened.writer->Write(builder.Finish()); !status.ok())
      throw rf::Error(status);
  }
  if (const auto status = opened.writer->Close(); !status.ok()) throw rf::Error(status);
}

rf::Reader Records() {
  const rf::ReaderBase files = rf::MultipleReader({"one.recordio"}, true);
  return rf::Parse(files, rf::LoDTensorParser({{"x", rf::kFloat32, {-1, 2}}}));
}

int main() try {
  WriteRecords("one.recordio");
  const rf::ShuffleReader shuffled(Records(), 3, 7);
  const rf::MultiPassReader passes(shuffled, 2);
  const rf::BatchReader batches(passes, 3);
  const rf::Preprocessor halved(batches, {{"x", rf::kFloat32, {-1, 2}}},
                                [](const rf::Instance& in, rf::Instance* out) {
                                  std::vector<float> values;
                                  for (const float x : in["x"].Values<float>())
                                    values.push_back(x / 2);
                                  *out = {rf::MakeTensor(in["x"].shape, std::move(values))};
                                });
  rf::DoubleBufferReader buffered(halved);
  int count = 0;
  while (buffered.HasNext()) buffered.ReadNext(), ++count;
  std::cout << count << " batches in 2 passes\n"
            << rf::ReadRecordIo(Records(), 10).size() << " instances at once\n";

  for (const rf::ReaderKind& kind : rf::RegisteredReaders()) {
    if (kind.name != "create_batch_reader") continue;
    std::cout << kind.name << ":";
    for (const rf::AttributeSpec& attribute : kind.attributes) {
      std::cout << " " << attribute.name << " " << rf::AttributeTypeName(attribute.type);
    }
    std::cout << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "paddle_names: " << error.what() << "\n";
  return 1;
}
