# The component ringfeed::malloc, if mimalloc is found: mimalloc as the malloc of a program that links
# it. The library links none, so a program's malloc stays the program's choice.
#
# Debian's mimalloc is compiled as C: its `operator new` ends the process if there is no memory.
# libstdc++ comes before it, so `operator new` is libstdc++'s. That one takes memory from mimalloc and
# throws std::bad_alloc.
ringfeed_component(MALLOC malloc "mimalloc")
if(RINGFEED_SANITIZER)
  ringfeed_leave_out(MALLOC malloc "a sanitizer brings a malloc of its own")
endif()
find_package(mimalloc CONFIG QUIET)
if(NOT mimalloc_FOUND)
  ringfeed_leave_out(MALLOC malloc "CMake does not find mimalloc (Debian: libmimalloc-dev)")
endif()
message(STATUS "ringfeed: with mimalloc ${mimalloc_VERSION} for the command and benchmarks")
set(RINGFEED_WITH_MALLOC ON)
set(RINGFEED_MALLOC_PACKAGE libmimalloc-dev)
add_library(ringfeed_malloc INTERFACE)
add_library(ringfeed::malloc ALIAS ringfeed_malloc)
set_target_properties(ringfeed_malloc PROPERTIES EXPORT_NAME malloc)
target_link_options(ringfeed_malloc INTERFACE -Wl,--no-as-needed -lstdc++)
target_link_libraries(ringfeed_malloc INTERFACE mimalloc)
