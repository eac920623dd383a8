#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "readers/formats/examined_file.h"
#include "readers/index/manifest_writer.h"
#include "readers/index/open_index.h"

namespace ringfeed {

/// The entry of a file, with lengths of that key if it is not empty: of record n as many as n.
inline ManifestEntry MadeEntry(std::size_t number, const std::string& name,
                               const std::string& key = "",
                               const std::shared_ptr<Source>& source = nullptr) {
  const ExaminedFile examined = ExamineFile(name, source.get(), "", 1);
  EXPECT_TRUE(examined.status.ok()) << examined.status.ToString();
  const IndexedFile file{examined.name, source, examined.bytes, examined.format};
  IndexOptions options;
  options.save = false;
  const OpenedIndex opened = OpenRecordIndex(file, options);
  EXPECT_TRUE(opened.status.ok() && opened.kept.ok()) << opened.status.ToString();
  ManifestEntry entry = EntryOf(number, name, true, file, opened);
  if (!key.empty()) {
    std::vector<std::uint32_t> units(static_cast<std::size_t>(opened.index->records()));
    for (std::size_t i = 0; i < units.size(); ++i) units[i] = static_cast<std::uint32_t>(i);
    StoredIndex stored;
    stored.memory = EncodeLengths(units, key, opened.known.identity, file.max_record_bytes);
    EXPECT_TRUE(LengthColumn::Open(std::move(stored), &entry.lengths).ok());
  }
  return entry;
}

/// Writes the part of a manifest with the files of these numbers, and without numbers all of it.
inline void MakeManifest(const std::string& path, const std::vector<std::string>& names,
                         std::vector<std::size_t> numbers = {}, const std::string& key = "") {
  const bool whole = numbers.empty();
  for (std::size_t i = 0; whole && i < names.size(); ++i) numbers.push_back(i);
  std::vector<ManifestEntry> entries;
  for (const std::size_t number : numbers) {
    entries.push_back(MadeEntry(number, names[number], key));
  }
  const Status status = WriteManifest(path, ListOf(names, key), std::move(entries));
  ASSERT_TRUE(status.ok()) << status.ToString();
}

}  // namespace ringfeed
