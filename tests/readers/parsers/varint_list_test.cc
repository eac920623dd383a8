#include "readers/parsers/example/varint_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ringfeed {
namespace {

std::string Varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::vector<std::pair<std::string, VarintDecoder>> Decoders() {
  const VarintDecoders all = AllVarintDecoders();
  std::vector<std::pair<std::string, VarintDecoder>> present;
  present.emplace_back("portable", all.portable);
  if (all.bmi2 != nullptr) present.emplace_back("bmi2", all.bmi2);
  if (all.avx512 != nullptr) present.emplace_back("avx512", all.avx512);
  return present;
}

// In memory of exactly its size, so that a sanitizer sees what is read beside it.
bool Decode(VarintDecoder decode, const std::string& run, std::size_t count,
            std::vector<std::int64_t>* values) {
  auto exact = std::make_unique<std::byte[]>(run.size());
  std::copy_n(reinterpret_cast<const std::byte*>(run.data()), run.size(), exact.get());
  auto out = std::make_unique<std::int64_t[]>(count);
  const bool ok = decode({exact.get(), run.size()}, count, out.get());
  values->assign(out.get(), out.get() + count);
  return ok;
}

TEST(VarintListTest, EveryDecoderGivesTheValuesThatWereWritten) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::int64_t> values(random() % 90);
    std::string run;
    const unsigned most_bits = 1 + static_cast<unsigned>(random() % 64);
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(random() >> (63 - random() % most_bits));
      run += Varint(static_cast<std::uint64_t>(value));
    }
    std::size_t count = 0;
    ASSERT_TRUE(CountVarints(std::as_bytes(std::span(run)), &count));
    ASSERT_EQ(count, values.size());
    for (const auto& [name, decode] : Decoders()) {
      std::vector<std::int64_t> got;
      ASSERT_TRUE(Decode(decode, run, values.size(), &got)) << name;
      ASSERT_EQ(got, values) << name;
      ASSERT_FALSE(Decode(decode, run, values.size() + 1, &got)) << name;
      if (!values.empty()) {
        ASSERT_FALSE(Decode(decode, run, values.size() - 1, &got)) << name;
      }
    }
  }
}

TEST(VarintListTest, AnyBytesAreTakenAlikeByAll) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string run(random() % 200, '\0');
    const std::uint64_t density = random() % 12;
    std::size_t stops = 0;
    for (char& c : run) {
      c = static_cast<char>(random() & 0x7f);
      if (random() % 12 < density) c = static_cast<char>(c | '\x80');
      stops += (c & '\x80') == 0 ? 1 : 0;
    }
    std::vector<std::int64_t> expected;
    const bool ok = Decode(AllVarintDecoders().portable, run, stops, &expected);
    std::size_t count = 0;
    ASSERT_EQ(CountVarints(std::as_bytes(std::span(run)), &count), ok);
    for (const auto& [name, decode] : Decoders()) {
      std::vector<std::int64_t> got;
      ASSERT_EQ(Decode(decode, run, stops, &got), ok) << name;
      if (ok) {
        ASSERT_EQ(got, expected) << name;
      }
    }
  }
}

TEST(VarintListTest, ElevenBytesAreNoVarint) {
  for (std::size_t before = 0; before < 70; ++before) {
    for (const std::size_t length : {10u, 11u, 15u}) {
      const std::string run = std::string(before, '\1') + std::string(length - 1, '\x80') + '\0';
      for (const auto& [name, decode] : Decoders()) {
        std::vector<std::int64_t> got;
        EXPECT_EQ(Decode(decode, run, before + 1, &got), length == 10) << name << before;
      }
      std::size_t count = 0;
      EXPECT_EQ(CountVarints(std::as_bytes(std::span(run)), &count), length == 10);
    }
  }
}

}  // namespace
}  // namespace ringfeed
