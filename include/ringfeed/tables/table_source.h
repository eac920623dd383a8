#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/reader.h"

struct ArrowArrayStream;
struct ArrowSchema;

namespace ringfeed {

/// A table in groups of rows: the row groups of Parquet files, the batches of an Arrow stream. A
/// group is to a table what a stripe is to a file: it is opened and decoded once, and its rows go
/// to many batches. Groups and their rows have numbers, so OpenTable gives a table every order that
/// files have.
///
/// Several threads call Open at once. What a function throws is a failure of the data, after the
/// rows before it.
class TableSource {
 public:
  virtual ~TableSource() = default;
  /// Shown in reports and errors.
  virtual std::string name() const = 0;
  /// How many groups there are; does not change.
  virtual std::uint64_t groups() const = 0;
  /// How many rows that group has, by what is known without decoding it; does not change.
  virtual std::uint64_t rows(std::uint64_t group) const = 0;
  /// Names a group in reports and errors.
  virtual std::string group_name(std::uint64_t group) const {
    return name() + "#" + std::to_string(group);
  }
  /// Tells a group's contents from others, the same on all machines: a checksum, an ETag. A
  /// position is refused onto a table whose groups have other ones. Empty: their rows alone tell.
  virtual std::string identity(std::uint64_t /*group*/) const { return {}; }
  /// Exports group `group` into *stream, which is empty: its rows in their order, in one or more
  /// arrays. `columns` are the wanted columns' paths, all if it is empty; others may come, too, and
  /// in any order. May block. An Error of kDamaged makes the group's rows damaged.
  virtual void Open(std::uint64_t group, const std::vector<std::string>& columns,
                    ArrowArrayStream* stream) = 0;
  /// Exports the type of all groups' rows into *schema, which is empty, as what Open exports has
  /// it; OpenTable asks once. If it is not overridden, group 0 is opened for it.
  virtual void Describe(const std::vector<std::string>& columns, ArrowSchema* schema);
  /// Whether a group's rows lie in memory: then a group is cut into stripes like a file, so that
  /// orders need not keep to groups.
  virtual bool in_memory() const { return false; }
  /// How many bytes were read of files for it so far, for PipelineStats::read_bytes. 0: not known.
  virtual std::uint64_t read_bytes() const { return 0; }
};

/// All that a stream gives as a table in memory: each array is a group, and the stream's memory is
/// shared, not copied. `identity` is that of each group. Takes the stream over and releases it.
/// Blocks until it ends. Throws Error if the stream fails.
std::shared_ptr<TableSource> TableOfStream(ArrowArrayStream* stream, std::string name = "table",
                                           std::string identity = {});

/// What becomes of a null: of a row whose value is null, or lies in a struct that is, and of a null
/// element of a list.
enum class OnNull : std::uint8_t {
  kFail,     ///< the row is damaged (OpenOptions::on_damage)
  kDefault,  ///< `value` stands for each element that is null; a ragged row that is null is empty
  /// As kDefault for rows, and a field "NAME_valid" after it, uint8 for each row, is 0 for nulls
  /// and else 1. A row with a null element is damaged: the mask could not tell it.
  kMask,
};

/// Of one column: how nulls are taken.
struct NullOptions {
  OnNull on_null = OnNull::kFail;
  /// A number that the column's type holds exactly.
  double value = 0;
};

/// How a table is read.
struct TableOptions {
  /// The columns that become fields, by name, or by path in structs ("image.bytes"). Empty: all,
  /// those of structs one by one, in their order.
  std::vector<std::string> columns{};
  NullOptions nulls{};                            ///< of all columns
  std::map<std::string, NullOptions> nulls_of{};  ///< of these instead
  /// Groups that are kept decoded after their use, for the rows that a later read of the same group
  /// takes; at least OpenOptions::cycle, which are read in turn. Those with strings, lists or wide
  /// columns are kept besides while a shuffle has rows of them.
  std::size_t kept_groups = 4;
  /// Order and speed. `format` is not used. A table in memory is read with a `cycle` of 1, and
  /// its stripe_bytes count 16 bytes a row; of others a group is one
  /// stripe, or one for each 2^20 of its rows.
  OpenOptions open{};
};

/// The rows of a table as fields, in the order of groups and rows, for Shuffle, Batch and all else.
/// The fields' types are those that Describe gives:
///
/// | column | field |
/// |---|---|
/// | integer, float, bool | a number |
/// | date, time, timestamp, duration | int32 or int64 as stored; `logical_type` tells the unit |
/// | decimal | int64, the digits without the point (`logical_type`); one too large is damaged |
/// | fixed-size list, nested ones too | their dimensions |
/// | list, list view, large ones | ragged |
/// | string, binary, large ones, views | ragged uint8; a binary of fixed size: uint8 [size] |
/// | dictionary | what its values are |
/// | struct | a field for each of its members, "struct.member" |
///
/// ShuffleMode::kStripes with a window is the order for tables: groups permuted, rows shuffled
/// within the window. kGlobal would open a group for nearly every row, so it is refused, unless the
/// table is in memory or all its groups are kept. Random RecordsAt do open one for each row that is
/// in no kept one (TableStats tells). A predicate of Filter gets 16 bytes: the group's number and a
/// hash of its identity, of 4 bytes each, and the row's number.
///
/// What a producer gives is checked before use: lengths, offsets, types, dictionary indices, views.
/// A group that fails this is damaged. Each structure is released exactly once, in any thread.
///
/// Throws Error: kNotFound for a column that there is not, kUnsupported for a type that is not
/// above, kInvalidArgument for options that cannot work and a table without groups.
Reader OpenTable(std::shared_ptr<TableSource> table, const TableOptions& options = {});

}  // namespace ringfeed
