// What libFuzzer calls. `--target=NAME` among its arguments, where "--" makes it pass over them,
// says which target runs: one program holds them all, so that they are linked once.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

namespace {

ringfeed::FuzzTarget& Chosen() {
  static ringfeed::FuzzTarget chosen;
  return chosen;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kOption = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kOption)) continue;
    const auto* const target = ringfeed::FindFuzzTarget(argument.substr(kOption.size()));
    if (target != nullptr) Chosen() = target->make(target->parameter);
  }
  if (Chosen()) return 0;
  std::fprintf(stderr, "--target=NAME is missing, of:");
  for (const auto& target : ringfeed::FuzzTargets())
    std::fprintf(stderr, " %s", target.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Chosen()(std::as_bytes(std::span(data, size)));
  return 0;
}
