// Kinds of compression of which their own libraries do all the work: bzip2, xz, lz4's frames,
// brotli and snappy. A build without a library refuses its kind by name.
#if defined(RINGFEED_WITH_BROTLI)
#include <brotli/decode.h>
#endif
#if defined(RINGFEED_WITH_BZIP2)
#include <bzlib.h>
#endif
#if defined(RINGFEED_WITH_LZ4)
#include <lz4frame.h>
#endif
#if defined(RINGFEED_WITH_XZ)
#include <lzma.h>
#endif

#include <snappy.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/memory_limit.h"
#include "readers/formats/compression/decompressor.h"

namespace ringfeed {
namespace {

/// What came of one call of a library.
struct Step {
  enum class Kind : std::uint8_t { kGoesOn, kMemberEnds, kFailed };
  Kind kind = Kind::kGoesOn;
  std::string problem{};  ///< of kFailed
  StatusCode code = StatusCode::kDamaged;
};

[[maybe_unused]] Step Failed(std::string problem, StatusCode code = StatusCode::kDamaged) {
  return {Step::Kind::kFailed, std::move(problem), code};
}

// Libraries count in 32 bits.
[[maybe_unused]] constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

/// A decompressor by a library's stream: `Codec` has Run, which takes from the front of the input
/// and fills the front of the output, and Restart.
template <typename Codec>
class LibraryDecompressor final : public Decompressor {
 public:
  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override {
    if (!problem_.empty()) return Result::kDamaged;
    while (true) {
      inside_ = inside_ || !input->empty();
      const std::size_t before = input->size() + output->size();
      Step step = codec_.Run(input, output);
      if (step.kind == Step::Kind::kFailed) return Refuse(step.problem, step.code);
      if (step.kind == Step::Kind::kMemberEnds) {
        Restart();
        return Result::kMemberEnds;
      }
      if (output->empty()) return Result::kNeedsRoom;
      if (input->empty()) return Result::kNeedsInput;
      if (input->size() + output->size() == before) return Refuse("it does not decompress");
    }
  }
  void Restart() override {
    codec_.Restart();
    inside_ = false;
    problem_.clear();
  }

 private:
  Codec codec_;
};

#if defined(RINGFEED_WITH_BZIP2)

/// Streams of bzip2, with the CRC-32 of each block and of the stream.
class Bzip2Codec {
 public:
  Bzip2Codec() { Begin(); }
  ~Bzip2Codec() { BZ2_bzDecompressEnd(&stream_); }
  Bzip2Codec(const Bzip2Codec&) = delete;
  Bzip2Codec& operator=(const Bzip2Codec&) = delete;

  Step Run(std::span<const std::byte>* input, std::span<std::byte>* output) {
    const std::size_t in = std::min(input->size(), kMostAtOnce);
    const std::size_t out = std::min(output->size(), kMostAtOnce);
    stream_.next_in = const_cast<char*>(reinterpret_cast<const char*>(input->data()));  // only read
    stream_.avail_in = static_cast<unsigned>(in);
    stream_.next_out = reinterpret_cast<char*>(output->data());
    stream_.avail_out = static_cast<unsigned>(out);
    const int code = BZ2_bzDecompress(&stream_);
    *input = input->subspan(in - stream_.avail_in);
    *output = output->subspan(out - stream_.avail_out);
    switch (code) {
      case BZ_OK:
        return {};
      case BZ_STREAM_END:
        return {Step::Kind::kMemberEnds};
      case BZ_DATA_ERROR_MAGIC:
        return Failed("no stream of bzip2 starts here");
      case BZ_MEM_ERROR:
        return Failed("no memory for its block", StatusCode::kResourceExhausted);
      default:
        return Failed("a block does not match its checksum, or does not decompress");
    }
  }
  void Restart() {
    BZ2_bzDecompressEnd(&stream_);
    Begin();
  }

 private:
  void Begin() {
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }

  bz_stream stream_{};
};

#endif
#if defined(RINGFEED_WITH_XZ)

/// Streams of xz, with the check of each block. A dictionary takes as much memory as it is large:
/// up to half of what the process may have.
class XzCodec {
 public:
  XzCodec() { Begin(); }
  ~XzCodec() { lzma_end(&stream_); }
  XzCodec(const XzCodec&) = delete;
  XzCodec& operator=(const XzCodec&) = delete;

  Step Run(std::span<const std::byte>* input, std::span<std::byte>* output) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(input->data());
    stream_.avail_in = input->size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(output->data());
    stream_.avail_out = output->size();
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    *input = input->last(stream_.avail_in);
    *output = output->last(stream_.avail_out);
    switch (code) {
      case LZMA_OK:
      case LZMA_BUF_ERROR:  // there was nothing to read, or no room
        return {};
      case LZMA_STREAM_END:
        return {Step::Kind::kMemberEnds};
      case LZMA_FORMAT_ERROR:
        return Failed("no stream of xz starts here");
      case LZMA_MEMLIMIT_ERROR:
        return Failed("its dictionary needs " + std::to_string(lzma_memusage(&stream_) >> 20) +
                          " MiB of memory, more than half of what is available",
                      StatusCode::kResourceExhausted);
      case LZMA_MEM_ERROR:
        return Failed("no memory for its dictionary", StatusCode::kResourceExhausted);
      case LZMA_OPTIONS_ERROR:
        return Failed("it uses a filter or a check that liblzma does not know",
                      StatusCode::kUnsupported);
      default:
        return Failed("a block does not match its check, or does not decompress");
    }
  }
  void Restart() { Begin(); }

 private:
  void Begin() {
    const std::uint64_t most = std::max<std::uint64_t>(AvailableMemory() / 2, 1 << 20);
    if (lzma_stream_decoder(&stream_, most, 0) != LZMA_OK) throw std::bad_alloc();
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

#endif
#if defined(RINGFEED_WITH_LZ4)

/// Frames of lz4, with the checksums that they have.
class Lz4Codec {
 public:
  Lz4Codec() {
    LZ4F_dctx* made = nullptr;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) {
      throw std::bad_alloc();
    }
    context_.reset(made);
  }

  Step Run(std::span<const std::byte>* input, std::span<std::byte>* output) {
    std::size_t in = input->size();
    std::size_t out = output->size();
    const std::size_t wanted =
        LZ4F_decompress(context_.get(), output->data(), &out, input->data(), &in, nullptr);
    if (LZ4F_isError(wanted) != 0) return Failed(LZ4F_getErrorName(wanted));
    *input = input->subspan(in);
    *output = output->subspan(out);
    was_begun_ = was_begun_ || in > 0;
    // After the end of a frame it asks for the header of the next one.
    if (wanted == 0 && was_begun_) return {Step::Kind::kMemberEnds};
    return {};
  }
  void Restart() {
    LZ4F_resetDecompressionContext(context_.get());
    was_begun_ = false;
  }

 private:
  struct Close {
    void operator()(LZ4F_dctx* context) const { LZ4F_freeDecompressionContext(context); }
  };
  std::unique_ptr<LZ4F_dctx, Close> context_;
  bool was_begun_ = false;
};

#endif
#if defined(RINGFEED_WITH_BROTLI)

/// Streams of brotli (RFC 7932), which have no checksum.
class BrotliCodec {
 public:
  BrotliCodec() { Restart(); }

  Step Run(std::span<const std::byte>* input, std::span<std::byte>* output) {
    std::size_t in = input->size();
    std::size_t out = output->size();
    const auto* next_in = reinterpret_cast<const std::uint8_t*>(input->data());
    auto* next_out = reinterpret_cast<std::uint8_t*>(output->data());
    const BrotliDecoderResult result =
        BrotliDecoderDecompressStream(state_.get(), &in, &next_in, &out, &next_out, nullptr);
    *input = input->last(in);
    *output = output->last(out);
    if (result == BROTLI_DECODER_RESULT_SUCCESS) return {Step::Kind::kMemberEnds};
    if (result != BROTLI_DECODER_RESULT_ERROR) return {};
    return Failed(BrotliDecoderErrorString(BrotliDecoderGetErrorCode(state_.get())));
  }
  void Restart() {
    state_.reset(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr));
    if (state_ == nullptr) throw std::bad_alloc();
  }

 private:
  struct Close {
    void operator()(BrotliDecoderState* state) const { BrotliDecoderDestroyInstance(state); }
  };
  std::unique_ptr<BrotliDecoderState, Close> state_;
};

#endif

/// Raw blocks of snappy, which have no checksum: the length of the content, as a varint, then
/// elements, each a literal or a copy of what came before. All writers known cut the content into
/// pieces of 64 KiB, and copy nothing from one into the next. So a piece with its own length in
/// front is a block, too, and a file of any size is read in the memory of one piece.
class SnappyCodec {
 public:
  SnappyCodec() { Restart(); }

  Step Run(std::span<const std::byte>* input, std::span<std::byte>* output);
  void Restart() {
    stored_.clear();
    piece_.clear();
    given_ = element_left_ = made_ = 0;
    left_ = 0;
    is_told_ = false;
  }

 private:
  static constexpr std::size_t kPieceBytes = 64 * 1024;
  static constexpr std::size_t kMostLengthBytes = 5;

  /// Takes one byte of the content's length.
  Step TakeLength(std::byte next);
  /// Takes bytes up to the end of an element, or as many as there are.
  Step TakeElement(std::span<const std::byte>* input);
  Step DecodePiece();
  void BeginPiece();
  std::size_t PieceBytes() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(left_, kPieceBytes));
  }

  std::vector<std::byte> stored_;  ///< the content's length, then a piece with its own in front
  std::vector<std::byte> piece_;   ///< decoded
  std::size_t given_ = 0;          ///< bytes of it that were handed out
  std::size_t element_ = 0;        ///< where the last element begins in stored_
  std::size_t element_left_ = 0;   ///< bytes of a literal that are still to come
  std::size_t made_ = 0;           ///< bytes that the elements so far give
  std::uint64_t left_ = 0;         ///< of the content, from the piece on that is taken
  bool is_told_ = false;           ///< the content's length is
};

Step SnappyCodec::Run(std::span<const std::byte>* input, std::span<std::byte>* output) {
  while (true) {
    const std::size_t some = std::min(output->size(), piece_.size() - given_);
    std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(given_), some, output->begin());
    *output = output->subspan(some);
    given_ += some;
    if (given_ < piece_.size()) return {};
    if (is_told_ && left_ == 0) return {Step::Kind::kMemberEnds};
    if (input->empty()) return {};
    Step step;
    if (is_told_) {
      step = TakeElement(input);
    } else {
      step = TakeLength(input->front());
      *input = input->subspan(1);
    }
    if (step.kind == Step::Kind::kFailed) return step;
  }
}

Step SnappyCodec::TakeLength(std::byte next) {
  const auto bits = std::to_integer<std::uint64_t>(next);
  left_ |= (bits & 0x7f) << 7 * stored_.size();
  stored_.push_back(next);
  is_told_ = bits < 0x80;
  if (left_ >> 32 != 0 || (!is_told_ && stored_.size() == kMostLengthBytes)) {
    return Failed("no block of snappy starts here");
  }
  if (is_told_) BeginPiece();
  return {};
}

void SnappyCodec::BeginPiece() {
  stored_.clear();
  made_ = 0;
  for (std::size_t rest = PieceBytes(); rest > 0; rest >>= 7) {
    stored_.push_back(static_cast<std::byte>(rest | (rest > 0x7f ? 0x80 : 0)));
  }
  element_ = stored_.size();
}

Step SnappyCodec::TakeElement(std::span<const std::byte>* input) {
  // The bytes behind a tag, by its kind; of long literals they are the length.
  constexpr std::size_t kCopyBytes[] = {0, 1, 2, 4};
  constexpr std::size_t kShortLiteral = 60;
  const auto take = [&](std::size_t bytes) {
    stored_.insert(stored_.end(), input->begin(),
                   input->begin() + static_cast<std::ptrdiff_t>(bytes));
    *input = input->subspan(bytes);
  };
  if (element_left_ == 0) {
    take(1);
    const auto tag = std::to_integer<std::size_t>(stored_[element_]);
    const std::size_t kind = tag & 3;
    const std::size_t number = tag >> 2;
    const bool is_long = kind == 0 && number >= kShortLiteral;
    const std::size_t behind = is_long ? number + 1 - kShortLiteral : kCopyBytes[kind];
    if (stored_.size() - element_ <= behind) return {};
    std::size_t bytes = kind == 1 ? (number & 7) + 4 : number + 1;
    if (is_long) {
      bytes = 1;
      for (std::size_t i = 0; i < behind; ++i) {
        bytes += std::to_integer<std::size_t>(stored_[element_ + 1 + i]) << 8 * i;
      }
    }
    made_ += bytes;
    if (made_ > PieceBytes()) {
      return Failed(made_ > left_ ? "it gives more bytes than it says"
                                  : "it is not made of pieces of 64 KiB");
    }
    if (kind == 0) element_left_ = bytes;
  }
  const std::size_t some = std::min(element_left_, input->size());
  take(some);
  element_left_ -= some;
  if (element_left_ > 0) return {};
  element_ = stored_.size();
  return made_ == PieceBytes() ? DecodePiece() : Step();
}

Step SnappyCodec::DecodePiece() {
  piece_.resize(made_);
  given_ = 0;
  if (!snappy::RawUncompress(reinterpret_cast<const char*>(stored_.data()), stored_.size(),
                             reinterpret_cast<char*>(piece_.data()))) {
    piece_.clear();
    return Failed("it copies bytes from before the piece of 64 KiB that it stands in");
  }
  left_ -= made_;
  BeginPiece();
  return {};
}

/// Of a kind whose library this build lacks.
class MissingDecompressor final : public Decompressor {
 public:
  explicit MissingDecompressor(const char* library) : library_(library) {}

  Result Decompress(std::span<const std::byte>* /*input*/,
                    std::span<std::byte>* /*output*/) override {
    return Refuse("this build of ringfeed has no " + library_, StatusCode::kUnsupported);
  }
  void Restart() override { problem_.clear(); }

 private:
  const std::string library_;
};

}  // namespace

std::unique_ptr<Decompressor> MakeLibraryDecompressor(Compression compression) {
  switch (compression) {
    case Compression::kBzip2:
#if defined(RINGFEED_WITH_BZIP2)
      return std::make_unique<LibraryDecompressor<Bzip2Codec>>();
#else
      return std::make_unique<MissingDecompressor>("libbz2");
#endif
    case Compression::kXz:
#if defined(RINGFEED_WITH_XZ)
      return std::make_unique<LibraryDecompressor<XzCodec>>();
#else
      return std::make_unique<MissingDecompressor>("liblzma");
#endif
    case Compression::kLz4:
#if defined(RINGFEED_WITH_LZ4)
      return std::make_unique<LibraryDecompressor<Lz4Codec>>();
#else
      return std::make_unique<MissingDecompressor>("liblz4");
#endif
    case Compression::kSnappy:
      return std::make_unique<LibraryDecompressor<SnappyCodec>>();
    default:
#if defined(RINGFEED_WITH_BROTLI)
      return std::make_unique<LibraryDecompressor<BrotliCodec>>();
#else
      return std::make_unique<MissingDecompressor>("libbrotlidec");
#endif
  }
}

}  // namespace ringfeed
