# Configures, builds and runs the consumer against the tree installed in PREFIX, or with the sources in
# RINGFEED_SOURCE as a part of it.
# cmake -D WITH=cmake|pkg-config -D VERSION=… -D COMPONENTS=… -D PREFIX=… -D SOURCE=… -D BINARY=… -D COMPILER=…
#   -P this
# cmake -D WITH=subdirectory|fetch_content -D RINGFEED_SOURCE=… -D RINGFEED_BUILD=… -D FLAGS=… -D SOURCE=… -D BINARY=…
#   -D COMPILER=… -P this
# COMPONENTS has commas between the components that are there. RINGFEED_BUILD is where the project itself is
# built, optimised with these FLAGS.
unset(ENV{LD_PRELOAD})  # a malloc that the tests run with is none that the library links
file(REMOVE_RECURSE "${BINARY}")
file(MAKE_DIRECTORY "${BINARY}")
set(generator Ninja)
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
if(RINGFEED_SOURCE)
  set(COMPONENTS "compat")
  # What is built and whether it runs is the matter here, not how fast.
  set(options -DRINGFEED_SOURCE=${RINGFEED_SOURCE} -DFETCHCONTENT_SOURCE_DIR_RINGFEED=${RINGFEED_SOURCE}
    -DRINGFEED_CUDA=OFF -DRINGFEED_METRICS=OFF)
  find_program(ccache ccache)
  find_program(make make)
  cmake_path(GET RINGFEED_BUILD PARENT_PATH builds)
  if(ccache AND make AND builds STREQUAL "${RINGFEED_SOURCE}/build")
    # ccache has the library's objects: by the project's commands, in a folder as deep as the project's. (make
    # runs them there, Ninja would not.)
    set(generator "Unix Makefiles")
    list(APPEND options -DRINGFEED_BINARY=${builds}/consumer-library -DRINGFEED_WERROR=ON
      -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=${FLAGS}"
      -DCMAKE_CXX_COMPILER_LAUNCHER=${ccache})
    file(REMOVE_RECURSE "${builds}/consumer-library")
    set(ENV{CCACHE_BASEDIR} "${RINGFEED_SOURCE}")
    set(ENV{CCACHE_NOHASHDIR} 1)
  else()
    list(APPEND options -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)
  endif()
else()
  set(options -DVERSION=${VERSION} -DCMAKE_PREFIX_PATH=${PREFIX})
  if(NOT EXISTS "${PREFIX}/share/ringfeed/proto/ringfeed/instance.proto")
    message(FATAL_ERROR "instance.proto is not installed")
  endif()
  file(GLOB pc_file "${PREFIX}/lib*/pkgconfig/ringfeed.pc" "${PREFIX}/lib/*/pkgconfig/ringfeed.pc")
  get_filename_component(pc_dir "${pc_file}" DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
  foreach(header IN ITEMS compat/program.h:compat devices/cuda_devices.h:cuda jpeg.h:jpeg metrics.h:metrics)
    string(REPLACE ":" ";" header "${header}")
    list(POP_BACK header component)
    if(EXISTS "${PREFIX}/include/ringfeed/${header}" AND NOT COMPONENTS MATCHES ${component})
      message(FATAL_ERROR "${header} is installed without its component")
    endif()
  endforeach()
endif()
string(REPLACE "," ";" components "${COMPONENTS}")
list(TRANSFORM components APPEND "_consumer")
list(TRANSFORM components PREPEND "${BINARY}/" OUTPUT_VARIABLE consumers)
string(REPLACE "," "\\;" components "${COMPONENTS}")
foreach(step IN ITEMS
    "${CMAKE_COMMAND};-S;${SOURCE};-B;${BINARY};-G;${generator};-DWITH=${WITH};-DCOMPONENTS=${components};-DCMAKE_CXX_COMPILER=${COMPILER};${options}"
    "${CMAKE_COMMAND};--build;${BINARY};--parallel;${processors}"
    "${BINARY}/consumer"
    ${consumers})
  # In BINARY: the consumer writes a file, and the two consumers run at the same time.
  execute_process(COMMAND ${step} WORKING_DIRECTORY "${BINARY}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Two Protobufs in one process end it, and a program keeps its malloc: who links the library alone has neither.
execute_process(COMMAND ldd "${BINARY}/consumer" OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
if(libraries MATCHES "[^\n]*(protobuf|mimalloc|libjpeg)[^\n]*")
  message(FATAL_ERROR "a program that links ringfeed::ringfeed alone has${CMAKE_MATCH_0}")
endif()
