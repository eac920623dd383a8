#include "readers/engine/plan/indexed_source.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "base/machine/in_parallel.h"
#include "base/refusal.h"
#include "base/refuse.h"
#include "io/remote/remote_source.h"
#include "readers/engine/plan/open_lengths.h"
#include "readers/formats/examined_file.h"
#include "readers/index/compressed_file.h"
#include "readers/index/indexed_file.h"
#include "readers/index/manifest.h"
#include "readers/index/pointed_content.h"
#include "readers/order/files_of_pass.h"
#include "readers/order/place_chunks.h"
#include "readers/order/share_chunks.h"

namespace ringfeed {

namespace {

OrderOptions OrderOptionsOf(const OpenOptions& options) {
  return {options.files, options.cycle, options.first_epoch};
}

/// Rows that count alike.
class UnitRows final : public LengthTable {
 public:
  Status UnitsOf(std::span<const RowNumber> /*rows*/,
                 std::span<std::uint32_t> units) const override {
    std::fill(units.begin(), units.end(), 1);
    return {};
  }
  std::uint32_t most() const override { return 1; }
};

/// Of a record, so that the sums of shares hold in 64 bits.
constexpr std::uint64_t kMostCost = std::uint64_t{1} << 48;

/// Passes over the files that the first `stages` join into one; 0: all of them, without end.
std::uint64_t JoinedPasses(const ExecutionPlan& plan, std::size_t stages) {
  std::uint64_t joined = 1;
  for (const OrderStage& stage : std::span(plan.stages).first(stages)) {
    if (stage.kind == OrderStage::Kind::kMultiPass) joined *= stage.amount;
  }
  return joined;
}

/// Passes of a cursor in which the first `stages` join some into one.
std::uint64_t PassesOf(const ExecutionPlan& plan, std::size_t stages) {
  const std::uint64_t joined = JoinedPasses(plan, stages);
  if (joined == 0) return 1;  // one pass that has no end
  return plan.passes / joined;
}

/// The batches of the rest of a pass.
struct BatchCut {
  BatchCut(std::uint64_t places, std::uint64_t rows, bool drop_remainder)
      : batches(places / rows + (drop_remainder || places % rows == 0 ? 0 : 1)),
        drops(drop_remainder && places % rows != 0) {}

  /// Whether the place after so many of its batches is in it. The place before a rest that is
  /// dropped is: what fails in the rest fails again.
  bool Has(std::uint64_t behind) const { return behind < batches || (drops && behind == batches); }

  std::uint64_t batches;
  bool drops;  ///< a rest
};

std::shared_ptr<const RecordSet> OpenSet(const SourceNode& source, const OpenOptions& options,
                                         const std::shared_ptr<const Parser>& parser,
                                         const std::stop_token& stop) {
  RecordSet::Options how = RecordSet::OptionsOf(source.options);
  how.on_damage = options.on_damage;
  how.index = IndexOptionsOf(source);
  how.index.stop = stop;
  how.check_elements = ElementCheckOf(parser);
  if (how.format.empty()) how.check_format = FormatCheckOf(parser);
  return std::make_shared<const RecordSet>(source.names, source.sources, how);
}

/// The failure for files whose records have no numbers. Without them the order by number would be
/// another one, so there is none, whatever is done with damage. It has the first file's failure,
/// the names of some more, and what can be done.
Status WithoutNumbers(std::span<const RecordSet::File* const> files, std::size_t of_files) {
  constexpr std::size_t kNamed = 3;
  const Status& first = files.front()->status;
  std::string text = first.message();
  if (files.size() > 1) {
    text += "; " + std::to_string(files.size()) + " of the " + std::to_string(of_files) +
            " files have no numbers for their records, also ";
    for (std::size_t i = 1; i < std::min(files.size(), 1 + kNamed); ++i) {
      text += (i == 1 ? "" : ", ") + files[i]->name;
    }
    if (files.size() > 1 + kNamed) {
      text += " and " + std::to_string(files.size() - 1 - kNamed) + " more";
    }
  }
  text +=
      ". Records are asked for by number in this order: take the order of files (a window or block "
      "shuffle, ranks split by files), decompress or convert such files, or take them off the list";
  return Status(first.code(), std::move(text), first.place());
}

/// Throws Error if a file has none.
void CheckNumbers(const std::vector<std::shared_ptr<const RecordSet>>& sets,
                  const std::stop_token& stop) {
  std::vector<const RecordSet::File*> without;
  std::size_t files = 0;
  for (const auto& set : sets) {
    files += set->files();
    for (std::size_t i = 0; i < set->files(); ++i) {
      if (set->file(i).unfit) throw Error(set->file(i).status);
      if (!set->file(i).status.ok()) without.push_back(&set->file(i));
    }
  }
  if (without.empty()) return;
  if (stop.stop_requested()) {
    throw Error(Status(StatusCode::kCancelled, "opening the files was broken off"));
  }
  throw Error(WithoutNumbers(without, files));
}

/// The files of record sets.
class SetFiles final : public FileTable {
 public:
  explicit SetFiles(const std::vector<std::shared_ptr<const RecordSet>>& sets) {
    RowNumber first = 0;
    for (const auto& set : sets) {
      for (std::size_t i = 0; i < set->files(); ++i) {
        const RecordSet::File& file = set->file(i);
        files_.push_back(
            {file.name, file.source, file.bytes, file.format, file.index, file.status, file.known});
        first_rows_.push_back(first + set->FirstRow(i));
      }
      first += set->rows();
    }
    first_rows_.push_back(first);
  }
  std::size_t files() const override { return files_.size(); }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_[file]; }
  const DataFile& file(std::size_t file) const override { return files_[file]; }

 private:
  std::vector<DataFile> files_;
  std::vector<RowNumber> first_rows_;
};

/// Steps before the mark.
std::uint64_t StepsBefore(const ExecutionPlan& plan, const RunStart& start) {
  return plan.shares ? start.step : start.batch;
}

/// Tells where a mixture's run began, whatever was computed from there.
std::string MixStartOf(const ExecutionPlan& plan, const RunStart& start) {
  if (start.mix.empty()) return {};
  return start.mix + " at " + std::to_string(StepsBefore(plan, start));
}

/// The place so many batches after one of the order. `even`: passes from there on have as many
/// places.
PlanPosition Behind(RowCursor& order, const ExecutionPlan& plan, PlanPosition mark,
                    std::uint64_t batches, std::uint64_t passes, bool even) {
  const std::uint64_t rows = plan.batched ? plan.batch.size : 1;
  while (passes == 0 || mark.pass < passes) {
    const std::uint64_t places = order.Places(mark.pass);
    const BatchCut left(places - std::min(places, mark.place), rows, plan.batch.drop_remainder);
    if (left.Has(batches)) return {mark.pass, mark.place + batches * rows, 0};
    if (left.batches == 0 && mark.place == 0) break;  // nothing will come
    std::uint64_t skipped = 1;
    if (even && mark.place == 0) skipped = (batches - (left.drops ? 1 : 0)) / left.batches;
    if (passes != 0) skipped = std::min(skipped, passes - mark.pass);
    batches -= skipped * left.batches;
    mark = {mark.pass + skipped, 0, 0};
  }
  return {mark.pass, 0, 0};
}

}  // namespace

IndexedSource::IndexedSource(const ExecutionPlan& plan, const std::stop_token& stop)
    : plan_(plan), passes_(PassesOf(plan, plan.stages.size())) {
  const SourceNode& source = plan_.source;
  if (source.mix == nullptr) {
    sets_.push_back(OpenSet(source, source.options, plan_.parser, stop));
    even_ = HasEvenPasses(source.options.files);
  } else {
    for (const MixSource::Set& set : source.mix->sets) {
      sets_.push_back(OpenSet(set.source, source.options,
                              set.parser != nullptr ? set.parser : plan_.parser, stop));
      even_ = even_ && HasEvenPasses(set.source.options.files);
    }
  }
  CheckNumbers(sets_, stop);
  UseSubsets();
  table_ = std::make_shared<SetFiles>(sets_);
  for (const auto& set : sets_) fingerprint_.Add(set->fingerprint());
  if (plan_.shares && !plan_.shares->field.empty()) OpenLengths(stop);
}

void IndexedSource::UseSubsets() {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const SourceNode& source = SourceOf(i);
    if (source.subset == nullptr) continue;
    CheckSubset(*source.subset, source.options.subset, sets_[i]->fingerprint());
    kept_.resize(sets_.size());
    kept_[i] = std::make_unique<const KeptLayout>(*sets_[i], *source.subset);
  }
}

const RowLayout& IndexedSource::LayoutOf(std::size_t set) const {
  if (!kept_.empty() && kept_[set] != nullptr) return *kept_[set];
  return *sets_[set];
}

void IndexedSource::CountHoles(const FileLengths::Columns& columns) {
  RowNumber first_row = 0;  // of the set
  for (std::size_t i = 0; i < sets_.size(); first_row += sets_[i++]->rows()) {
    const RowLayout& layout = LayoutOf(i);
    for (std::size_t file = 0; file < sets_[i]->files(); ++file) {
      const LengthColumn* const column = columns[holes_.size()].get();
      std::uint64_t& holes = holes_.emplace_back(column == nullptr ? 0 : column->header().holes);
      if (holes == 0 || layout.kept() == nullptr) continue;
      std::vector<RowNumber> rows(
          static_cast<std::size_t>(layout.FirstRow(file + 1) - layout.FirstRow(file)));
      std::iota(rows.begin(), rows.end(), layout.FirstRow(file));
      std::vector<std::uint32_t> units(rows.size());
      Status status = layout.kept()->ToRows(rows);
      for (RowNumber& row : rows) row += first_row;
      if (status.ok()) status = lengths_->UnitsOf(rows, units);
      if (!status.ok()) throw Error(status);
      holes = static_cast<std::uint64_t>(std::ranges::count(units, LengthTable::kHole));
    }
  }
}

void IndexedSource::OpenLengths(const std::stop_token& stop) {
  const SharedSteps& steps = *plan_.shares;
  FileLengths::Columns columns;
  OpenedColumns all;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    SharedSteps of_set = steps;
    if (!steps.set_units.empty()) of_set.units = steps.set_units[i];
    const OpenedColumns opened = OpenColumns(*sets_[i], SourceOf(i), of_set, stop);
    columns.insert(columns.end(), opened.columns.begin(), opened.columns.end());
    all.computed += opened.computed;
    all.kept += opened.kept;
    all.made += opened.made;
  }
  for (const auto& [files, how] : {std::pair(all.computed, " computed"),
                                   std::pair(all.kept, " kept"), std::pair(all.made, " made")}) {
    if (files == 0) continue;
    lengths_how_ += (lengths_how_.empty() ? "; lengths: " : ", ") + std::to_string(files) + how;
  }
  lengths_ = std::make_shared<const FileLengths>(*table_, columns, steps.changes);
  CountHoles(columns);
  if (plan_.source.options.on_damage == OnDamage::kFail) CheckHoles(*table_, holes_);
  const std::uint64_t most = std::min<std::uint64_t>(
      lengths_->most(),
      steps.rules.kind == ShareRules::Kind::kPacked ? steps.rules.length : LengthTable::kHole);
  const ShareCost& cost = steps.rules.cost;
  const double most_cost =
      static_cast<double>(cost.linear) * static_cast<double>(most) +
      static_cast<double>(cost.square) * static_cast<double>(most) * static_cast<double>(most);
  if (most_cost > static_cast<double>(kMostCost)) {
    Refuse("the cost of a record of " + std::to_string(most) +
           " units is more than 2^48: make the numbers of Balance smaller, in proportion");
  }
}

std::unique_ptr<SharePlan> IndexedSource::NewSharePlan(const RunStart& start,
                                                       const ShareRules& rules) const {
  std::shared_ptr<const LengthTable> lengths = lengths_;
  if (lengths == nullptr) lengths = std::make_shared<const UnitRows>();
  const SharePlan::Passes passes{passes_, HasOtherFilesInEachPass()};
  if (plan_.source.mix == nullptr || !plan_.source.mix->is_scheduled()) {
    return std::make_unique<SharePlan>(rules, passes, NewCursor(start, plan_.stages.size()),
                                       std::move(lengths));
  }
  MixChain chain = NewMix(start);
  std::size_t known = 0;
  {
    const std::lock_guard lock(mutex_);
    (void)AddChanges(start, chain.mix, &known);  // it may begin within a segment
  }
  const auto on_segment = [this, start, rows = chain.rows.get(), mix = chain.mix, known](
                              const OrderPlace& at, std::uint64_t step) mutable {
    const OrderPlace place = rows->Origin(at.pass, at.place);
    const std::lock_guard lock(mutex_);
    NoteSegment(start, place, step);
    return AddChanges(start, mix, &known);
  };
  return std::make_unique<SharePlan>(rules, passes, std::move(chain.rows), std::move(lengths),
                                     on_segment);
}

std::unique_ptr<ChunkMaker> IndexedSource::NewChunks(const RunStart& start, std::size_t stages,
                                                     std::size_t rows_per_chunk) const {
  if (plan_.shares) {
    ShareChunks::Options options;
    options.rows_per_chunk = rows_per_chunk;
    options.passes = passes(stages);
    options.begin = start.mark;
    options.first_step = start.step;
    options.rank = plan_.shares->rank;
    options.split = plan_.shares->split;
    options.fill_to = plan_.shares->FillTo();
    options.row_units = plan_.shares->rules.length;
    return std::make_unique<ShareChunks>(NewSharePlan(start, plan_.shares->rules), options);
  }
  PlaceChunks::Options options;
  options.rows_per_chunk = rows_per_chunk;
  options.passes = passes(stages);
  options.pass = start.mark.pass;
  options.place = start.mark.place;
  options.other_files = HasOtherFilesInEachPass();
  if (plan_.batch.rank.world_size > 1 && !plan_.looks_into_records()) {
    options.slice = plan_.SliceOfRank();
  }
  return std::make_unique<PlaceChunks>(NewCursor(start, stages), options);
}

bool IndexedSource::FirstBatch(const RunStart& start, std::vector<BatchRow>* rows) const {
  const std::size_t most_rows = plan_.batched ? plan_.RowsOfRank() : 1;
  const std::unique_ptr<ChunkMaker> chunks = NewChunks(start, plan_.stages.size(), most_rows);
  const bool in_pieces = plan_.shares && plan_.shares->in_pieces();
  const bool drops_rest = plan_.batched && plan_.batch.drop_remainder && !plan_.shares;
  std::uint64_t before = plan_.shares ? start.leave_out : 0;  // pieces of the step
  std::uint32_t row = 0;                                      // of the batch
  bool any = false;
  while (true) {
    Chunk chunk;
    chunks->Make(&chunk);
    if (chunk.kind == Chunk::Kind::kEnd) return false;
    if (chunk.kind == Chunk::Kind::kPassEnd) {
      if (any && !drops_rest) return true;
      rows->clear();
      row = 0;
      any = false;
    }
    for (std::size_t i = 0; i < chunk.rows.size() && !chunk.of_dropped_rest; ++i) {
      any = true;
      const PlannedRow planned = plan_.shares ? chunk.planned[i] : PlannedRow{};
      if (before == 0 && chunk.rows[i] != kNoRow && (planned.marks & PlannedRow::kRepeated) == 0) {
        rows->push_back({chunk.rows[i], row, planned.units});
      }
      const bool ends_share = (planned.marks & PlannedRow::kEndsShare) != 0;
      // A share is a row of the batch, or a batch whose rows are records.
      if (!plan_.shares || in_pieces || ends_share) ++row;
      if (before > 0 && ends_share) row = 0;
      if (before > 0 && ends_share && --before == 0) continue;
      const bool ends_step = (planned.marks & PlannedRow::kEndsStep) != 0;
      if (plan_.shares ? ends_step || (in_pieces && ends_share && before == 0) : row == most_rows) {
        return true;
      }
    }
    if (!chunk.status.ok()) throw Error(chunk.status);
  }
}

IndexedSource::StepPlace IndexedSource::StepsBehind(const RunStart& start,
                                                    std::uint64_t steps) const {
  StepPlace place{start.mark, 0};
  if (steps == 0) return place;
  const std::unique_ptr<SharePlan> plan = NewSharePlan(start, plan_.shares->rules);
  plan->Seek(start.mark, start.step);
  PlannedStep step;
  bool ended = false;
  for (; place.steps < steps; ++place.steps) {
    const Status status = plan->Next(&step, &ended);
    if (!status.ok()) throw Error(status);
    if (ended) break;
    place.mark = step.end;
  }
  return place;
}

std::string IndexedSource::Describe() const {
  std::map<std::string, std::size_t> origins;
  std::string remark;
  for (const auto& set : sets_) {
    for (std::size_t i = 0; i < set->files(); ++i) {
      const RecordSet::File& file = set->file(i);
      ++origins[IndexOriginName(file.origin)];
      const bool says = file.how != IndexOriginName(file.origin);
      if (says && remark.empty()) remark = "; " + file.name + ": " + file.how;
    }
  }
  std::string text;
  for (const auto& [origin, files] : origins) {
    text += (text.empty() ? "" : ", ") + std::to_string(files) + " " + origin;
  }
  return text + lengths_how_ + remark;
}

const SourceNode& IndexedSource::SourceOf(std::size_t set) const {
  return plan_.source.mix == nullptr ? plan_.source : plan_.source.mix->sets[set].source;
}

void IndexedSource::AddLosses(const RecordSet::File& file, Losses* losses) {
  losses->count += file.index->loss().ranges;
  for (const IndexDamage& range : file.index->DamageOf(IndexDamage::kNoRecord)) {
    losses->ranges.push_back({file.name, range.begin, range.end, range.reason});
  }
  if (file.bytes == 0) losses->warnings.push_back({file.name, std::string(kEmptyFile)});
  for (const IndexDamage& warning : file.index->warnings()) {
    losses->warnings.push_back({file.name, warning.reason});
  }
}

IndexedSource::Losses IndexedSource::LossesOf(std::uint64_t pass, std::size_t stages) const {
  Losses losses;
  // If endless passes are joined into one, the first one tells.
  const std::uint64_t joined = std::max<std::uint64_t>(1, JoinedPasses(plan_, stages));
  // A row of a bucket or a batch keeps its place, and is found damaged there.
  const bool leaves_holes_out =
      plan_.shares && (plan_.shares->rules.kind == ShareRules::Kind::kPacked ||
                       plan_.shares->rules.kind == ShareRules::Kind::kTokens);
  std::size_t first_file = 0;  // of the set
  for (std::size_t i = 0; i < sets_.size(); first_file += sets_[i++]->files()) {
    const OpenOptions& options = SourceOf(i).options;
    const RecordSet& set = *sets_[i];
    if (!set.has_losses() && !leaves_holes_out) continue;
    for (std::uint64_t one = pass * joined; one < (pass + 1) * joined; ++one) {
      for (const std::size_t file :
           FilesOfPass(set.files(), options.files, options.first_epoch + one)) {
        if (set.has_losses()) AddLosses(set.file(file), &losses);
        const std::uint64_t holes = leaves_holes_out ? holes_[first_file + file] : 0;
        losses.count += holes;
        if (holes > 0) {
          losses.ranges.push_back(
              {set.file(file).name, 0, set.file(file).bytes,
               std::to_string(holes) + " records of it were damaged when they were measured"});
        }
      }
    }
  }
  return losses;
}

std::optional<std::uint64_t> IndexedSource::RowsOf(std::uint64_t pass, std::size_t stages) const {
  const std::uint64_t joined = JoinedPasses(plan_, stages);
  if (plan_.source.mix != nullptr || joined == 0) return std::nullopt;
  const OpenOptions& options = plan_.source.options;
  const RowLayout& set = LayoutOf(0);
  if (options.files.ranks == 1) return joined * set.rows();
  std::uint64_t rows = 0;
  for (std::uint64_t one = pass * joined; one < (pass + 1) * joined; ++one) {
    for (const std::size_t file :
         FilesOfPass(set.files(), options.files, options.first_epoch + one)) {
      rows += set.FirstRow(file + 1) - set.FirstRow(file);
    }
  }
  return rows;
}

bool IndexedSource::HasOtherFilesInEachPass() const {
  if (HasEvenPasses(plan_.source.options.files)) return false;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (LayoutOf(i).rows() > 0) return true;
  }
  return false;
}

std::uint64_t IndexedSource::mean_record_bytes() const {
  return fingerprint_.bytes / std::max<std::uint64_t>(1, fingerprint_.records) + 1;
}

bool IndexedSource::has_even_passes() const {
  const MixSource* const mix = plan_.source.mix.get();
  return even_ && (mix == nullptr || !mix->is_scheduled() || !mix->has_passes_by_weights());
}

std::uint64_t IndexedSource::FirstStepOf(const PlanPosition& mark, std::uint64_t step) const {
  if (!plan_.shares) return step;
  const std::uint64_t of_step = plan_.shares->rules.step;
  const std::uint64_t used = mark.outputs / of_step + (mark.outputs % of_step == 0 ? 0 : 1);
  return step - std::min(step, mark.done + used);
}

std::size_t IndexedSource::WeightsAt(std::uint64_t step) const {
  const std::vector<MixWeights>& schedule = plan_.source.mix->schedule;
  const auto next = std::ranges::upper_bound(schedule, step, std::less(), &MixWeights::from_step);
  return static_cast<std::size_t>(next - schedule.begin()) - 1;
}

std::vector<std::uint64_t> IndexedSource::IntegersOf(std::size_t weights) const {
  return IntegerWeights(plan_.source.mix->schedule[weights].weights);
}

std::vector<std::uint64_t> IndexedSource::WeightsBehind(const PlanPosition& mark,
                                                        std::uint64_t step) const {
  const std::size_t first = WeightsAt(FirstStepOf(mark, step));
  std::vector<std::uint64_t> weights = IntegersOf(first);
  if (mark.done == 0) return weights;
  // Steps that exchanged shares come after the mark again, some of them only to be left out.
  const std::size_t last =
      WeightsAt(step - std::min(step, mark.done) + plan_.shares->rules.alike - 1);
  for (std::size_t i = first + 1; i <= last; ++i) {
    const std::vector<std::uint64_t> more = IntegersOf(i);
    weights.insert(weights.end(), more.begin(), more.end());
  }
  return weights;
}

MixChain IndexedSource::NewMix(const RunStart& start) const {
  const MixSource& source = *plan_.source.mix;
  std::uint64_t step = start.mix.empty() ? 0 : StepsBefore(plan_, start);
  const PlanPosition mark = start.mix.empty() ? PlanPosition{} : start.mark;
  const std::size_t weights = WeightsAt(FirstStepOf(mark, step));
  std::vector<MixInput> inputs;
  for (std::size_t i = 0; i < source.sets.size(); ++i) {
    const MixSource::Set& set = source.sets[i];
    OrderOptions options = OrderOptionsOf(set.source.options);
    inputs.push_back({&LayoutOf(i), options, set.stages, source.schedule[weights].weights[i],
                      set.passes, set.most_records});
  }
  MixChain chain =
      MakeMixCursor(inputs, plan_.source.options.first_epoch, plan_.stages, plan_.LookBack());
  if (!start.mix.empty()) {
    MixState state;
    bool other_weights = false;
    Status status = ParseMixText(start.mix, WeightsBehind(mark, step), &state, &other_weights);
    if (status.ok() && other_weights && plan_.LookBack() > 0) {
      status = Status(StatusCode::kInvalidArgument,
                      "the weights of a mixture can change only while nothing is held back: "
                      "shuffle its sets in front of Mix, not the mixture");
    }
    // The old weights counted the place in the pass: at the very start they had counted nothing.
    const bool began = state.pass > 0 || state.place() > 0;
    if (status.ok() && other_weights && began && plan_.JoinsByWeights()) {
      status =
          Status(StatusCode::kInvalidArgument,
                 "the weights of a mixture with a set without end do not change if its "
                 "passes are joined: put MultiPass behind Batch, or give the weights as before");
    }
    if (status.ok()) status = chain.mix->Begin(state, other_weights);
    if (!status.ok()) throw Error(status);
  }
  if (plan_.shares) return chain;  // NoteSegment tells where they change
  PlanPosition at = mark;
  for (std::size_t i = weights + 1; i < source.schedule.size(); ++i) {
    const std::uint64_t from_step = source.schedule[i].from_step;
    at = Behind(*chain.rows, plan_, at, from_step - std::exchange(step, from_step), passes_, even_);
    if (passes_ != 0 && at.pass >= passes_) break;
    chain.mix->ChangeAt(chain.rows->Origin(at.pass, at.place), IntegersOf(i));
  }
  return chain;
}

bool IndexedSource::AddChanges(const RunStart& start, MixCursor* mix, std::size_t* known) const {
  const std::vector<MixChange>& changes = mix_changes_[MixStartOf(plan_, start)];
  const std::size_t before = *known;
  for (; *known < changes.size(); ++*known) {
    mix->ChangeAt(changes[*known].at, IntegersOf(changes[*known].weights));
  }
  return *known > before;
}

void IndexedSource::NoteSegment(const RunStart& start, const OrderPlace& at,
                                std::uint64_t step) const {
  std::vector<MixChange>& changes = mix_changes_[MixStartOf(plan_, start)];
  const std::size_t weights = WeightsAt(step);
  const std::size_t before = !changes.empty()    ? changes.back().weights
                             : start.mix.empty() ? 0
                                                 : WeightsAt(FirstStepOf(start.mark, start.step));
  if (weights > before) changes.push_back({at, weights});
}

void IndexedSource::CheckMix(const RunStart& start) const {
  (void)NewMix(start);
  if (start.mix.empty() || (start.mark.outputs == 0 && start.mark.done == 0)) return;
  MixState state;
  bool other_weights = false;
  const Status status = ParseMixText(
      start.mix, WeightsBehind(start.mark, StepsBefore(plan_, start)), &state, &other_weights);
  if (!status.ok()) throw Error(status);
  if (!other_weights) return;
  // The left-out batches were made of places that the old weights gave.
  Refuse(
      "the weights of a mixture do not change within a segment, of which batches were "
      "delivered: give the weights as before, or a schedule that changes them later");
}

std::unique_ptr<RowCursor> IndexedSource::NewCursor(const RunStart& start,
                                                    std::size_t stages) const {
  if (plan_.source.mix != nullptr) return NewMix(start).rows;
  return MakeRowCursor(LayoutOf(0), OrderOptionsOf(plan_.source.options),
                       std::span(plan_.stages).first(stages));
}

std::uint64_t IndexedSource::passes(std::size_t stages) const { return PassesOf(plan_, stages); }

PlanPosition IndexedSource::PlaceOf(std::uint64_t batch, std::uint64_t rows, bool drop_remainder) {
  if (batch == 0) return {};  // also of data without a batch, whose losses are told all the same
  const std::lock_guard lock(mutex_);
  if (counting_ == nullptr) counting_ = NewCursor(RunStart{}, plan_.stages.size());
  std::uint64_t pass = 0;
  BatchCut cut(counting_->Places(0), rows, drop_remainder);
  if (has_even_passes() && cut.batches > 0) {
    pass = batch / cut.batches;
    batch %= cut.batches;
    if (batch == 0 && cut.drops) {
      --pass;
      batch = cut.batches;
    }
    if (passes_ != 0 && pass >= passes_) return {passes_, 0, 0};
    return {pass, batch * rows, 0};
  }
  while (!cut.Has(batch)) {
    batch -= cut.batches;
    if (++pass == passes_) return {pass, 0, 0};
    cut = BatchCut(counting_->Places(pass), rows, drop_remainder);
    if (cut.batches == 0 && passes_ == 0) return {pass, 0, 0};
  }
  return {pass, batch * rows, 0};
}

std::uint64_t IndexedSource::BatchOrEnd(std::uint64_t batch, std::uint64_t rows,
                                        bool drop_remainder) {
  if (passes_ == 0) return batch;
  const std::lock_guard lock(mutex_);
  if (counting_ == nullptr) counting_ = NewCursor(RunStart{}, plan_.stages.size());
  const auto batches_of = [&](std::uint64_t pass) {
    return BatchCut(counting_->Places(pass), rows, drop_remainder).batches;
  };
  if (even_) {
    const std::uint64_t each = batches_of(0);
    if (each > 0 && batch / each >= passes_) return each * passes_;  // which can be counted
    return each > 0 ? batch : 0;
  }
  std::uint64_t end = 0;
  for (std::uint64_t pass = 0; pass < passes_ && end < batch; ++pass) end += batches_of(pass);
  return std::min(batch, end);
}

const MixChain& IndexedSource::MixFrom(const RunStart& start) {
  const std::string begin = MixStartOf(plan_, start);
  if (mix_.rows == nullptr || mix_begin_ != begin) {
    mix_ = NewMix(start);
    mix_begin_ = begin;
    mix_known_ = 0;
  }
  return mix_;
}

PlanPosition IndexedSource::PlaceBehind(const RunStart& start, std::uint64_t batches) {
  const std::lock_guard lock(mutex_);
  return Behind(*MixFrom(start).rows, plan_, start.mark, batches, passes_, has_even_passes());
}

std::string IndexedSource::MixBehind(const RunStart& start, const PlanPosition& mark,
                                     std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const MixChain& chain = MixFrom(start);
  const OrderPlace origin = chain.rows->Origin(mark.pass, mark.place);
  if (plan_.shares && plan_.source.mix->is_scheduled()) {
    NoteSegment(start, origin, FirstStepOf(mark, step));  // it may not be planned yet
    (void)AddChanges(start, chain.mix, &mix_known_);
  }
  MixState state;
  const Status status = chain.mix->StateAt(origin.pass, origin.place, &state);
  if (!status.ok()) throw Error(status);
  return MixText(state, WeightsBehind(mark, step));
}

std::vector<RecordRange> IndexedSource::RangesOf(std::span<const std::uint64_t> rows) const {
  return ringfeed::RangesOf(rows, [this](std::uint64_t row) {
    const std::size_t file = FileOfRow(*table_, row);
    return FileRecord{static_cast<std::uint32_t>(file), row - table_->FirstRow(file)};
  });
}

namespace {

// The facts of a file: none if it is not there, may not be read or is no data, as it will count
// when the position is restored. A file that fails to be read may be there again then, and a
// position without it would be refused: so reading is tried again, and then fails with a message.
FileFacts FileFactsOf(const SourceNode& source, const IndexOptions& index, std::size_t number,
                      const std::string& name, const std::shared_ptr<Source>& store) {
  const OpenOptions& options = source.options;
  constexpr int kTries = 3;
  constexpr std::chrono::milliseconds kPause{10};
  Status status;
  KnownFile known;
  for (int tries = 0; tries < kTries; ++tries) {
    if (status.code() == StatusCode::kIoError) std::this_thread::sleep_for(kPause);
    const ExaminedFile examined =
        ExamineListed(index, number, name, store, options.format, options.stripe_bytes);
    status = examined.status;
    if (status.ok()) {
      IndexedFile file{examined.name, examined.object != nullptr ? examined.object : store,
                       examined.bytes, examined.format, examined.compression};
      file.manifest = source.manifest;
      file.entry = number;
      status = IdentifyFile(file, &known);
    }
    if (status.ok()) {
      return {StoredBytes(examined.object.get(), known.identity.bytes), 0, known.identity.sample};
    }
    if (IsRefusal(status)) break;
  }
  const bool stays = status.code() == StatusCode::kNotFound ||
                     status.code() == StatusCode::kUnsupported ||
                     (!IsOfStore(store.get()) && (status.code() == StatusCode::kPermissionDenied ||
                                                  status.code() == StatusCode::kInvalidArgument));
  // A medium that is damaged at the bytes that are sampled stays so, too, and is passed over.
  const bool opened = known.identity.bytes > 0 && !IsRefusal(status);
  const bool passed_over = opened && options.on_damage == OnDamage::kSkip;
  if (!stays && !passed_over) throw Error(status);
  return {passed_over ? known.identity.bytes : 0, 0, 0};
}

}  // namespace

IndexOptions IndexOptionsOf(const SourceNode& source) {
  IndexOptions index = RecordSet::OptionsOf(source.options).index;
  index.manifest = source.manifest;
  return index;
}

DataFingerprint FingerprintOf(const SourceNode& source) {
  constexpr std::size_t kObjectsAtATime = 16;
  std::vector<FileFacts> facts(source.file_readers == nullptr ? source.names.size() : 0);
  const std::size_t threads = source.remote != nullptr ? kObjectsAtATime : 1;
  const IndexOptions index = IndexOptionsOf(source);
  ForEachInParallel(facts.size(), threads, [&](std::size_t i) {
    const std::shared_ptr<Source> store = source.sources.empty() ? nullptr : source.sources[i];
    facts[i] = FileFactsOf(source, index, i, source.names[i], store);
  });
  return FingerprintOf(facts);
}

}  // namespace ringfeed
