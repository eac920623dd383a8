#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// A stream of lines that may be ended from outside: then it ends behind the last line of which the
/// end came, so that nothing that came is lost and no part of a line is taken for one. Lines are
/// handed on as soon as they are whole. One thread reads.
class LineStream final : public StreamSource {
 public:
  /// `end` is requested, by any thread, to end it.
  LineStream(std::unique_ptr<StreamSource> stream, std::stop_token end);

  std::string name() const override { return stream_->name(); }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override;
  void Close() override { stream_->Close(); }
  bool ComesOnce() const override { return true; }

 private:
  Status ReadMore(const std::stop_token& stop);

  const std::unique_ptr<StreamSource> stream_;
  const std::stop_token end_;
  std::vector<std::byte> held_;  ///< what was read and not handed on
  std::size_t whole_ = 0;        ///< of it, up to behind the last end of a line
  bool done_ = false;
};

}  // namespace ringfeed::tools
