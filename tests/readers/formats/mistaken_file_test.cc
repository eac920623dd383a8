#include "readers/formats/mistaken_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "readers/formats/examined_file.h"

namespace ringfeed {
namespace {

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n";
const std::string kPage =
    "\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>…</body></html>\n";
const std::string kStoreError =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
const std::string kObject = "{\"error\":\"Repository not found\"}";

FormatResult Choose(const std::string& asked, const std::string& name, const std::string& head) {
  return ChooseFileFormat(asked, name, std::as_bytes(std::span(head)));
}

std::string Said(const std::string& asked, const std::string& name, const std::string& head) {
  const FormatResult found = Choose(asked, name, head);
  if (found.status.ok()) return std::string(found.format->name());
  EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(found.format, nullptr);
  return found.status.message();
}

TEST(MistakenFileTest, WhatIsNoDataIsNamedWhateverTheNameSays) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kPointer, "a pointer of Git LFS to 12345 bytes, not these: fetch them (git lfs pull)"},
      {"/annex/objects/MD5E-s12--ab.tar\n", "git annex get"},
      {"{\n  \"__kind__\": \"wids-shard-index-v1\",\n  \"wids_version\": 1,\n  \"shardlist\": [",
       "a table of wids (webdataset), not data"},
      {kPage, "an HTML page (\"Sign in\")"},
      {"\xef\xbb\xbf<HTML lang=\"en\">", "an HTML page"},
      {kStoreError, "an object store (AccessDenied)"},
      {"404: Not Found", "an answer of a web server (\"404: Not Found\")"},
      {kObject, "an error of a web server ({\"error\":\"Repository not found\"})"},
      {"{\n  \"message\": \"Bad credentials\"\n}\n", "an error of a web server"}};
  for (const auto& [head, words] : cases) {
    for (const std::string name : {"a.tfrecord", "a.tar", "a.npy", "a.csv", "a.txt", "a",
                                   "a.recordio", "part-00000", "a.tar.gz"}) {
      const std::string said = Said("", name, head);
      EXPECT_NE(said.find(words), std::string::npos) << name << ": " << said;
    }
    for (const std::string format : {"tfrecord", "tar", "recordio", "ofrecord", "npy", "csv:header",
                                     "tsv", "tokens", "rows:4"}) {
      const std::string said = Said(format, "a", head);
      EXPECT_NE(said.find(words), std::string::npos) << format << ": " << said;
      EXPECT_EQ(said.find("format="), std::string::npos) << said;
    }
  }
}

// Who says so has pages, or lines that look like them.
TEST(MistakenFileTest, WhatMayBeDataIsBelievedIfItsFormatIsNamed) {
  for (const std::string& head : {kPage, kStoreError, kObject}) {
    EXPECT_EQ(Said("raw", "a", head), "raw");
    EXPECT_EQ(Said("lines", "a", head), "lines");
    EXPECT_NE(Said("", "a.txt", head).find("name its format"), std::string::npos);
  }
  EXPECT_EQ(Said("jsonl", "a", kObject), "jsonl");
  EXPECT_EQ(Said("", "a.jsonl", kObject), "jsonl");
  for (const std::string format : {"raw", "lines", "jsonl"}) {
    EXPECT_NE(Said(format, "a", kPointer).find("Git LFS"), std::string::npos);
  }
  EXPECT_NE(Said("jsonl", "a", kPage).find("HTML"), std::string::npos);
}

TEST(MistakenFileTest, WhatOnlyLooksSoIsData) {
  EXPECT_EQ(Said("", "a.csv", "<htmlx>,b\n"), "csv");
  EXPECT_EQ(Said("", "a.txt", "version https://git-lfs.github.com/spec/v1 is a line\n"), "lines");
  EXPECT_EQ(Said("", "a.txt", kPointer + std::string(2000, 'x')), "lines");
  EXPECT_EQ(Said("", "a", kObject + "\n" + kObject + "\n"), "jsonl");
  EXPECT_EQ(Said("", "a.txt", "<?xml version=\"1.0\"?><doc/>"), "lines");
  EXPECT_EQ(Said("", "a.txt", "Not Found, he said\n"), "lines");
  EXPECT_EQ(Said("", "a.tfrecord", ""), "tfrecord");
  EXPECT_EQ(Said("", "a.jsonl", "{\"a\": \"{\\\"wids_version\\\": 1}\"}\n"), "jsonl");
}

}  // namespace
}  // namespace ringfeed
