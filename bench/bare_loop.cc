#include "bench/bare_loop.h"

#include <string_view>

namespace ringfeed::bench {
namespace {

constexpr std::size_t kFloats = 13;
constexpr std::size_t kInts = 26;

// Calls take(payload, bytes) for every whole record at the front of `bytes`; how many these were.
template <typename Take>
std::size_t TakeCounted(std::span<const std::byte> bytes, LoopResult* result, const Take& take) {
  return TakeTfRecords(bytes, [&](const std::byte* payload, std::size_t size) {
    take(payload, size);
    ++result->records;
    result->bytes += size;
  });
}

// The same for every record of the files.
template <typename Take>
void ForEachRecord(const Paths& files, LoopResult* result, const Take& take) {
  ForEachBlock(files, [&](auto block) { return TakeCounted(block, result, take); });
}
template <typename Take>
void ForEachRecord(const MappedFiles& mapped, LoopResult* result, const Take& take) {
  for (const std::span<const std::byte> file : mapped.files()) TakeCounted(file, result, take);
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

void WriteInts(std::span<const std::byte> run, std::size_t count, std::byte* to) {
  const std::byte* at = run.data();
  const std::byte* end = at + run.size();
  for (std::size_t i = 0; i < count; ++i) Stream64(to + 8 * i, Varint(&at, end));
  if (at != end) Die("too many integers");
}

// Of files by their names, or mapped.
template <typename Files>
LoopResult ImageLoop(const Files& files, const LoopOptions& options) {
  ByteBatches images(options);
  std::vector<std::int64_t> labels(options.batch_rows);
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    const auto finish = [&] {
      const std::size_t rows = images.rows();
      images.Finish(digest);
      if (options.digest && rows != 0) digest->Add(std::as_bytes(std::span(labels).first(rows)));
    };
    ForEachRecord(files, result, [&](const std::byte* record, std::size_t bytes) {
      std::span<const std::byte> image;
      ForEachFeature(record, bytes, [&](std::string_view key, std::span<const std::byte> run) {
        if (key == "label") {
          const std::byte* at = run.data();
          labels[images.rows()] = static_cast<std::int64_t>(Varint(&at, at + run.size()));
        } else if (key == "image") {
          image = run;
        }
      });
      images.Add(image);
      if (images.full()) finish();
    });
    finish();
  });
}

}  // namespace

LoopResult BareImageLoop(const Paths& files, const LoopOptions& options) {
  return ImageLoop(files, options);
}

LoopResult BareMappedImageLoop(const MappedFiles& files, const LoopOptions& options) {
  return ImageLoop(files, options);
}

LoopResult BareFrameLoop(const Paths& files, const LoopOptions& options) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    ForEachRecord(files, result, [&](const std::byte* record, std::size_t bytes) {
      if (options.digest) digest->Add({record, bytes});
    });
  });
}

LoopResult BareSmallExampleLoop(const Paths& files, const LoopOptions& options) {
  return FillColumns({kFloats * 4, kInts * 8, 8}, options, [&](auto* result, auto* batches) {
    ForEachRecord(files, result, [&](const std::byte* record, std::size_t bytes) {
      unsigned found = 0;
      ForEachFeature(record, bytes, [&](std::string_view key, std::span<const std::byte> run) {
        if (key == "dense") {
          if (run.size() != kFloats * 4) Die("bad floats");
          StreamWords(batches->at(0), run.data(), run.size());
        } else if (key == "sparse") {
          WriteInts(run, kInts, batches->at(1));
        } else if (key == "label") {
          WriteInts(run, 1, batches->at(2));
        } else {
          return;
        }
        ++found;
      });
      if (found != 3) Die("a feature is missing");
      batches->NextRow();
    });
  });
}

LoopResult BareRowLoop(const Paths& files, const LoopOptions& options) {
  const std::vector<std::size_t> columns(std::begin(kRowColumns), std::end(kRowColumns));
  return FillColumns(columns, options, [&](auto* result, auto* batches) {
    ForEachBlock(files, [&](std::span<const std::byte> bytes) {
      std::size_t at = 0;
      for (; bytes.size() - at >= kRowBytes; at += kRowBytes) {
        WriteRow(bytes.data() + at, *batches);
        batches->NextRow();
      }
      result->records += at / kRowBytes;
      result->bytes += at;
      return at;
    });
  });
}

}  // namespace ringfeed::bench
