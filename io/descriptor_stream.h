#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A descriptor as a stream: waits for bytes or for the stop, whichever is first.
class DescriptorStream final : public StreamSource {
 public:
  DescriptorStream(int descriptor, std::string name, bool owns);
  ~DescriptorStream() override;
  DescriptorStream(const DescriptorStream&) = delete;
  DescriptorStream& operator=(const DescriptorStream&) = delete;

  std::string name() const override { return name_; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override;

 private:
  Status WaitForBytes(const std::stop_token& stop);

  const int descriptor_;
  const std::string name_;
  const bool owns_;
  int stop_descriptor_ = -1;  // readable once a stop was requested; made when first needed
};

}  // namespace ringfeed
