// A program that uses the component compat: it counts lines by a text of ringfeed's own language.

#include <ringfeed/compat/program.h>

#include <cstdint>
#include <cstdio>
#include <fstream>

int main() {
  std::ofstream("lines.txt") << "one\ntwo\nthree\n";
  auto program = ringfeed::FeedProgram::FromText(
      R"(
      startup { op { open_files { name: 'lines' file_names: 'lines.txt' } } }
      main {
        op { fill_constant { output: 'count' } }
        op { has_next { reader: 'lines' output: 'more' } }
        op { while { condition: 'more' body {
          op { read { reader: 'lines' output: 'line' } }
          op { increase { x: 'count' } }
          op { has_next { reader: 'lines' output: 'more' } }
        } } }
      })",
      "count.program");
  ringfeed::Scope scope;
  program.RunStartup(&scope);
  program.RunMain(&scope);
  const auto count = scope.Get<std::int64_t>("count");
  std::printf("ringfeed::compat counted %d lines\n", static_cast<int>(count));
  return count == 3 ? 0 : 1;
}
