// A user's program that reads Parquet: here a file that is none.

#include <ringfeed/ringfeed.h>
#include <ringfeed/tables/table_files.h>

#include <cstdio>
#include <string>

int main() {
  std::FILE* const file = std::fopen("words.parquet", "w");
  if (file == nullptr) return 1;
  std::fputs("no Parquet at all", file);
  std::fclose(file);
  try {
    (void)ringfeed::OpenParquet({"words.parquet"});
  } catch (const ringfeed::Error& error) {
    const std::string why = error.what();
    std::printf("ringfeed::arrow is installed: %s\n", why.c_str());
    return why.find("no footer of Parquet") != std::string::npos ? 0 : 1;
  }
  return 1;
}
