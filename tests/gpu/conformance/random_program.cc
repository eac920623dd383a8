#include "tests/gpu/conformance/random_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "tests/gpu/conformance/random_work.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

// What is known to be done of each stream: so many of its steps.
using Clock = std::vector<std::size_t>;

// Accesses are told apart by blocks of that many bytes.
constexpr std::size_t kBlock = 32;

// The last accesses to a block, as (stream, step of that stream).
struct BlockHistory {
  std::optional<std::pair<std::size_t, std::size_t>> writer;
  std::map<std::size_t, std::size_t> readers;
};

// Chooses work and puts waits where it would race.
class Generator {
 public:
  Generator(const ProgramShape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        done_(shape.streams, Clock(shape.streams)),
        recorded_(shape.events),
        history_((1 + shape.devices) * RandomProgram::kMemoryBytes / kBlock) {}

  std::vector<ProgramStep> Generate() {
    for (std::size_t i = 0; i < shape_.steps;) {
      const std::size_t stream = random_() % shape_.streams;
      if (random_() % 8 == 0) Record(stream, AnyEvent(stream));
      if (random_() % 8 == 0) Wait(stream, random_() % shape_.events);
      for (ProgramStep& step : RandomWork(stream, 1 + stream % shape_.devices, random_)) {
        Order(step);
        Note(step);
        ++done_[stream][stream];
        steps_.push_back(std::move(step));
        ++i;
      }
    }
    return std::move(steps_);
  }

 private:
  std::size_t AnyEvent(std::size_t stream) {
    const std::size_t device = stream % shape_.devices;
    const std::size_t of_device = (shape_.events - device + shape_.devices - 1) / shape_.devices;
    return device + shape_.devices * (random_() % of_device);
  }

  void Record(std::size_t stream, std::size_t event) {
    recorded_[event] = done_[stream];
    steps_.push_back({ProgramStep::Kind::kRecord, stream, event, {}, {}, {}});
  }

  void Wait(std::size_t stream, std::size_t event) {
    for (std::size_t s = 0; s < recorded_[event].size(); ++s) {
      done_[stream][s] = std::max(done_[stream][s], recorded_[event][s]);
    }
    steps_.push_back({ProgramStep::Kind::kWait, stream, event, {}, {}, {}});
  }

  // Makes sure that step `number` of stream `other` is done before the next one of `stream`.
  void Order(std::size_t stream, std::size_t other, std::size_t number) {
    if (done_[stream][other] > number) return;
    std::vector<std::size_t> will_do;
    for (std::size_t event = 0; event < shape_.events; ++event) {
      if (!recorded_[event].empty() && recorded_[event][other] > number) will_do.push_back(event);
    }
    if (will_do.empty()) {
      will_do.push_back(AnyEvent(other));
      Record(other, will_do.back());
    }
    Wait(stream, will_do[random_() % will_do.size()]);
  }

  void Order(const ProgramStep& step) {
    ForEachBlock(step, [&](BlockHistory& block, bool writes) {
      if (block.writer) Order(step.stream, block.writer->first, block.writer->second);
      if (!writes) return;
      for (const auto& [stream, number] : block.readers) Order(step.stream, stream, number);
    });
  }

  void Note(const ProgramStep& step) {
    const std::size_t number = done_[step.stream][step.stream];
    ForEachBlock(step, [&](BlockHistory& block, bool writes) {
      if (writes) {
        block.writer = {step.stream, number};
        block.readers.clear();
      } else {
        block.readers[step.stream] = number;
      }
    });
  }

  template <typename Function>
  void ForEachBlock(const ProgramStep& step, const Function& function) {
    for (const ProgramAccess& access : step.accesses) {
      if (access.bytes == 0) continue;
      const std::size_t start = access.memory * RandomProgram::kMemoryBytes + access.offset;
      for (std::size_t block = start / kBlock; block <= (start + access.bytes - 1) / kBlock;
           ++block) {
        function(history_[block], access.writes);
      }
    }
  }

  ProgramShape shape_;
  std::mt19937_64 random_;
  std::vector<Clock> done_;      // by stream: of each stream, before its next step; its own: all
  std::vector<Clock> recorded_;  // by event; empty: never
  std::vector<BlockHistory> history_;
  std::vector<ProgramStep> steps_;
};

// Memories of the host's with the program's first bytes.
struct HostMemories {
  explicit HostMemories(const RandomProgram& program) {
    for (std::size_t i = 0; i <= program.shape().devices; ++i) {
      bytes.push_back(program.InitialBytes(i));
    }
    for (auto& memory : bytes) data.push_back(memory.data());
  }
  std::vector<std::vector<std::byte>> bytes;
  ProgramMemories data;
};

}  // namespace

RandomProgram::RandomProgram(const ProgramShape& shape, std::uint64_t seed)
    : shape_(shape), seed_(seed), steps_(Generator(shape, seed).Generate()) {}

std::vector<std::byte> RandomProgram::InitialBytes(std::size_t memory) const {
  std::vector<std::byte> bytes(kMemoryBytes);
  for (std::size_t i = 0; i < kMemoryBytes; ++i) bytes[i] = PatternByte(i, seed_ * 16 + memory);
  if (memory == 0) WriteTables(bytes);
  return bytes;
}

std::vector<std::vector<std::byte>> RandomProgram::Result() const {
  HostMemories memories(*this);
  for (const ProgramStep& step : steps_) {
    if (step.kind == ProgramStep::Kind::kWork) step.run(memories.data);
  }
  return std::move(memories.bytes);
}

std::vector<std::vector<std::byte>> RandomProgram::ResultInAnotherOrder(std::uint64_t seed,
                                                                        bool without_waits) const {
  const std::vector<std::vector<std::size_t>> before = StepsBefore(steps_, without_waits);
  std::vector<std::size_t> left(steps_.size());
  std::vector<std::vector<std::size_t>> behind(steps_.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    left[i] = before[i].size();
    for (const std::size_t first : before[i]) behind[first].push_back(i);
    if (left[i] == 0) ready.push_back(i);
  }
  HostMemories memories(*this);
  std::mt19937_64 random(seed);
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::size_t next = ready.back();
    ready.pop_back();
    if (steps_[next].kind == ProgramStep::Kind::kWork) steps_[next].run(memories.data);
    for (const std::size_t follower : behind[next]) {
      if (--left[follower] == 0) ready.push_back(follower);
    }
  }
  return std::move(memories.bytes);
}

std::vector<std::vector<std::size_t>> StepsBefore(std::span<const ProgramStep> steps,
                                                  bool without_waits) {
  std::vector<std::vector<std::size_t>> before(steps.size());
  std::map<std::size_t, std::size_t> last_of_stream;
  std::map<std::size_t, std::size_t> last_record;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto last = last_of_stream.find(steps[i].stream);
    if (last != last_of_stream.end()) before[i].push_back(last->second);
    last_of_stream[steps[i].stream] = i;
    if (steps[i].kind == ProgramStep::Kind::kRecord) last_record[steps[i].event] = i;
    if (steps[i].kind == ProgramStep::Kind::kWait && !without_waits) {
      const auto record = last_record.find(steps[i].event);
      if (record != last_record.end()) before[i].push_back(record->second);
    }
  }
  return before;
}

}  // namespace ringfeed
