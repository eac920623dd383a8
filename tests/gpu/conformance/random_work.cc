#include "tests/gpu/conformance/random_work.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

using Random = std::mt19937_64;

constexpr std::size_t kMost = 3000;
constexpr std::size_t kMemory = RandomProgram::kMemoryBytes;

// The tables: offsets of rows, for RaggedToPadded.
constexpr std::size_t kTables = 8;
constexpr std::size_t kTableRows = 15;
constexpr std::size_t kTableBytes = (kTableRows + 1) * sizeof(std::int64_t);
constexpr std::size_t kTablesBytes = kTables * kTableBytes;
constexpr std::size_t kTableMostSteps = kTableRows * 12;

std::size_t Below(Random& random, std::size_t bound) { return random() % bound; }

// Room for `bytes` in a memory, behind the tables of host memory, on such a boundary.
std::size_t Room(Random& random, std::size_t memory, std::size_t bytes, std::size_t boundary = 1) {
  const std::size_t first = memory == 0 ? kTablesBytes : 0;
  const std::size_t offset = first + Below(random, kMemory - first - bytes + 1);
  return offset / boundary * boundary;
}

// Two pieces of room in one memory that do not overlap.
std::pair<std::size_t, std::size_t> TwoRooms(Random& random, std::size_t memory,
                                             std::size_t first_bytes, std::size_t first_boundary,
                                             std::size_t second_bytes,
                                             std::size_t second_boundary) {
  for (;;) {
    const std::size_t first = Room(random, memory, first_bytes, first_boundary);
    const std::size_t second = Room(random, memory, second_bytes, second_boundary);
    if (first + first_bytes <= second || second + second_bytes <= first) return {first, second};
  }
}

// And a third piece beside them.
std::size_t RoomBeside(Random& random, std::size_t memory, std::size_t bytes, std::size_t boundary,
                       const std::pair<std::size_t, std::size_t>& first,
                       const std::pair<std::size_t, std::size_t>& second) {
  for (;;) {
    const std::size_t room = Room(random, memory, bytes, boundary);
    const auto apart = [&](const std::pair<std::size_t, std::size_t>& other) {
      return room + bytes <= other.first || other.first + other.second <= room;
    };
    if (apart(first) && apart(second)) return room;
  }
}

ProgramStep Work(std::size_t stream, std::vector<ProgramAccess> accesses) {
  ProgramStep step;
  step.stream = stream;
  step.accesses = std::move(accesses);
  return step;
}

ProgramStep CopyUp(std::size_t stream, std::size_t memory, std::size_t from, std::size_t to,
                   std::size_t bytes) {
  ProgramStep step = Work(stream, {{0, from, bytes, false}, {memory, to, bytes, true}});
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories& memories) {
    return backend.CopyToDevice(on, memories[memory] + to, memories[0] + from, bytes);
  };
  step.run = [=](const ProgramMemories& memories) {
    std::memcpy(memories[memory] + to, memories[0] + from, bytes);
  };
  return step;
}

ProgramStep CopyDown(std::size_t stream, std::size_t memory, std::size_t from, std::size_t to,
                     std::size_t bytes) {
  ProgramStep step = Work(stream, {{memory, from, bytes, false}, {0, to, bytes, true}});
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories& memories) {
    return backend.CopyToHost(on, memories[0] + to, memories[memory] + from, bytes);
  };
  step.run = [=](const ProgramMemories& memories) {
    std::memcpy(memories[0] + to, memories[memory] + from, bytes);
  };
  return step;
}

ProgramStep CopyBatchUp(std::size_t stream, std::size_t memory, Random& random) {
  struct Piece {
    std::size_t to, from, bytes;
  };
  std::vector<Piece> pieces;
  std::vector<ProgramAccess> accesses;
  std::size_t to = Below(random, kMemory / 2);
  for (std::size_t i = 1 + Below(random, 12); i > 0; --i) {
    const std::size_t bytes = Below(random, 500);
    to += Below(random, 100);
    pieces.push_back({to, Room(random, 0, bytes), bytes});
    accesses.push_back({memory, to, bytes, true});
    accesses.push_back({0, pieces.back().from, bytes, false});
    to += bytes;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  ProgramStep step = Work(stream, std::move(accesses));
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories& memories) {
    std::vector<CopyPiece> of_memories;
    for (const Piece& piece : pieces) {
      of_memories.push_back({memories[memory] + piece.to, memories[0] + piece.from, piece.bytes});
    }
    return backend.CopyBatchToDevice(on, of_memories);
  };
  step.run = [=](const ProgramMemories& memories) {
    for (const Piece& piece : pieces) {
      std::memcpy(memories[memory] + piece.to, memories[0] + piece.from, piece.bytes);
    }
  };
  return step;
}

ProgramStep FillSome(std::size_t stream, std::size_t memory, Random& random) {
  const std::size_t bytes = Below(random, kMost);
  const std::size_t to = Room(random, memory, bytes);
  const auto value = static_cast<std::byte>(random());
  ProgramStep step = Work(stream, {{memory, to, bytes, true}});
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories& memories) {
    return backend.Fill(on, memories[memory] + to, value, bytes);
  };
  step.run = [=](const ProgramMemories& memories) {
    std::memset(memories[memory] + to, static_cast<int>(value), bytes);
  };
  return step;
}

ProgramStep BusyFor(std::size_t stream, std::int64_t duration_ns) {
  ProgramStep step = Work(stream, {});
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories&) {
    return backend.Busy(on, duration_ns);
  };
  step.run = [](const ProgramMemories&) {};
  return step;
}

using KernelOn = std::function<DeviceKernel(std::byte* memory)>;

ProgramStep LaunchOf(std::size_t stream, std::size_t memory, std::vector<ProgramAccess> accesses,
                     const KernelOn& kernel) {
  ProgramStep step = Work(stream, std::move(accesses));
  step.enqueue = [=](DeviceBackend& backend, DeviceStream on, const ProgramMemories& memories) {
    return backend.Launch(on, kernel(memories[memory]));
  };
  step.run = [=](const ProgramMemories& memories) { RunKernelOnHost(kernel(memories[memory])); };
  return step;
}

ProgramStep ChecksumOfSome(std::size_t stream, std::size_t memory, Random& random) {
  const std::size_t bytes = Below(random, kMost);
  const auto [input, output] = TwoRooms(random, memory, bytes, 1, 8, 8);
  return LaunchOf(
      stream, memory, {{memory, input, bytes, false}, {memory, output, 8, true}},
      [=, from = input, to = output](std::byte* data) -> DeviceKernel {
        return Checksum{data + from, bytes, reinterpret_cast<std::uint64_t*>(data + to)};
      });
}

ProgramStep WidenSome(std::size_t stream, std::size_t memory, Random& random) {
  const std::size_t count = 1 + Below(random, kMost / 8);
  const DType dtype = random() % 2 == 0 ? kInt32 : kInt64;
  const std::size_t bytes = count * DTypeBytes(dtype);
  const auto [input, output] = TwoRooms(random, memory, count * 2, 2, bytes, 8);
  return LaunchOf(stream, memory,
                  {{memory, input, count * 2, false}, {memory, output, bytes, true}},
                  [=, from = input, to = output](std::byte* data) -> DeviceKernel {
                    return WidenTokens{data + from, data + to, count, dtype};
                  });
}

CastNormalize SomeCast(Random& random) {
  CastNormalize kernel;
  kernel.rows = 1 + Below(random, 3);
  kernel.height = 1 + Below(random, 9);
  kernel.width = 1 + Below(random, 9);
  kernel.channels = 1 + Below(random, 4);
  kernel.output_dtype = std::array{kFloat32, kFloat16, kBFloat16}[Below(random, 3)];
  kernel.channels_first = random() % 2 == 0;
  kernel.mean = {1.5f, 127.0f, 0.0f, -3.0f};
  kernel.scale = {0.25f, 0.017f, 1.0f, 1e-3f};
  return kernel;
}

ProgramStep NormalizeSome(std::size_t stream, std::size_t memory, Random& random) {
  const CastNormalize kernel = SomeCast(random);
  const std::size_t count = kernel.rows * kernel.height * kernel.width * kernel.channels;
  const std::size_t bytes = count * DTypeBytes(kernel.output_dtype);
  const auto [input, output] = TwoRooms(random, memory, count, 1, bytes, 4);
  return LaunchOf(stream, memory, {{memory, input, count, false}, {memory, output, bytes, true}},
                  [=, from = input, to = output](std::byte* data) -> DeviceKernel {
                    CastNormalize here = kernel;
                    here.input = data + from;
                    here.output = data + to;
                    return here;
                  });
}

// Whatever stands where the places are said to be: each one is moved into the image.
ProgramStep CropSome(std::size_t stream, std::size_t memory, Random& random) {
  CastNormalize kernel = SomeCast(random);
  kernel.crop_height = Below(random, kernel.height + 1);
  kernel.crop_width = Below(random, kernel.width + 1);
  const std::size_t count = kernel.rows * kernel.height * kernel.width * kernel.channels;
  const std::size_t bytes = kernel.rows * kernel.output_height() * kernel.output_width() *
                            kernel.channels * DTypeBytes(kernel.output_dtype);
  const std::size_t places_bytes = kernel.rows * CastNormalize::kCropNumbers * sizeof(std::int32_t);
  const auto [input, output] = TwoRooms(random, memory, count, 1, bytes, 4);
  const std::size_t places =
      RoomBeside(random, memory, places_bytes, 4, {input, count}, {output, bytes});
  return LaunchOf(stream, memory,
                  {{memory, input, count, false},
                   {memory, places, places_bytes, false},
                   {memory, output, bytes, true}},
                  [=, from = input, to = output](std::byte* data) -> DeviceKernel {
                    CastNormalize here = kernel;
                    here.input = data + from;
                    here.crops = reinterpret_cast<const std::int32_t*>(data + places);
                    here.output = data + to;
                    return here;
                  });
}

// The copy of a table and the kernel that reads it.
std::vector<ProgramStep> PadSome(std::size_t stream, std::size_t memory, Random& random) {
  const std::size_t table = Below(random, kTables) * kTableBytes;
  const std::size_t table_to = Room(random, memory, kTableBytes, 8);
  RaggedToPadded kernel;
  kernel.rows = kTableRows;
  kernel.length = 1 + Below(random, 10);
  kernel.input_units = kTableMostSteps;
  kernel.padding_bytes = 1u << Below(random, 4);
  kernel.unit_bytes = kernel.padding_bytes * (1 + static_cast<std::uint32_t>(Below(random, 2)));
  kernel.padding.fill(static_cast<std::byte>(random()));
  const std::size_t input_bytes = kernel.input_units * kernel.unit_bytes;
  const std::size_t output_bytes = kernel.rows * kernel.length * kernel.unit_bytes;
  std::size_t input = 0;
  std::size_t output = 0;
  const auto apart = [](std::size_t a, std::size_t a_bytes, std::size_t b, std::size_t b_bytes) {
    return a + a_bytes <= b || b + b_bytes <= a;
  };
  do {
    std::tie(input, output) = TwoRooms(random, memory, input_bytes, 8, output_bytes, 8);
  } while (!apart(table_to, kTableBytes, output, output_bytes) ||
           !apart(table_to, kTableBytes, input, input_bytes));
  std::vector<ProgramStep> steps;
  steps.push_back(CopyUp(stream, memory, table, table_to, kTableBytes));
  steps.push_back(LaunchOf(stream, memory,
                           {{memory, input, input_bytes, false},
                            {memory, table_to, kTableBytes, false},
                            {memory, output, output_bytes, true}},
                           [=](std::byte* data) -> DeviceKernel {
                             RaggedToPadded here = kernel;
                             here.input = data + input;
                             here.offsets = reinterpret_cast<const std::int64_t*>(data + table_to);
                             here.output = data + output;
                             return here;
                           }));
  return steps;
}

template <typename... Steps>
std::vector<ProgramStep> ListOf(Steps&&... steps) {
  std::vector<ProgramStep> list;
  (list.push_back(std::forward<Steps>(steps)), ...);
  return list;
}

}  // namespace

std::vector<ProgramStep> RandomWork(std::size_t stream, std::size_t memory, Random& random) {
  const std::size_t bytes = Below(random, kMost);
  const std::size_t host = Room(random, 0, bytes);
  const std::size_t device = Room(random, memory, bytes);
  switch (Below(random, 13)) {
    case 0:
    case 1:
    case 2:
      return ListOf(CopyUp(stream, memory, host, device, bytes));
    case 3:
    case 4:
      return ListOf(CopyDown(stream, memory, device, host, bytes));
    case 5:
      return ListOf(CopyBatchUp(stream, memory, random));
    case 6:
      return ListOf(FillSome(stream, memory, random));
    case 7:
      return ListOf(ChecksumOfSome(stream, memory, random));
    case 8:
      return ListOf(WidenSome(stream, memory, random));
    case 9:
      return ListOf(NormalizeSome(stream, memory, random));
    case 10:
      return PadSome(stream, memory, random);
    case 11:
      return ListOf(CropSome(stream, memory, random));
    default:
      return ListOf(BusyFor(stream, 1 + static_cast<std::int64_t>(Below(random, 30'000))));
  }
}

void WriteTables(std::span<std::byte> host_memory) {
  Random random(1);
  for (std::size_t table = 0; table < kTables; ++table) {
    std::int64_t offset = 0;
    for (std::size_t row = 0; row <= kTableRows; ++row) {
      std::memcpy(&host_memory[table * kTableBytes + row * sizeof(offset)], &offset,
                  sizeof(offset));
      offset += static_cast<std::int64_t>(Below(random, 13));
    }
  }
}

}  // namespace ringfeed
