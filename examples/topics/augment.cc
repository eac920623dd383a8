// Augmentation: a function that knows its row, draws random numbers and refuses what it cannot use.
// Two ranks go on where one stopped, and get what one would have got.
//
// Prints:
//   refused: record 7: the Map function refused the row: no weight at byte 56
//   the same by two ranks after batch 2: yes
//   new in the next epoch: yes
//   ragged rows in place: 4 values of 4
//   given up: 0, the slowest row is known: yes
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Adds noise to a sample's weight. The noise depends on the seed, the epoch and the record alone.
void AddNoise(const rf::MapInput& input, rf::RowWriter& output) {
  const float weight = (*input.fields)["weight"].Values<float>()[0];
  if (weight < 0) return output.Skip("no weight at byte " + std::to_string(input.Place().offset));
  const rf::RowDraws draws = input.Draws();  // may be kept; input.Draw(k) is the same
  const bool flipped = input.Draw(0) % 2 == 1;
  const float noise = static_cast<float>(draws(1) >> 11) * 0x1p-53F;
  const float noisy = flipped ? -weight - noise : weight + noise;
  std::memcpy(output.Fixed(0).data(), &noisy, sizeof(noisy));
}

rf::Reader Samples(const rf::Rank& rank, std::uint32_t epoch) {
  rf::OpenOptions options;
  options.format = "rows:8";
  options.on_damage = rf::OnDamage::kSkip;
  options.first_epoch = epoch;
  rf::Reader rows = rf::Shuffle(rf::OpenFiles({"samples"}, options),
                                {.seed = 1, .mode = rf::ShuffleMode::kGlobal});
  rows = rf::Parse(rows, rf::RowsParser({{"id", rf::kInt32, {}}, {"weight", rf::kFloat32, {}}}));
  rows = rf::Map(rows, {{"noisy", rf::kFloat32, {}}}, AddNoise,
                 rf::MapOptions{.keep = {"id"}, .seed = 2, .row_timeout_ms = 60'000});
  return rf::Batch(rows, {.size = 4, .rank = rank});
}

/// The noisy weights by id, added to what is there.
void Read(rf::Reader& reader, std::size_t batches, std::vector<float>* noisy) {
  rf::Instance batch;
  while (batches-- > 0 && reader.TryReadNext(&batch) == rf::ReadResult::kRecord) {
    const auto ids = batch["id"].Values<std::int32_t>();
    for (std::size_t row = 0; row < ids.size(); ++row) {
      (*noisy)[static_cast<std::size_t>(ids[row])] = batch["noisy"].Values<float>()[row];
    }
  }
}

/// A row of as many values as its record has bytes, written to where the batch copies it from.
void InPlace() {
  std::ofstream("words.txt") << "four\n";
  rf::Reader letters = rf::Map(rf::OpenFiles({"words.txt"}), {{"letters", rf::kUInt8, {-1}}},
                               [](const rf::MapInput& input, rf::RowWriter& output) {
                                 const std::span<std::byte> place = output.Reserve(0, 64);
                                 const auto record = input.record.bytes();
                                 std::copy(record.begin(), record.end(), place.begin());
                                 output.Ragged(0, place.first(record.size()));
                               });
  const rf::Instance batch = rf::Batch(letters, {.size = 1}).ReadNext();
  std::cout << "ragged rows in place: " << batch["letters"].bytes << " values of "
            << batch["letters"].lod[0][1] << "\n";
}

int main() try {
  std::ofstream file("samples", std::ios::binary);
  for (std::int32_t id = 0; id < 16; ++id) {
    const float weight = id == 7 ? -1.0F : static_cast<float>(id);
    file.write(reinterpret_cast<const char*>(&id), sizeof(id));
    file.write(reinterpret_cast<const char*>(&weight), sizeof(weight));
  }
  file.close();

  std::vector<float> whole(16);
  rf::Reader reader = Samples({}, 0);
  Read(reader, 100, &whole);
  const rf::PipelineStats stats = reader.Stats();
  std::cout << "refused: " << stats.damage.at(0).reason << "\n";

  // One rank, then two from its position on.
  std::vector<float> parts(16);
  rf::Reader first = Samples({}, 0);
  Read(first, 2, &parts);
  for (int rank = 0; rank < 2; ++rank) {
    rf::Reader rest = Samples({.rank = rank, .world_size = 2}, 0);
    rest.Restore(first.Position());
    Read(rest, 100, &parts);
  }
  std::cout << "the same by two ranks after batch 2: " << (parts == whole ? "yes" : "no") << "\n";

  std::vector<float> next(16);
  rf::Reader second = Samples({}, 1);
  Read(second, 100, &next);
  std::cout << "new in the next epoch: " << (next != whole ? "yes" : "no") << "\n";
  InPlace();

  const std::vector<rf::SlowRow>& slowest = stats.slowest_rows;
  std::cout << "given up: " << stats.given_up_rows << ", the slowest row is known: "
            << (!slowest.empty() && slowest[0].file == "samples" ? "yes" : "no") << "\n";
} catch (const std::exception& error) {
  std::cerr << "augment: " << error.what() << "\n";
  return 1;
}
