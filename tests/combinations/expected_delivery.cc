#include "tests/combinations/expected_delivery.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/combinations/planned_delivery.h"

namespace ringfeed {

const std::vector<std::uint64_t>& BucketBounds() {
  static const std::vector<std::uint64_t> kBounds = {60, 100, 1000};
  return kBounds;
}

bool ShowsEmpty(const Configuration& configuration, std::uint64_t ranks) {
  if (PlansTokens(configuration) && configuration.Number(Option::kSize) > 1) return true;
  if (!configuration.Is(Option::kEmpty, "usual")) return configuration.Is(Option::kEmpty, "shown");
  return ranks > 1 && !configuration.Is(Option::kSplit, "yes");
}

namespace {

std::uint64_t HashOf(std::span<const std::byte> record) {
  constexpr std::size_t kLookedAt = 64;
  std::uint64_t sum = record.size();
  for (const std::byte each : record.first(std::min(kLookedAt, record.size()))) {
    sum = (sum ^ std::to_integer<std::uint64_t>(each)) * 0x9E3779B97F4A7C15;
  }
  return sum;
}

}  // namespace

bool IsKept(const Configuration& configuration, std::span<const std::byte> record) {
  const std::uint64_t one_of = configuration.Number(Option::kFilter);
  if (one_of == 1) return true;
  if (one_of == 0) return false;
  return (HashOf(record) >> 32) % one_of == 0;
}

bool IsKeptAgain(const Configuration& configuration, std::span<const std::byte> record) {
  return configuration.Is(Option::kFilters, "1") || (HashOf(record) >> 20) % 3 != 0;
}

std::uint64_t GroupOf(std::span<const std::byte> record) { return record.size() % 3; }

namespace {

bool ByNumber(const Configuration& c, std::uint64_t ranks) {
  return ranks > 1 || IsPlanned(c) || c.IsAnyOf(Option::kOrder, "blocks global") ||
         c.Is(Option::kSource, "mix");
}

/// The model of one configuration.
class ChainModel {
 public:
  ChainModel(const Configuration& c, const ChainData& data, std::uint64_t rank, std::uint64_t ranks,
             std::uint64_t most)
      : c_(c),
        data_(data),
        part_(c.Is(Option::kSplit, "yes") ? rank : 0),
        parts_(c.Is(Option::kSplit, "yes") ? ranks : 1),
        rank_(parts_ > 1 ? 0 : rank),
        ranks_(parts_ > 1 ? 1 : ranks),
        most_(most),
        size_(c.Number(Option::kSize) / parts_),
        seed_(c.Number(Option::kSeed)),
        window_(c.Number(Option::kWindow)),
        passes_(c.Number(Option::kPasses)) {}

  Expectation Say() {
    files_ = PartOfFiles();
    skips_ = c_.Is(Option::kPolicy, "skip");
    lost_ = ApplyPolicy();
    said_.whole = !c_.Is(Option::kPasses, "0");
    if (Refuses()) {
      said_.refused = true;
      return said_;
    }
    SayWhatIsLoose();
    if (IsPlanned(c_)) return SayPlanned();
    if (c_.Is(Option::kRow, "misfit")) {
      // No record fits: that is the program's mistake.
      said_.fails = true;
      said_.orders.emplace_back();
      return said_;
    }
    thrower_ = Thrower();
    refused_ = Refused();
    const Places first = Kept(Source()(0));
    if (passes_ == 0 && !SayOfEndless(first)) return said_;
    said_.fails = said_.fails || HasFailure(Kept(Marked(Source())(0)));
    if (ranks_ > 1) {
      // Each rank meets what stands in its own rows.
      const bool fails = std::exchange(said_.fails, false);
      said_.orders.push_back(Deliveries({}));
      // Of batches without end none has a row for this rank.
      const bool none = !said_.whole && said_.orders.front().empty();
      said_.fails = (fails && met_failure_) || none;
      SayCounts();
      return said_;
    }
    SayOrders();
    SayCounts();
    return said_;
  }

 private:
  /// Where in a chain a failure is met.
  /// kEnd: at its place in the order, but that nothing stands behind it in the source.
  enum class MetAt : std::uint8_t { kEnd, kOrder, kBatches };
  struct Meets {
    MetAt damage = MetAt::kOrder;
    MetAt thrower = MetAt::kOrder;
    bool rests_dropped = false;  ///< of groups: those that were cut before it was met
  };

  /// The first parts have one file more where it does not come out even.
  std::vector<ModelFile> PartOfFiles() const {
    const auto begin_of = [this](std::uint64_t part) {
      const std::uint64_t files = data_.files.size();
      return static_cast<std::ptrdiff_t>(part * (files / parts_) + std::min(part, files % parts_));
    };
    return {data_.files.begin() + begin_of(part_), data_.files.begin() + begin_of(part_ + 1)};
  }

  void SayOrders() {
    std::vector<Meets> all = {{}};
    // Behind what hides where the next record begins nothing may be read.
    const bool hides =
        said_.fails && !skips_ && !c_.IsAnyOf(Option::kDamage, "none payload payloads every");
    if (hides) all.push_back({.damage = MetAt::kEnd});
    // After damage of a stream nothing is read.
    if (c_.Is(Option::kSource, "stream") && !c_.Is(Option::kDamage, "none")) {
      all = {{.damage = MetAt::kEnd}};
    }
    // Map with fixed fields writes into the batches, which groups make in another order.
    const bool late = c_.Is(Option::kRow, "throw") && c_.Is(Option::kGather, "group");
    if (thrower_ >= 0 && late) {
      const std::size_t count = all.size();
      for (std::size_t i = 0; i < count; ++i) {
        // It is met when the rests before it were dropped, but for those before other damage.
        const bool drops = c_.Is(Option::kRest, "drop");
        const bool keeps = !drops || !c_.Is(Option::kDamage, "none");
        if (drops) all.push_back({all[i].damage, MetAt::kBatches, true});
        if (keeps) all.push_back({all[i].damage, MetAt::kBatches, false});
      }
    }
    for (const Meets& meets : all) {
      rests_dropped_ = meets.rests_dropped;
      said_.orders.push_back(Deliveries(meets));
      met_failure_ = false;
    }
  }

  /// Gives damaged records their numbers in files_, and returns them.
  std::set<std::int64_t> NumberDamaged() {
    std::set<std::int64_t> damaged;
    if (!c_.IsAnyOf(Option::kDamage, "payload payloads every")) return damaged;
    for (std::size_t file = 0; file < files_.size(); ++file) {
      for (std::size_t i = 0; i < files_[file].places.size(); ++i) {
        if (files_[file].places[i] >= 0) continue;
        files_[file].places[i] =
            static_cast<std::int64_t>(file) * kFileNumbers + static_cast<std::int64_t>(i);
        damaged.insert(files_[file].places[i]);
      }
    }
    return damaged;
  }

  Expectation SayPlanned() {
    const std::set<std::int64_t> damaged = NumberDamaged();
    const auto is_damaged = [&](std::int64_t record) { return damaged.count(record) > 0; };
    const bool measured = PlansByLengths(c_) && c_.Is(Option::kMeasured, "as_read");
    if (!damaged.empty() && measured && !skips_) {
      said_.fails = true;
      said_.orders.emplace_back();
      return said_;
    }
    // A rest that is dropped is not read: what stands in it is told where it takes no place alone.
    const bool left_out = measured && !c_.IsAnyOf(Option::kGather, "buckets rows");
    said_.damage_met = said_.damage_met && (left_out || !c_.Is(Option::kRest, "drop"));
    const auto units_of = [&](std::int64_t record) {
      return measured && is_damaged(record) ? LengthTable::kHole
                                            : static_cast<std::uint32_t>(Units(record));
    };
    PlannedPart part(c_, data_, rank_, ranks_, is_damaged);
    said_.fails = !AddSteps(units_of, &part) || part.failed();
    said_.orders.push_back(part.deliveries());
    if (!ShowsEmpty(c_, ranks_)) {
      std::erase_if(said_.orders.back(), [](const auto& each) { return each.rows.empty(); });
      said_.fails = said_.fails || (!said_.whole && said_.orders.back().empty());
    }
    if (said_.exact && !said_.fails && said_.whole && ranks_ == 1) said_.filtered = 0;
    return said_;
  }

  /// False where passes without end have no more steps.
  bool AddSteps(const SlowSteps::UnitsOf& units_of, PlannedPart* part) {
    ShareRules rules = RulesOf(c_, data_);
    const bool endless = !said_.whole;
    const bool joined = endless && !c_.Is(Option::kJoin, "batched");
    if (joined) {
      const std::uint64_t places = Source()(0).size();
      if (places == 0) return false;
      constexpr std::uint64_t kMostPlaces = 20000;
      const std::uint64_t wanted =
          std::min(4 * most_ * rules.step, kMostPlaces) + 2 * rules.segment;
      passes_ = (wanted + 2 * window_) / places + 2;
      rules.rest = ShareRules::Rest::kDrop;
    }
    const Stage rows = Rows({});
    std::uint64_t steps = 0;
    std::uint64_t empty = 0;  // passes in a row
    for (std::uint64_t pass = 0; passes_ == 0 || pass < passes_; ++pass) {
      Places places = rows(pass);
      // What comes later may stand among the last ones.
      if (joined) places.resize((places.size() - 2 * window_) / rules.segment * rules.segment);
      std::vector<SlowStep> of_pass = SlowSteps(rules, units_of).Of(pass, steps, places);
      if (joined) of_pass.resize(of_pass.size() / rules.alike * rules.alike);
      steps += of_pass.size();
      empty = of_pass.empty() ? empty + 1 : 0;
      for (SlowStep& step : of_pass) part->Add(std::move(step));
      if (joined) return !of_pass.empty();
      if (passes_ != 0 && !c_.Is(Option::kJoin, "batched")) return true;
      if (passes_ == 0 && empty == 2) return false;
      if (part->failed() || (passes_ == 0 && part->deliveries().size() >= most_)) return true;
    }
    return true;
  }

  static bool HasFailure(const Places& places) {
    return std::find(places.begin(), places.end(), kFailure) != places.end();
  }

  // Returns the records and ranges that are lost in a pass.
  std::uint64_t ApplyPolicy() {
    std::uint64_t lost = 0;
    for (ModelFile& file : files_) {
      for (std::size_t i = file.places.size(); i-- > 0;) {
        if (file.places[i] >= 0) continue;
        ++lost;
        if (!skips_) {
          lost_range_ = lost_range_ || file.places[i] == kFailure;
          file.places[i] = kFailure;
        } else if (file.places[i] == kFailure) {
          file.places.erase(file.places.begin() + static_cast<std::ptrdiff_t>(i));
          file.offsets.erase(file.offsets.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
    return lost;
  }

  bool Refuses() const {
    if (!ByNumber(c_, ranks_)) return false;
    if (IsPlanned(c_) && LeavesRankOut(c_, ranks_)) return true;
    return c_.Is(Option::kSource, "gzip") || c_.Is(Option::kDamage, "missing") || lost_range_;
  }

  void SayWhatIsLoose() {
    const bool missing = c_.Is(Option::kDamage, "missing");
    const bool foreign = c_.IsAnyOf(Option::kDamage, "foreign flipped");
    said_.exact = c_.Is(Option::kChange, "none") && (skips_ || !missing) &&
                  !(foreign && c_.Is(Option::kSource, "gzip"));
    // Where reads end in the middle, what is held for its order comes as if there were no more.
    const bool held =
        c_.IsAnyOf(Option::kOrder, "window block blocks") || Gathers() || IsPlanned(c_);
    if (c_.Is(Option::kPath, "gives_up") && held) said_.exact = false;
    said_.fails = !skips_ && (missing || foreign);
    said_.ordered = !c_.Is(Option::kOrder, "unordered") && !c_.Is(Option::kSource, "multiplex") &&
                    c_.Number(Option::kShare) == 1;
    const bool small = c_.HasSmallArena() || c_.Is(Option::kWindow, "4000000000");
    said_.may_flush = small && (Gathers() || IsPlanned(c_));
    // Whatever came before the failure.
    const bool throws = Throws();
    if (!said_.ordered && ((!skips_ && lost_ > 0) || throws)) said_.exact = false;
    if (!said_.exact && throws) said_.fails = said_.fails || Thrower() >= 0;
    said_.may_end = foreign && skips_;
    if (!said_.ordered && c_.Is(Option::kRest, "drop")) said_.exact = false;
    said_.damage_met = skips_ && (!c_.Is(Option::kDamage, "none") || Refused() >= 0);
  }

  /// The record that a user's function throws at; kHole: none.
  std::int64_t Thrower() const { return Throws() ? MiddleRecord() : kHole; }
  /// Whether a function throws, or refuses what may not be skipped.
  bool Throws() const {
    return c_.IsAnyOf(Option::kRow, "throw throw_ragged filter_throws") ||
           (c_.IsAnyOf(Option::kRow, "refuse refuse_ragged") && !skips_);
  }
  /// The record that a function refuses, and that is passed over; kHole: none.
  std::int64_t Refused() const {
    return c_.IsAnyOf(Option::kRow, "refuse refuse_ragged") && skips_ ? MiddleRecord() : kHole;
  }
  /// The record that functions look for, if they are asked of it; else kHole.
  std::int64_t MiddleRecord() const {
    const std::int64_t record = data_.middle_record;
    const auto holds = [record](const ModelFile& file) {
      return std::find(file.places.begin(), file.places.end(), record) != file.places.end();
    };
    if (std::none_of(files_.begin(), files_.end(), holds)) return kHole;
    const bool asked = c_.Is(Option::kRow, "filter_throws") || Keeps(record);
    return record >= 0 && asked ? record : kHole;
  }

  bool Keeps(std::int64_t record) const {
    if (record < 0) return true;
    const auto payload = data_.Payload(record);
    return IsKept(c_, payload) && IsKeptAgain(c_, payload);
  }
  Places Kept(Places places) const {
    std::erase_if(places, [this](std::int64_t record) { return record >= 0 && !Keeps(record); });
    return places;
  }

  /// With a failure in the place of the record that a function throws at.
  Stage Marked(Stage stage) const {
    return [stage = std::move(stage), thrower = thrower_](std::uint64_t pass) {
      Places places = stage(pass);
      if (thrower >= 0) std::replace(places.begin(), places.end(), thrower, kFailure);
      return places;
    };
  }

  Stage WithoutRefused(Stage stage) const {
    return [stage = std::move(stage), refused = refused_](std::uint64_t pass) {
      Places places = stage(pass);
      if (refused >= 0) std::replace(places.begin(), places.end(), refused, kHole);
      return places;
    };
  }

  /// Whether it is the user's own reader that throws, or what pushes into its queue.
  bool ReadFails() const { return thrower_ >= 0 && c_.IsAnyOf(Option::kSource, "instances queue"); }

  Stage OfFiles(const std::vector<ModelFile>& files) const {
    if (c_.IsAnyOf(Option::kSource, "dataset instances queue stream multiplex")) {
      Places all;
      for (const ModelFile& file : files) {
        all.insert(all.end(), file.places.begin(), file.places.end());
      }
      if (ReadFails()) {
        // The failure has the place of what was to be read; nothing has one behind it.
        all.erase(std::find(all.begin(), all.end(), thrower_) + 1, all.end());
      }
      return [all](std::uint64_t /*pass*/) { return all; };
    }
    const std::uint64_t stripe = c_.Number(Option::kStripe);
    if (c_.Is(Option::kOrder, "global")) return ModelGlobal(files, seed_);
    if (c_.Is(Option::kOrder, "blocks")) return ModelBlocks(files, stripe, seed_);
    return ModelAsRead(files, {c_.Is(Option::kOrder, "shuffled"), seed_},
                       static_cast<std::size_t>(c_.Number(Option::kCycle)), stripe);
  }

  /// As it is read, in front of windows and blocks.
  Stage Source() const {
    Stage stage;
    if (c_.Is(Option::kSource, "mix")) {
      const auto half = files_.begin() + static_cast<std::ptrdiff_t>(files_.size() / 2);
      stage = ModelMix(OfFiles({files_.begin(), half}), 2, OfFiles({half, files_.end()}), 1);
    } else {
      stage = OfFiles(files_);
    }
    return stage;
  }

  Stage Shuffled(Stage stage) const {
    if (c_.IsAnyOf(Option::kOrder, "window blocks")) {
      return ModelWindow(std::move(stage), window_, seed_);
    }
    if (c_.Is(Option::kOrder, "block")) return ModelBlock(std::move(stage), window_, seed_);
    return stage;
  }

  /// False where nothing is to be compared.
  bool SayOfEndless(const Places& first) {
    const bool comes_to_failure = HasFailure(Kept(Marked(Source())(0)));
    if (c_.Is(Option::kJoin, "batched") && c_.Is(Option::kRest, "drop") && first.size() < size_ &&
        !comes_to_failure) {
      // Nothing ever is a batch; of groups it may well be.
      said_.never_ends = Gathers() || c_.Number(Option::kFilter) != 1;
      said_.fails = true;
      said_.orders.emplace_back();
      return false;
    }
    const auto kept = static_cast<std::uint64_t>(
        std::count_if(first.begin(), first.end(), [](std::int64_t row) { return row >= 0; }));
    if (kept == 0) {
      said_.never_ends = data_.records != 0;
      said_.fails = true;
      said_.orders.emplace_back();
      return false;
    }
    const std::uint64_t rows = most_ * std::max<std::uint64_t>(size_, 50);
    passes_ = (rows + 2 * window_) / kept + 2;
    return true;
  }

  bool Filters() const {
    return !c_.Is(Option::kFilter, "1") || c_.Is(Option::kRow, "filter_throws");
  }
  static Places::const_iterator BatchAt(const Places& batch, std::size_t row) {
    return batch.begin() + static_cast<std::ptrdiff_t>(row);
  }

  bool Gathers() const { return c_.IsAnyOf(Option::kGather, "group bucket token pack"); }

  /// All rows in their order, passes joined where they are.
  Stage Rows(Meets meets) const {
    Stage stage = Source();
    const bool met = meets.damage == MetAt::kEnd;
    const bool cut = said_.fails && (ReadFails() || (met && HasFailure(stage(0))));
    const std::uint64_t passes = cut ? 1 : passes_;
    if (cut && !ReadFails()) {
      stage = ModelUpToFailure(std::move(stage), 1);
    }
    if (c_.Is(Option::kJoin, "source")) stage = ModelPasses(std::move(stage), passes);
    stage = Shuffled(std::move(stage));
    if (c_.Is(Option::kJoin, "shuffled")) stage = ModelPasses(std::move(stage), passes);
    if (meets.thrower == MetAt::kOrder) stage = Marked(std::move(stage));
    stage = WithoutRefused(std::move(stage));
    stage = ModelFilter(std::move(stage), [this](std::int64_t row) { return Keeps(row); });
    return said_.fails ? ModelUpToFailure(std::move(stage)) : stage;
  }

  std::uint64_t Units(std::int64_t record) const { return UnitsOf(c_, data_, record); }

  BatchStage Batches(Stage rows) const {
    const std::uint64_t size = size_;
    const bool drop = c_.Is(Option::kRest, "drop");
    const ModelRest rest = !drop || rests_dropped_ ? ModelRest::kKeep
                           : said_.fails           ? ModelRest::kDropButLast
                                                   : ModelRest::kDrop;
    const auto units = [this](std::int64_t record) { return Units(record); };
    if (c_.Is(Option::kGather, "group")) {
      return ModelGroups(
          std::move(rows), size, kGroupSegment,
          [this](std::int64_t record) { return GroupOf(data_.Payload(record)); }, rest);
    }
    if (c_.Is(Option::kGather, "bucket")) {
      const auto bucket = [this](std::int64_t record) {
        const auto& bounds = BucketBounds();
        return static_cast<std::uint64_t>(
            std::lower_bound(bounds.begin(), bounds.end(), Units(record)) - bounds.begin());
      };
      return ModelGroups(std::move(rows), size, kGroupSegment, bucket, rest);
    }
    if (c_.Is(Option::kGather, "token")) {
      return ModelWeighed(std::move(rows), kMostTokens, size, units);
    }
    if (c_.Is(Option::kGather, "pack")) {
      return ModelPacked(std::move(rows), kPackLength, size, kPackSegment, units, rest);
    }
    // Each of several ranks drops its own part of a rest, where none of its rows fails: see Add.
    const bool drops = drop && !said_.fails && ranks_ == 1;
    return ModelBatches(std::move(rows), size, drops, c_.Is(Option::kRest, "pad"));
  }

  std::vector<DeliveredRows> Deliveries(Meets meets) {
    const Stage rows = Rows(meets);
    std::vector<DeliveredRows> deliveries;
    if (c_.Is(Option::kGather, "none")) {
      for (const std::int64_t row : rows(0)) Add({row}, &deliveries);
    } else {
      const BatchStage batches = Batches(rows);
      const bool apart = c_.Is(Option::kJoin, "batched") && !said_.fails;
      for (std::uint64_t pass = 0; pass < (apart ? passes_ : 1); ++pass) {
        for (const Places& batch : batches(pass)) Add(batch, &deliveries);
      }
    }
    if (!ShowsEmpty(c_, ranks_)) {
      std::erase_if(deliveries, [](const DeliveredRows& each) { return each.rows.empty(); });
    }
    return deliveries;
  }

  /// This rank's part, without holes.
  void Add(const Places& batch, std::vector<DeliveredRows>* deliveries) {
    if (met_failure_) return;
    const std::size_t share = size_ / ranks_;
    const std::size_t begin = ranks_ == 1 ? 0 : std::min(batch.size(), rank_ * share);
    const std::size_t end = ranks_ == 1 ? batch.size() : std::min(batch.size(), begin + share);
    DeliveredRows delivery;
    delivery.number = deliveries->size();
    delivery.rows.assign(batch.begin() + static_cast<std::ptrdiff_t>(begin),
                         batch.begin() + static_cast<std::ptrdiff_t>(end));
    const auto fails = [this](std::int64_t row) {
      return row == kFailure || (row >= 0 && row == thrower_);
    };
    const auto failure = std::find_if(delivery.rows.begin(), delivery.rows.end(), fails);
    // A rank asks filters about all records, and meets what fails there.
    met_failure_ =
        Filters() ? std::any_of(batch.begin(), batch.end(), fails) : failure != delivery.rows.end();
    const bool before = Filters() && std::any_of(batch.begin(), BatchAt(batch, begin), fails);
    if (before) return;
    const bool rest = batch.size() < c_.Number(Option::kSize) && c_.Is(Option::kRest, "drop");
    if ((ranks_ > 1 || rests_dropped_) && rest && !met_failure_) return;
    delivery.rows.erase(failure, delivery.rows.end());
    std::erase(delivery.rows, kHole);
    if (met_failure_ && delivery.rows.empty()) return;
    deliveries->push_back(std::move(delivery));
  }

  void SayCounts() {
    if (!said_.exact || said_.fails || !said_.whole || ranks_ > 1) return;
    const Places all = Source()(0);
    const auto records = static_cast<std::uint64_t>(
        std::count_if(all.begin(), all.end(), [](std::int64_t row) { return row >= 0; }));
    const Places kept = Kept(all);
    const auto left = static_cast<std::uint64_t>(
        std::count_if(kept.begin(), kept.end(), [](std::int64_t row) { return row >= 0; }));
    said_.filtered = (records - left) * passes_;
    if (c_.IsAnyOf(Option::kDamage, "none payload payloads every length")) {
      said_.damaged = (lost_ + (refused_ >= 0 ? 1 : 0)) * passes_;
    }
  }

  const Configuration& c_;
  const ChainData& data_;
  const std::uint64_t part_;  ///< of the files, of so many
  const std::uint64_t parts_;
  const std::uint64_t rank_;  ///< of each batch
  const std::uint64_t ranks_;
  const std::uint64_t most_;
  const std::uint64_t size_;
  std::vector<ModelFile> files_;
  bool skips_ = false;
  bool lost_range_ = false;
  std::uint64_t lost_ = 0;
  std::int64_t thrower_ = kHole;
  std::int64_t refused_ = kHole;
  bool met_failure_ = false;
  bool rests_dropped_ = false;
  const std::uint64_t seed_;
  const std::uint64_t window_;
  std::uint64_t passes_;
  Expectation said_;
};

}  // namespace

Expectation Expect(const Configuration& configuration, const ChainData& data, std::uint64_t rank,
                   std::uint64_t ranks, std::uint64_t most) {
  return ChainModel(configuration, data, rank, ranks, most).Say();
}

}  // namespace ringfeed
