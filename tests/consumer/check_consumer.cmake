# Configures, builds and runs the consumer against the tree installed in PREFIX.
# cmake -D WITH=cmake|pkg-config -D CUDA=ON|OFF -D PREFIX=… -D SOURCE=… -D BINARY=… -D COMPILER=… -P this
file(REMOVE_RECURSE "${BINARY}")
file(MAKE_DIRECTORY "${BINARY}")
if(NOT EXISTS "${PREFIX}/share/ringfeed/proto/ringfeed/instance.proto")
  message(FATAL_ERROR "instance.proto is not installed")
endif()
file(GLOB pc_file "${PREFIX}/lib*/pkgconfig/ringfeed.pc" "${PREFIX}/lib/*/pkgconfig/ringfeed.pc")
get_filename_component(pc_dir "${pc_file}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
set(cuda_consumer "")
if(CUDA)
  set(cuda_consumer "${BINARY}/cuda_consumer")
elseif(EXISTS "${PREFIX}/include/ringfeed/cuda_devices.h")
  message(FATAL_ERROR "cuda_devices.h is installed without its component")
endif()
foreach(step IN ITEMS
    "${CMAKE_COMMAND};-S;${SOURCE};-B;${BINARY};-G;Ninja;-DWITH=${WITH};-DCUDA=${CUDA};-DCMAKE_PREFIX_PATH=${PREFIX};-DCMAKE_CXX_COMPILER=${COMPILER}"
    "${CMAKE_COMMAND};--build;${BINARY}"
    "${BINARY}/consumer"
    ${cuda_consumer})
  # In BINARY: the consumer writes a file, and the two consumers run at the same time.
  execute_process(COMMAND ${step} WORKING_DIRECTORY "${BINARY}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
