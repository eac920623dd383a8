#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace ringfeed::python {

/// The bytes of an object that exports a buffer in C order; keeps the object alive and unchanged.
/// Create and destroy it with the lock held.
class BytesOf {
 public:
  /// Throws Python's exception if it exports none: TypeError, BufferError.
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
