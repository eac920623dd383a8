#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace ringfeed::python {

/// The bytes of whatever exports a buffer in C order, which it keeps alive and as it is. Made and
/// destroyed with the lock.
class BytesOf {
 public:
  /// Throws what Python raises where it exports none: TypeError, BufferError.
  explicit BytesOf(nanobind::handle source) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      throw nanobind::python_error();
    }
  }
  ~BytesOf() { PyBuffer_Release(&view_); }
  BytesOf(const BytesOf&) = delete;
  BytesOf& operator=(const BytesOf&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace ringfeed::python
