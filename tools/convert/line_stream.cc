#include "tools/convert/line_stream.h"

#include <algorithm>
#include <iterator>
#include <stop_token>
#include <utility>

namespace ringfeed::tools {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;

}  // namespace

LineStream::LineStream(std::unique_ptr<StreamSource> stream, std::stop_token end)
    : stream_(std::move(stream)), end_(std::move(end)) {}

Status LineStream::Read(std::span<std::byte> buffer, std::size_t* bytes_read,
                        std::stop_token stop) {
  *bytes_read = 0;
  while (whole_ == 0 && !done_) {
    Status status = ReadMore(stop);
    if (!status.ok()) return status;
  }
  *bytes_read = std::min(buffer.size(), whole_);
  std::copy_n(held_.begin(), *bytes_read, buffer.begin());
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(*bytes_read));
  whole_ -= *bytes_read;
  return {};
}

Status LineStream::ReadMore(const std::stop_token& stop) {
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback by_reader(stop, request);
  const std::stop_callback by_end(end_, request);
  const std::size_t had = held_.size();
  held_.resize(had + kReadBytes);
  std::size_t got = 0;
  Status status = stream_->Read(std::span(held_).subspan(had), &got, either.get_token());
  held_.resize(had + got);
  if (!status.ok()) {
    if (stop.stop_requested() || !end_.stop_requested()) return status;
    held_.resize(whole_);  // of the line at hand nobody knows how it goes on
    done_ = true;
    return {};
  }
  if (got == 0) {
    whole_ = held_.size();  // the last line may have no end
    done_ = true;
    return {};
  }
  const auto last =
      std::find(held_.rbegin(), held_.rbegin() + static_cast<std::ptrdiff_t>(got), std::byte{'\n'});
  if (last != held_.rbegin() + static_cast<std::ptrdiff_t>(got)) {
    whole_ = static_cast<std::size_t>(std::distance(last, held_.rend()));
  }
  return {};
}

}  // namespace ringfeed::tools
