// A loader of one's own: lines "x,y" in part files, a data set, a parser and a decoder, and a line
// fitted to what they deliver. mini_loader FOLDER, where part-000 and part-001 are.

#include <cstdio>
#include <cstring>

#include "ringfeed/compat/data_reader.h"
#include "ringfeed/compat/part_files.h"
#include "ringfeed/compat/persistent_in_stream.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

// Every line is a sample.
class MiniDataset final : public rf::Dataset {
 public:
  explicit MiniDataset(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  bool Next(std::string* sample) override { return parts_.ReadLine(sample); }
  bool ReInit() override { return parts_.Rewind(), true; }

 private:
  rf::PersistentInStream parts_;
};

// A sample is two numbers.
class MiniParser final : public rf::SampleParser {
 public:
  std::vector<rf::FieldSpec> fields() const override { return {{"pair", rf::kFloat32, {2}}}; }
  void Parse(std::string_view line, rf::RowWriter& row) const override {
    float pair[2];
    if (std::sscanf(std::string(line).c_str(), "%f,%f", &pair[0], &pair[1]) != 2) {
      throw std::invalid_argument("no two numbers: " + std::string(line));
    }
    std::memcpy(row.Fixed(0).data(), pair, sizeof(pair));
  }
};

// The two are columns.
void MiniDecoder(const rf::MapInput& input, rf::RowWriter& row) {
  const auto pair = (*input.fields)["pair"].Values<float>();
  for (std::size_t i = 0; i < 2; ++i) std::memcpy(row.Fixed(i).data(), &pair[i], sizeof(float));
}

rf::Reader Samples(const std::string& folder, std::uint64_t passes) {
  const auto parts =
      rf::PartFileNames({.data_dir = folder, .data_part_num = 2, .part_name_suffix_length = 3});
  auto lines = rf::FromDataset(std::make_unique<MiniDataset>(parts));
  auto pairs = rf::ParseSamples(lines, std::make_shared<MiniParser>());
  auto columns = rf::Map(pairs, {{"x", rf::kFloat32, {}}, {"y", rf::kFloat32, {}}}, MiniDecoder);
  return rf::MultiPass(rf::RandomShuffleDataset(columns), passes);
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : ".";
  rf::RegisterReader("mini_reader", {{"data_dir", rf::AttributeType::kText}},
                     [](const auto& is, auto&, auto*) { return Samples(is.Text("data_dir"), 1); });
  rf::DataReader pass(rf::CreateReader("mini_reader", {{"data_dir", folder}}), {.batch_size = 1});
  int samples = 0;
  for (rf::Instance one; pass.Read(&one);) ++samples;
  std::printf("%d samples a pass\n", samples);
  rf::DataReader reader(Samples(folder, 0), {.batch_size = 10});
  double weight = 0, bias = 0, loss = 0;
  rf::Instance batch;
  for (int i = 1; i <= 1000 && reader.Read(&batch); ++i) {
    const auto x = batch["x"].Values<float>(), y = batch["y"].Values<float>();
    for (std::size_t row = 0; row < x.size(); ++row) {
      const double off = weight * x[row] + bias - y[row];
      weight -= 0.001 * off * x[row];
      bias -= 0.001 * off;
      loss += off * off / (100.0 * 10);
    }
    if (i % 100 == 0) std::printf("%d/1000: %g\n", i, std::exchange(loss, 0));
  }
  std::printf("y = %g x + %g\n", weight, bias);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
