# Warnings, sanitizers and compiler cache, for this project's own targets only.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# A third of the compile time is the standard library's headers and GoogleTest's. The presets of the
# sanitizers precompile them, that of the release for the tests alone: the Python package's build has the
# library's objects by ccache, which knows precompiled headers of one folder only.
set(RINGFEED_PRECOMPILE OFF CACHE STRING
  "Precompile the standard library's headers: ON, OFF, or TESTS, for what includes GoogleTest's")
set_property(CACHE RINGFEED_PRECOMPILE PROPERTY STRINGS OFF TESTS ON)
mark_as_advanced(RINGFEED_PRECOMPILE)

option(RINGFEED_WERROR "Take warnings for errors" ${PROJECT_IS_TOP_LEVEL})
mark_as_advanced(RINGFEED_WERROR)
add_library(ringfeed_warnings INTERFACE)
# Who has ringfeed as a part of a project compiles it by another compiler, and can mend nothing here.
if(PROJECT_IS_TOP_LEVEL OR RINGFEED_WERROR)
  target_compile_options(ringfeed_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
else()
  target_compile_options(ringfeed_warnings INTERFACE -w)
endif()
if(RINGFEED_WERROR)
  # With -O3, g++ 12 warns of overlap in its own std::string (GCC bug 105651): shown, no error.
  target_compile_options(ringfeed_warnings INTERFACE -Werror
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-error=restrict>)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

set(RINGFEED_FUZZED_OPTIONS)
set(RINGFEED_SANITIZER "" CACHE STRING "address (with undefined), thread, or empty")
set_property(CACHE RINGFEED_SANITIZER PROPERTY STRINGS "" address thread)
if(RINGFEED_SANITIZER STREQUAL "address")
  # Not vptr: to look at a pointer it asks the system by a pipe whether the memory is there, and
  # where a test has used up the descriptors it takes good objects for bad ones. Not null and
  # object-size: where they see something AddressSanitizer stops as well, and they take an eighth of the
  # compiler's time.
  add_compile_options(-O1 -fno-omit-frame-pointer -fsanitize=address,undefined
    -fno-sanitize=vptr,null,object-size -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # g++ defines it; clang says __has_feature(address_sanitizer), which g++ 12 does not know.
    add_compile_definitions(__SANITIZE_ADDRESS__=1)
    # The counters that tests/fuzz needs, in what it runs: one build serves the tests and the fuzzers.
    set(RINGFEED_FUZZED_OPTIONS -fsanitize=fuzzer-no-link)
  endif()
elseif(RINGFEED_SANITIZER STREQUAL "thread")
  add_compile_options(-O1 -fno-omit-frame-pointer -fsanitize=thread)
  add_link_options(-fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_definitions(__SANITIZE_THREAD__=1)  # as above
  endif()
elseif(RINGFEED_SANITIZER)
  message(FATAL_ERROR "RINGFEED_SANITIZER is '${RINGFEED_SANITIZER}': address or thread is known")
endif()

# Nine parts in ten of the time that a sanitizer's build takes go into optimising what it has added. The
# library is optimised, and what runs for long; not the command, the examples and most of the tests.
set(RINGFEED_PROGRAM_OPTIONS)
if(RINGFEED_SANITIZER)
  set(RINGFEED_PROGRAM_OPTIONS -O0)
endif()
# `scripts/test --all` does without line tables there: a ninth of the time. A report still names functions,
# and the same preset by hand has the lines. Its release build compiles the command as the Python package
# does, which then has it from ccache.
if(RINGFEED_SANITIZER AND RINGFEED_SPREAD_TESTS)
  add_compile_options(-g0)
endif()
if(RINGFEED_SANITIZER STREQUAL "address")  # these take a quarter of that time, for the library's business
  list(APPEND RINGFEED_PROGRAM_OPTIONS -fno-sanitize=alignment,pointer-overflow)
endif()

# What a compiler reads of a source is mostly headers. Sources that go well together, by
# source_groups.py, are compiled as one: the library and its command in a third of the time. A missing
# include shows where they are compiled for aarch64, each by itself (shape.each_source_compiles_for_aarch64).
find_package(Python3 QUIET COMPONENTS Interpreter)
option(RINGFEED_UNITY "Compile several sources as one" ${Python3_Interpreter_FOUND})
mark_as_advanced(RINGFEED_UNITY)

# ringfeed_unity(TARGET): at the end of the configuration its sources are compiled in groups.
function(ringfeed_unity target)
  if(NOT RINGFEED_UNITY)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY RINGFEED_UNITY_TARGETS ${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

function(ringfeed_group_sources)
  get_property(targets GLOBAL PROPERTY RINGFEED_UNITY_TARGETS)
  set(list "")
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
      cmake_path(IS_PREFIX PROJECT_BINARY_DIR "${source}" is_made)
      if(source MATCHES "\\.cc$" AND NOT is_made)
        string(APPEND list "${target} ${source}\n")
      endif()
    endforeach()
  endforeach()
  if(list STREQUAL "")
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  file(WRITE "${PROJECT_BINARY_DIR}/unity_sources.txt" "${list}")
  execute_process(COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/source_groups.py"
      "${PROJECT_SOURCE_DIR}" 16 "${PROJECT_BINARY_DIR}/unity_sources.txt"
    OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  cmake_language(EVAL CODE "${groups}")
endfunction()
if(RINGFEED_UNITY)
  cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL ringfeed_group_sources)
endif()

# ringfeed_precompile(TARGET [HEADER…]): the standard library's headers and these. Targets with the same
# headers and options share what is compiled of them, by a target that has no other use.
function(ringfeed_precompile target)
  ringfeed_unity(${target})
  if(NOT RINGFEED_PRECOMPILE OR (RINGFEED_PRECOMPILE STREQUAL "TESTS" AND NOT "${ARGN}" MATCHES gtest))
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Precompiled headers are the system's no longer to what looks at the flow of values. (The last is
    # what ccache needs.)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
      -Wno-stringop-overread -fpch-preprocess)
  endif()
  get_target_property(position_independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(options ${target} COMPILE_OPTIONS)
  string(MD5 shared "${position_independent} ${options} ${ARGN}")
  string(SUBSTRING ${shared} 0 8 shared)
  string(PREPEND shared ringfeed_precompiled_)
  if(NOT TARGET ${shared})
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${shared}.cc" CONTENT "")
    add_library(${shared} OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/${shared}.cc")
    target_compile_features(${shared} PRIVATE cxx_std_20)
    set_target_properties(${shared} PROPERTIES
      POSITION_INDEPENDENT_CODE "${position_independent}" COMPILE_OPTIONS "${options}")
    target_link_libraries(${shared} PRIVATE ringfeed_warnings)
    if(ARGN MATCHES gtest)
      target_link_libraries(${shared} PRIVATE ringfeed::ringfeed GTest::gtest)
    endif()
    if(ARGN MATCHES CLI)
      target_link_libraries(${shared} PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
    endif()
    target_precompile_headers(${shared} PRIVATE <algorithm> <array> <atomic> <chrono> <cstdint>
      <functional> <memory> <mutex> <optional> <span> <string> <string_view> <utility> <vector> ${ARGN})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(PROJECT_IS_TOP_LEVEL AND CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  if(RINGFEED_PRECOMPILE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  endif()
endif()
