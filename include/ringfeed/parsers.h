#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/slot.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Turns records into fields of a batch. Made by the functions below, handed to Parse; immutable,
/// may be shared by chains and threads.
class Parser;

/// The value for a record that lacks a feature: a number for every element of a fixed one, or
/// bytes. For a ragged one it is bytes (uint8), or the empty string for an empty row.
using FeatureDefault = std::variant<std::int64_t, double, std::string>;

/// One feature of a tf.Example and the field that it becomes. bytes_list gives uint8 (one value per
/// record), float_list float32, int64_list int64 or, checked for its range, int32. A first
/// dimension of -1 makes the field ragged; a fixed one must hold exactly as many elements. The
/// shape
/// {-1, -1} takes a bytes_list of several values: a row of sequences. In a batch lod[0] has the
/// rows' offsets in these, lod[1] theirs in the values; a single row has the latter alone.
struct FeatureSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;                              ///< per record; {} is a scalar
  std::optional<FeatureDefault> missing{};  ///< without it a record that lacks it is a failure
};

/// One feature of an OFRecord and the field that it becomes: float32, float64, int8, int32, int64
/// or uint8, whatever kind of list the record has for it.
///   - Numbers are converted: to a floating type as C++ does, to an integral one without their
///     fraction. One that the type cannot hold (300 for uint8, NaN for int32) makes the record a
///     failure.
///   - A bytes_list must hold exactly one value. Each of its bytes is an element: an int8 that is
///     converted, as OneFlow's raw decoder takes it; 0xff becomes -1.0 of a float and 255 of uint8.
/// A first dimension of -1 makes the field ragged: a row has a multiple of the other dimensions'
/// elements, also none. A fixed field must find exactly as many elements as its shape has, a scalar
/// one; with `truncate` more are cut off and fewer are filled up with zeros.
struct OFRecordFeatureSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;                              ///< per record; {} is a scalar
  std::optional<FeatureDefault> missing{};  ///< without it a record that lacks it is a failure
  bool truncate = false;                    ///< of a fixed field: clip, or pad with zeros
};

/// One field of a CSV row: a number (float32, float64, int32, int64, uint8) or a truth value
/// (bool), as many of them in columns side by side as the shape has elements, or, uint8 of shape
/// [-1], a column's text without its quotes.
struct CsvField {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  /// What an empty cell gives: a number for each element, or a string. Without it an empty cell is
  /// a failure, but of text an empty string. (An empty text in quotes is always an empty string.)
  /// "NA", "null" and the other words that pandas.read_csv takes for a missing value (na_values)
  /// give it too, or, without it, NaN of a floating type. Text stays as it is.
  std::optional<FeatureDefault> missing{};
  /// The (first) column, from 0. Below 0: the one that the header names so, or, without a header,
  /// the one after the field before.
  std::int64_t column = -1;
};

/// One LoDTensor of a PaddlePaddle record and the field that it becomes. Its types are bool, int8,
/// int16, int32, int64, uint8, uint64 (Paddle's SIZE_T), float16, bfloat16, float32 and float64.
struct LoDTensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  /// The shape in the record. A first dimension of -1 is any number of rows, no other may be; a
  /// tensor without one must have exactly this shape.
  Shape shape;
  std::size_t lod_levels = 0;  ///< how many levels of LoD it has; of a shape with -1 only
};

/// Records that are arrays of numbers, and the field that they become.
struct TokensSpec {
  DType dtype = DType::kUInt16;  ///< as the records hold them, little-endian
  Shape shape = {-1};            ///< of a record; a first dimension of -1 makes the field ragged
  /// Converts integers: to int32 or int64, as embeddings take them. A number that the type cannot
  /// hold makes the record a failure.
  std::optional<DType> as{};
  std::string name = "tokens";
};

/// How a CSV row is split.
struct CsvOptions {
  static constexpr std::int64_t kAnyColumns = -1;

  /// Blank (' '): any number of blanks and tabs separate columns, also at the row's ends.
  char delimiter = ',';
  bool quotes = true;  ///< false: a quote is a byte like any other
  /// The line that names the columns (ReadCsvColumns reads it); empty: they have no names.
  std::string header;
  /// How many columns a row must have. 0: as many as the header has, or, without one, as the fields
  /// reach. kAnyColumns: at least those that the fields reach.
  std::int64_t columns = 0;
};

/// The record as it is: one ragged uint8 field "bytes". Batch takes it on a chain without Parse.
std::shared_ptr<const Parser> RawParser();

/// Arrays of numbers without anything around them: blocks of a token file, Megatron's documents,
/// rows of a NumPy file. A record that is no whole number of elements, or not of the shape, is
/// damaged: its failure names both, and the reader's policy decides (if a token file's last
/// block is short, "tokens:tail=drop" leaves it out). The parser is immutable, keeps nothing of
/// `spec`, never blocks and may be used by any number of threads. Throws Error(kInvalidArgument)
/// if there is no such field or conversion.
std::shared_ptr<const Parser> TokensParser(const TokensSpec& spec = {});

/// Samples of a tar file, as WebDataset has them, by the extensions of their members: the name
/// after the key's dot, "jpg", "seg.png". "jpg;jpeg;png" is the first of these that the sample has,
/// "__key__" the key. ".jpg" is taken for "jpg". uint8 of shape [-1] is a member's bytes. float32,
/// float64, int32, int64 and uint8 of shape {} or [1] are the number that its text is; blanks and
/// line ends around it are skipped. "npy", or a name that ends in ".npy", is an array as NumPy
/// saves it, of exactly the field's type, which may be any, and shape, of which the first dimension
/// may be -1. "json/label" is a value in the member "json", which is a JSON object, as
/// JsonLinesParser finds it by "/label". Other members are skipped, and of several of one extension
/// the first counts. A sample that lacks a member without a default, or has no such value there, is
/// damaged: its failure names the sample and the member, and the reader's policy decides. The
/// parser is immutable, keeps nothing of `members`, never blocks and may be used by any number of
/// threads. Throws Error(kInvalidArgument) if there is no member, one is named twice or one cannot
/// be such a field.
std::shared_ptr<const Parser> TarParser(const std::vector<FeatureSpec>& members);

/// Packed little-endian rows: each field directly after the one before, all of fixed shape.
/// Throws Error(kInvalidArgument) if a field cannot be such a column.
std::shared_ptr<const Parser> RowsParser(std::vector<FieldSpec> fields);

/// tf.Example by its features (TensorFlow's example.proto). Other features and unknown fields are
/// passed over unread. As in Protobuf, the last of several entries of one name counts. Throws
/// Error(kInvalidArgument) if a feature cannot be such a field.
std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features);

/// tf.SequenceExample (TensorFlow's example.proto): the context's features as ExampleParser reads
/// them, after them the feature lists. Of a list each feature is a step: a field's first dimension
/// is -1, its steps, and each step holds exactly the elements of the other dimensions, {-1} one of
/// them. Steps of any length are a row of sequences, {-1, -1, …}, as the values of a bytes_list
/// are; a step that holds nothing is an empty one. A list without a step is an empty row; a record
/// that lacks one is a failure, or, with the default "", has an empty row. Immutable, may be shared
/// by threads. Throws Error(kInvalidArgument) if there is no feature, one is named twice or one
/// cannot be such a field.
std::shared_ptr<const Parser> SequenceExampleParser(std::vector<FeatureSpec> context,
                                                    std::vector<FeatureSpec> sequences);

/// OneFlow's OFRecord (oneflow.record_pb2: a map from names to lists of bytes, float, double, int32
/// or int64, packed or not) by its features. Other features and unknown fields are passed over
/// unread. As in Protobuf, the last of several entries of one name counts. A record that is no
/// OFRecord, lacks a feature without a default or holds another number of elements is damaged: its
/// failure names the feature and what was expected, and the reader's policy decides. If
/// OneFlow's decoders would read on (a bytes_list of another length than the shape, a number
/// outside of its type), the record is a failure here too. The parser is immutable, shares nothing
/// with `features`, never blocks and may be used by any number of threads. Throws
/// Error(kInvalidArgument) if there is no feature, one is named twice or one cannot be such a
/// field.
std::shared_ptr<const Parser> OFRecordParser(std::vector<OFRecordFeatureSpec> features);

/// PaddlePaddle's LoDTensor records (RecordIO files that Fluid wrote; docs/FORMATS.md has their
/// bytes): `tensors` declares all tensors of a record in their order. Such a record is a mini-batch
/// or an instance with a leading dimension of 1, so that Batch joins records as Paddle does: of a
/// shape with -1 the rows of all records stand one after another, [rows, dims…], and every level of
/// LoD goes on from its last offset, [[0,2,5]] and [[0,1,3]] giving [[0,2,5,6,8]].
/// BatchOptions::size counts records. Tensor::lod then has exactly lod_levels levels in offset
/// form, the top one first; the records' own bounds are gone. A fixed shape is stacked, [records,
/// shape…]. Without Batch each record keeps its own LoD.
///
/// A record is damaged if anything that it says of itself is not so: the number of its tensors,
/// versions other than 0, another type, shape or number of levels, offsets that do not ascend from
/// 0 to what they count, a bool that is neither 0 nor 1, bytes that are missing or left over.
/// Complex numbers are kUnsupported. The failure names tensor, byte and what was expected, and the
/// reader's policy decides. Nothing is believed before it is checked against the record's bytes.
/// The parser is immutable, keeps nothing of `tensors`, never blocks and may be used by any number
/// of threads. Throws Error(kInvalidArgument) if there is no tensor, one is named twice or one
/// cannot be such a field.
std::shared_ptr<const Parser> LoDTensorParser(const std::vector<LoDTensorSpec>& tensors);

/// Instances as Protobuf messages (ringfeed/instance.proto, installed in share/ringfeed/proto;
/// docs/FORMATS.md) by their slots: each has one field, found by its name. Other names and unknown
/// fields, at any place, are passed over. dims as the record has them: a first dimension that is
/// negative is any number of rows, no other may be, and lod_levels are of such a slot only. Batch
/// joins records and merges their LoD as with LoDTensorParser, and stacks fixed shapes.
///
/// A record is damaged if it is no such message, lacks a slot, has two fields of a slot's name
/// (of other names it may), or if anything that it says of a slot is not so: another dtype,
/// dimension or number of levels, offsets that do not ascend from 0 to what they count, another
/// number of bytes, a bool that is neither 0 nor 1. The failure names slot, byte and what was
/// expected, and the reader's policy decides. Nothing is believed before it is checked against the
/// record's bytes. The parser is immutable, keeps nothing of `slots`, never blocks and may be used
/// by any number of threads. Throws Error(kInvalidArgument) if there is no slot, one has no
/// name, one is named twice or one cannot be such a field.
std::shared_ptr<const Parser> InstanceProtoParser(const std::vector<SlotSpec>& slots);

/// CSV rows by their columns, as RFC 4180 has them. Numbers are the nearest that the type has,
/// "inf" and "nan" too; blanks around them and a plus before them are passed over. bool and uint8
/// take true and false in any case, as pandas.read_csv does, bool else 0 and 1. A row with
/// another number of columns, with a malformed quote or with a cell that is no number of its type
/// is damaged: its failure names the column, and the reader's policy decides. Bytes that are no
/// UTF-8 pass as they are. The parser is immutable, keeps nothing of its arguments, never blocks
/// and may be used by any number of threads. Throws Error(kInvalidArgument) if a field cannot
/// be one, is named twice, or has no column, or two, in the header.
std::shared_ptr<const Parser> CsvParser(std::vector<CsvField> fields, CsvOptions options = {});

/// One JSON object a record (RFC 8259) by its keys; others are passed over. A name that begins with
/// a slash is a JSON Pointer (RFC 6901) of a value at any depth, "/user/name", "/choices/0/text";
/// any other is a top-level key. A key that is wanted and has two values is damage. float32,
/// float64, int32, int64 and uint8 come from numbers (integers from those without fraction and
/// exponent; true and false count as 1 and 0; a floating field also takes NaN and Infinity, which
/// Python writes), bool from true and false. A shape takes nested arrays of exactly its dimensions,
/// of which the first may be ragged. uint8 of shape [-1] takes a string as UTF-8, its escapes
/// resolved; half a surrogate pair becomes U+FFFD, bytes that are no UTF-8 pass as they are. uint8
/// of shape [-1, -1] takes an array of strings, as a feature of several values (FeatureSpec). A key
/// that is missing or null gets its default. A line that is no such object, or nested deeper than
/// 1,000, is damaged: its failure names the key or the byte, and the reader's policy decides. The
/// parser is immutable, keeps nothing of `features`, never blocks and may be used by any number of
/// threads. Throws Error(kInvalidArgument) if there is no key, one is named twice or within another
/// one's value, or cannot be such a field.
std::shared_ptr<const Parser> JsonLinesParser(std::vector<FeatureSpec> features);

/// The names of the folders that files lie in, each once and sorted: their numbers are labels, as
/// of images in one folder for each class ("train/cat/1.jpg"). `names` are as OpenFiles takes them.
/// Throws Error as that does, and if a file has no folder in its name.
std::vector<std::string> FindFolders(const std::vector<std::string>& names);
/// `parser` with a last field `name`, int64: the number in `folders`, which are sorted first, of
/// the folder that the record's file lies in. A record of a file in another folder is a failure
/// (kInvalidArgument). Immutable, may be shared by threads. Throws Error(kInvalidArgument) if
/// `parser` has a field of that name.
std::shared_ptr<const Parser> FolderLabelParser(std::shared_ptr<const Parser> parser,
                                                std::vector<std::string> folders,
                                                std::string name = "label");

/// A parser that the first records of files tell, and what it was made of.
struct InferredParser {
  std::shared_ptr<const Parser> parser;  ///< RawParser() if nothing tells another one
  /// Its name: "example", "csv", "jsonl", "tar", "rows", "tokens", or "raw".
  std::string name = "raw";
  std::vector<FeatureSpec> fields{};  ///< none of "raw"
  CsvOptions csv{};                   ///< of "csv"
  /// For OpenOptions::format: of "csv" as ReadCsvColumns gives it, else the one that was asked for.
  std::string format{};
  /// Of "raw": which file was looked at, and why it shows no fields. Empty if its records are bytes
  /// all the same: lines of text, raw files, files of a registered format.
  std::string why{};
};
/// Makes a parser of what the first file that begins with an intact record, of at most 64 MiB, says
/// of its records: of at most 100 of them, within its first 256 KiB or the first record. So all
/// processes that name the same files get the same. Of NumPy's arrays, tokens and Megatron's
/// sequences the type and the shape count, of CSV the header, if names stand above a column of
/// numbers or the format says so; of tar files the extensions, of lines of JSON the keys, of
/// TFRecord and RecordIO files the features of tf.Examples. In text whole numbers are int64, others
/// float64, which are NaN if some are missing, and true and false are bool. A later record that
/// does not fit is damaged, as with any parser. Blocks for that read; reads nothing of streams.
/// Throws Error if the file cannot be opened or its format is not known.
InferredParser InferParser(const std::vector<std::string>& names, const OpenOptions& options = {});

}  // namespace ringfeed
