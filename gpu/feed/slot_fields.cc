#include "gpu/feed/slot_fields.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace ringfeed {
namespace {

Status Refuse(std::size_t field, const std::string& why) {
  return Status(StatusCode::kInvalidArgument,
                "a transform of field " + std::to_string(field) + ": " + why);
}

std::size_t FieldOf(const FieldTransform& transform) {
  return std::visit([](const auto& of) { return of.field; }, transform);
}

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

Status SlotFields::PlaceOutput(DType dtype, Shape shape, FieldPlace* place,
                               SlotLayout* layout) const {
  std::size_t bytes = DTypeBytes(dtype);
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) {
      return Status(StatusCode::kInvalidArgument, "more bytes than there can be");
    }
  }
  place->dtype = dtype;
  place->shape = std::move(shape);
  place->bytes = bytes;
  place->offset = layout->AddRoom(std::max(bytes, RoomFor(*place)));
  return {};
}

Status SlotFields::Widen(const WidenField& widen, FieldPlace* place, SlotLayout* layout) const {
  if (place->dtype != DType::kUInt16) {
    return Refuse(widen.field,
                  "only uint16 can be widened, it is " + std::string(DTypeName(place->dtype)));
  }
  if (widen.dtype != DType::kInt32 && widen.dtype != DType::kInt64) {
    return Refuse(widen.field,
                  "int32 and int64 can be made, not " + std::string(DTypeName(widen.dtype)));
  }
  return PlaceOutput(widen.dtype, place->shape, place, layout);
}

Status SlotFields::Take(const Instance& batch, RowRoom room,
                        std::span<const std::size_t> host_fields) {
  room_ = room;
  transformed_.clear();
  outputs_.clear();
  ragged_ = false;
  fields_.resize(batch.size());
  for (std::size_t f = 0; f < batch.size(); ++f) {
    const Tensor& tensor = batch[f];
    FieldPlace& place = fields_[f];
    place.dtype = tensor.dtype;
    place.shape = tensor.shape;
    place.bytes = tensor.bytes;
    place.offsets_at = FieldPlace::kNowhere;
    place.on_host.reset();
    place.lod.resize(tensor.lod.size());
    for (std::size_t level = 0; level < tensor.lod.size(); ++level) {
      place.lod[level].assign(tensor.lod[level].begin(), tensor.lod[level].end());
    }
    ragged_ = ragged_ || !tensor.lod.empty();
  }
  for (const std::size_t field : host_fields) {
    if (field >= fields_.size()) {
      return Status(StatusCode::kInvalidArgument, "FeedOptions::host_fields names field " +
                                                      std::to_string(field) + "; there are " +
                                                      std::to_string(fields_.size()) + ", from 0");
    }
    fields_[field].on_host = batch[field].data;
  }
  return {};
}

bool SlotFields::StaysRagged(const FieldTransform& transform) const {
  const std::size_t field = FieldOf(transform);
  return !std::holds_alternative<PadField>(transform) && field < fields_.size() &&
         !AsCopied(field).lod.empty();
}

FieldPlace& SlotFields::operator[](std::size_t field) {
  return const_cast<FieldPlace&>(AsCopied(field));  // of an object that is not const
}

std::size_t SlotFields::RoomFor(const FieldPlace& field) const {
  const bool has_rows = field.lod.empty() && !field.shape.empty() &&
                        static_cast<std::uint64_t>(field.shape[0]) == room_.rows;
  if (!has_rows || room_.most_rows <= room_.rows) return 0;
  const Shape row(field.shape.begin() + 1, field.shape.end());
  const std::size_t row_bytes =
      static_cast<std::size_t>(ShapeElements(row)) * DTypeBytes(field.dtype);
  std::size_t room = 0;
  // Too much to be true: the batches to come will say.
  return __builtin_mul_overflow(room_.most_rows, row_bytes, &room) ? 0 : room;
}

const FieldPlace& SlotFields::AsCopied(std::size_t field) const {
  for (const Transformed& step : transformed_) {
    if (FieldOf(*step.transform) == field) return step.from;
  }
  return fields_[field];
}

Status SlotFields::CheckCrop(const NormalizeField& normalize, const FieldPlace& images) const {
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
  if (crops.on_host.has_value()) return Refuse(normalize.field, "crops is a field on the host");
  const Shape wanted = {images.shape[0], CastNormalize::kCropNumbers};
  if (crops.dtype == DType::kInt32 && crops.shape == wanted && crops.lod.empty()) return {};
  return Refuse(normalize.field, "crops, field " + std::to_string(*normalize.crops) +
                                     ", is to be int32 " + ShapeToString(wanted) +
                                     ": top, left and whether to mirror, of each row; it is " +
                                     (crops.lod.empty() ? "" : "ragged, ") +
                                     std::string(DTypeName(crops.dtype)) + " " +
                                     ShapeToString(crops.shape));
}

Status SlotFields::Normalize(const NormalizeField& normalize, FieldPlace* place,
                             SlotLayout* layout) {
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
  return PlaceOutput(normalize.dtype, std::move(shape), place, layout);
}

Status SlotFields::Pad(const PadField& pad, FieldPlace* place, SlotLayout* layout) {
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
  return PlaceOutput(dtype, std::move(shape), place, layout);
}

Status SlotFields::Transform(const FieldTransform& transform, SlotLayout* layout) {
  const std::size_t field = FieldOf(transform);
  if (field >= fields_.size()) {
    return Refuse(field, "there are " + std::to_string(fields_.size()) + " fields, from 0");
  }
  FieldPlace* const place = &fields_[field];
  if (place->on_host.has_value()) return Refuse(field, "it stays on the host");
  transformed_.push_back({&transform, *place});
  // One transform for a field: a transform's output is no input.
  for (std::size_t t = 0; t + 1 < transformed_.size(); ++t) {
    if (FieldOf(*transformed_[t].transform) == field) return Refuse(field, "it has one already");
  }
  return std::visit(
      [&](const auto& of) {
        using T = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<T, NormalizeField>) return Normalize(of, place, layout);
        if constexpr (std::is_same_v<T, WidenField>) return Widen(of, place, layout);
        if constexpr (std::is_same_v<T, PadField>) return Pad(of, place, layout);
      },
      transform);
}

Status SlotFields::AddOutputs(std::span<const StageOutput> outputs, SlotLayout* layout) {
  for (const StageOutput& output : outputs) {
    Shape shape = output.row;
    shape.insert(shape.begin(), static_cast<std::int64_t>(room_.rows));
    FieldPlace place;
    Status status = PlaceOutput(output.dtype, std::move(shape), &place, layout);
    if (!status.ok()) {
      return Status(status.code(), "output " + std::to_string(outputs_.size()) +
                                       " of the stage: " + status.message());
    }
    outputs_.push_back(std::move(place));
  }
  return {};
}

void SlotFields::AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
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

void SlotFields::MakeTensors(const std::byte* slot, Place place, Instance* tensors) const {
  tensors->resize(fields_.size() + outputs_.size());
  for (std::size_t f = 0; f < tensors->size(); ++f) {
    const FieldPlace& field = f < fields_.size() ? fields_[f] : outputs_[f - fields_.size()];
    Tensor& tensor = (*tensors)[f];
    tensor.dtype = field.dtype;
    tensor.shape = field.shape;
    tensor.data = field.on_host ? *field.on_host : slot + field.offset;
    tensor.bytes = field.bytes;
    tensor.lod.assign(field.lod.begin(), field.lod.end());
    tensor.place = field.on_host.has_value() ? Place() : place;
  }
}

const std::int64_t* SlotFields::OffsetsIn(const std::byte* slot, std::size_t field) const {
  if (field >= fields_.size() || fields_[field].lod.empty()) return nullptr;
  if (fields_[field].on_host.has_value()) return nullptr;
  return reinterpret_cast<const std::int64_t*>(slot + AsCopied(field).offsets_at);
}

std::optional<std::size_t> SlotFields::BytesFor(std::uint64_t most_rows, std::uint64_t rows,
                                                bool masked) const {
  bool can_be = true;
  std::size_t total = 0;
  const auto add = [&](std::size_t units, std::size_t bytes, std::size_t parts = 1) {
    std::size_t product = 0;
    can_be =
        can_be && !__builtin_mul_overflow(units, bytes, &product) &&
        !__builtin_add_overflow(SlotLayout::AlignUp(total), (product + parts - 1) / parts, &total);
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
    if (field.on_host.has_value()) continue;
    add_field(field);
    if (!field.lod.empty()) add(most_rows + 1, sizeof(std::int64_t));
  }
  for (const Transformed& step : transformed_) add_field(fields_[FieldOf(*step.transform)]);
  for (const FieldPlace& output : outputs_) add_field(output);
  if (masked) add(most_rows, 1);
  if (!can_be) return std::nullopt;
  return SlotLayout::AlignUp(total);
}

}  // namespace ringfeed
