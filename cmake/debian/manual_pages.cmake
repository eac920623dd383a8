# Writes the manual pages of the command and of its other names: what it says of itself with --help.
# cmake -D COMMAND=… -D SUMMARY=… -D FOLDER=… -P this
cmake_minimum_required(VERSION 3.25)

foreach(word IN ITEMS version help)
  execute_process(COMMAND "${COMMAND}" --${word} OUTPUT_VARIABLE ${word}
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endforeach()
string(REPLACE "\\" "\\e" help "${help}")
string(REPLACE "-" "\\-" help "${help}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" help "${help}")
string(REPLACE "-" "\\-" summary "${SUMMARY}")
file(WRITE "${FOLDER}/ringfeed.1"
  ".TH RINGFEED 1 \"\" \"ringfeed ${version}\" \"User Commands\"\n"
  ".SH NAME\nringfeed \\- ${summary}\n"
  ".SH SYNOPSIS\n.B ringfeed\n.I COMMAND\n[options]\n"
  ".SH DESCRIPTION\n.nf\n${help}\n.fi\n")
foreach(name IN ITEMS recordio_encode recordio_decode)
  file(WRITE "${FOLDER}/${name}.1" ".so man1/ringfeed.1\n")
endforeach()
file(GLOB pages "${FOLDER}/*.1")
find_program(gzip gzip REQUIRED)
execute_process(COMMAND "${gzip}" -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
