// The device kernels beside what the device's memory can do: Fill, which does nothing but write.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random_bits.h"
#include "bench/device_limits.h"
#include "gpu/piece_chunks.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed::bench {
namespace {

/// Where a kernel's operands are: all on the host or all on the device.
struct Places {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* table = nullptr;
};

/// A kernel of about so many bytes, read and written together.
struct KernelCase {
  std::string name;
  std::function<DeviceKernel(const Places& places, std::size_t bytes)> make;
  /// What the kernel reads beside its input: offsets, places.
  std::function<std::vector<std::byte>(std::size_t bytes)> table = nullptr;
};

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::size_t CountOf(std::size_t bytes, std::size_t each) {
  return std::max<std::size_t>(bytes / each, 1);
}

KernelCase ChecksumCase() {
  return {"checksum", [](const Places& places, std::size_t bytes) -> DeviceKernel {
            return Checksum{places.input, bytes, reinterpret_cast<std::uint64_t*>(places.output)};
          }};
}

/// Images; `crop` is the side of what is taken, at edges, mirrored; 0: all as it is.
KernelCase CastCase(const char* name, DType dtype, bool channels_first, std::uint64_t crop = 0) {
  return {name, [=](const Places& places, std::size_t bytes) -> DeviceKernel {
            CastNormalize cast;
            cast.input = places.input;
            cast.output = places.output;
            cast.height = cast.width = 256;
            cast.channels = 3;
            cast.crop_height = cast.crop_width = crop;
            if (crop != 0) {  // random bytes will do: each place is moved into its image
              cast.crops = reinterpret_cast<const std::int32_t*>(places.input);
            }
            cast.rows = CountOf(bytes, 256 * 256 * 3 * (1 + DTypeBytes(dtype)));
            cast.output_dtype = dtype;
            cast.channels_first = channels_first;
            cast.mean = {123.675F, 116.28F, 103.53F, 0};
            cast.scale = {1 / 58.395F, 1 / 57.12F, 1 / 57.375F, 1};
            return cast;
          }};
}

KernelCase WidenCase(const char* name, DType dtype) {
  return {name, [dtype](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::size_t each = sizeof(std::uint16_t) + DTypeBytes(dtype);
            return WidenTokens{places.input, places.output, bytes / each, dtype};
          }};
}

/// Rows of 0 to `length` steps, half of them on average.
KernelCase RaggedCase(const char* name, std::uint32_t unit_bytes, std::uint64_t length) {
  const auto offsets_of = [=](std::size_t bytes) {
    const std::size_t row = length * unit_bytes;
    RandomBits random(row);
    std::vector<std::int64_t> offsets(CountOf(bytes, row + row / 2 + sizeof(std::int64_t)) + 1);
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      offsets[i] = offsets[i - 1] + static_cast<std::int64_t>(random.Below(length + 1));
    }
    return offsets;
  };
  return {name,
          [=](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::vector<std::int64_t> offsets = offsets_of(bytes);
            RaggedToPadded pad;
            pad.input = places.input;
            pad.offsets = reinterpret_cast<const std::int64_t*>(places.table);
            pad.output = places.output;
            pad.rows = offsets.size() - 1;
            pad.length = length;
            pad.input_units = static_cast<std::uint64_t>(offsets.back());
            pad.unit_bytes = unit_bytes;
            pad.padding_bytes = std::min(unit_bytes, 4U);
            pad.padding.fill(std::byte{7});
            return pad;
          },
          [=](std::size_t bytes) { return BytesOf(offsets_of(bytes)); }};
}

/// The bytes of each record of a slab.
using RecordBytes = std::vector<std::size_t>;

RecordBytes AsLong(std::size_t bytes, std::size_t record) {
  return RecordBytes(CountOf(bytes, record), record);
}
/// One record is as long as all others together.
RecordBytes OneLong(std::size_t bytes, std::size_t record) {
  RecordBytes records = AsLong(bytes / 2, record);
  records[records.size() / 2] = bytes / 2;
  return records;
}

using RecordsOf = RecordBytes (*)(std::size_t bytes, std::size_t record);

/// Records of a slab, each to its place in a batch, in any order.
KernelCase GatherCase(const char* name, std::size_t record, RecordsOf records_of = AsLong) {
  const auto pieces_of = [=](std::size_t bytes) {
    RecordBytes records = records_of(bytes / 2, record);
    RandomBits random(records.size());
    std::vector<std::size_t> order(records.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      std::swap(order[i], order[random.Below(i + 1)]);
    }
    std::vector<std::size_t> from(records.size());
    std::exclusive_scan(records.begin(), records.end(), from.begin(), std::size_t{0});
    std::vector<GatheredPiece> pieces;
    std::size_t to = 0;
    for (const std::size_t i : order) {
      ForEachChunk(records[i], [&](std::uint64_t at, std::uint64_t chunk) {
        pieces.push_back({from[i] + at, to + at, chunk});
      });
      to += records[i];
    }
    return pieces;
  };
  return {name,
          [=](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::vector<GatheredPiece> pieces = pieces_of(bytes);
            const std::uint64_t all = pieces.back().to + pieces.back().bytes;
            const auto* const table = reinterpret_cast<const GatheredPiece*>(places.table);
            return GatherPieces{places.input, all, table, pieces.size(), places.output, all};
          },
          [=](std::size_t bytes) { return BytesOf(pieces_of(bytes)); }};
}

/// Checksums of a slab's records.
KernelCase SumCase(const char* name, std::size_t record, RecordsOf records_of = AsLong) {
  const auto pieces_of = [=](std::size_t bytes) {
    std::vector<SummedPiece> pieces;
    std::size_t from = 0;
    std::uint32_t text = 0;
    for (const std::size_t one : records_of(bytes, record)) {
      ForEachChunk(one, [&](std::uint64_t at, std::uint64_t chunk) {
        pieces.push_back({from + at, one - at - chunk, static_cast<std::uint32_t>(chunk), text});
      });
      from += one;
      ++text;
    }
    return pieces;
  };
  return {name,
          [=](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::vector<SummedPiece> pieces = pieces_of(bytes);
            const auto* const table = reinterpret_cast<const SummedPiece*>(places.table);
            auto* const output = reinterpret_cast<std::uint32_t*>(places.output);
            const std::uint64_t all = pieces.back().from + pieces.back().bytes;
            const std::uint64_t texts = pieces.back().text + 1;
            return SumPieces{places.input, all, table, pieces.size(), output, texts};
          },
          [=](std::size_t bytes) { return BytesOf(pieces_of(bytes)); }};
}

std::vector<KernelCase> AllCases() {
  return {
      ChecksumCase(),
      CastCase("cast_f32", DType::kFloat32, false),
      CastCase("cast_f16", DType::kFloat16, false),
      CastCase("cast_f32_chw", DType::kFloat32, true),
      CastCase("cast_f16_chw", DType::kFloat16, true),
      CastCase("cast_f32_crop", DType::kFloat32, false, 224),
      CastCase("cast_f16_chw_crop", DType::kFloat16, true, 224),
      WidenCase("widen_i64", DType::kInt64),
      WidenCase("widen_i32", DType::kInt32),
      RaggedCase("ragged_1_byte", 1, 512),
      RaggedCase("ragged_4_bytes", 4, 512),
      RaggedCase("ragged_64_bytes", 64, 100),
      GatherCase("gather_250_bytes", 250),
      GatherCase("gather_2_kib", 2 * kKiB),
      GatherCase("gather_110_kb", 110'003),
      GatherCase("gather_one_long", kKiB, OneLong),
      SumCase("sum_250_bytes", 250),
      SumCase("sum_2_kib", 2 * kKiB),
      SumCase("sum_110_kb", 110'003),
      SumCase("sum_one_long", kKiB, OneLong),
  };
}

/// All kernels at one size.
class KernelLimits {
 public:
  KernelLimits(const LimitsRun& run, std::size_t bytes)
      : run_(run),
        bytes_(bytes),
        input_(bytes + kSlackBytes, Pages::kHuge),
        twin_(bytes + kSlackBytes, Pages::kHuge),
        arrived_(bytes + kSlackBytes, Pages::kHuge),
        device_input_(run.device(), input_.bytes()),
        device_output_(run.device(), input_.bytes()),
        device_table_(run.device(), input_.bytes()),
        stream_(run.device()),
        registered_input_(run, input_),
        registered_arrived_(run, arrived_) {
    input_.FillRandom(bytes);
    Upload(device_input_, input_.data(), input_.bytes());
  }

  void MeasureFill(Json* row) {
    const WorkTime time = Time([this] {
      Require(run_.backend().Fill(stream_.get(), device_output_.data(), kStale, bytes_));
    });
    fill_gb_per_s_ = GbPerS(bytes_, time.device_s);
    Tell(bytes_, time, row);
    twin_.Fill(kStale);
    Compare(bytes_, row);
  }

  void Measure(const KernelCase& test, Json* row) {
    std::vector<std::byte> table;
    if (test.table) table = test.table(bytes_);
    if (!table.empty()) Upload(device_table_, table.data(), table.size());
    const DeviceKernel kernel =
        test.make({device_input_.data(), device_output_.data(), device_table_.data()}, bytes_);
    Require(CheckKernel(kernel));
    const WorkTime time = Time([&] { Require(run_.backend().Launch(stream_.get(), kernel)); });
    std::size_t all_bytes = 0;
    std::size_t output_bytes = 0;
    for (const MemoryAccess& access : KernelAccesses(kernel)) {
      all_bytes += access.bytes;
      if (access.writes) output_bytes = access.bytes;
    }
    Tell(all_bytes, time, row);
    RunKernelOnHost(test.make({input_.data(), twin_.data(), table.data()}, bytes_));
    Compare(output_bytes, row);
  }

 private:
  static constexpr std::size_t kSlackBytes = 4096;

  void Upload(const OwnedMemory& to, const std::byte* from, std::size_t bytes) const {
    Require(run_.backend().CopyToDevice(stream_.get(), to.data(), from, bytes));
    stream_.Sync();
  }

  template <typename Enqueue>
  WorkTime Time(const Enqueue& enqueue) const {
    const WorkPlan plan{.in_row = 64, .seconds = run_.seconds() / 3};
    return MeasureWork(run_.device(), stream_, plan, [&enqueue](std::size_t) { enqueue(); });
  }

  void Compare(std::size_t bytes, Json* row) const {
    Require(
        run_.backend().CopyToHost(stream_.get(), arrived_.data(), device_output_.data(), bytes));
    stream_.Sync();
    if (std::memcmp(arrived_.data(), twin_.data(), bytes) != 0) {
      FailVerification("the device computes other bytes than the host");
    }
    (*row)["verified"] = true;
  }

  void Tell(std::size_t bytes, const WorkTime& time, Json* row) const {
    (*row)["size"] = bytes_;
    (*row)["bytes"] = bytes;
    (*row)["gb_per_s"] = GbPerS(bytes, time.device_s);
    (*row)["share_of_fill"] = GbPerS(bytes, time.device_s) / fill_gb_per_s_;
    (*row)["us_each"] = time.device_s * 1e6;
    (*row)["cpu_us_per_call"] = time.cpu_s * 1e6;
    (*row)["launches_in_row"] = time.in_row;
  }

  const LimitsRun& run_;
  const std::size_t bytes_;
  const HostMemory input_;
  const HostMemory twin_;
  const HostMemory arrived_;
  const OwnedMemory device_input_;
  const OwnedMemory device_output_;
  const OwnedMemory device_table_;
  const OwnedStream stream_;
  const Registered registered_input_;
  const Registered registered_arrived_;
  double fill_gb_per_s_ = 0;
};

}  // namespace

void MeasureKernels(LimitsRun* run) {
  const std::vector<std::size_t> sizes =
      run->emulated() ? std::vector{kMiB, 2 * kMiB} : std::vector{kMiB, 16 * kMiB, 256 * kMiB};
  for (const std::size_t bytes : sizes) {
    KernelLimits limits(*run, bytes);
    run->Row("fill", [&](Json* row) { limits.MeasureFill(row); });
    for (const KernelCase& test : AllCases()) {
      run->Row(test.name, [&](Json* row) { limits.Measure(test, row); });
    }
  }
}

}  // namespace ringfeed::bench
