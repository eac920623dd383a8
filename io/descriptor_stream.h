#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A descriptor as a stream: waits for bytes or for the stop, whichever is first.
class DescriptorStream final : public StreamSource {
 public:
  /// Opens what it reads again; -1 where that is to be tried once more.
  using OpenAgain = std::function<int()>;
  DescriptorStream(int descriptor, std::string name, bool owns, OpenAgain open_again = {});
  ~DescriptorStream() override;
  DescriptorStream(const DescriptorStream&) = delete;
  DescriptorStream& operator=(const DescriptorStream&) = delete;

  std::string name() const override { return name_; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override;
  Status Reopen(std::stop_token stop) override;
  void Close() override;
  bool ComesOnce() const override { return !open_again_; }

 private:
  Status WaitForBytes(const std::stop_token& stop);

  int descriptor_;
  const std::string name_;
  const bool owns_;
  const OpenAgain open_again_;
  int stop_descriptor_ = -1;  // readable once a stop was requested; made when first needed
};

}  // namespace ringfeed
