#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readers/chain/measure_lengths.h"
#include "readers/formats/examined_file.h"
#include "readers/index/length_column.h"
#include "readers/index/open_index.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kIndexHelp[] =
    "Makes or checks the indexes of files: where each record stands, by its number.\n\n"
    "Orders by number (global, blocks, mixtures, several ranks, positions) make them when they "
    "first\n"
    "open a file; this makes them beforehand. Each is beside its file as .FILE.rfx; those of "
    "small\n"
    "files (about 1,000 records) are together in their folder's .rfx. Exit status 1 if a file has\n"
    "none, or, with --check, not the one that it should have.\n\n"
    "--lengths makes the lengths of a ragged field, too: what packed rows, token batches and "
    "buckets\n"
    "are planned from (docs/ORDER.md). They are kept beside the index, and read the file once.\n\n"
    "  ringfeed index train-*.tfrecord\n"
    "  mpirun -n 8 ringfeed index train-*.tfrecord --part launcher\n"
    "  ringfeed index train-*.tfrecord --lengths 'example: tokens=i8[]' --part 0/8\n"
    "  ringfeed index train-*.tfrecord --folder /var/cache/indexes --check";

struct IndexRun {
  std::string file;
  std::string format;
  std::uint64_t bytes = 0;
  OpenedIndex opened;
  bool checked = false;
  double seconds = 0;
  // If they are asked for.
  std::shared_ptr<const LengthColumn> lengths;
  std::string lengths_path;
  bool measured = false;
};

Json LengthsJson(const IndexRun& run) {
  const LengthHeader& header = run.lengths->header();
  Json histogram = Json::array();
  for (const std::uint64_t records : header.histogram) histogram.push_back(records);
  while (!histogram.empty() && histogram.back() == 0) histogram.erase(histogram.size() - 1);
  return {{"of", run.lengths->key()},
          {"file", run.lengths_path},
          {"origin", run.measured ? "made" : "kept"},
          {"entry_bytes", header.width},
          {"units", header.sum},
          {"most", header.most},
          {"damaged", header.holes},
          {"histogram", std::move(histogram)}};
}

Json IndexRunJson(const IndexRun& run) {
  const OpenedIndex& opened = run.opened;
  Json json = {{"file", run.file},
               {"format", run.format},
               {"bytes", run.bytes},
               {"records", opened.index == nullptr ? 0 : opened.index->records()},
               {"lost_ranges", opened.index == nullptr ? 0 : opened.index->loss().ranges},
               {"index", opened.path},
               {"index_bytes", opened.index_bytes},
               {"origin", run.checked ? "checked" : IndexOriginName(opened.origin)},
               {"why", opened.why},
               {"seconds", run.seconds}};
  if (run.lengths != nullptr) json["lengths"] = LengthsJson(run);
  if (!opened.status.ok()) json["error"] = opened.status.ToString();
  return json;
}

void PrintIndexRun(const IndexRun& run) {
  const OpenedIndex& opened = run.opened;
  const bool fine = opened.status.ok();
  const char* const verdict = !fine         ? "failed"
                              : run.checked ? "checked"
                                            : IndexOriginName(opened.origin);
  std::printf("%-8s %s: ", verdict, run.file.c_str());
  if (opened.index != nullptr) {
    std::printf("%s, %s records, index of %s%s, ", run.format.c_str(),
                CountText(opened.index->records()).c_str(), BytesText(opened.index_bytes).c_str(),
                opened.path.empty() ? "" : (" in " + opened.path).c_str());
  }
  std::printf("%s s\n", FixedText(run.seconds, 3).c_str());
  if (opened.index != nullptr && opened.index->loss().ranges != 0) {
    std::printf("         %s damaged ranges are in no record\n",
                CountText(opened.index->loss().ranges).c_str());
  }
  if (run.lengths != nullptr) {
    const LengthHeader& header = run.lengths->header();
    std::printf("         lengths %s: %s units, at most %s of a record, %s damaged, in %s\n",
                run.measured ? "made" : "kept", CountText(header.sum).c_str(),
                CountText(header.most).c_str(), CountText(header.holes).c_str(),
                run.lengths_path.c_str());
  }
  if (!opened.why.empty()) std::printf("         %s\n", opened.why.c_str());
  (void)FlushOutput();  // main() reports its failure
  TellFailure(opened.status);
}

class IndexCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("index", kIndexHelp);
    sub->add_option("FILE", names_, "files, folders, or globs in quotes")->required();
    sub->add_option("--format", format_, FormatText());
    sub->add_option("--folder", options_.folder,
                    "keeps them there; default: RINGFEED_INDEX_FOLDER, else beside each file");
    AddPartOption(sub, &part_);
    CLI::Option* lengths = sub->add_option(
        "--lengths", lengths_text_,
        "also the lengths of a field: a parser of it alone, as 'example: tokens=i8[]'");
    CLI::Option* check = sub->add_flag(
        "--check", check_, "changes nothing: is the kept index what a scan of the file gives?");
    check->excludes(lengths);
    sub->add_flag("--rebuild", rebuild_, "makes them whatever is kept")->excludes(check);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    const std::vector<std::string> files = TakePart(NamedFiles(names_, format_), part_);
    std::vector<IndexRun> runs(files.size());
    if (!lengths_text_.empty()) FindLengths();
    options_.folders = std::make_shared<FolderIndexes>();
    bool fine = true;
    FileJobs jobs;
    jobs.tick = [] {};
    jobs.job = [&](std::size_t i) { runs[i] = RunOne(files[i]); };
    jobs.done = [&](std::size_t i) {
      fine = fine && runs[i].opened.status.ok();
      if (!json_) PrintIndexRun(runs[i]);
    };
    RunInOrder(files.size(), ShareOut(files).threads, jobs);
    if (json_) {
      Json list = Json::array();
      for (const IndexRun& run : runs) list.push_back(IndexRunJson(run));
      PrintJson("index", {{"files", list}});
    }
    return fine ? kExitFine : kExitData;
  }

 private:
  IndexRun RunOne(const std::string& name) const {
    const double start_s = NowSeconds();
    IndexRun run;
    run.file = name;
    ExaminedFile examined = ExamineFile(name, nullptr, format_, 1);
    run.opened.status = examined.status;
    if (examined.status.ok()) {
      run.format = examined.format->name();
      run.bytes = examined.bytes;
      IndexOf(IndexedFile{examined.name, examined.object, examined.bytes, examined.format,
                          examined.compression},
              &run);
    }
    run.seconds = NowSeconds() - start_s;
    return run;
  }

  void IndexOf(const IndexedFile& file, IndexRun* run) const {
    if (!check_) {
      run->opened = rebuild_ ? BuildRecordIndex(file, options_) : OpenRecordIndex(file, options_);
      // An index that ends with this process does not count.
      if (run->opened.status.ok()) run->opened.status = run->opened.kept;
      if (run->opened.status.ok() && lengths_.parser != nullptr) {
        run->opened.status = OpenLengths(file, run).WithPlace({file.name, -1, -1});
      }
      return;
    }
    const Status status = CheckRecordIndex(file, options_);
    run->opened.status = status;
    run->checked = status.ok();
    if (!status.ok()) return;
    IndexOptions only_open = options_;
    only_open.save = false;
    run->opened = OpenRecordIndex(file, only_open);
  }

  void FindLengths() {
    const ParserResult parser = ParserFromText(lengths_text_);
    if (!parser.status.ok()) throw Error(parser.status);
    const std::vector<FieldSpec>& fields = parser.parser->fields();
    if (fields.size() == 1 && fields[0].ragged()) lengths_ = parser.parser->LengthsOf(0);
    if (lengths_.parser == nullptr) {
      throw Refuse("--lengths takes a parser of one ragged field, as 'example: tokens=i8[]'");
    }
    lengths_.parser = MakeUnitsParser(lengths_.parser, 0);
  }

  Status OpenLengths(const IndexedFile& file, IndexRun* run) const {
    const std::uint64_t records = run->opened.index->records();
    const IndexPlace place = PlaceOfLengths(IndexPlaceFor(file.name, options_), lengths_.key);
    const LengthPurpose purpose{lengths_.key, run->opened.known.identity, records,
                                file.max_record_bytes};
    if (!rebuild_ &&
        LoadLengths(place, purpose, options_.folders.get(), &run->lengths_path, &run->lengths)
            .ok()) {
      return {};
    }
    SourceNode source;
    source.options.format = format_;
    const CountedFile counted{file.name, file.source, records};
    const auto units = MeasureLengths(source, {&counted, 1}, lengths_.parser, {});
    StoredIndex stored;
    stored.memory =
        EncodeLengths(units.front(), lengths_.key, purpose.file, purpose.max_record_bytes);
    run->measured = true;
    const Status kept =
        SaveLengths(place, stored.memory, options_.folders.get(), &run->lengths_path);
    const Status opened = LengthColumn::Open(std::move(stored), &run->lengths);
    return kept.ok() ? opened : kept;
  }

  std::vector<std::string> names_;
  FilesPart part_;
  std::string format_;
  IndexOptions options_;
  std::string lengths_text_;
  FieldLengths lengths_;  ///< its parser gives the units
  bool check_ = false;
  bool rebuild_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewIndexCommand() { return std::make_unique<IndexCommand>(); }

}  // namespace ringfeed::tools
