#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ringfeed {

/// Runs one input. Where a property does not hold it says which and aborts. In memory, one thread,
/// the same for the same input: nothing is kept from one input to the next.
using FuzzTarget = std::function<void(std::span<const std::byte> input)>;

/// A format's framers. Its first two bytes are FrameControl's, the rest is the file.
FuzzTarget FrameTarget(const char* format);
/// Megatron's: the control, the length of the index (u16, little-endian), the index, the data.
FuzzTarget MegatronTarget(const char* unused);
/// LitData's chunks, of items of an int, of bytes and of JSON. Framed as FrameTarget does.
FuzzTarget LitDataTarget(const char* unused);
/// Which format a head is taken for.
FuzzTarget DetectTarget(const char* unused);
/// A parser as ParserFromText takes it. The input is RowsOf's.
FuzzTarget ParseTarget(const char* parser);
/// The fields that records of "example", "jsonl", "tar" or "csv" show. The input is RowsOf's.
FuzzTarget InferTarget(const char* kind);
/// "gzip", "zlib", "zstd": the first byte is the control, the rest the stream.
FuzzTarget DecompressTarget(const char* compression);
/// "stream", "official": likewise.
FuzzTarget SnappyTarget(const char* framing);
/// ringfeed::jpeg's: a byte for the channels, one for the part, and the image.
FuzzTarget JpegTarget(const char* unused);

/// An array of Arrow's and its schema, as a producer exports them: a byte says what is wrong with
/// the array, one how much text the input has as the format.
FuzzTarget ArrowTarget(const char* unused);
/// A manifest; a byte says whether checksums are set right first.
FuzzTarget ManifestTarget(const char* unused);
/// A subset; likewise.
FuzzTarget SubsetTarget(const char* unused);

/// What the metrics server reads of a client: a byte says in which piece its text comes first.
FuzzTarget HttpTarget(const char* unused);
/// RINGFEED_METRICS; a byte says whether an address may be public.
FuzzTarget MetricsAddressTarget(const char* unused);
/// A file of the cache of remote data.
FuzzTarget PieceTarget(const char* unused);

/// An address of remote reading.
FuzzTarget RemoteAddressTarget(const char* unused);
/// The head of an answer.
FuzzTarget RemoteHeadTarget(const char* unused);
/// A page of a listing: a byte chooses S3's, Azure's or Hugging Face's (whose first line is the
/// header with the next page).
FuzzTarget RemoteListingTarget(const char* unused);
/// Credentials: a byte chooses AWS's files, the metadata's answer or that of STS.
FuzzTarget CredentialsTarget(const char* unused);

struct NamedFuzzTarget {
  std::string_view name;  ///< also of its folder in corpus/
  FuzzTarget (*make)(const char* parameter);
  const char* parameter;
};
/// All there are: a new one is a line there and a folder of seeds.
std::span<const NamedFuzzTarget> FuzzTargets();
/// Null where there is none of that name.
const NamedFuzzTarget* FindFuzzTarget(std::string_view name);

/// Aborts, so that the fuzzer keeps the input.
[[noreturn]] void FuzzFailure(std::string_view property, const std::string& seen);
/// `seen` is called only where the property does not hold.
template <typename Seen>
void FuzzExpect(bool holds, std::string_view property, Seen seen) {
  if (!holds) [[unlikely]] {
    FuzzFailure(property, seen());
  }
}
inline void FuzzExpect(bool holds, std::string_view property) {
  if (!holds) [[unlikely]] {
    FuzzFailure(property, "");
  }
}

/// Takes the first byte off; 0 where there is none.
inline unsigned TakeByte(std::span<const std::byte>* input) {
  if (input->empty()) return 0;
  const unsigned byte = std::to_integer<unsigned>(input->front());
  *input = input->subspan(1);
  return byte;
}

/// A copy on the heap that ends where the bytes end: AddressSanitizer sees who reads on.
class ExactCopy {
 public:
  explicit ExactCopy(std::span<const std::byte> bytes)
      : size_(bytes.size()), data_(new std::byte[size_]) {
    std::copy(bytes.begin(), bytes.end(), data_.get());
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace ringfeed
