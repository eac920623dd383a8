// Runs every file of a corpus once, without a fuzzer: usage: fuzz_corpus FOLDER, where FOLDER has a
// folder for each target, or fuzz_corpus TARGET FILE… Exit status 0, or that of an abort.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

void RunFile(const FuzzTarget& target, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  // Its name stands there before it runs: it may not come back.
  std::fprintf(stderr, "%s\n", path.c_str());
  FuzzExpect(file.good() || file.eof(), "the file can be read");
  target(std::as_bytes(std::span(bytes)));
}

int RunCorpus(const std::filesystem::path& corpus) {
  std::size_t folders = 0;
  for (const NamedFuzzTarget& named : FuzzTargets()) {
    const FuzzTarget target = named.make(named.parameter);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / named.name)) {
      RunFile(target, entry.path());
      ++files;
    }
    std::printf("%-16s %zu inputs\n", named.name.data(), files);
    FuzzExpect(files > 0, "every target has seeds");
  }
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    const std::string name = entry.path().filename();
    // A build without a component has no target for it.
    const bool may_lack = name == "jpeg" || name == "http";
    if (entry.is_directory() && (!may_lack || FindFuzzTarget(name) != nullptr)) ++folders;
  }
  FuzzExpect(folders == FuzzTargets().size(), "every folder of the corpus is a target's");
  return 0;
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  if (argc == 2) return ringfeed::RunCorpus(argv[1]);
  const auto* const named = argc > 2 ? ringfeed::FindFuzzTarget(argv[1]) : nullptr;
  if (named == nullptr) {
    std::fprintf(stderr, "usage: fuzz_corpus FOLDER | fuzz_corpus TARGET FILE...\n");
    return 2;
  }
  const ringfeed::FuzzTarget target = named->make(named->parameter);
  for (int i = 2; i < argc; ++i) ringfeed::RunFile(target, argv[i]);
  return 0;
}
