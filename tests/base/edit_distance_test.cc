#include "base/edit_distance.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringfeed {
namespace {

using Names = std::vector<std::string>;

TEST(EditDistanceTest, CountsWhatIsPutInLeftOutChangedAndExchanged) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "ab"), 4u);
  EXPECT_EQ(EditDistance("ab", ""), 4u);
  EXPECT_EQ(EditDistance("skip", "skip"), 0u);
  EXPECT_EQ(EditDistance("skp", "skip"), 2u);
  EXPECT_EQ(EditDistance("skiip", "skip"), 2u);
  EXPECT_EQ(EditDistance("slip", "skip"), 2u);
  EXPECT_EQ(EditDistance("Skip", "skip"), 1u);
  EXPECT_EQ(EditDistance("jsno", "json"), 2u);
  EXPECT_EQ(EditDistance("sjno", "json"), 4u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 6u);
}

TEST(EditDistanceTest, TheNearestNameIsTheOneWithTheFewestChanges) {
  const Names names = {"image", "label", "Image/encoded", "labels/all"};
  EXPECT_EQ(*NearestName("labl", names), "label");
  EXPECT_EQ(*NearestName("LABEL", names), "label");
  EXPECT_EQ(*NearestName("image/encoded", names), "Image/encoded");
  EXPECT_EQ(*NearestName("", Names{"a"}), "a");
  EXPECT_EQ(NearestName("a", Names{}), nullptr);
}

TEST(EditDistanceTest, ASlipIsAskedForAndAnotherWordIsNot) {
  const Names options = {"--shuffle", "--shuffle-mode", "--seed", "--on-damage"};
  EXPECT_EQ(DidYouMean("--shufle-mode", options), "; did you mean --shuffle-mode?");
  EXPECT_EQ(DidYouMean("--shuffle_mode", options), "; did you mean --shuffle-mode?");
  EXPECT_EQ(DidYouMean("--damage", options), "; did you mean --on-damage?");
  EXPECT_EQ(DidYouMean("--Seed", options), "; did you mean --seed?");
  EXPECT_EQ(DidYouMean("jsno", Names{"json", "text"}), "; did you mean json?");
  EXPECT_EQ(DidYouMean("skp", Names{"fail", "skip"}), "; did you mean skip?");
  EXPECT_EQ(DidYouMean("--prefetch-factor", options), "");
  EXPECT_EQ(DidYouMean("no", Names{"fail", "skip"}), "");
  EXPECT_EQ(DidYouMean("", Names{"fail"}), "");
  EXPECT_EQ(DidYouMean("skip", Names{}), "");
}

TEST(DidYouMeanWordTest, ComparesKeysOfWordsWithValues) {
  const std::vector<std::string> names = {"block=", "tail=drop", "header"};
  EXPECT_EQ(DidYouMeanWord("blok=1024", names), "; did you mean block=?");
  EXPECT_EQ(DidYouMeanWord("tail=drp", names), "; did you mean tail=drop?");
  EXPECT_EQ(DidYouMeanWord("headr", names), "; did you mean header?");
  EXPECT_EQ(DidYouMeanWord("block=x", names), "");
  EXPECT_EQ(DidYouMeanWord("quote=x", names), "");
  EXPECT_EQ(DidYouMeanWord("", names), "");
}

}  // namespace
}  // namespace ringfeed
