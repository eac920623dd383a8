# The component ringfeed::compat: programs as texts, and readers under Paddle's and OneFlow's names.
#
# It alone needs Protobuf, for the text format of programs. Two copies of Protobuf in one process end it,
# so a program that uses the library alone links none. The command, the examples, the tests and the
# Python package need the component: in ringfeed's own build it is ON unless it is said.
if(PROJECT_IS_TOP_LEVEL)
  set(RINGFEED_COMPAT ON CACHE STRING "Build ringfeed::compat: ON, OFF, or AUTO, if Protobuf is found")
endif()
ringfeed_component(COMPAT compat "Protobuf")
pkg_check_modules(protobuf QUIET IMPORTED_TARGET protobuf)
find_program(PROTOC_PROGRAM protoc)
mark_as_advanced(PROTOC_PROGRAM)
if(NOT protobuf_FOUND OR NOT PROTOC_PROGRAM)
  ringfeed_leave_out(COMPAT compat
    "Protobuf or protoc is not found (Debian: libprotobuf-dev and protobuf-compiler)")
endif()
set(RINGFEED_WITH_COMPAT ON)
set(RINGFEED_COMPAT_PACKAGE libprotobuf-dev)
