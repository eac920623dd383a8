#include "ringfeed/instance.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {
namespace {

// What shows a part of an instance that is about to go does not compile. One requires-expression
// for each, of an lvalue and of what ReadNext returns.
template <typename I>
concept Numbered = requires(I&& instance) {
  std::forward<I>(instance)[0];
};
template <typename I>
concept Named = requires(I&& instance) {
  std::forward<I>(instance)["label"];
};
template <typename I>
concept NamedByView = requires(I&& instance, std::string_view name) {
  std::forward<I>(instance)[name];
};
template <typename I>
concept At = requires(I&& instance) {
  std::forward<I>(instance).at(0);
};
template <typename I>
concept AtName = requires(I&& instance) {
  std::forward<I>(instance).at("label");
};
template <typename I>
concept Found = requires(I&& instance) {
  std::forward<I>(instance).Find("label");
};
template <typename I>
concept Front = requires(I&& instance) {
  std::forward<I>(instance).front();
};
template <typename I>
concept Back = requires(I&& instance) {
  std::forward<I>(instance).back();
};
template <typename I>
concept Begun = requires(I&& instance) {
  std::forward<I>(instance).begin();
};
template <typename I>
concept Ended = requires(I&& instance) {
  std::forward<I>(instance).end();
};
template <typename I>
concept Pointed = requires(I&& instance) {
  std::forward<I>(instance).data();
};
template <typename I>
concept NamesShown = requires(I&& instance) {
  std::forward<I>(instance).names();
};
template <typename I>
concept Counted = requires(I&& instance) {
  std::forward<I>(instance).Rows();
  std::forward<I>(instance).size();
  std::forward<I>(instance).empty();
};
template <typename I>
concept Taken = requires(I&& instance) {
  std::forward<I>(instance).TakeTensors();
};
template <typename T>
concept Shown = requires(T&& tensor) {
  std::forward<T>(tensor).template Values<float>();
};

template <typename I>
constexpr bool kShowsAll = Numbered<I>&& Named<I>&& NamedByView<I>&& At<I>&& AtName<I>&& Found<I>&&
    Front<I>&& Back<I>&& Begun<I>&& Ended<I>&& Pointed<I>&& NamesShown<I>;
template <typename I>
constexpr bool kShowsNothing =
    !Numbered<I> && !Named<I> && !NamedByView<I> && !At<I> && !AtName<I> && !Found<I> &&
    !Front<I> && !Back<I> && !Begun<I> && !Ended<I> && !Pointed<I> && !NamesShown<I>;

static_assert(kShowsAll<Instance&> && kShowsAll<const Instance&>);
static_assert(kShowsNothing<Instance> && kShowsNothing<const Instance>);
static_assert(Counted<Instance&> && Counted<const Instance&> && Counted<Instance>);
static_assert(Taken<Instance> && !Taken<Instance&> && !Taken<const Instance&>);
static_assert(std::is_convertible_v<Instance&, std::span<Tensor>>);
static_assert(std::is_convertible_v<Instance&, std::span<const Tensor>>);
static_assert(std::is_convertible_v<const Instance&, std::span<const Tensor>>);
static_assert(Shown<Tensor&> && Shown<const Tensor&>);
static_assert(!Shown<Tensor> && !Shown<const Tensor>);
static_assert(std::is_nothrow_move_constructible_v<Instance>);
static_assert(std::is_nothrow_move_assignable_v<Instance>);

Instance TwoFields() {
  Instance instance = {MakeTensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                       MakeTensor(std::vector<std::int64_t>{7, 8})};
  instance.set_names(
      std::make_shared<const FieldNames>(std::vector<std::string>{"image", "label"}));
  return instance;
}

Status ThrownBy(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

TEST(InstanceTest, FieldsAreFoundByNumberAndByName) {
  Instance instance = TwoFields();
  EXPECT_EQ(&instance["image"], &instance[0]);
  EXPECT_EQ(&instance["label"], &instance[1]);
  EXPECT_EQ(&instance.at("label"), &instance.at(1));
  EXPECT_EQ(instance.Find("label"), &instance[1]);
  EXPECT_EQ(instance.Find("Label"), nullptr);
  const Instance& same = instance;
  EXPECT_EQ(same["label"].Values<std::int64_t>()[1], 8);
  instance["label"] = MakeScalar(9);
  EXPECT_EQ(same[1].Values<std::int32_t>()[0], 9);
}

TEST(InstanceTest, AnUnknownNameIsToldWithTheNearestFirst) {
  const Instance instance = TwoFields();
  const Status status = ThrownBy([&] { (void)instance["lable"]; });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no field \"lable\", there are \"label\", \"image\"");
  EXPECT_EQ(ThrownBy([&] { (void)instance["imag"]; }).message(),
            "there is no field \"imag\", there are \"image\", \"label\"");
  const Instance nameless = {MakeScalar(1)};
  EXPECT_NE(ThrownBy([&] { (void)nameless["x"]; }).message().find("no names"), std::string::npos);
}

TEST(InstanceTest, ANumberThatIsNoneIsTold) {
  const Instance instance = TwoFields();
  const Status status = ThrownBy([&] { (void)instance[2]; });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "there is no field 2: the instance has 2, the first is 0");
}

TEST(InstanceTest, OfManyNamesTheNearestTenAreTold) {
  std::vector<std::string> names;
  for (int i = 10; i < 40; ++i) names.push_back("c" + std::to_string(i));
  const FieldNames fields(names);
  EXPECT_EQ(fields.Find("c39"), 29U);
  EXPECT_EQ(fields.Find("c40"), std::nullopt);
  const std::string text = fields.NearestFirst("c3x");
  EXPECT_TRUE(text.starts_with("\"c30\", \"c31\"")) << text;
  EXPECT_TRUE(text.ends_with(" and 20 more")) << text;
}

TEST(InstanceTest, OfTwoFieldsOfOneNameTheFirstIsFound) {
  EXPECT_EQ(FieldNames({"b", "a", "a"}).Find("a"), 1U);
}

TEST(InstanceTest, RowsAreThoseOfTheFirstTensorWhicheverItsKind) {
  EXPECT_EQ(Instance().Rows(), 0);
  EXPECT_EQ(TwoFields().Rows(), 2);
  EXPECT_EQ(Instance({MakeScalar(1)}).Rows(), 1);
  EXPECT_EQ(Instance({MakeTensor({0, 5}, std::vector<float>())}).Rows(), 0);
  EXPECT_EQ(Instance({MakeRagged(std::vector<std::string>{"abc", "", "de"})}).Rows(), 3);
  EXPECT_EQ(Instance({MakeRagged(std::vector<std::string>())}).Rows(), 0);
  Instance record = {MakeBytes("abc")};
  EXPECT_EQ(record.Rows(), 3);
  record.set_is_record(true);
  EXPECT_EQ(record.Rows(), 1);
}

TEST(InstanceTest, WhatWasMovedFromOrClearedIsEmpty) {
  Instance instance = TwoFields();
  instance.set_is_record(true);
  Instance taken = std::move(instance);
  EXPECT_TRUE(instance.empty());  // NOLINT: that is the promise
  EXPECT_EQ(instance.names(), nullptr);
  EXPECT_FALSE(instance.is_record());
  EXPECT_EQ(taken.size(), 2U);
  const Instance copy = taken;
  EXPECT_EQ(copy["label"].data, taken["label"].data);  // shared
  taken.clear();
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(taken.names(), nullptr);
  const std::vector<Tensor> tensors = Instance(copy).TakeTensors();
  EXPECT_EQ(tensors.at(1).data, copy[1].data);
}

TEST(InstanceTest, ItIsBuiltAndGoneThroughAsAVector) {
  Instance instance;
  instance.reserve(3);
  instance.push_back(MakeScalar(1));
  instance.emplace_back().shape = {4};
  instance.resize(3);
  EXPECT_EQ(instance.size(), 3U);
  EXPECT_EQ(instance.back().bytes, 0U);
  std::size_t dimensions = 0;
  for (const Tensor& tensor : instance) dimensions += tensor.shape.size();
  EXPECT_EQ(dimensions, 1U);
  dimensions = 0;
  for (const Tensor& tensor : TwoFields()) dimensions += tensor.shape.size();
  EXPECT_EQ(dimensions, 3U);
  EXPECT_EQ(Instance(2).size(), 2U);
  EXPECT_EQ(Instance(std::vector<Tensor>(3)).size(), 3U);
}

}  // namespace
}  // namespace ringfeed
