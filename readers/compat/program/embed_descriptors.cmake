# Writes the file DESCRIPTORS, which protoc made, as the C++ source SOURCE, as grammar.h declares it:
#   cmake -D DESCRIPTORS=… -D SOURCE=… -P this
file(READ "${DESCRIPTORS}" bytes HEX)
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
file(WRITE "${SOURCE}" "// Made of program.proto by embed_descriptors.cmake.
#include \"readers/compat/program/grammar.h\"\n
namespace ringfeed {\n
std::string_view ProgramDescriptors() {
  static constexpr char kBytes[] = \"${bytes}\";
  return {kBytes, sizeof(kBytes) - 1};
}\n
}  // namespace ringfeed\n")
