#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/batch_supply.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/instance.h"

namespace ringfeed {

/// Batches that know their number: a fixed field [rows, 4] of u32, all values `number * 1000 +
/// row`, and, where asked for, a ragged one of u16.
struct NumberedBatch {
  static constexpr std::int64_t kColumns = 4;

  std::uint64_t number = 0;
  std::int64_t rows = 4;
  bool ragged = false;

  static std::uint32_t Value(std::uint64_t number, std::int64_t row) {
    return static_cast<std::uint32_t>(number * 1000) + static_cast<std::uint32_t>(row);
  }
  /// Row r of the ragged field has (number + r) % 5 values.
  static std::int64_t Length(std::uint64_t number, std::int64_t row) {
    return static_cast<std::int64_t>((number + static_cast<std::uint64_t>(row)) % 5);
  }

  /// In memory of the arena, as Batch lays it out, or, without one, wherever there is some.
  /// `on_release` is called before the memory goes back.
  Instance Make(const std::shared_ptr<Arena>& arena,
                std::function<void(std::byte* data, std::size_t bytes)> on_release = {}) const;
};

/// Numbered batches, each from a time on, as a reader with so many batches in memory would have
/// them: a batch is begun when there is memory for it.
class NumberedSupply final : public BatchSupply {
 public:
  struct Options {
    std::uint64_t batches = 16;
    std::int64_t rows = 4;
    std::int64_t more_rows = 0;  ///< that each batch has than the one before
    std::int64_t last_rows = 0;  ///< of the last batch; 0: as all
    bool ragged = false;
    bool in_arena = true;
    std::size_t held = 8;  ///< batches that may be out at a time
    std::uint64_t fail_at = ~std::uint64_t{0};
    std::function<std::int64_t()> interval_ns{};  ///< between batches
    bool poison = true;
    /// The fixed field's rows stand in memory of device 0, of a simulator: read there by a disk.
    bool direct = false;
    bool awaits_reads = true;  ///< of the disk; else a batch is there before its bytes are

    std::int64_t RowsOf(std::uint64_t number) const {
      if (number + 1 == batches && last_rows > 0) return last_rows;
      return rows + more_rows * static_cast<std::int64_t>(number);
    }
  };

  NumberedSupply(Options options, std::shared_ptr<DeviceBackend> backend);

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override;
  std::int64_t ReadyAt() const override;
  void ReInit() override { next_ = 0; }

  /// Batches that are out; may outlive this.
  std::shared_ptr<const std::atomic<std::size_t>> out_counter() const { return out_; }

 private:
  /// Memory of a simulated device, a slab for each batch, and the disk that reads into it.
  class DeviceSlabs;
  /// Has the disk read a batch's rows, and what is pending of it.
  void ReadDirectly(const NumberedBatch& numbered, std::byte* slab, SuppliedBatch* batch);

  const Options options_;
  const std::shared_ptr<DeviceBackend> backend_;
  const std::shared_ptr<Arena> arena_;
  std::shared_ptr<DeviceSlabs> slabs_;
  std::vector<std::vector<PendingCopy>> pending_;  ///< by batch
  const std::shared_ptr<std::atomic<std::size_t>> out_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::uint64_t next_ = 0;
  std::int64_t ready_ns_ = 0;
};

}  // namespace ringfeed
