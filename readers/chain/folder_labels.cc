#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/chain/file_pattern.h"
#include "readers/index/manifest.h"
#include "readers/parsers/current_rows.h"
#include "readers/parsers/parser_decorator.h"
#include "ringfeed/parsers.h"
#include "ringfeed/source.h"

namespace ringfeed {
namespace {

// The name of the folder that a file lies in; empty if the file's name does not tell.
std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().filename().string();
  return folder == "." || folder == ".." ? "" : folder;
}

class FolderLabels final : public ParserDecorator {
 public:
  FolderLabels(std::shared_ptr<const Parser> parser, std::vector<std::string> folders,
               std::string name)
      : ParserDecorator(std::move(parser)),
        label_(inner_->fields().size()),
        folders_(std::move(folders)) {
    std::sort(folders_.begin(), folders_.end());
    if (!AddField({name, DType::kInt64, {}})) {
      Refuse("FolderLabelParser: the parser has a field \"" + name +
             "\" already: name the label otherwise");
    }
  }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    LocateInner(rows, locations, scratch, failures);
  }
  bool CopiesBytesOf(std::size_t field) const override {
    return field != label_ && inner_->CopiesBytesOf(field);
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  static constexpr std::int64_t kUnknown = -1;
  std::int64_t LabelOf(const std::string& file) const;

  const std::size_t label_;  ///< the last field
  std::vector<std::string> folders_;
};

std::int64_t FolderLabels::LabelOf(const std::string& file) const {
  const std::string folder = FolderOf(file);
  const auto found = std::lower_bound(folders_.begin(), folders_.end(), folder);
  return found != folders_.end() && *found == folder ? found - folders_.begin() : kUnknown;
}

void FolderLabels::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                         std::span<const ColumnTarget> targets, Scratch* scratch,
                         std::vector<RowFailure>* failures) const {
  auto* own = static_cast<DecoratorScratch*>(scratch);
  own->locations.clear();
  for (std::size_t row = 0; locations != nullptr && row < rows.size(); ++row) {
    const FieldLocation* const at = locations + row * row_locations();
    own->locations.insert(own->locations.end(), at, at + inner_->row_locations());
  }
  inner_->Write(rows, locations != nullptr ? own->locations.data() : nullptr, targets.first(label_),
                own->inner.get(), failures);
  const CurrentRows* const current = CurrentRows::Get();
  std::string file_before;
  std::int64_t label = kUnknown;  // of that one
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::string file = current != nullptr ? current->PlaceOf(current->IndexOf(rows[row])).file : "";
    if (row == 0 || file != file_before) label = LabelOf(file);
    file_before = std::move(file);
    const std::int64_t written = std::max<std::int64_t>(label, 0);
    StoreLe(targets[label_].data + row * sizeof(written), written);
    if (label != kUnknown || current == nullptr) continue;
    failures->push_back({row, Status(StatusCode::kInvalidArgument,
                                     "the folder \"" + FolderOf(file_before) +
                                         "\" is none of the " + std::to_string(folders_.size()) +
                                         " that labels were made of: take those of FindFolders")});
  }
}

}  // namespace

std::vector<std::string> FindFolders(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : ListedNames(names)) {
    if (const Status status = ExpandPattern(name, &files); !status.ok()) throw Error(status);
  }
  std::set<std::string> folders;
  for (const std::string& file : files) {
    const std::string folder = IsStreamName(file) ? "" : FolderOf(file);
    if (folder.empty()) {
      Refuse("\"" + file + "\" has no folder in its name that labels it: name files as in " +
             "\"train/cat/1.jpg\", or the folder above the classes, \"train\"");
    }
    folders.insert(folder);
  }
  return {folders.begin(), folders.end()};
}

std::shared_ptr<const Parser> FolderLabelParser(std::shared_ptr<const Parser> parser,
                                                std::vector<std::string> folders,
                                                std::string name) {
  return std::make_shared<const FolderLabels>(std::move(parser), std::move(folders),
                                              std::move(name));
}

}  // namespace ringfeed
