#include "gpu/feed/copy_plan.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/memory/arena.h"

namespace ringfeed {
namespace {

constexpr std::size_t kAlignment = 256;
// So many unneeded bytes may be copied to save a second copy.
constexpr std::size_t kGapBytes = std::size_t{64} << 10;

std::size_t AlignUp(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status Refuse(std::size_t field, const std::string& why) {
  return Status(StatusCode::kInvalidArgument,
                "a transform of field " + std::to_string(field) + ": " + why);
}

std::size_t FieldOf(const FieldTransform& transform) {
  return std::visit([](const auto& of) { return of.field; }, transform);
}

/// The range of addresses of some data.
struct AddressRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::size_t used = 0;

  void Add(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* const first = static_cast<const std::byte*>(data);
    begin = begin == nullptr ? first : std::min(begin, first);
    end = std::max(end, first + bytes);
    used += bytes;
  }
};

bool IsCropped(const NormalizeField& normalize) {
  return normalize.crop_height != 0 || normalize.crop_width != 0 || normalize.crops.has_value();
}

/// Whether the transform needs height and width.
bool TakesImages(const NormalizeField& normalize) {
  return normalize.channels_first || IsCropped(normalize);
}

/// The side of an image cropped to so many pixels; 0: not cropped.
void SetSide(std::size_t crop, std::int64_t* side) {
  if (crop != 0) *side = static_cast<std::int64_t>(crop);
}

float ValueOr(const std::vector<float>& values, std::size_t channel, float missing) {
  if (values.empty()) return missing;
  return values[values.size() == 1 ? 0 : channel];
}

CastNormalize KernelOf(const NormalizeField& normalize, const FieldPlace& from,
                       const FieldPlace& to) {
  CastNormalize kernel;
  const std::size_t rank = from.shape.size();
  const bool per_channel = normalize.mean.size() > 1 || normalize.scale.size() > 1;
  const bool by_image = TakesImages(normalize);
  std::uint64_t steps = from.bytes;  // of u8
  if (by_image || per_channel) {
    kernel.channels = static_cast<std::uint64_t>(from.shape[rank - 1]);
    steps /= std::max<std::uint64_t>(kernel.channels, 1);
  }
  if (by_image) {
    kernel.height = static_cast<std::uint64_t>(from.shape[rank - 3]);
    kernel.width = static_cast<std::uint64_t>(from.shape[rank - 2]);
    steps /= std::max<std::uint64_t>(kernel.height * kernel.width, 1);
  }
  kernel.rows = steps;
  kernel.output_dtype = to.dtype;
  kernel.channels_first = normalize.channels_first;
  kernel.crop_height = normalize.crop_height;
  kernel.crop_width = normalize.crop_width;
  for (std::size_t c = 0; c < kernel.channels; ++c) {
    kernel.mean[c] = ValueOr(normalize.mean, c, 0);
    kernel.scale[c] = ValueOr(normalize.scale, c, 1);
  }
  return kernel;
}

WidenTokens KernelOf(const WidenField&, const FieldPlace& from, const FieldPlace& to) {
  WidenTokens kernel;
  kernel.count = from.bytes / sizeof(std::uint16_t);
  kernel.output_dtype = to.dtype;
  return kernel;
}

RaggedToPadded KernelOf(const PadField& pad, const FieldPlace& from, const FieldPlace& to) {
  RaggedToPadded kernel;
  kernel.rows = static_cast<std::uint64_t>(to.shape[0]);
  kernel.length = pad.length;
  kernel.input_units = static_cast<std::uint64_t>(from.shape[0]);
  const auto element = static_cast<std::uint32_t>(DTypeBytes(from.dtype));
  std::uint32_t unit = element;
  for (std::size_t d = 1; d < from.shape.size(); ++d) {
    unit *= static_cast<std::uint32_t>(from.shape[d]);
  }
  kernel.unit_bytes = unit;
  kernel.padding_bytes = element;
  std::copy(pad.padding.begin(), pad.padding.end(), kernel.padding.begin());
  return kernel;
}

}  // namespace

void CopyPlan::Clear(std::size_t fields) {
  pieces_.clear();
  transformed_.clear();
  left_rows_.clear();
  gathered_.clear();
  direct_.clear();
  far_rows_.clear();
  taken_sums_.clear();
  summed_.clear();
  staging_bytes_ = slot_bytes_ = copied_bytes_ = each_bytes_ = together_bytes_ = direct_bytes_ = 0;
  mask_at_ = FieldPlace::kNowhere;
  ragged_ = false;
  fields_.resize(fields);
}

void CopyPlan::TakeField(const Tensor& tensor, FieldPlace* place) {
  place->dtype = tensor.dtype;
  place->shape = tensor.shape;
  place->bytes = tensor.bytes;
  place->offsets_at = FieldPlace::kNowhere;
  place->lod.resize(tensor.lod.size());
  for (std::size_t level = 0; level < tensor.lod.size(); ++level) {
    place->lod[level].assign(tensor.lod[level].begin(), tensor.lod[level].end());
  }
  ragged_ = ragged_ || !tensor.lod.empty();
}

Status CopyPlan::Make(const Instance& batch, const Input& input) {
  Clear(batch.size());
  for (std::size_t f = 0; f < batch.size(); ++f) TakeField(batch[f], &fields_[f]);
  has_gaps_ = !input.tight && input.pending.empty() && PlanWhole(batch);
  if (!has_gaps_) PlanPieces(batch, input.pending);
  PlanLeftRows(input);
  PlanSums(input.sums);
  for (const PlannedPiece& piece : pieces_) copied_bytes_ += piece.bytes;
  if (input.mask_rows) {
    mask_at_ = AlignUp(slot_bytes_);
    slot_bytes_ = mask_at_ + *input.mask_rows;
  }
  for (const FieldTransform& transform : input.transforms) {
    if (Status status = Transform(transform); !status.ok()) return status;
  }
  return {};
}

bool CopyPlan::PlanWhole(const Instance& batch) {
  AddressRange range;
  for (const Tensor& tensor : batch) {
    range.Add(tensor.data, tensor.bytes);
    for (const auto& level : tensor.lod) range.Add(level.data(), level.size_bytes());
  }
  if (range.begin == nullptr) return false;
  const auto bytes = static_cast<std::size_t>(range.end - range.begin);
  if (bytes > range.used + range.used / 8 + kGapBytes) return false;
  const std::shared_ptr<Arena> arena = Arena::Containing(range.begin);
  if (arena == nullptr || range.end > arena->data() + arena->bytes()) return false;
  for (std::size_t f = 0; f < batch.size(); ++f) {
    if (batch[f].owner != batch[0].owner) return false;
    // A tensor of no bytes may point anywhere.
    fields_[f].offset =
        batch[f].bytes == 0 ? 0 : static_cast<std::size_t>(batch[f].data - range.begin);
    // A device's part of a batch may begin at any row, so only single fields can be aligned in the
    // slot.
    if (fields_[f].offset % kAlignment != 0) return false;
    if (batch[f].lod.empty()) continue;
    fields_[f].offsets_at = static_cast<std::size_t>(
        reinterpret_cast<const std::byte*>(batch[f].lod[0].data()) - range.begin);
    if (fields_[f].offsets_at % alignof(std::int64_t) != 0) return false;
  }
  pieces_.push_back({.from = range.begin, .to = 0, .bytes = bytes});
  slot_bytes_ = bytes;
  return true;
}

std::size_t CopyPlan::AddPiece(const void* from, std::size_t bytes) {
  const std::size_t to = AlignUp(slot_bytes_);
  slot_bytes_ = to + bytes;
  if (bytes == 0) return to;
  const auto* const data = static_cast<const std::byte*>(from);
  const std::shared_ptr<Arena> arena = Arena::Containing(data);
  const bool staged = arena == nullptr || data + bytes > arena->data() + arena->bytes();
  AddPieceAt({.from = data, .to = to, .bytes = bytes, .staged = staged});
  return to;
}

void CopyPlan::AddPieceAt(PlannedPiece piece) {
  if (piece.staged) {
    piece.staging_at = AlignUp(staging_bytes_);
    staging_bytes_ = piece.staging_at + piece.bytes;
  }
  pieces_.push_back(piece);
}

// Rows that were left are in an arena, as their batch is.
std::size_t CopyPlan::AddParts(const Tensor& tensor, std::span<const PendingCopy> pending) {
  const std::size_t to = AlignUp(slot_bytes_);
  slot_bytes_ = to + tensor.bytes;
  std::size_t done = 0;
  const auto add_written = [&](std::size_t end) {
    if (end == done) return;
    AddPieceAt({.from = tensor.data + done, .to = to + done, .bytes = end - done, .field = false});
  };
  for (const PendingCopy& copy : pending) {
    const auto at = static_cast<std::size_t>(copy.to - tensor.data);
    add_written(at);
    const bool far = copy.far != nullptr;
    assert(!far || copy.sum == PendingCopy::kNoSum);  // the CPU could not compute its sum
    left_rows_.push_back({copy.from, to + at, copy.bytes, copy.slab, far, copy.sum});
    done = at + copy.bytes;
  }
  add_written(tensor.bytes);
  return to;
}

RowRun CopyPlan::RunOf(std::span<const LeftRow> rows, const Input& input) {
  const LeftRow& first = rows.front();
  RowRun run = input.planner.Begin(first.bytes);
  for (const LeftRow& row : rows.subspan(1)) {
    const auto begin = static_cast<std::size_t>(row.from - first.from);
    if (row.slab != first.slab || !input.planner.Join(input.left_rows, begin, row.bytes, &run)) {
      break;
    }
  }
  return run;
}

void CopyPlan::AddAlone(const LeftRow& row, const Input& input) {
  const bool staged =
      input.left_rows == LeftRows::kByCost && input.planner.IsCopiedByCpu(row.bytes);
  AddPieceAt(
      {.from = row.from, .to = row.to, .bytes = row.bytes, .staged = staged, .field = false});
  if (!staged) each_bytes_ += row.bytes;
}

void CopyPlan::AddRun(std::span<const LeftRow> rows, std::size_t bytes) {
  const std::byte* const begin = rows.front().from;
  const std::size_t to = AlignUp(slot_bytes_);
  slot_bytes_ = to + bytes;
  AddPieceAt({.from = begin, .to = to, .bytes = bytes, .field = false});
  for (const LeftRow& row : rows) {
    gathered_.push_back(
        {to - fields_end_ + static_cast<std::size_t>(row.from - begin), row.to, row.bytes});
    together_bytes_ += row.bytes;
  }
}

void CopyPlan::PlanLeftRows(const Input& input) {
  if (left_rows_.empty()) return;
  std::sort(left_rows_.begin(), left_rows_.end(), [](const LeftRow& a, const LeftRow& b) {
    return std::less<>()(a.from, b.from) || (a.from == b.from && a.bytes > b.bytes);
  });
  fields_end_ = AlignUp(slot_bytes_);  // runs of rows begin there
  for (std::span<const LeftRow> rest = left_rows_; !rest.empty();) {
    if (rest.front().far) {
      rest = rest.subspan(AddFarRows(rest));
      continue;
    }
    const RowRun run = RunOf(rest, input);
    if (input.planner.GoesTogether(input.left_rows, run)) {
      AddRun(rest.first(run.rows), run.bytes);
    } else {
      for (const LeftRow& row : rest.first(run.rows)) AddAlone(row, input);
    }
    rest = rest.subspan(run.rows);
  }
  runs_end_ = slot_bytes_;
  if (!gathered_.empty()) AddTable(gathered_, &gathered_at_);
  if (!direct_.empty()) AddTable(direct_, &direct_at_);
}

void CopyPlan::AddTable(std::span<const GatheredPiece> table, std::size_t* at) {
  *at = AddPiece(table.data(), table.size_bytes());
}

std::size_t CopyPlan::AddFarRows(std::span<const LeftRow> rows) {
  FarRows of_slab{rows.front().from, 0, direct_.size(), 0};
  for (const LeftRow& row : rows) {
    if (!row.far || row.slab != rows.front().slab) break;
    const auto from = static_cast<std::size_t>(row.from - of_slab.from);
    of_slab.bytes = std::max(of_slab.bytes, from + row.bytes);
    direct_.push_back({from, row.to, row.bytes});
    direct_bytes_ += row.bytes;
    ++of_slab.count;
  }
  far_rows_.push_back(of_slab);
  return of_slab.count;
}

void CopyPlan::AddDirectKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
  const auto* const table = reinterpret_cast<const GatheredPiece*>(slot + direct_at_);
  for (const FarRows& rows : far_rows_) {
    GatherPieces gather;
    gather.input = rows.from;
    gather.input_bytes = rows.bytes;
    gather.pieces = table + rows.first;
    gather.count = rows.count;
    gather.output = slot;
    gather.output_bytes = fields_end_;
    kernels->emplace_back(gather);
  }
}

// The sums of the rows at their places, computed after all copies and gathers.
void CopyPlan::PlanSums(std::span<const PendingSum> sums) {
  for (const LeftRow& row : left_rows_) {
    if (sums.empty() || row.sum == PendingCopy::kNoSum) continue;
    const PendingCopy copy{nullptr, row.from, row.bytes};
    taken_sums_.push_back({row.sum, sums[row.sum].BytesBehind(copy)});
    summed_.push_back({row.to, row.bytes});
  }
  if (summed_.empty()) return;
  summed_at_ = AddPiece(summed_.data(), summed_.size() * sizeof(SummedPiece));
  sums_at_ = AlignUp(slot_bytes_);
  slot_bytes_ = sums_at_ + sums_bytes();
  sums_staging_at_ = AlignUp(staging_bytes_);
  staging_bytes_ = sums_staging_at_ + sums_bytes();
}

std::size_t CopyPlan::SlotBytesFor(std::uint64_t most_rows, std::uint64_t rows) const {
  if (most_rows <= rows) return slot_bytes_;
  bool can_be = true;
  std::size_t total = 0;
  const auto add = [&](std::size_t units, std::size_t bytes, std::size_t parts = 1) {
    std::size_t product = 0;
    can_be = can_be && !__builtin_mul_overflow(units, bytes, &product) &&
             !__builtin_add_overflow(AlignUp(total), (product + parts - 1) / parts, &total);
  };
  const auto add_field = [&](const FieldPlace& field) {
    const bool ragged = !field.lod.empty();
    if (ragged && rows > 0) return add(most_rows, field.bytes, rows);
    const bool has_rows =
        !ragged && !field.shape.empty() && static_cast<std::uint64_t>(field.shape[0]) == rows;
    if (!has_rows) return add(1, field.bytes);
    const Shape row(field.shape.begin() + 1, field.shape.end());
    add(most_rows, static_cast<std::size_t>(ShapeElements(row)) * DTypeBytes(field.dtype));
  };
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const FieldPlace& field = AsCopied(f);
    add_field(field);
    if (!field.lod.empty()) add(most_rows + 1, sizeof(std::int64_t));
  }
  for (const Transformed& step : transformed_) add_field(fields_[FieldOf(*step.transform)]);
  if (mask_at_ != FieldPlace::kNowhere) add(most_rows, 1);
  return can_be ? std::max(AlignUp(total), slot_bytes_) : slot_bytes_;
}

void CopyPlan::PlanPieces(const Instance& batch, std::span<const PendingCopy> pending) {
  for (std::size_t f = 0; f < batch.size(); ++f) {
    const auto left = CopiesWithin(pending, batch[f].data, batch[f].bytes);
    fields_[f].offset =
        left.empty() ? AddPiece(batch[f].data, batch[f].bytes) : AddParts(batch[f], left);
    if (batch[f].lod.empty()) continue;
    // The plan's own copy of the offsets: it stays until the slot is filled again.
    const std::vector<std::int64_t>& level = fields_[f].lod[0];
    fields_[f].offsets_at = AddPiece(level.data(), level.size() * sizeof(std::int64_t));
  }
}

Status CopyPlan::PlaceOutput(FieldPlace* place, DType dtype, Shape shape) {
  std::size_t bytes = DTypeBytes(dtype);
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) {
      return Status(StatusCode::kInvalidArgument, "more bytes than there can be");
    }
  }
  place->dtype = dtype;
  place->shape = std::move(shape);
  place->bytes = bytes;
  place->offset = AlignUp(slot_bytes_);
  slot_bytes_ = place->offset + bytes;
  return {};
}

const FieldPlace& CopyPlan::AsCopied(std::size_t field) const {
  for (const Transformed& step : transformed_) {
    if (FieldOf(*step.transform) == field) return step.from;
  }
  return fields_[field];
}

Status CopyPlan::CheckCrop(const NormalizeField& normalize, const FieldPlace& images) const {
  const std::string shape = ShapeToString(images.shape);
  const auto side = [&](std::size_t from_end) {
    return static_cast<std::size_t>(images.shape[images.shape.size() - from_end]);
  };
  if (!images.lod.empty()) return Refuse(normalize.field, "a ragged field cannot be cropped");
  if (normalize.crop_height > side(3) || normalize.crop_width > side(2)) {
    return Refuse(normalize.field, "a crop of " + std::to_string(normalize.crop_height) + " by " +
                                       std::to_string(normalize.crop_width) +
                                       " pixels does not fit into the images of " + shape);
  }
  if (!normalize.crops) return {};
  if (*normalize.crops >= fields_.size()) {
    return Refuse(normalize.field, "crops is field " + std::to_string(*normalize.crops) +
                                       "; there are " + std::to_string(fields_.size()) +
                                       " fields, from 0");
  }
  if (images.shape.size() != 4) {
    return Refuse(normalize.field, "with crops a row is one image, not those of " + shape);
  }
  const FieldPlace& crops = AsCopied(*normalize.crops);
  const Shape wanted = {images.shape[0], CastNormalize::kCropNumbers};
  if (crops.dtype == DType::kInt32 && crops.shape == wanted && crops.lod.empty()) return {};
  return Refuse(normalize.field, "crops, field " + std::to_string(*normalize.crops) +
                                     ", is to be int32 " + ShapeToString(wanted) +
                                     ": top, left and whether to mirror, of each row; it is " +
                                     (crops.lod.empty() ? "" : "ragged, ") +
                                     std::string(DTypeName(crops.dtype)) + " " +
                                     ShapeToString(crops.shape));
}

Status CopyPlan::Normalize(const NormalizeField& normalize, FieldPlace* place) {
  if (place->dtype != DType::kUInt8) {
    return Refuse(normalize.field,
                  "only uint8 can be normalised, it is " + std::string(DTypeName(place->dtype)));
  }
  if (normalize.dtype != DType::kFloat32 && normalize.dtype != DType::kFloat16 &&
      normalize.dtype != DType::kBFloat16) {
    return Refuse(normalize.field, "float32, float16 and bfloat16 can be made, not " +
                                       std::string(DTypeName(normalize.dtype)));
  }
  Shape shape = place->shape;
  const std::size_t rank = shape.size();
  const std::size_t most = std::max(normalize.mean.size(), normalize.scale.size());
  const bool by_image = TakesImages(normalize);
  if (by_image && rank < 4) {
    return Refuse(normalize.field, std::string(IsCropped(normalize) ? "a crop" : "channels_first") +
                                       " takes rows of [height, width, channels], not " +
                                       ShapeToString(place->shape));
  }
  if (IsCropped(normalize)) {
    if (Status status = CheckCrop(normalize, *place); !status.ok()) return status;
    SetSide(normalize.crop_height, &shape[rank - 3]);
    SetSide(normalize.crop_width, &shape[rank - 2]);
  }
  if (normalize.channels_first) std::rotate(shape.end() - 3, shape.end() - 1, shape.end());
  const bool by_channel = by_image || most > 1;
  const std::int64_t channels = rank == 0 ? 0 : place->shape[rank - 1];
  const auto fits = [&](const std::vector<float>& values) {
    return values.size() <= 1 || static_cast<std::int64_t>(values.size()) == channels;
  };
  if (by_channel && (channels > static_cast<std::int64_t>(CastNormalize::kMostChannels) ||
                     channels < 1 || !fits(normalize.mean) || !fits(normalize.scale))) {
    return Refuse(normalize.field,
                  "mean and scale have one value, or one for each of 1 to 4 "
                  "channels, the last dimension of " +
                      ShapeToString(place->shape));
  }
  return PlaceOutput(place, normalize.dtype, std::move(shape));
}

Status CopyPlan::Widen(const WidenField& widen, FieldPlace* place) {
  if (place->dtype != DType::kUInt16) {
    return Refuse(widen.field,
                  "only uint16 can be widened, it is " + std::string(DTypeName(place->dtype)));
  }
  if (widen.dtype != DType::kInt32 && widen.dtype != DType::kInt64) {
    return Refuse(widen.field,
                  "int32 and int64 can be made, not " + std::string(DTypeName(widen.dtype)));
  }
  return PlaceOutput(place, widen.dtype, place->shape);
}

Status CopyPlan::Pad(const PadField& pad, FieldPlace* place) {
  if (place->lod.size() != 1) {
    return Refuse(pad.field, "only a ragged field with one level of offsets can be padded");
  }
  if (pad.length == 0 || pad.padding.size() > DTypeBytes(place->dtype)) {
    return Refuse(pad.field, "length is to be at least 1, and padding one element at most");
  }
  Shape shape = place->shape;
  shape[0] = static_cast<std::int64_t>(pad.length);
  shape.insert(shape.begin(), static_cast<std::int64_t>(place->lod[0].size()) - 1);
  const DType dtype = place->dtype;
  // The field's offsets still have to be copied from there.
  transformed_.back().from.lod.swap(place->lod);
  place->lod.clear();
  return PlaceOutput(place, dtype, std::move(shape));
}

Status CopyPlan::Transform(const FieldTransform& transform) {
  const std::size_t field = FieldOf(transform);
  if (field >= fields_.size()) {
    return Refuse(field, "there are " + std::to_string(fields_.size()) + " fields, from 0");
  }
  FieldPlace* const place = &fields_[field];
  transformed_.push_back({&transform, *place});
  // One transform for a field: a transform's output is no input.
  for (std::size_t t = 0; t + 1 < transformed_.size(); ++t) {
    if (FieldOf(*transformed_[t].transform) == field) return Refuse(field, "it has one already");
  }
  return std::visit(
      [&](const auto& of) {
        using T = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<T, NormalizeField>) return Normalize(of, place);
        if constexpr (std::is_same_v<T, WidenField>) return Widen(of, place);
        if constexpr (std::is_same_v<T, PadField>) return Pad(of, place);
      },
      transform);
}

void CopyPlan::AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
  if (!gathered_.empty()) {
    GatherPieces gather;
    gather.input = slot + fields_end_;
    gather.input_bytes = runs_end_ - fields_end_;
    gather.output = slot;
    gather.output_bytes = fields_end_;
    gather.pieces = reinterpret_cast<const GatheredPiece*>(slot + gathered_at_);
    gather.count = gathered_.size();
    kernels->emplace_back(gather);
  }
  if (!summed_.empty()) {
    SumPieces sums;
    sums.input = slot;
    sums.input_bytes = fields_end_;
    sums.pieces = reinterpret_cast<const SummedPiece*>(slot + summed_at_);
    sums.count = summed_.size();
    sums.output = reinterpret_cast<std::uint32_t*>(slot + sums_at_);
    kernels->emplace_back(sums);
  }
  for (const Transformed& step : transformed_) {
    const FieldPlace& to = fields_[FieldOf(*step.transform)];
    if (to.bytes == 0) continue;
    std::visit(
        [&](const auto& of) {
          auto kernel = KernelOf(of, step.from, to);
          kernel.input = slot + step.from.offset;
          kernel.output = slot + to.offset;
          if constexpr (std::is_same_v<decltype(kernel), RaggedToPadded>) {
            kernel.offsets = reinterpret_cast<const std::int64_t*>(slot + step.from.offsets_at);
          }
          if constexpr (std::is_same_v<decltype(kernel), CastNormalize>) {
            if (of.crops) {
              kernel.crops =
                  reinterpret_cast<const std::int32_t*>(slot + AsCopied(*of.crops).offset);
            }
          }
          kernels->emplace_back(kernel);
        },
        *step.transform);
  }
}

void CopyPlan::MakeTensors(const std::byte* slot, Place place, Instance* tensors) const {
  tensors->resize(fields_.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const FieldPlace& field = fields_[f];
    Tensor& tensor = (*tensors)[f];
    tensor.dtype = field.dtype;
    tensor.shape = field.shape;
    tensor.data = slot + field.offset;
    tensor.bytes = field.bytes;
    tensor.lod.assign(field.lod.begin(), field.lod.end());
    tensor.place = place;
  }
}

const std::int64_t* CopyPlan::OffsetsIn(const std::byte* slot, std::size_t field) const {
  if (field >= fields_.size() || fields_[field].lod.empty()) return nullptr;
  return reinterpret_cast<const std::int64_t*>(slot + fields_[field].offsets_at);
}

}  // namespace ringfeed
