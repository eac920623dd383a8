#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/remote/object_store.h"
#include "ringfeed/io_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

struct ObjectWriterOptions {
  bool replaces = true;  ///< false: an object of that name stays, and Open or Finish fails
  std::int64_t patience_ms = IoOptions().remote_patience_ms;
};

/// Writes an object of a store from its start to its end. It is visible once it is complete: a
/// small one goes by one request, a larger one in parts, each with its checksum (Content-MD5),
/// which the last request joins (S3's multipart upload, Azure's block list). What was sent is
/// dropped by the destructor, or by a failure, if that is not reached; a killed process leaves
/// parts, which are no object, to the bucket's rule for those. It keeps one part in memory. Calls
/// block for as long as the patience. After a failure each returns that. One thread at a time; a
/// child of fork sends nothing.
class ObjectWriter {
 public:
  /// Parts have so many bytes, and grow behind 10 GiB: 10,000, S3's most, make up 5 TiB.
  static constexpr std::size_t kPartBytes = std::size_t{8} << 20;

  /// Of the part behind so many bytes.
  static std::size_t PartBytesAfter(std::uint64_t sent_bytes);

  /// Begins with the object of an address. Asks whether it is there if it is not to be replaced.
  /// kInvalidArgument if it is there, or if the address or the settings of its store are wrong;
  /// kUnsupported if the store's objects are only read; kPermissionDenied without credentials.
  static Status Open(const std::string& address, const ObjectWriterOptions& options,
                     std::unique_ptr<ObjectWriter>* writer);
  ~ObjectWriter();
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;

  Status Append(std::span<const std::byte> bytes);
  /// Makes the object visible. Nothing is appended afterwards.
  Status Finish();

 private:
  ObjectWriter(std::shared_ptr<ObjectStore> store, const RemoteAddress& address,
               const ObjectWriterOptions& options);

  std::size_t PartBytes() const { return PartBytesAfter(sent_bytes_); }
  Status LookAhead();
  Status SendPart();
  Status SendAll();
  Status Send(WriteStep step, std::string_view bytes);
  Status AlreadyThere() const;
  /// Drops the parts that were sent.
  void Abort() noexcept;
  Status Note(const Status& status);

  const std::shared_ptr<ObjectStore> store_;
  const std::string name_;
  const std::int64_t patience_ms_;
  const std::uint64_t process_;
  ObjectWrite write_;
  std::string part_;
  std::uint64_t sent_bytes_ = 0;
  bool in_parts_ = false;  // an upload has begun, and has neither ended nor been dropped
  Status status_;
};

/// Whether there is an object under an address. Blocks for as long as the patience.
Status LookForObject(const std::string& address, std::int64_t patience_ms, bool* is_there);

}  // namespace ringfeed
