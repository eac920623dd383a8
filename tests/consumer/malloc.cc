// A program that chooses mimalloc: it has mimalloc's malloc, and an operator new that throws.

#include <ringfeed/ringfeed.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <new>
#include <string>
#include <vector>

int main() {
  const ringfeed::Reader lines = ringfeed::OpenFiles({"nothing.txt"});
  bool is_there = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) is_there |= line.find("mimalloc") < line.size();
  try {
    std::vector<std::byte> much;
    much.reserve(std::size_t{1} << 50);
  } catch (const std::bad_alloc&) {
    std::printf("ringfeed::malloc is %s\n", is_there ? "linked" : "missing");
    return is_there ? 0 : 1;
  }
  return 1;
}
