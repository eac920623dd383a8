#include "tests/readers/order/slow_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/keyed_permutation.h"
#include "base/philox.h"

namespace ringfeed {

namespace {

std::uint32_t Draw(std::uint64_t seed, std::uint64_t epoch, DrawPurpose purpose, std::uint64_t t) {
  return Philox4x32(
      {static_cast<std::uint32_t>(t / 4), static_cast<std::uint32_t>(epoch),
       static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(t / 4 >> 32)},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[t % 4];
}

void FisherYates(Rows& rows, std::uint64_t seed, std::uint64_t epoch, DrawPurpose purpose,
                 std::uint64_t base) {
  for (std::uint64_t j = rows.size(); j-- > 1;) {
    const std::uint64_t draw = Draw(seed, epoch, purpose, base + j);
    std::swap(rows[j], rows[(draw * (j + 1)) >> 32]);
  }
}

void AddStripe(const RowLayout& layout, std::size_t file, std::uint64_t stripe, Rows* rows) {
  RowNumber first = 0;
  RowNumber end = 0;
  (void)layout.FirstRowOfStripe(file, stripe, &first);
  (void)layout.FirstRowOfStripe(file, stripe + 1, &end);
  for (RowNumber row = first; row < end; ++row) rows->push_back(row);
}

Rows Windowed(const Rows& rows, std::uint64_t window, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::pair<unsigned __int128, RowNumber>> keys;
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t draw = Draw(seed, epoch, DrawPurpose::kWindowShuffle, i);
    keys.emplace_back((static_cast<unsigned __int128>(i) << 32) + window * draw, rows[i]);
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Rows result;
  for (const auto& [key, row] : keys) result.push_back(row);
  return result;
}

Rows InBlocks(const Rows& rows, std::uint64_t block, std::uint64_t seed, std::uint64_t epoch) {
  Rows result;
  for (std::uint64_t base = 0; base < rows.size(); base += block) {
    const std::uint64_t end = std::min<std::uint64_t>(rows.size(), base + block);
    Rows part(rows.begin() + static_cast<std::ptrdiff_t>(base),
              rows.begin() + static_cast<std::ptrdiff_t>(end));
    FisherYates(part, seed, epoch, DrawPurpose::kBlockShuffle, base);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::vector<Rows> Joined(const std::vector<Rows>& passes, std::uint64_t each) {
  std::vector<Rows> result;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    if (each == 0 ? p == 0 : p % each == 0) result.emplace_back();
    result.back().insert(result.back().end(), passes[p].begin(), passes[p].end());
  }
  return result;
}

}  // namespace

Rows SlowFiles(const RowLayout& layout, const OrderOptions& options, std::uint64_t pass) {
  const FileOrder& order = options.files;
  const std::uint64_t number = options.first_epoch + pass;
  Rows files(layout.files());
  std::iota(files.begin(), files.end(), 0);
  if (order.shuffle && number >= order.from_pass) {
    FisherYates(files, order.seed, number, DrawPurpose::kFileOrder, 0);
  }
  Rows part;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < order.ranks; ++rank) {
    const std::size_t share =
        files.size() / order.ranks + (rank < files.size() % order.ranks ? 1 : 0);
    for (std::size_t i = 0; i < share; ++i, ++at) {
      if (rank == order.rank) part.push_back(files[at]);
    }
  }
  return part;
}

Rows SlowInterleave(const RowLayout& layout, const OrderOptions& options, std::uint64_t pass) {
  struct Lane {
    std::size_t file = 0;
    std::uint64_t stripe = 0;
    std::uint64_t left = 0;
    bool out = false;
  };
  const Rows files = SlowFiles(layout, options, pass);
  std::vector<Lane> lanes(std::max<std::size_t>(1, std::min(options.cycle, files.size())));
  std::size_t next = 0;
  Rows rows;
  for (std::size_t out = 0; out < lanes.size();) {
    for (Lane& lane : lanes) {
      if (lane.out) continue;
      if (lane.left == 0) {
        while (next < files.size() && layout.stripes(files[next]) == 0) ++next;
        if (next == files.size()) {
          lane.out = true;
          ++out;
          continue;
        }
        lane = {files[next], 0, layout.stripes(files[next]), false};
        ++next;
      }
      AddStripe(layout, lane.file, lane.stripe++, &rows);
      --lane.left;
    }
  }
  return rows;
}

Rows SlowBlocks(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed,
                std::uint64_t pass) {
  Rows files = SlowFiles(layout, options, pass);
  std::sort(files.begin(), files.end());
  std::vector<std::pair<std::size_t, std::uint64_t>> stripes;
  for (const std::size_t file : files) {
    for (std::uint64_t s = 0; s < layout.stripes(file); ++s) stripes.emplace_back(file, s);
  }
  const KeyedPermutation order(stripes.size(), seed,
                               static_cast<std::uint32_t>(options.first_epoch + pass),
                               DrawPurpose::kBlockOrder);
  Rows rows;
  for (std::uint64_t turn = 0; turn < stripes.size(); ++turn) {
    const auto& [file, stripe] = stripes[order.At(turn)];
    AddStripe(layout, file, stripe, &rows);
  }
  return rows;
}

Rows SlowGlobal(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed,
                std::uint64_t pass) {
  Rows files = SlowFiles(layout, options, pass);
  std::sort(files.begin(), files.end());
  Rows all;
  for (const std::size_t file : files) {
    for (RowNumber row = layout.FirstRow(file); row < layout.FirstRow(file + 1); ++row) {
      all.push_back(row);
    }
  }
  const KeyedPermutation order(all.size(), seed,
                               static_cast<std::uint32_t>(options.first_epoch + pass),
                               DrawPurpose::kGlobalOrder);
  Rows rows;
  for (std::uint64_t place = 0; place < all.size(); ++place) rows.push_back(all[order.At(place)]);
  return rows;
}

std::vector<Rows> SlowStages(std::vector<Rows> passes, std::uint32_t first_epoch,
                             const std::vector<OrderStage>& stages) {
  for (const OrderStage& stage : stages) {
    if (stage.kind == OrderStage::Kind::kMultiPass) {
      passes = Joined(passes, stage.amount);
      continue;
    }
    for (std::size_t p = 0; p < passes.size(); ++p) {
      passes[p] = stage.kind == OrderStage::Kind::kWindow
                      ? Windowed(passes[p], stage.amount, stage.seed, first_epoch + p)
                      : InBlocks(passes[p], stage.amount, stage.seed, first_epoch + p);
    }
  }
  return passes;
}

}  // namespace ringfeed
