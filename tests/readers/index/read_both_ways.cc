#include "tests/readers/index/read_both_ways.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/formats/recordio_file.h"
#include "tests/readers/formats/tar_file.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {

InOrder ReadInOrder(const Format& format, const std::string& text, std::uint64_t stripe_bytes,
                    std::size_t max_record_bytes) {
  InOrder read;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  const auto framer =
      format.NewFramer({"file", bytes.size(), OnDamage::kSkip, max_record_bytes, false});
  const std::uint64_t stripes = format.Stripes(bytes.size(), stripe_bytes);
  std::size_t at = 0;
  for (std::uint64_t stripe = 0; stripe < stripes && read.status.ok(); ++stripe) {
    read.first_of_stripe.push_back(read.records.size());
    const std::uint64_t limit = stripe + 1 == stripes ? bytes.size() : (stripe + 1) * stripe_bytes;
    if (at >= limit && !bytes.empty()) continue;
    FrameOutput output;
    HeapFrameMemory memory;
    const FrameResult result =
        framer->Frame({bytes.subspan(at), at, limit, true, &memory}, &output);
    for (const RecordSpan& record : output.records) {
      read.records.emplace_back();
      if (!record.damaged()) read.records.back() = Bytes(record.bytes());
    }
    at += result.consumed;
    read.status = result.status;
  }
  return read;
}

NumberedRecords ReadByIndex(const IndexedFile& file, const std::string& text,
                            const RecordIndex& index) {
  NumberedRecords records(index.records());
  FramerOptions options{"file", text.size(), OnDamage::kSkip, file.max_record_bytes, false};
  const auto framer = file.format->NewUnitFramer(options);
  for (std::uint64_t number = records.size(); number-- > 0;) {
    RecordUnit unit;
    const Status found = index.Find({&number, 1}, {&unit, 1});
    EXPECT_TRUE(found.ok()) << found.ToString();
    if (!found.ok() || unit.offset > text.size() || unit.bytes > text.size() - unit.offset) {
      ADD_FAILURE() << "record " << number << " has no place in the file";
      return {};
    }
    // A copy of exactly the unit, so that nobody looks around it.
    std::vector<std::byte> bytes(static_cast<std::size_t>(unit.bytes));
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()) + unit.offset, bytes.size(),
                bytes.begin());
    FrameOutput output;
    HeapFrameMemory memory;
    const Status status =
        framer->Frame({bytes, unit.offset, 0, false, &memory}, unit.records, &output);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(output.records.size(), unit.records);
    if (output.records.size() != unit.records || number < unit.first_record ||
        number - unit.first_record >= unit.records) {
      ADD_FAILURE() << "record " << number << " is not in its unit";
      return {};
    }
    const RecordSpan& record = output.records[number - unit.first_record];
    EXPECT_EQ(record.damaged(), std::any_of(output.records.begin(), output.records.end(),
                                            [](const RecordSpan& one) { return one.damaged(); }));
    EXPECT_EQ(output.damage.empty(), !record.damaged());
    if (!record.damaged()) records[number] = Bytes(record.bytes());
  }
  return records;
}

IndexedFile FileInMemory(const std::string& format, const std::string& bytes) {
  const std::span<const std::byte> data = std::as_bytes(std::span(bytes));
  IndexedFile file;
  file.name = "in memory";
  file.source =
      std::make_shared<MemorySource>(file.name, std::vector<std::byte>(data.begin(), data.end()));
  file.bytes = bytes.size();
  file.format = FindFormat(format).format;
  return file;
}

IndexedFile FileAt(const std::string& path, const std::string& format, const std::string& bytes) {
  WriteText(path, bytes);
  IndexedFile file;
  file.name = path;
  file.bytes = bytes.size();
  file.format = FindFormat(format).format;
  return file;
}

void ForgetIndex(const IndexedFile& file) {
  const IndexPlace place = IndexPlaceFor(file.name, {});
  std::filesystem::remove(place.own);
  std::filesystem::remove(place.shared);
}

void ExpectSameBothWays(const IndexedFile& file, const std::string& bytes,
                        const RecordIndex& index) {
  NumberedRecords by_index = ReadByIndex(file, bytes, index);
  for (const std::uint64_t stripe_bytes : {7U, 64U, 700U, 1U << 20}) {
    const InOrder in_order = ReadInOrder(*file.format, bytes, stripe_bytes, file.max_record_bytes);
    ASSERT_TRUE(in_order.status.ok()) << in_order.status.ToString();
    ASSERT_EQ(in_order.records.size(), by_index.size());
    const auto other = std::mismatch(by_index.begin(), by_index.end(), in_order.records.begin());
    ASSERT_TRUE(other.first == by_index.end())
        << "record " << other.first - by_index.begin() << " of " << by_index.size() << ": "
        << (*other.first ? static_cast<long>(other.first->value().size()) : -1)
        << " bytes by index, "
        << (*other.second ? static_cast<long>(other.second->value().size()) : -1)
        << " in order (-1: damaged)";
    for (std::size_t stripe = 1; stripe < in_order.first_of_stripe.size(); ++stripe) {
      std::uint64_t first = 0;
      ASSERT_TRUE(index.FirstFrom(stripe * stripe_bytes, &first).ok());
      ASSERT_EQ(first, in_order.first_of_stripe[stripe])
          << "stripe " << stripe << " of " << stripe_bytes << " bytes";
    }
  }
}

std::vector<ScannedFile> ScannedFiles() {
  const std::string tfrecord = PlainFile(SomePayloads());
  const std::string ofrecord = PlainOfRecordFile(SomeOfRecords());
  const std::string recordio = FluidChunk({"one", "", std::string(90, 'x')}) +
                               GoChunk({"a", "bc"}) + FluidChunk({std::string(200, 'y')}) +
                               FluidChunk({"", "", "z", "zz"}) + GoChunk({"last"});
  const std::string no_records = FluidChunk(std::vector<std::string>{});
  const std::string with_empty_chunks = no_records + FluidChunk({"one", "two"}) + no_records +
                                        GoChunk({"three"}) + no_records + no_records +
                                        FluidChunk({"four"}) + no_records;
  return {{"tfrecord", tfrecord},
          {"ofrecord", ofrecord},
          {"recordio", recordio},
          {"recordio", with_empty_chunks},
          {"tar", TarOf(SomeSamples(6))},
          {"tar", TarOf({SomeSamples(1)[0], SomeSamples(1)[0], SomeSamples(1)[0]})},
          {"lines", "one\r\n\r\ntwo, longer than it\nthree\n\n\nlast but one\nlast"},
          {"jsonl", "{\"a\": 1}\n{\"a\": 2}\r\n{}\n"},
          {"csv:header", "id,a\r\n1,\"x\n\"\"y\"\"\"\r\n\r\n\n2,plain \"not\"\n3,\"\",4\nlast,1"},
          {"csv",
           "\xef\xbb\xbf"
           "1,\"x\n\n\ny\"\n2,3\n"},
          {"tsv", "a\tb\n" + std::string(200, '\n') + "c\t\"d\n\"\n"}};
}

TestFolder::TestFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  path_ = (std::filesystem::temp_directory_path() /
           ("ringfeed_index_" + std::to_string(getpid()) + "_" + test->name()))
              .string();
  std::filesystem::create_directories(path_);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteText(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace ringfeed
