#include "metrics/label_text.h"

#include <gtest/gtest.h>

namespace ringfeed {
namespace {

TEST(LabelTextTest, TextStaysAsItIs) {
  EXPECT_EQ(LabelText("train-0.tfrecord", 60), "train-0.tfrecord");
  EXPECT_EQ(LabelText("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \"\\", 60),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \"\\");
  EXPECT_EQ(LabelText("", 60), "");
}

TEST(LabelTextTest, WhatIsNoUtf8OrControlsATerminalIsReplaced) {
  EXPECT_EQ(LabelText("a\x1b[2Jb\n\x7f", 60), "a?[2Jb??");
  EXPECT_EQ(LabelText("\xff\xc3(\xe2\x82", 60),
            "?"
            "?("
            "?"
            "?");
  EXPECT_EQ(LabelText("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc2\x9b", 60),
            "?? ??"
            "? ???"
            "? ??");
}

TEST(LabelTextTest, OfALongTextTheEndStaysInWholeCharacters) {
  EXPECT_EQ(LabelText("0123456789", 4), "6789");
  EXPECT_EQ(LabelText("\xe2\x82\xac"
                      "abc",
                      4),
            "abc");
}

}  // namespace
}  // namespace ringfeed
