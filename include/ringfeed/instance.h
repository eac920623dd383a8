#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// The names of fields in their order. It never changes, so all batches of a chain share one, and
/// any thread may read it.
class FieldNames {
 public:
  explicit FieldNames(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  /// The number of the field of that name, of the first one if several have it; none if none has.
  std::optional<std::size_t> Find(std::string_view name) const;
  /// The names, those that are spelled most like `name` first: `"label", "image"`. Ten at most.
  std::string NearestFirst(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::uint32_t> sorted_;  ///< numbers of fields, by their names
};

/// What one read delivers: a tensor per field, in the order of Reader::fields. After Batch it is a
/// batch, else a single record.
///
/// It is used as a vector of tensors that finds fields by name, too. The memory that its tensors
/// show is kept as long as the instance or copies of the tensors are held, and is then filled
/// again. So an access to a part of a temporary instance does not compile: `reader.ReadNext()[0]`
/// needs `Instance batch = reader.ReadNext();` first.
///
/// Copies share the memory. Thread safety: that of a vector.
class Instance {
 public:
  using value_type = Tensor;
  using iterator = std::vector<Tensor>::iterator;
  using const_iterator = std::vector<Tensor>::const_iterator;

  Instance() = default;
  /// So many empty tensors.
  explicit Instance(std::size_t fields) : tensors_(fields) {}
  Instance(std::initializer_list<Tensor> tensors) : tensors_(tensors) {}
  Instance(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}  // NOLINT: implicit
  Instance(const Instance&) = default;
  Instance& operator=(const Instance&) = default;
  /// A moved-from instance is empty.
  Instance(Instance&& other) noexcept
      : tensors_(std::exchange(other.tensors_, {})),
        names_(std::move(other.names_)),
        is_record_(std::exchange(other.is_record_, false)) {}
  Instance& operator=(Instance&& other) noexcept {
    tensors_ = std::exchange(other.tensors_, {});
    names_ = std::move(other.names_);
    is_record_ = std::exchange(other.is_record_, false);
    return *this;
  }
  ~Instance() = default;

  /// The tensor of that number. Throws Error(kInvalidArgument) if there are fewer.
  Tensor& operator[](std::size_t field) & { return tensors_[Checked(field)]; }
  const Tensor& operator[](std::size_t field) const& { return tensors_[Checked(field)]; }
  void operator[](std::size_t field) const&& = delete;
  /// The tensor of that name. Throws Error(kNotFound) if there is none: it says which fields there
  /// are, those first that are spelled most like it.
  Tensor& operator[](std::string_view name) & { return tensors_[NumberOf(name)]; }
  const Tensor& operator[](std::string_view name) const& { return tensors_[NumberOf(name)]; }
  void operator[](std::string_view name) const&& = delete;
  /// As operator[].
  Tensor& at(std::size_t field) & { return (*this)[field]; }
  const Tensor& at(std::size_t field) const& { return (*this)[field]; }
  void at(std::size_t field) const&& = delete;
  Tensor& at(std::string_view name) & { return (*this)[name]; }
  const Tensor& at(std::string_view name) const& { return (*this)[name]; }
  void at(std::string_view name) const&& = delete;
  /// The tensor of that name; null if there is none.
  const Tensor* Find(std::string_view name) const&;
  void Find(std::string_view name) const&& = delete;

  /// How many rows it has: 1 of a record; of a batch the sequences of the first tensor's top level
  /// if that is ragged, else its first dimension. So bytes of a batch without Parse do not count,
  /// and rows that `pad` added do. 0 if there are no tensors.
  std::int64_t Rows() const;

  Tensor& front() & { return tensors_.front(); }
  const Tensor& front() const& { return tensors_.front(); }
  void front() const&& = delete;
  Tensor& back() & { return tensors_.back(); }
  const Tensor& back() const& { return tensors_.back(); }
  void back() const&& = delete;
  iterator begin() & { return tensors_.begin(); }
  const_iterator begin() const& { return tensors_.begin(); }
  void begin() const&& = delete;
  iterator end() & { return tensors_.end(); }
  const_iterator end() const& { return tensors_.end(); }
  void end() const&& = delete;
  Tensor* data() & { return tensors_.data(); }
  const Tensor* data() const& { return tensors_.data(); }
  void data() const&& = delete;

  std::size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  void reserve(std::size_t fields) { tensors_.reserve(fields); }
  void resize(std::size_t fields) { tensors_.resize(fields); }
  void push_back(Tensor tensor) { tensors_.push_back(std::move(tensor)); }
  void pop_back() { tensors_.pop_back(); }
  template <typename... Parts>
  Tensor& emplace_back(Parts&&... parts) & {
    return tensors_.emplace_back(std::forward<Parts>(parts)...);
  }
  /// Lets go of the tensors and forgets the names. Keeps the capacity.
  void clear() {
    tensors_.clear();
    names_.reset();
    is_record_ = false;
  }
  /// The tensors, as a vector; leaves this instance empty.
  std::vector<Tensor> TakeTensors() && {
    Instance taken(std::move(*this));
    return std::move(taken.tensors_);
  }

  /// The fields' names; null if none were set. A Reader sets those of its fields.
  const std::shared_ptr<const FieldNames>& names() const& { return names_; }
  void names() const&& = delete;
  void set_names(std::shared_ptr<const FieldNames> names) { names_ = std::move(names); }
  /// Whether it is one record, whose tensors have no dimension for rows. A Reader sets it.
  bool is_record() const { return is_record_; }
  void set_is_record(bool is_record) { is_record_ = is_record; }

 private:
  std::size_t Checked(std::size_t field) const {
    if (field >= tensors_.size()) RefuseNumber(field);
    return field;
  }
  std::size_t NumberOf(std::string_view name) const;
  [[noreturn]] void RefuseNumber(std::size_t field) const;

  std::vector<Tensor> tensors_;
  std::shared_ptr<const FieldNames> names_;
  bool is_record_ = false;
};

}  // namespace ringfeed
