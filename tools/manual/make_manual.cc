// Writes manual pages and completions of the command, as its options are declared:
//   make_manual FOLDER
// gets ringfeed.1, ringfeed-feed.1 and so on, ringfeed.bash, _ringfeed and ringfeed.fish.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "tools/command_line.h"
#include "tools/manual/completion.h"
#include "tools/manual/manual_page.h"

int main(int argc, char** argv) {
  using namespace ringfeed::tools;
  if (argc != 2) {
    std::fputs("make_manual FOLDER\n", stderr);
    return kExitUsage;
  }
  CLI::App app("", "ringfeed");
  const auto commands = DeclareCommands(&app);
  bool written = true;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream file(std::string(argv[1]) + "/" + name);
    written = (file << text).flush().good() && written;
  };
  write("ringfeed.1", ManualPage(app));
  for (const auto& [sub, command] : commands) {
    write("ringfeed-" + sub->get_name() + ".1", ManualPage(*sub));
  }
  for (const char* const name : {"recordio_encode.1", "recordio_decode.1"}) {
    write(name, ".so man1/ringfeed-" + std::string(name).substr(sizeof("recordio_") - 1) + "\n");
  }
  write("ringfeed.bash", BashCompletion(app));
  write("_ringfeed", ZshCompletion(app));
  write("ringfeed.fish", FishCompletion(app));
  if (!written) std::fprintf(stderr, "%s: a page cannot be written\n", argv[1]);
  return written ? kExitFine : kExitData;
}
