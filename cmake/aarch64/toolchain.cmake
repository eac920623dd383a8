# Toolchain to compile the library for aarch64 on another architecture's Debian, which has no
# libraries for it: their headers are taken from /usr/include, behind the cross compiler's own.
# Sources are checked, nothing is made of them (headers.cmake).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT
  "-idirafter /usr/include -idirafter /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/headers.cmake")
