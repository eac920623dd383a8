// The device kernels beside what the device's memory can do: Fill, which does nothing but write.

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random_bits.h"
#include "bench/device_limits.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kSlackBytes = 4096;

/// Where a kernel's operands are: on the host or on the device, at the same places from the start
/// of each.
struct Places {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
};

/// A kernel of about so many bytes, read and written together. Those of ragged rows write their
/// offsets into the input of the host.
struct KernelCase {
  std::string name;
  std::function<DeviceKernel(const Places& places, std::size_t bytes)> make;
  std::function<void(std::byte* input, std::size_t bytes)> prepare;
};

KernelCase ChecksumCase() {
  return {"checksum",
          [](const Places& places, std::size_t bytes) -> DeviceKernel {
            return Checksum{places.input, bytes, reinterpret_cast<std::uint64_t*>(places.output)};
          },
          nullptr};
}

/// How images are cast.
struct CastKind {
  const char* name = nullptr;
  DType dtype = DType::kFloat32;
  bool channels_first = false;
  std::uint64_t crop = 0;  ///< side of what is taken, at edges, mirrored; 0: all as it is
};

KernelCase CastCase(const CastKind& kind) {
  constexpr std::uint64_t kSide = 256;
  return {kind.name,
          [kind](const Places& places, std::size_t bytes) -> DeviceKernel {
            CastNormalize cast;
            cast.input = places.input;
            cast.output = places.output;
            cast.height = cast.width = kSide;
            cast.channels = 3;
            cast.crop_height = cast.crop_width = kind.crop;
            if (kind.crop != 0) {  // random bytes will do: each place is moved into its image
              cast.crops = reinterpret_cast<const std::int32_t*>(places.input);
            }
            const std::size_t image = kSide * kSide * cast.channels;
            cast.rows = std::max<std::size_t>(bytes / (image * (1 + DTypeBytes(kind.dtype))), 1);
            cast.output_dtype = kind.dtype;
            cast.channels_first = kind.channels_first;
            cast.mean = {123.675F, 116.28F, 103.53F, 0};
            cast.scale = {1 / 58.395F, 1 / 57.12F, 1 / 57.375F, 1};
            return cast;
          },
          nullptr};
}

KernelCase WidenCase(const char* name, DType dtype) {
  return {name,
          [dtype](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::size_t each = sizeof(std::uint16_t) + DTypeBytes(dtype);
            return WidenTokens{places.input, places.output, bytes / each, dtype};
          },
          nullptr};
}

/// Rows of 0 to `length` steps, half of them on average.
struct RaggedKind {
  const char* name = nullptr;
  std::uint32_t unit_bytes = 1;
  std::uint32_t padding_bytes = 1;
  std::uint64_t length = 512;

  // A row's output, its input and its offset.
  std::size_t Rows(std::size_t bytes) const {
    const std::size_t row = length * unit_bytes;
    return std::max<std::size_t>(bytes / (row + row / 2 + sizeof(std::int64_t)), 1);
  }
  // The input is a third of all: after it there is room.
  static std::byte* OffsetsAt(std::byte* input, std::size_t bytes) { return input + bytes / 2; }
  std::vector<std::int64_t> Offsets(std::size_t bytes) const {
    RandomBits random(length + unit_bytes);
    std::vector<std::int64_t> offsets(Rows(bytes) + 1);
    for (std::size_t row = 1; row < offsets.size(); ++row) {
      offsets[row] = offsets[row - 1] + static_cast<std::int64_t>(random.Below(length + 1));
    }
    return offsets;
  }
};

KernelCase RaggedCase(const RaggedKind& kind) {
  return {kind.name,
          [kind](const Places& places, std::size_t bytes) -> DeviceKernel {
            RaggedToPadded pad;
            pad.input = places.input;
            pad.offsets =
                reinterpret_cast<const std::int64_t*>(RaggedKind::OffsetsAt(places.input, bytes));
            pad.output = places.output;
            pad.rows = kind.Rows(bytes);
            pad.length = kind.length;
            pad.input_units = static_cast<std::uint64_t>(kind.Offsets(bytes).back());
            pad.unit_bytes = kind.unit_bytes;
            pad.padding_bytes = kind.padding_bytes;
            pad.padding.fill(std::byte{7});
            return pad;
          },
          [kind](std::byte* input, std::size_t bytes) {
            const std::vector<std::int64_t> offsets = kind.Offsets(bytes);
            std::memcpy(RaggedKind::OffsetsAt(input, bytes), offsets.data(),
                        offsets.size() * sizeof(std::int64_t));
          }};
}

/// Records of a slab, each to its place in a batch, in any order. Their table stands after what is
/// read, in the input.
struct RecordKind {
  const char* name = nullptr;
  std::size_t record_bytes = 1;

  // The record itself, `times`, and what the table says of it.
  std::size_t Count(std::size_t bytes, std::size_t times, std::size_t table_bytes) const {
    return std::max<std::size_t>(bytes / (times * record_bytes + table_bytes), 1);
  }
  std::size_t TableAt(std::size_t count) const {
    return (count * record_bytes + sizeof(std::uint64_t)) & ~(sizeof(std::uint64_t) - 1);
  }
};

KernelCase GatherCase(const RecordKind& kind) {
  const auto count_of = [kind](std::size_t bytes) {
    return kind.Count(bytes, 2, sizeof(GatheredPiece));
  };
  return {kind.name,
          [kind, count_of](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::size_t count = count_of(bytes);
            const std::size_t all_bytes = count * kind.record_bytes;
            const auto* const pieces =
                reinterpret_cast<const GatheredPiece*>(places.input + kind.TableAt(count));
            return GatherPieces{places.input, all_bytes, pieces, count, places.output, all_bytes};
          },
          [kind, count_of](std::byte* input, std::size_t bytes) {
            const std::size_t count = count_of(bytes);
            std::vector<GatheredPiece> pieces(count);
            RandomBits random(count);
            for (std::size_t i = 0; i < count; ++i) {
              pieces[i] = {i * kind.record_bytes, i * kind.record_bytes, kind.record_bytes};
              std::swap(pieces[i].from, pieces[random.Below(i + 1)].from);
            }
            std::memcpy(input + kind.TableAt(count), pieces.data(), count * sizeof(GatheredPiece));
          }};
}

KernelCase SumCase(const RecordKind& kind) {
  const auto count_of = [kind](std::size_t bytes) {
    return kind.Count(bytes, 1, sizeof(SummedPiece) + sizeof(std::uint32_t));
  };
  return {kind.name,
          [kind, count_of](const Places& places, std::size_t bytes) -> DeviceKernel {
            const std::size_t count = count_of(bytes);
            const auto* const pieces =
                reinterpret_cast<const SummedPiece*>(places.input + kind.TableAt(count));
            return SumPieces{places.input, count * kind.record_bytes, pieces, count,
                             reinterpret_cast<std::uint32_t*>(places.output)};
          },
          [kind, count_of](std::byte* input, std::size_t bytes) {
            const std::size_t count = count_of(bytes);
            std::vector<SummedPiece> pieces(count);
            for (std::size_t i = 0; i < count; ++i) {
              pieces[i] = {i * kind.record_bytes, kind.record_bytes};
            }
            std::memcpy(input + kind.TableAt(count), pieces.data(), count * sizeof(SummedPiece));
          }};
}

std::vector<KernelCase> AllCases() {
  return {
      ChecksumCase(),
      CastCase({"cast_f32", DType::kFloat32, false}),
      CastCase({"cast_f16", DType::kFloat16, false}),
      CastCase({"cast_f32_chw", DType::kFloat32, true}),
      CastCase({"cast_f16_chw", DType::kFloat16, true}),
      CastCase({"cast_f32_crop", DType::kFloat32, false, 224}),
      CastCase({"cast_f16_chw_crop", DType::kFloat16, true, 224}),
      WidenCase("widen_i64", DType::kInt64),
      WidenCase("widen_i32", DType::kInt32),
      RaggedCase({"ragged_1_byte", 1, 1}),
      RaggedCase({"ragged_4_bytes", 4, 4}),
      RaggedCase({"ragged_64_bytes", 64, 4, 100}),
      GatherCase({"gather_250_bytes", 250}),
      GatherCase({"gather_2_kib", 2 * kKiB}),
      GatherCase({"gather_110_kb", 110'003}),
      SumCase({"sum_250_bytes", 250}),
      SumCase({"sum_2_kib", 2 * kKiB}),
      SumCase({"sum_110_kb", 110'003}),
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
        device_output_(run.device(), arrived_.bytes()),
        stream_(run.device()),
        registered_input_(run, input_),
        registered_arrived_(run, arrived_) {
    input_.FillRandom(bytes);
    arrived_.Fill(kStale);
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
    Upload(test);
    const Places on_device{device_input_.data(), device_output_.data()};
    const DeviceKernel kernel = test.make(on_device, bytes_);
    Require(CheckKernel(kernel));
    const WorkTime time = Time([&] { Require(run_.backend().Launch(stream_.get(), kernel)); });
    std::size_t all_bytes = 0;
    std::size_t output_bytes = 0;
    for (const MemoryAccess& access : KernelAccesses(kernel)) {
      all_bytes += access.bytes;
      if (access.writes) output_bytes = access.bytes;
    }
    Tell(all_bytes, time, row);
    RunKernelOnHost(test.make({input_.data(), twin_.data()}, bytes_));
    Compare(output_bytes, row);
  }

 private:
  // The offsets of ragged rows stand where other cases have random bytes.
  void Upload(const KernelCase& test) const {
    if (test.prepare) test.prepare(input_.data(), bytes_);
    Require(run_.backend().CopyToDevice(stream_.get(), device_input_.data(), input_.data(),
                                        input_.bytes()));
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
    if (fill_gb_per_s_ > 0) {
      (*row)["share_of_fill"] = GbPerS(bytes, time.device_s) / fill_gb_per_s_;
    }
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
