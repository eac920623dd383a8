# Keeps CMake from putting /usr/include before the cross compiler's own headers.
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
# The project's sources are read, and nothing is made of them. (CMake tries the compiler out as well.)
if(PROJECT_NAME STREQUAL "ringfeed")
  set(CMAKE_CXX_COMPILE_OBJECT "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>"
    "${CMAKE_COMMAND} -E touch <OBJECT>")
  set(CMAKE_CXX_ARCHIVE_CREATE "${CMAKE_COMMAND} -E touch <TARGET>")
  set(CMAKE_CXX_ARCHIVE_FINISH "")
endif()
