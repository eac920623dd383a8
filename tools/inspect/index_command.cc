#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/balanced_split.h"
#include "io/remote/address.h"
#include "readers/chain/file_pattern.h"
#include "readers/chain/measure_lengths.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/writing/output_file.h"
#include "readers/index/compressed_file.h"
#include "readers/index/length_column.h"
#include "readers/index/manifest_writer.h"
#include "readers/index/open_index.h"
#include "readers/index/pointed_content.h"
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
    "A compressed file gets seek points, too, beside it as .FILE.rfp: places from which\n"
    "decompression can begin. So it has every order, as one that is not compressed.\n\n"
    "--lengths makes the lengths of a ragged field, too: what packed rows, token batches and "
    "buckets\n"
    "are planned from (docs/ORDER.md). They are kept beside the index, and read the file once.\n\n"
    "--manifest puts all of it into one file, which then stands for the list of these files "
    "wherever\n"
    "files are named; nothing is kept beside them (docs/FORMATS.md). Parts of it are joined by "
    "--merge.\n\n"
    "  ringfeed index train-*.tfrecord\n"
    "  mpirun -n 8 ringfeed index train-*.tfrecord --part launcher\n"
    "  ringfeed index train-*.tfrecord --lengths 'example: tokens=i8[]' --part 0/8\n"
    "  ringfeed index train-*.tfrecord --folder /var/cache/indexes --check\n"
    "  ringfeed index train-*.tfrecord --manifest train.manifest\n"
    "  ringfeed index train-*.tfrecord --manifest 3.part --part 3/8\n"
    "  ringfeed index --merge *.part --manifest train.manifest\n"
    "  ringfeed index 's3://bucket/train-*.tfrecord' --manifest s3://bucket/train.manifest";

struct IndexRun {
  std::string file;
  std::string format;
  std::uint64_t bytes = 0;
  OpenedIndex opened;
  bool checked = false;
  double seconds = 0;
  MadePoints points;  ///< without a path if none were made
  // If they are asked for.
  std::shared_ptr<const LengthColumn> lengths;
  std::string lengths_path;
  bool measured = false;
  ManifestEntry entry;  ///< if there is to be a manifest
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
  if (!run.points.path.empty()) {
    json["points"] = {
        {"file", run.points.path}, {"points", run.points.points}, {"bytes", run.points.bytes}};
  }
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
  if (!run.points.path.empty()) {
    std::printf("         %s seek points of %s in %s\n", CountText(run.points.points).c_str(),
                BytesText(run.points.bytes).c_str(), run.points.path.c_str());
  }
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
    sub->add_option("FILE", names_, "files, folders, or globs in quotes; a manifest")->required();
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
    CLI::Option* rebuild =
        sub->add_flag("--rebuild", rebuild_, "makes them whatever is kept")->excludes(check);
    CLI::Option* manifest =
        sub->add_option("--manifest", manifest_,
                        "keeps all in this one file, or its part of it; s3://… too")
            ->excludes(check);
    sub->add_flag("--merge", merge_, "FILEs are parts of a manifest: joins them")
        ->needs(manifest)
        ->excludes(lengths, rebuild);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    if (merge_) return Merge();
    const std::vector<std::string> all = NamedFiles(names_, format_);
    const std::vector<std::string> files = TakePart(all, part_);
    first_ = BalancedRange(all.size(), part_.parts, part_.part).begin;
    RefuseInputAsOutput(FilesRead(all, format_), manifest_);
    CheckManifest();
    if (Status listable = manifest_.empty() ? Status() : CheckListable(all); !listable.ok()) {
      throw Error(listable);
    }
    std::vector<IndexRun> runs(files.size());
    if (!lengths_text_.empty()) FindLengths();
    options_.folders = std::make_shared<FolderIndexes>();
    options_.manifest = ManifestOf(names_);
    options_.save = manifest_.empty();
    bool fine = true;
    FileJobs jobs;
    jobs.tick = [] {};
    jobs.job = [&](std::size_t i) { runs[i] = RunOne(i, files[i]); };
    jobs.done = [&](std::size_t i) {
      fine = fine && runs[i].opened.status.ok();
      if (!json_) PrintIndexRun(runs[i]);
    };
    RunInOrder(files.size(), ShareOut(files).threads, jobs);
    if (fine && !manifest_.empty()) {
      std::vector<ManifestEntry> entries;
      for (const IndexRun& run : runs) entries.push_back(run.entry);
      const ManifestList list = ListOf(all, format_ + "\n" + lengths_.key);
      const Status written = WriteManifest(manifest_, list, std::move(entries));
      if (!written.ok()) throw Error(written);
    }
    if (json_) {
      Json list = Json::array();
      for (const IndexRun& run : runs) list.push_back(IndexRunJson(run));
      PrintJson("index", {{"files", list}});
    }
    return fine ? kExitFine : kExitData;
  }

 private:
  int Merge() const {
    if (!part_.is_all() || !format_.empty()) {
      throw Refuse("--merge joins parts as they are: no --part and no --format beside it");
    }
    std::vector<std::string> parts;
    for (const std::string& name : names_) {
      if (Status found = ExpandPattern(name, &parts); !found.ok()) throw Error(found);
    }
    RefuseInputAsOutput(parts, manifest_);
    CheckManifest();
    if (Status merged = MergeManifests(parts, manifest_); !merged.ok()) throw Error(merged);
    if (json_) PrintJson("index", {{"files", Json::array()}});
    return kExitFine;
  }

  /// Before the work whose end it is.
  void CheckManifest() const {
    if (manifest_.empty()) return;
    if (Status status = CheckOutput(manifest_); !status.ok()) throw Error(status);
  }

  IndexRun RunOne(std::size_t number, const std::string& name) const {
    const double start_s = NowSeconds();
    IndexRun run;
    run.file = ShownAddress(name);
    IndexOptions index = options_;
    if (rebuild_) index.manifest = nullptr;
    ExaminedFile examined = rebuild_
                                ? ExamineFile(name, nullptr, format_, 1)
                                : ExamineListed(index, first_ + number, name, nullptr, format_, 1);
    const bool has_points = PointedContentOf(examined.object.get()) != nullptr;
    const bool lacks_points = examined.status.ok() && examined.compression != Compression::kNone;
    if (!manifest_.empty() && (has_points || lacks_points)) {
      examined.status = Status(StatusCode::kUnsupported,
                               "a manifest lists no compressed file: name such files themselves",
                               {examined.name, -1, -1});
    } else if (lacks_points && !check_) {
      examined.status = PointsOf(examined, &run);
      if (examined.status.ok()) {
        examined = ExamineListed(index, first_ + number, name, nullptr, format_, 1);
      }
    }
    run.opened.status = examined.status;
    if (examined.status.ok()) {
      run.format = examined.format->name();
      run.bytes = examined.bytes;
      IndexedFile file{examined.name, examined.object, examined.bytes, examined.format,
                       examined.compression};
      file.manifest = rebuild_ ? nullptr : options_.manifest;
      file.entry = first_ + number;
      IndexOf(file, &run);
      if (!manifest_.empty() && run.opened.status.ok()) {
        run.entry = EntryOf(first_ + number, name, format_.empty(), file, run.opened);
        run.entry.lengths = run.lengths;
      }
    }
    run.seconds = NowSeconds() - start_s;
    return run;
  }

  Status PointsOf(const ExaminedFile& examined, IndexRun* run) const {
    run->points = MakePoints(
        {examined.name, examined.object, examined.bytes, examined.format, examined.compression},
        options_);
    return run->points.status;
  }

  void IndexOf(const IndexedFile& file, IndexRun* run) const {
    if (!check_) {
      // Of an object the manifest alone may have it.
      const bool anew = rebuild_ || (!manifest_.empty() && file.source != nullptr &&
                                     IndexPlaceFor(file.name, options_).own.empty());
      run->opened = anew ? BuildRecordIndex(file, options_) : OpenRecordIndex(file, options_);
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
    if (file.manifest != nullptr) {
      const Status listed = file.manifest->OpenLengths(file.entry, purpose, &run->lengths);
      run->lengths_path = file.manifest->path();
      if (listed.code() != StatusCode::kNotFound) return listed;
    }
    if (!rebuild_ &&
        LoadLengths(place, purpose, options_.folders.get(), &run->lengths_path, &run->lengths)
            .ok()) {
      return {};
    }
    SourceNode source;
    source.options.format = format_;
    source.options.index_folder = options_.folder;
    const CountedFile counted{file.name, StoredSource(file.source), records};
    const auto units = MeasureLengths(source, {&counted, 1}, lengths_.parser, {});
    StoredIndex stored;
    stored.memory =
        EncodeLengths(units.front(), lengths_.key, purpose.file, purpose.max_record_bytes);
    run->measured = true;
    Status kept;
    run->lengths_path = manifest_;
    if (options_.save) {
      kept = SaveLengths(place, stored.memory, options_.folders.get(), &run->lengths_path);
    }
    const Status opened = LengthColumn::Open(std::move(stored), &run->lengths);
    return kept.ok() ? opened : kept;
  }

  std::vector<std::string> names_;
  FilesPart part_;
  std::string format_;
  IndexOptions options_;
  std::string lengths_text_;
  FieldLengths lengths_;  ///< its parser gives the units
  std::string manifest_;
  std::uint64_t first_ = 0;  ///< of this part's files, in the list
  bool check_ = false;
  bool rebuild_ = false;
  bool merge_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewIndexCommand() { return std::make_unique<IndexCommand>(); }

}  // namespace ringfeed::tools
