# The component ringfeed::cuda, where CUDA's toolkit is there: cudart's headers and static library, and
# nvcc for the kernels.
#
# nvcc is run by a command of ours, not as CMake's language CUDA: a library of that language has its
# users' programs linked by it as well, and asks that of a project that merely finds the installed one.
ringfeed_component(CUDA CUDA "its toolkit")
# By nvcc on PATH, by CUDAToolkit_ROOT or CUDA_PATH, or in /usr/local/cuda.
find_package(CUDAToolkit 12.0 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  ringfeed_leave_out(CUDA CUDA "its toolkit (12.0 or newer, with nvcc) is not found; CUDAToolkit_ROOT names its folder")
endif()
if(NOT TARGET CUDA::cudart_static)
  ringfeed_leave_out(CUDA CUDA "${CUDAToolkit_LIBRARY_DIR} has no libcudart_static.a")
endif()

# Device code for these; of the last one also what drivers compile for newer devices. Builds that look
# for mistakes of the host's side have one, the oldest, which therefore runs on all.
if(RINGFEED_SANITIZER OR CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(architectures 80)
elseif(CUDAToolkit_VERSION VERSION_LESS 12.8)
  set(architectures 80 90)
else()
  set(architectures 80 90 100)
endif()
set(RINGFEED_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
  "Devices' architectures that ringfeed::cuda has code for: 80 is 8.0")
message(STATUS "ringfeed: with CUDA ${CUDAToolkit_VERSION} for ${RINGFEED_CUDA_ARCHITECTURES}")

set(nvcc_flags -std=c++20 -O3 -lineinfo -Xfatbin=-compress-all --compiler-options=-fPIC,-fvisibility=hidden,-Wall,-Wextra
  "$<$<NOT:$<CONFIG:Debug>>:-DNDEBUG>")
foreach(architecture IN LISTS RINGFEED_CUDA_ARCHITECTURES)
  list(APPEND nvcc_flags "-gencode=arch=compute_${architecture},code=sm_${architecture}")
endforeach()
list(GET RINGFEED_CUDA_ARCHITECTURES -1 last)
list(APPEND nvcc_flags "-gencode=arch=compute_${last},code=compute_${last}")
if(PROJECT_IS_TOP_LEVEL)
  list(APPEND nvcc_flags --Werror=all-warnings)
endif()
if(CMAKE_CUDA_HOST_COMPILER)
  list(APPEND nvcc_flags "--compiler-bindir=${CMAKE_CUDA_HOST_COMPILER}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND nvcc_flags "--compiler-bindir=${CMAKE_CXX_COMPILER}")
endif()
set(RINGFEED_NVCC ${CUDAToolkit_NVCC_EXECUTABLE} ${nvcc_flags})
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  list(PREPEND RINGFEED_NVCC ${CCACHE_PROGRAM})
endif()

# ringfeed_cuda_sources(TARGET FILE.cu…): compiles them by nvcc and makes them part of TARGET.
function(ringfeed_cuda_sources target)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(GET source STEM stem)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${stem}.cu.o")
    add_custom_command(OUTPUT "${object}" DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM COMMAND_EXPAND_LISTS
      COMMAND ${RINGFEED_NVCC} "-I${PROJECT_SOURCE_DIR}" "-I${PROJECT_SOURCE_DIR}/include"
        -MD -MF "${object}.d" -c "${source}" -o "${object}"
      COMMENT "Compiling ${stem}.cu by nvcc")
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE "${object}")
  endforeach()
endfunction()

set(RINGFEED_WITH_CUDA ON)
