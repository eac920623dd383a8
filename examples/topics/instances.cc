// An instance is a vector of tensors that finds them by name; what fields and failures tell.
//
// Prints:
//   tiny int8, id uint32, count uint64: 13 bytes, a record: 1
//   count is field 2 and holds 3
//   without the last: 2 tensors, the first holds 1
//   taken: 2, left: 0, cleared: 1
//   bool 1, float16 2, bfloat16 2, float64 8, int16 2
//   words: rows of any length, 2 bytes a step; image: 12 bytes a row
//   truncated: a.tfrecord: record 3: the record ends early
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

rf::Instance Row() {
  rf::Instance row;
  row.reserve(3);
  row.push_back(rf::MakeScalar<std::int8_t>(1));
  row.emplace_back(rf::MakeScalar<std::uint32_t>(2));
  row.push_back(rf::MakeScalar<std::uint64_t>(3));
  row.set_names(std::make_shared<rf::FieldNames>(std::vector<std::string>{"tiny", "id", "count"}));
  row.set_is_record(true);  // its tensors have no dimension for rows
  return row;
}

void AsVector() {
  rf::Instance row = Row();
  const rf::FieldNames& names = *row.names();
  std::size_t bytes = 0;
  for (auto field = row.begin(); field != row.end(); ++field) {
    const auto number = static_cast<std::size_t>(field - row.begin());
    std::cout << names.names()[number] << " " << rf::DTypeName(field->dtype)
              << (number + 1 < row.size() ? ", " : ": ");
    bytes += field->bytes;
  }
  std::cout << bytes << " bytes, a record: " << row.is_record() << "\n";
  const rf::Tensor* const count = row.Find("count");  // null if there is none
  if (count == nullptr || row.Find("counts") != nullptr || row.at("id").dtype != rf::kUInt32)
    throw std::runtime_error("a field is not where its name is");
  std::cout << "count is field " << names.Find("count").value() << " and holds "
            << count->Values<std::uint64_t>()[0] << "\n";
}

/// Tensors come and go at the end. What one shows is there as long as a copy of it is held.
void Ends() {
  rf::Instance row = Row();
  if (row.back().dtype != rf::kUInt64 || row.data()[1].dtype != rf::kUInt32 || row.empty())
    throw std::runtime_error("the tensors are in another order");
  row.pop_back();
  std::cout << "without the last: " << row.size() << " tensors, the first holds "
            << int{row.front().Values<std::int8_t>()[0]} << "\n";
  const std::vector<rf::Tensor> taken = std::move(row).TakeTensors();
  rf::Instance again;
  again.resize(4);                      // empty tensors
  const std::size_t left = row.size();  // NOLINT: what was taken from is empty
  again.clear();
  std::cout << "taken: " << taken.size() << ", left: " << left << ", cleared: " << again.empty()
            << "\n";
}

void Fields() {
  const char* between = "";
  for (const rf::DType dtype : {rf::kBool, rf::kFloat16, rf::kBFloat16, rf::kFloat64, rf::kInt16}) {
    std::cout << between << rf::DTypeName(dtype) << " " << rf::DTypeBytes(dtype);
    between = ", ";
  }
  if (rf::DTypeOf<std::int8_t>() != rf::kInt8) throw std::runtime_error("int8 has another name");
  const rf::FieldSpec words = {"words", rf::kUInt16, {-1}};
  const rf::FieldSpec image = {"image", rf::kUInt8, {2, 2, 3}};
  std::cout << "\nwords: rows of " << (words.ragged() ? "any length" : "one length") << ", "
            << words.unit_bytes() << " bytes a step; image: " << image.unit_bytes()
            << " bytes a row\n";
}

/// What a Source of one's own returns; who knows more of the place adds it.
void Failures() {
  const rf::Status torn(rf::StatusCode::kTruncated, "the record ends early");
  const rf::Status placed = torn.WithPlace({.file = "a.tfrecord", .record = 3});
  const rf::DataPlace& place = placed.place();
  std::cout << rf::StatusCodeName(placed.code()) << ": " << place.file << ": record "
            << place.record << ": " << placed.message() << "\n";
}

int main() try {
  AsVector();
  Ends();
  Fields();
  Failures();
} catch (const std::exception& error) {
  std::cerr << "instances: " << error.what() << "\n";
  return 1;
}
