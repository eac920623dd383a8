// A user's program that decodes images: here one that is none.

#include <ringfeed/jpeg.h>
#include <ringfeed/ringfeed.h>

#include <cstdio>
#include <string>

int main() {
  std::FILE* const file = std::fopen("image.jpg", "w");
  if (file == nullptr) return 1;
  std::fputs("no JPEG", file);
  std::fclose(file);
  const ringfeed::Reader images = ringfeed::jpeg::Decode(
      ringfeed::OpenFiles({"image.jpg"}, {.format = "raw"}), {.field = "record"});
  try {
    (void)ringfeed::Batch(images, {.size = 1}).ReadNext();
  } catch (const ringfeed::Error& error) {
    const std::string why = error.what();
    std::printf("ringfeed::jpeg is installed: %s\n", why.c_str());
    return why.find("Not a JPEG file") != std::string::npos ? 0 : 1;
  }
  return 1;
}
