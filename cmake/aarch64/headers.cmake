# Keeps CMake from putting /usr/include before the cross compiler's own headers.
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
