#include "bench/bare_loop.h"

#include <isa-l/crc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringfeed::bench {
namespace {

constexpr std::size_t kFloats = 13;
constexpr std::size_t kInts = 26;

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "bare loop: %s\n", why);
  std::abort();
}

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// --- stores ------------------------------------------------------------------------------------

void Stream64(std::byte* to, std::uint64_t value) {
#if defined(__x86_64__)
  _mm_stream_si64(reinterpret_cast<long long*>(to), static_cast<long long>(value));
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

void Stream32(std::byte* to, std::uint32_t value) {
#if defined(__x86_64__)
  _mm_stream_si32(reinterpret_cast<int*>(to), static_cast<int>(value));
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

// A multiple of four bytes, to an address that is one too.
void StreamWords(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0 && bytes >= 4) {
    Stream32(to, Load<std::uint32_t>(from));
    at = 4;
  }
  for (; at + 8 <= bytes; at += 8) Stream64(to + at, Load<std::uint64_t>(from + at));
  if (at < bytes) Stream32(to + at, Load<std::uint32_t>(from + at));
}

void Fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::size_t StreamMiddle(std::byte* to, const std::byte* from,
                                                         std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 512), _MM_HINT_T0);
    const auto* in = reinterpret_cast<const __m256i*>(from + at);
    auto* out = reinterpret_cast<__m256i*>(to + at);
    _mm256_stream_si256(out, _mm256_loadu_si256(in));
    _mm256_stream_si256(out + 1, _mm256_loadu_si256(in + 1));
  }
  return at;
}
#endif

void StreamLarge(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__x86_64__)
  if (bytes >= 128 && __builtin_cpu_supports("avx2")) {
    const std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
    std::memcpy(to, from, head);
    at = head + StreamMiddle(to + head, from + head, bytes - head);
  }
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

// --- framing -----------------------------------------------------------------------------------

std::uint32_t MaskedCrc(const std::byte* data, std::size_t bytes) {
  auto* from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data));
  const std::uint32_t crc = ~crc32_iscsi(from, static_cast<int>(bytes), ~0U);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// ISA-L is made for long runs: of the eight bytes of a length one instruction takes the CRC.
#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t LengthCrc(const std::byte* header) {
  const auto crc = ~static_cast<std::uint32_t>(_mm_crc32_u64(~0U, Load<std::uint64_t>(header)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}
#else
std::uint32_t LengthCrc(const std::byte* header) { return MaskedCrc(header, 8); }
#endif

// Calls take(payload, bytes) for every record of the files.
template <typename Take>
void ForEachRecord(const std::vector<std::string>& files, LoopResult* result, Take take) {
  for (const std::string& file : files) {
    BlockReader reader(file);
    std::span<const std::byte> bytes;
    std::size_t at = 0;
    while (reader.Next(at, &bytes)) {
      at = 0;
      while (bytes.size() - at >= 16) {
        const std::byte* record = bytes.data() + at;
        const auto length = Load<std::uint64_t>(record);
        if (LengthCrc(record) != Load<std::uint32_t>(record + 8)) Die("bad length CRC");
        if (length > bytes.size() - at - 16) break;
        const std::byte* payload = record + 12;
        if (MaskedCrc(payload, length) != Load<std::uint32_t>(payload + length)) {
          Die("bad payload CRC");
        }
        take(payload, static_cast<std::size_t>(length));
        ++result->records;
        result->bytes += length;
        at += 16 + length;
      }
    }
  }
}

// --- tf.Example --------------------------------------------------------------------------------

std::uint64_t Varint(const std::byte** at, const std::byte* end) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*(*at)++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  Die("bad varint");
}

// The contents of the delimited field with this tag that must stand at *at.
std::span<const std::byte> Enter(const std::byte** at, const std::byte* end, int tag) {
  if (*at == end || **at != static_cast<std::byte>(tag)) Die("unexpected tag");
  ++*at;
  const std::uint64_t size = Varint(at, end);
  if (size > static_cast<std::uint64_t>(end - *at)) Die("bad length");
  const std::span<const std::byte> inside{*at, static_cast<std::size_t>(size)};
  *at += size;
  return inside;
}

// Calls take(key, values) for every feature; `values` is the list's one run.
template <typename Take>
void ForEachFeature(const std::byte* record, std::size_t bytes, Take take) {
  const std::byte* end = record + bytes;
  const std::span<const std::byte> features = Enter(&record, end, 0x0a);
  const std::byte* at = features.data();
  const std::byte* features_end = at + features.size();
  while (at != features_end) {
    const std::span<const std::byte> entry = Enter(&at, features_end, 0x0a);
    const std::byte* in = entry.data();
    const std::byte* entry_end = in + entry.size();
    const std::span<const std::byte> key = Enter(&in, entry_end, 0x0a);
    const std::span<const std::byte> feature = Enter(&in, entry_end, 0x12);
    const std::byte* kind = feature.data();
    const std::byte* feature_end = kind + feature.size();
    const std::span<const std::byte> list =
        Enter(&kind, feature_end, kind == feature_end ? -1 : std::to_integer<int>(*kind));
    const std::byte* run = list.data();
    take(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()),
         Enter(&run, run + list.size(), 0x0a));
  }
}

// --- batches -----------------------------------------------------------------------------------

// A column of fixed rows in a batch: where it starts and what a row takes.
struct Column {
  std::size_t offset;
  std::size_t row_bytes;
};

// kRotatingBatches batches of fixed columns, one behind the other.
class FixedBatches {
 public:
  FixedBatches(std::vector<std::size_t> row_bytes, const LoopOptions& options)
      : options_(options),
        batch_bytes_(Layout(row_bytes)),
        memory_(kRotatingBatches * batch_bytes_) {
    base_ = memory_.data();
  }

  std::byte* at(std::size_t column) const {
    return base_ + columns_[column].offset + row_ * columns_[column].row_bytes;
  }
  void NextRow() {
    if (++row_ == options_.batch_rows) Finish();
  }
  void Finish() {
    Fence();
    if (options_.digest && row_ != 0) {
      for (const Column& column : columns_) {
        digest_.Add({base_ + column.offset, row_ * column.row_bytes});
      }
    }
    row_ = 0;
    base_ += batch_bytes_;
    if (base_ == memory_.data() + memory_.bytes()) base_ = memory_.data();
  }
  std::uint64_t digest() const { return digest_.value(); }

 private:
  std::size_t Layout(const std::vector<std::size_t>& row_bytes) {
    std::size_t end = 0;
    for (const std::size_t bytes : row_bytes) {
      columns_.push_back({end, bytes});
      end += (bytes * options_.batch_rows + 63) / 64 * 64;
    }
    return end;
  }

  const LoopOptions options_;
  std::vector<Column> columns_;
  std::size_t batch_bytes_;
  BatchMemory memory_;
  std::byte* base_ = nullptr;
  std::size_t row_ = 0;
  BatchDigest digest_;
};

void WriteInts(std::span<const std::byte> run, std::size_t count, std::byte* to) {
  const std::byte* at = run.data();
  const std::byte* end = at + run.size();
  for (std::size_t i = 0; i < count; ++i) Stream64(to + 8 * i, Varint(&at, end));
  if (at != end) Die("too many integers");
}

// A batch of images: bytes behind each other, offsets, labels.
class ImageBatches {
 public:
  explicit ImageBatches(const LoopOptions& options)
      : options_(options),
        image_bytes_(options.batch_rows * kImageRoom),
        memory_(kRotatingBatches * image_bytes_),
        labels_(options.batch_rows),
        offsets_(options.batch_rows + 1) {}

  void Add(std::span<const std::byte> image, std::int64_t label) {
    const auto begin = static_cast<std::size_t>(offsets_[row_]);
    if (image.size() > image_bytes_ - begin) Die("a batch is too large");
    StreamLarge(memory_.data() + batch_ * image_bytes_ + begin, image.data(), image.size());
    labels_[row_] = label;
    offsets_[++row_] = static_cast<std::int64_t>(begin + image.size());
    if (row_ == options_.batch_rows) Finish();
  }
  void Finish() {
    Fence();
    if (options_.digest && row_ != 0) {
      const auto bytes = static_cast<std::size_t>(offsets_[row_]);
      digest_.Add({memory_.data() + batch_ * image_bytes_, bytes});
      digest_.Add(std::as_bytes(std::span(offsets_).first(row_ + 1)));
      digest_.Add(std::as_bytes(std::span(labels_).first(row_)));
    }
    row_ = 0;
    batch_ = (batch_ + 1) % kRotatingBatches;
  }
  std::uint64_t digest() const { return digest_.value(); }

 private:
  static constexpr std::size_t kImageRoom = 256 * 1024;  // a row's share of a batch

  const LoopOptions options_;
  const std::size_t image_bytes_;
  BatchMemory memory_;
  std::vector<std::int64_t> labels_;
  std::vector<std::int64_t> offsets_;
  std::size_t row_ = 0;
  std::size_t batch_ = 0;
  BatchDigest digest_;
};

// Key `expected` as a number: "c7" is 7.
std::size_t NumberOf(std::string_view key) {
  std::size_t number = 0;
  for (const char c : key.substr(1)) number = number * 10 + static_cast<std::size_t>(c - '0');
  return number;
}

}  // namespace

LoopResult BareImageLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  ImageBatches batches(options);
  LoopResult result;
  const LoopTimer timer;
  ForEachRecord(files, &result, [&](const std::byte* record, std::size_t bytes) {
    std::span<const std::byte> image;
    std::int64_t label = 0;
    ForEachFeature(record, bytes, [&](std::string_view key, std::span<const std::byte> run) {
      if (key == "image") {
        image = run;
      } else if (key == "label") {
        const std::byte* at = run.data();
        label = static_cast<std::int64_t>(Varint(&at, at + run.size()));
      }
    });
    batches.Add(image, label);
  });
  batches.Finish();
  timer.Stop(&result);
  result.digest = batches.digest();
  return result;
}

LoopResult BareFrameLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  LoopResult result;
  BatchDigest digest;
  const LoopTimer timer;
  ForEachRecord(files, &result, [&](const std::byte* record, std::size_t bytes) {
    if (options.digest) digest.Add({record, bytes});
  });
  timer.Stop(&result);
  result.digest = digest.value();
  return result;
}

LoopResult BareSmallExampleLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  FixedBatches batches({kFloats * 4, kInts * 8, 8}, options);
  LoopResult result;
  const LoopTimer timer;
  ForEachRecord(files, &result, [&](const std::byte* record, std::size_t bytes) {
    unsigned found = 0;
    ForEachFeature(record, bytes, [&](std::string_view key, std::span<const std::byte> run) {
      if (key == "dense") {
        if (run.size() != kFloats * 4) Die("bad floats");
        StreamWords(batches.at(0), run.data(), run.size());
      } else if (key == "sparse") {
        WriteInts(run, kInts, batches.at(1));
      } else if (key == "label") {
        WriteInts(run, 1, batches.at(2));
      } else {
        return;
      }
      ++found;
    });
    if (found != 3) Die("a feature is missing");
    batches.NextRow();
  });
  batches.Finish();
  timer.Stop(&result);
  result.digest = batches.digest();
  return result;
}

LoopResult BareFortyFeatureLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  std::vector<std::size_t> row_bytes{8};
  row_bytes.insert(row_bytes.end(), kFloats, 4);
  row_bytes.insert(row_bytes.end(), kInts, 8);
  FixedBatches batches(row_bytes, options);
  LoopResult result;
  const LoopTimer timer;
  ForEachRecord(files, &result, [&](const std::byte* record, std::size_t bytes) {
    unsigned found = 0;
    ForEachFeature(record, bytes, [&](std::string_view key, std::span<const std::byte> run) {
      if (key == "label") {
        WriteInts(run, 1, batches.at(0));
      } else if (key[0] == 'i') {
        if (run.size() != 4) Die("bad float");
        StreamWords(batches.at(NumberOf(key)), run.data(), 4);
      } else if (key[0] == 'c') {
        WriteInts(run, 1, batches.at(kFloats + NumberOf(key)));
      } else {
        return;
      }
      ++found;
    });
    if (found != 1 + kFloats + kInts) Die("a feature is missing");
    batches.NextRow();
  });
  batches.Finish();
  timer.Stop(&result);
  result.digest = batches.digest();
  return result;
}

LoopResult BareRowLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  constexpr std::size_t kRow = 160;
  FixedBatches batches({kFloats * 4, kInts * 4, 4}, options);
  LoopResult result;
  const LoopTimer timer;
  for (const std::string& file : files) {
    BlockReader reader(file);
    std::span<const std::byte> bytes;
    std::size_t at = 0;
    while (reader.Next(at, &bytes)) {
      for (at = 0; bytes.size() - at >= kRow; at += kRow) {
        const std::byte* row = bytes.data() + at;
        StreamWords(batches.at(0), row, kFloats * 4);
        StreamWords(batches.at(1), row + kFloats * 4, kInts * 4);
        StreamWords(batches.at(2), row + (kFloats + kInts) * 4, 4);
        ++result.records;
        batches.NextRow();
      }
    }
  }
  batches.Finish();
  timer.Stop(&result);
  result.bytes = result.records * kRow;
  result.digest = batches.digest();
  return result;
}

}  // namespace ringfeed::bench
