// JPEG images in tar samples to rows of pixels: their centres, random crops, and crops whose pixels
// are augmented. Two ranks stop in the middle and three go on, and no pixel is another one.
//
// Prints:
//   centre: uint8 [4, 4, 3], 200 and 60
//   gray: 4 rows of 16 bytes
//   random: the same in each run, and another one in the next epoch
//   augmented: 30 images, each once and with the same pixels by two ranks and then three
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringfeed/jpeg.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// The byte of Image that says how much its left and right half differ.
constexpr std::size_t kContrast = 26;

/// A gray image of 8 by 8 pixels, the left half bright and the right one dark. The number says by
/// how much.
std::string Image(int number = 0) {
  const std::string hex =
      "ffd8ffe000104a46494600010100000100010000ffdb004300080606070605080707070909080a0c140d0c0b0b0c"
      "1912130f141d1a1f1e1d1a1c1c20242e2720222c231c1c2837292c30313434341f27393d38323c2e333432ffc000"
      "0b080008000801011100ffc40014000100000000000000000000000000000002ffc4001810000203000000000000"
      "0000000000000000074583c2ffda0008010100003f004d589bb07fffd9";
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  bytes[kContrast] = static_cast<char>(bytes[kContrast] - number % 6);
  return bytes;
}

rf::Reader Samples(std::uint32_t epoch = 0) {
  return rf::Parse(rf::OpenFiles({"images.tar"}, {.first_epoch = epoch}),
                   rf::TarParser({{"jpg", rf::kUInt8, {-1}}}));
}

/// A sample's crop depends on the seed, the epoch and its place alone: not on who reads it, and
/// when.
rf::jpeg::Crop RandomPart(const rf::jpeg::ImageSize& image, const rf::MapInput& input) {
  const rf::jpeg::RandomCropOptions half = {.min_area = 0.5, .flip = 0};
  return rf::jpeg::RandomCrop(image, half, input.Draws());
}

std::string RandomPixels(std::uint32_t epoch) {
  const rf::jpeg::DecodeOptions options = {.height = 4, .width = 4, .crop = RandomPart, .seed = 7};
  const rf::Instance batch =
      rf::Batch(rf::jpeg::Decode(Samples(epoch), options), {.size = 4}).ReadNext();
  const auto pixels = batch["jpg"].Values<char>();
  return {pixels.begin(), pixels.end()};
}

/// The pixels of each image by its number, of whichever ranks.
using Images = std::map<std::int64_t, std::string>;

constexpr int kImages = 30;
constexpr std::size_t kPixels = std::size_t{4} * 4 * 3;

/// Writes the crop's pixels brighter or darker, as the image's own random numbers say.
void Brighten(const rf::MapInput& input, rf::RowWriter& output) {
  const auto pixels = (*input.fields)["jpg"].Values<std::uint8_t>();
  const auto change = static_cast<int>(input.Draw(0) % 81) - 40;
  const std::span<std::byte> brightened = output.Fixed(0);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    brightened[i] = static_cast<std::byte>(std::clamp(int{pixels[i]} + change, 0, 255));
  }
  const auto number = static_cast<std::int64_t>(input.Place().record);
  std::ranges::copy(std::as_bytes(std::span(&number, 1)), output.Fixed(1).begin());
}

/// A rank's part of batches of 6 images: decoded, cropped and brightened by several threads.
rf::Reader Augmented(const rf::Rank& rank) {
  const rf::Reader samples = rf::Parse(
      rf::Shuffle(rf::OpenFiles({"many.tar"}), {.seed = 7, .mode = rf::ShuffleMode::kGlobal}),
      rf::TarParser({{"jpg", rf::kUInt8, {-1}}}));
  const rf::Reader crops =
      rf::jpeg::Decode(samples, {.height = 4, .width = 4, .crop = RandomPart, .seed = 7});
  const rf::Reader rows =
      rf::Map(crops, {{"pixels", rf::kUInt8, {4, 4, 3}}, {"number", rf::kInt64, {}}}, Brighten,
              rf::MapOptions{.seed = 8});
  return rf::Batch(rows, {.size = 6, .rank = rank});
}

/// What so many ranks make of so many batches, from a position on; where they stand then.
std::string Take(int ranks, std::size_t batches, const std::string& position, Images* images) {
  std::string stopped;
  for (int rank = 0; rank < ranks; ++rank) {
    rf::Reader reader = Augmented({.rank = rank, .world_size = ranks});
    if (!position.empty()) reader.Restore(position);
    for (std::size_t batch = 0; batch < batches && reader.HasNext(); ++batch) {
      const rf::Instance rows = reader.ReadNext();
      const auto numbers = rows["number"].Values<std::int64_t>();
      const auto pixels = rows["pixels"].Values<char>();
      for (std::size_t row = 0; row < numbers.size(); ++row) {
        const auto begin = pixels.begin() + static_cast<std::ptrdiff_t>(row * kPixels);
        const std::string image(begin, begin + kPixels);
        if (!images->emplace(numbers[row], image).second) throw std::logic_error("an image twice");
      }
    }
    stopped = reader.Position();  // the same on all ranks
  }
  return stopped;
}

/// Throws if a stop and other ranks change a pixel.
void Augment() {
  const auto opened = rf::OpenRecordWriter("many.tar", "tar:ext=jpg");
  for (int i = 0; i < kImages; ++i) {
    const std::string image = Image(i);
    (void)opened.writer->Write(std::as_bytes(std::span(image)));
  }
  if (!opened.writer->Close().ok()) throw std::runtime_error("many.tar is not written");

  Images undisturbed, resumed;
  Take(1, kImages, "", &undisturbed);
  const std::string position = Take(2, 2, "", &resumed);
  Take(3, kImages, position, &resumed);
  if (undisturbed.size() != kImages) throw std::logic_error("an image is missing");
  if (resumed != undisturbed) throw std::logic_error("the resumed run has other pixels");
  std::cout << "augmented: " << resumed.size()
            << " images, each once and with the same pixels by two ranks and then three\n";
}

int main() try {
  const auto opened = rf::OpenRecordWriter("images.tar", "tar:ext=jpg");
  const std::string image = Image();
  for (int i = 0; i < 4; ++i) (void)opened.writer->Write(std::as_bytes(std::span(image)));
  if (!opened.writer->Close().ok()) return 1;

  const rf::jpeg::DecodeOptions centre = {.height = 4, .width = 4, .shorter_side = 4};
  const rf::Instance row = rf::jpeg::Decode(Samples(), centre).ReadNext();
  const rf::Tensor& pixels = row["jpg"];
  std::cout << "centre: " << rf::DTypeName(pixels.dtype) << " " << rf::ShapeToString(pixels.shape)
            << ", " << int{pixels.Values<std::uint8_t>().front()} << " and "
            << int{pixels.Values<std::uint8_t>().back()} << "\n";

  auto gray =
      rf::Batch(rf::jpeg::Decode(Samples(), {.height = 4, .width = 4, .channels = 1}), {.size = 4});
  const rf::Instance batch = gray.ReadNext();
  std::cout << "gray: " << batch.Rows() << " rows of " << batch["jpg"].bytes / 4 << " bytes\n";

  const bool is_same = RandomPixels(0) == RandomPixels(0);
  const bool is_other = RandomPixels(0) != RandomPixels(1);
  std::cout << "random: " << (is_same ? "the same in each run" : "different")
            << (is_other ? ", and another one in the next epoch\n" : "\n");
  Augment();
} catch (const std::exception& error) {
  std::cerr << "images: " << error.what() << "\n";
  return 1;
}
