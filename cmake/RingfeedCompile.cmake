# Warnings and compiler cache, for this project's own targets only.
add_library(ringfeed_warnings INTERFACE)
target_compile_options(ringfeed_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
