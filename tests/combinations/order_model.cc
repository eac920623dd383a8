#include "tests/combinations/order_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace ringfeed {

namespace {

// Purposes of draws.
constexpr std::uint32_t kWindowDraws = 1;
constexpr std::uint32_t kBlockDraws = 2;
constexpr std::uint32_t kFileDraws = 3;
constexpr std::uint32_t kStripeDraws = 6;
constexpr std::uint32_t kRowDraws = 7;

std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> c, std::uint32_t k0,
                                    std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t q = std::uint64_t{0xCD9E8D57} * c[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    c = {high(q) ^ c[1] ^ k0, low(q), high(p) ^ c[3] ^ k1, low(p)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

std::uint64_t Draw(std::uint64_t seed, std::uint64_t epoch, std::uint32_t purpose,
                   std::uint64_t t) {
  const std::uint64_t block = t / 4;
  const std::array<std::uint32_t, 4> counter = {static_cast<std::uint32_t>(block),
                                                static_cast<std::uint32_t>(epoch), purpose,
                                                static_cast<std::uint32_t>(block >> 32)};
  return Philox(counter, static_cast<std::uint32_t>(seed),
                static_cast<std::uint32_t>(seed >> 32))[t % 4];
}

template <typename Items>
void Exchange(Items* items, std::size_t begin, std::size_t end, std::uint64_t seed,
              std::uint64_t epoch, std::uint32_t purpose) {
  for (std::size_t j = end - begin; j-- > 1;) {
    const std::uint64_t other = Draw(seed, epoch, purpose, begin + j) * (j + 1) >> 32;
    std::swap((*items)[begin + j], (*items)[begin + static_cast<std::size_t>(other)]);
  }
}

std::uint64_t Hash(std::uint64_t word, std::uint64_t key) {
  word = (word ^ key) * 0xBF58476D1CE4E5B9;
  word = (word ^ word >> 32) * 0x94D049BB133111EB;
  return word >> 32;
}

/// The permutation of 0 … size - 1.
std::vector<std::uint64_t> Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch,
                                       std::uint32_t purpose) {
  const std::uint64_t m = std::max<std::uint64_t>(size, 255);
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(m)));
  while (root * root > m) --root;
  while ((root + 1) * (root + 1) <= m) ++root;
  const std::uint64_t rows = root + 1;
  const std::uint64_t columns = m / rows + 1;
  std::array<std::uint64_t, 6> keys{};
  for (std::size_t k = 0; k < keys.size(); ++k) {
    keys[k] = Draw(seed, epoch, purpose, 2 * k) << 32 | Draw(seed, epoch, purpose, 2 * k + 1);
  }
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < size; ++i) {
    std::uint64_t at = i;
    do {
      std::uint64_t row = at / columns;
      std::uint64_t column = at % columns;
      for (std::size_t k = 0; k < keys.size(); ++k) {
        if (k % 2 == 0) {
          row = (row + (Hash(column, keys[k]) * rows >> 32)) % rows;
        } else {
          column = (column + (Hash(row, keys[k]) * columns >> 32)) % columns;
        }
      }
      at = row * columns + column;
    } while (at >= size);
    result.push_back(at);
  }
  return result;
}

std::deque<Places> StripesOf(const ModelFile& file, std::uint64_t stripe_bytes) {
  std::deque<Places> stripes((file.bytes + stripe_bytes - 1) / stripe_bytes);
  for (std::size_t i = 0; i < file.places.size(); ++i) {
    stripes[static_cast<std::size_t>(file.offsets[i] / stripe_bytes)].push_back(file.places[i]);
  }
  return stripes;
}

/// The same, computed once a pass.
template <typename Result>
std::function<Result(std::uint64_t)> Remembered(std::function<Result(std::uint64_t)> stage) {
  auto passes = std::make_shared<std::map<std::uint64_t, Result>>();
  return [stage = std::move(stage), passes](std::uint64_t pass) {
    auto found = passes->find(pass);
    if (found == passes->end()) found = passes->emplace(pass, stage(pass)).first;
    return found->second;
  };
}

Places Interleave(std::deque<std::deque<Places>> waiting, std::size_t cycle) {
  std::erase_if(waiting, [](const auto& stripes) { return stripes.empty(); });
  const std::size_t count = std::min(cycle, waiting.size());
  std::vector<std::deque<Places>> lanes(count);
  std::vector<bool> alive(count, true);
  Places order;
  while (std::find(alive.begin(), alive.end(), true) != alive.end()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!alive[lane]) continue;
      if (lanes[lane].empty()) {
        alive[lane] = !waiting.empty();
        if (!alive[lane]) continue;
        lanes[lane] = std::move(waiting.front());
        waiting.pop_front();
      }
      const Places& stripe = lanes[lane].front();
      order.insert(order.end(), stripe.begin(), stripe.end());
      lanes[lane].pop_front();
    }
  }
  return order;
}

}  // namespace

Stage ModelAsRead(const std::vector<ModelFile>& files, const ModelFileOrder& order,
                  std::size_t cycle, std::uint64_t stripe_bytes) {
  return Remembered<Places>([=](std::uint64_t pass) {
    std::vector<std::size_t> list(files.size());
    std::iota(list.begin(), list.end(), std::size_t{0});
    if (order.shuffled) Exchange(&list, 0, list.size(), order.seed, pass, kFileDraws);
    std::deque<std::deque<Places>> waiting;
    for (const std::size_t file : list) waiting.push_back(StripesOf(files[file], stripe_bytes));
    return Interleave(std::move(waiting), cycle);
  });
}

Stage ModelGlobal(const std::vector<ModelFile>& files, std::uint64_t seed) {
  return Remembered<Places>([=](std::uint64_t pass) {
    Places rows;
    for (const ModelFile& file : files) {
      rows.insert(rows.end(), file.places.begin(), file.places.end());
    }
    Places order;
    for (const std::uint64_t row : Permutation(rows.size(), seed, pass, kRowDraws)) {
      order.push_back(rows[static_cast<std::size_t>(row)]);
    }
    return order;
  });
}

Stage ModelBlocks(const std::vector<ModelFile>& files, std::uint64_t stripe_bytes,
                  std::uint64_t seed) {
  return Remembered<Places>([=](std::uint64_t pass) {
    std::vector<Places> stripes;
    for (const ModelFile& file : files) {
      for (Places& stripe : StripesOf(file, stripe_bytes)) stripes.push_back(std::move(stripe));
    }
    Places order;
    for (const std::uint64_t turn : Permutation(stripes.size(), seed, pass, kStripeDraws)) {
      const Places& stripe = stripes[static_cast<std::size_t>(turn)];
      order.insert(order.end(), stripe.begin(), stripe.end());
    }
    return order;
  });
}

Stage ModelWindow(Stage stage, std::uint64_t window, std::uint64_t seed) {
  return Remembered<Places>([=, stage = std::move(stage)](std::uint64_t pass) {
    const Places rows = stage(pass);
    std::vector<std::pair<std::uint64_t, std::size_t>> keys;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      keys.emplace_back((std::uint64_t{i} << 32) + window * Draw(seed, pass, kWindowDraws, i), i);
    }
    std::sort(keys.begin(), keys.end());
    Places order;
    for (const auto& key : keys) order.push_back(rows[key.second]);
    return order;
  });
}

Stage ModelBlock(Stage stage, std::uint64_t rows, std::uint64_t seed) {
  return Remembered<Places>([=, stage = std::move(stage)](std::uint64_t pass) {
    Places order = stage(pass);
    for (std::size_t base = 0; base < order.size(); base += rows) {
      const std::size_t end = std::min<std::size_t>(base + rows, order.size());
      Exchange(&order, base, end, seed, pass, kBlockDraws);
    }
    return order;
  });
}

Stage ModelPasses(Stage stage, std::uint64_t passes) {
  return Remembered<Places>([=, stage = std::move(stage)](std::uint64_t pass) {
    Places all;
    for (std::uint64_t inner = 0; inner < passes; ++inner) {
      const Places rows = stage(pass * passes + inner);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  });
}

Stage ModelFilter(Stage stage, std::function<bool(std::int64_t)> keep) {
  return [stage = std::move(stage), keep = std::move(keep)](std::uint64_t pass) {
    Places rows = stage(pass);
    std::erase_if(rows, [&](std::int64_t row) { return row >= 0 && !keep(row); });
    return rows;
  };
}

Stage ModelUpToFailure(Stage stage, std::size_t more) {
  return [stage = std::move(stage), more](std::uint64_t pass) {
    Places rows = stage(pass);
    const auto at =
        static_cast<std::size_t>(std::find(rows.begin(), rows.end(), kFailure) - rows.begin());
    rows.resize(std::min(rows.size(), at + more));
    return rows;
  };
}

namespace {

/// Which of two sets gives at each draw.
class Dealer {
 public:
  Dealer(std::array<std::uint64_t, 2> weights, std::array<std::uint64_t, 2> left)
      : weights_(weights), left_(left) {}

  std::vector<std::size_t> Turns() {
    std::vector<std::size_t> turns;
    while (left_[0] + left_[1] > 0) Phase(&turns);
    return turns;
  }

 private:
  // Until a set is at its end.
  void Phase(std::vector<std::size_t>* turns) {
    std::array<std::uint64_t, 2> given{};
    std::array<bool, 2> alive = {left_[0] > 0, left_[1] > 0};
    const std::uint64_t sum = (alive[0] ? weights_[0] : 0) + (alive[1] ? weights_[1] : 0);
    for (std::uint64_t n = 0;; ++n) {
      std::size_t giver = 2;
      std::uint64_t soonest = 0;
      for (std::size_t i = 0; i < 2; ++i) {
        if (!alive[i] || given[i] * sum / weights_[i] > n) continue;
        const std::uint64_t deadline = ((given[i] + 1) * sum + weights_[i] - 1) / weights_[i];
        if (giver != 2 && deadline >= soonest) continue;
        giver = i;
        soonest = deadline;
      }
      turns->push_back(giver);
      ++given[giver];
      if (--left_[giver] == 0) return;
    }
  }

  const std::array<std::uint64_t, 2> weights_;
  std::array<std::uint64_t, 2> left_;
};

}  // namespace

Stage ModelMix(const Stage& first, std::uint64_t first_weight, const Stage& second,
               std::uint64_t second_weight) {
  return Remembered<Places>([=](std::uint64_t pass) {
    const std::array<Places, 2> sets = {first(pass), second(pass)};
    std::array<std::size_t, 2> at{};
    Places order;
    for (const std::size_t set :
         Dealer({first_weight, second_weight}, {sets[0].size(), sets[1].size()}).Turns()) {
      order.push_back(sets[set][at[set]++]);
    }
    return order;
  });
}

BatchStage ModelBatches(Stage stage, std::uint64_t size, bool drop, bool pad) {
  return Remembered<std::vector<Places>>([=, stage = std::move(stage)](std::uint64_t pass) {
    const Places rows = stage(pass);
    std::vector<Places> batches;
    for (std::size_t base = 0; base < rows.size(); base += size) {
      const std::size_t end = std::min<std::size_t>(base + size, rows.size());
      Places batch(rows.begin() + static_cast<std::ptrdiff_t>(base),
                   rows.begin() + static_cast<std::ptrdiff_t>(end));
      if (pad) {
        batch.resize(size, kPadding);
        std::replace(batch.begin(), batch.end(), kHole, kPadding);
      }
      if (!drop || batch.size() == size) batches.push_back(std::move(batch));
    }
    return batches;
  });
}

namespace {

bool DropsRest(ModelRest rest, std::size_t rows, std::size_t base, std::uint64_t segment) {
  if (rest == ModelRest::kDropButLast) return base + segment <= rows;
  return rest == ModelRest::kDrop;
}

}  // namespace

BatchStage ModelGroups(Stage stage, std::uint64_t size, std::uint64_t segment, ModelNumber group_of,
                       ModelRest rest) {
  return Remembered<std::vector<Places>>([=, stage = std::move(stage)](std::uint64_t pass) {
    const Places rows = stage(pass);
    std::vector<Places> batches;
    for (std::size_t base = 0; base < rows.size(); base += segment) {
      std::vector<std::pair<std::uint64_t, Places>> begun;
      for (std::size_t i = base; i < std::min<std::size_t>(base + segment, rows.size()); ++i) {
        if (rows[i] < 0) continue;
        const std::uint64_t group = group_of(rows[i]);
        auto found = std::find_if(begun.begin(), begun.end(),
                                  [&](const auto& each) { return each.first == group; });
        if (found == begun.end()) found = begun.insert(begun.end(), {group, {}});
        found->second.push_back(rows[i]);
        if (found->second.size() < size) continue;
        batches.push_back(std::move(found->second));
        begun.erase(found);
      }
      if (DropsRest(rest, rows.size(), base, segment)) continue;
      for (auto& left : begun) batches.push_back(std::move(left.second));
    }
    return batches;
  });
}

BatchStage ModelWeighed(Stage stage, std::uint64_t limit, std::uint64_t most_rows,
                        ModelNumber weight_of) {
  return Remembered<std::vector<Places>>([=, stage = std::move(stage)](std::uint64_t pass) {
    std::vector<Places> batches;
    Places begun;
    std::uint64_t total = 0;
    for (const std::int64_t row : stage(pass)) {
      const std::uint64_t weight = row < 0 ? 0 : weight_of(row);
      if (!begun.empty() && (begun.size() == most_rows || total + weight > limit)) {
        batches.push_back(std::exchange(begun, {}));
        total = 0;
      }
      begun.push_back(row);
      total += weight;
    }
    if (!begun.empty()) batches.push_back(std::move(begun));
    return batches;
  });
}

namespace {

struct PackedRow {
  Places records;
  std::uint64_t room = 0;
};

std::vector<PackedRow> PackSegment(const Places& rows, std::size_t begin, std::size_t end,
                                   std::uint64_t length, const ModelNumber& length_of) {
  std::vector<PackedRow> packed;
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t units = rows[i] < 0 ? 0 : std::min(length, length_of(rows[i]));
    if (units == 0) continue;
    auto at = std::find_if(packed.begin(), packed.end(),
                           [&](const PackedRow& row) { return row.room >= units; });
    if (at == packed.end()) at = packed.insert(at, {{}, length});
    at->records.push_back(rows[i]);
    at->room -= units;
  }
  return packed;
}

}  // namespace

BatchStage ModelPacked(Stage stage, std::uint64_t length, std::uint64_t rows, std::uint64_t segment,
                       ModelNumber length_of, ModelRest rest) {
  return Remembered<std::vector<Places>>([=, stage = std::move(stage)](std::uint64_t pass) {
    const Places all = stage(pass);
    std::vector<Places> batches;
    std::uint64_t open = rows;  // packed rows of the last batch
    for (std::size_t base = 0; base < all.size(); base += segment) {
      const std::size_t end = std::min<std::size_t>(base + segment, all.size());
      for (const PackedRow& row : PackSegment(all, base, end, length, length_of)) {
        if (open == rows) batches.emplace_back();
        open = open == rows ? 1 : open + 1;
        Places& batch = batches.back();
        batch.insert(batch.end(), row.records.begin(), row.records.end());
        batch.push_back(kEndOfPacked);
      }
    }
    if (open < rows && rest == ModelRest::kDrop) batches.pop_back();
    return batches;
  });
}

}  // namespace ringfeed
