#include "readers/table_files/table_file.h"

#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/crc32.h"
#include "base/refuse.h"
#include "readers/chain/file_pattern.h"

namespace ringfeed {
namespace {

// If Arrow asks for so much memory, a length in the file is wrong.
constexpr std::int64_t kNoSize = std::int64_t{1} << 40;

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == ' ';
    if (!is_space || !line.ends_with(' ')) line += is_space ? ' ' : c;
  }
  return line;
}

// Whether it lacks memory that a sound file may need.
bool LacksMemory(const arrow::Status& status) {
  if (!status.IsOutOfMemory()) return false;
  const std::string text = status.message();
  const std::size_t at = text.find("size ");
  if (at == std::string::npos) return true;
  std::int64_t asked = kNoSize;
  std::from_chars(text.data() + at + 5, text.data() + text.size(), asked);
  return asked < kNoSize;
}

std::optional<FileState> StateOf(const TableFile& file) {
  struct stat facts {};
  if (file.source != nullptr || stat(file.name.c_str(), &facts) != 0) return std::nullopt;
  return FileState::Of(facts);
}

// What a reader of tables would lose, or take for rows, of a folder that was named.
void CheckInFolder(const TableFile& file, const std::vector<std::string>& names) {
  constexpr std::string_view kEndings[] = {".parquet", ".parq",    ".pq",
                                           ".arrow",   ".feather", ".ipc"};
  constexpr std::string_view kMagics[] = {"PAR1", "PARE", "ARRO", "FEA1", "\xff\xff\xff\xff"};
  const auto is_folder_of_it = [&](const std::string& name) {
    return file.name.size() > name.size() && file.name.starts_with(name) &&
           (name.ends_with('/') || file.name[name.size()] == '/');
  };
  const auto folder = std::ranges::find_if(names, is_folder_of_it);
  if (folder == names.end()) return;
  const std::size_t begin = folder->size() - (folder->ends_with('/') ? 1 : 0);
  const std::string inner = file.name.substr(begin, file.name.rfind('/') - begin);
  if (inner.find('=') != std::string::npos) {
    throw Error({StatusCode::kUnsupported,
                 "its folders hold a column (" + inner +
                     "): name the files by a pattern to go without, or hand a pyarrow.dataset "
                     "with partitioning=\"hive\" over in Python",
                 {*folder}});
  }
  const auto ends = [&](std::string_view ending) { return file.name.ends_with(ending); };
  if (std::ranges::any_of(kEndings, ends)) return;
  const std::string head = SourceFile(file).Head();
  const auto begins = [&](std::string_view magic) { return head.starts_with(magic); };
  if (std::ranges::any_of(kMagics, begins)) return;
  throw Error({StatusCode::kInvalidArgument,
               "no file of a table, in a folder of them: name those that are, as by *.parquet",
               {file.name}});
}

}  // namespace

std::string NameOf(const std::vector<TableFile>& files) {
  if (files.size() == 1) return files.front().name;
  return files.front().name + " and " + std::to_string(files.size() - 1) + " more";
}

std::vector<TableFile> TableFilesOf(const std::vector<std::string>& names,
                                    const OpenOptions& options) {
  ExpandedFiles found = ExpandNames(names, options);
  const auto read_bytes = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::vector<TableFile> files;
  for (std::size_t i = 0; i < found.names.size(); ++i) {
    const std::string& path = found.names[i];
    const bool is_left_out = path[path.rfind('/') + 1] == '_';
    if (is_left_out && std::find(names.begin(), names.end(), path) == names.end()) continue;
    files.push_back({path, i < found.sources.size() ? found.sources[i] : nullptr});
    files.back().read_bytes = read_bytes;
    files.back().state = StateOf(files.back());
    CheckInFolder(files.back(), names);
  }
  if (files.empty()) Refuse(StatusCode::kNotFound, "there are no such files");
  return files;
}

SourceFile::SourceFile(const TableFile& file, bool maps)
    : source_(file.source != nullptr ? file.source : OpenFileRange(file.name, 0, kToEnd)),
      read_bytes_(file.read_bytes),
      size_(static_cast<std::int64_t>(source_->Size())) {
  if (maps && file.source == nullptr) {
    const auto mapped = arrow::io::MemoryMappedFile::Open(file.name, arrow::io::FileMode::READ);
    if (mapped.ok()) mapped_ = *mapped;
  }
  if (!file.state) return;
  const std::optional<FileState> now = StateOf(file);
  if (now && now->inode == file.state->inode && now->device == file.state->device &&
      now->bytes == file.state->bytes && now->modified_ns == file.state->modified_ns) {
    return;
  }
  throw Error({StatusCode::kDamaged, "the file was replaced since it was found", {file.name}});
}

Status SourceFile::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

// (python/ringfeed/table_files.py has the same.)
std::string SourceFile::Identity() {
  constexpr std::int64_t kTail = 64 * 1024;
  const std::string bytes = Bytes(0, 4096) + Bytes(std::max<std::int64_t>(0, size_ - kTail), kTail);
  return std::to_string(size_) + " " + std::to_string(Crc32(std::as_bytes(std::span(bytes))));
}

std::string SourceFile::Bytes(std::int64_t position, std::int64_t most) {
  std::string bytes(static_cast<std::size_t>(most), '\0');
  const auto got = ReadAt(position, most, bytes.data());
  if (!got.ok()) throw Error(failure());
  bytes.resize(static_cast<std::size_t>(*got));
  return bytes;
}

arrow::Result<std::int64_t> SourceFile::ReadAt(std::int64_t position, std::int64_t bytes,
                                               void* out) {
  if (position < 0 || bytes < 0) return arrow::Status::Invalid("a negative place in the file");
  const std::int64_t left = std::max<std::int64_t>(0, size_ - position);
  const std::span<std::byte> buffer(static_cast<std::byte*>(out),
                                    static_cast<std::size_t>(std::min(bytes, left)));
  std::size_t got = 0;
  if (!buffer.empty()) {
    Status status = source_->ReadAt(static_cast<std::uint64_t>(position), buffer, &got);
    if (!status.ok()) {
      const std::scoped_lock lock(mutex_);
      if (failure_.ok()) failure_ = status;
      return arrow::Status::IOError(status.message());
    }
  }
  NoteRead(got);
  return static_cast<std::int64_t>(got);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SourceFile::ReadAt(std::int64_t position,
                                                                 std::int64_t bytes) {
  // (A length in a damaged file must not take memory that the file cannot fill.)
  const std::int64_t most =
      std::clamp<std::int64_t>(size_ - position, 0, std::max<std::int64_t>(0, bytes));
  if (mapped_ != nullptr) {
    NoteRead(static_cast<std::size_t>(most));
    return mapped_->ReadAt(position, most);
  }
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(most));
  ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position, most, buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(got));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

arrow::Result<std::int64_t> SourceFile::Read(std::int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(at_, bytes, out));
  at_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SourceFile::Read(std::int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, bytes));
  at_ += buffer->size();
  return buffer;
}

void Decode(const TableFile& file, const SourceFile& opened, const std::string& what,
            const std::function<void()>& decode) {
  arrow::Status refusal;
  try {
    decode();
    return;
  } catch (const ArrowFailure& failure) {
    refusal = failure.status;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // parquet::ParquetException among them
    refusal = arrow::Status::Invalid(error.what());
  }
  if (Status status = opened.failure(); !status.ok()) throw Error(status);
  const std::string text = what + ": " + OneLine(refusal.message());
  const bool lacks = LacksMemory(refusal);
  throw Error({lacks ? StatusCode::kResourceExhausted : StatusCode::kDamaged, text, {file.name}});
}

void CheckAlike(const arrow::Schema& first, const std::string& first_name,
                const arrow::Schema& other, const std::string& name,
                const std::vector<std::string>& wanted) {
  if (other.Equals(first, false)) return;
  std::set<std::string> tops;
  for (const std::string& path : wanted) {
    const bool is_top = first.GetFieldIndex(path) >= 0;
    tops.insert(is_top ? path : path.substr(0, path.find('.')));
  }
  for (const auto& field : first.fields()) {
    if (!tops.empty() && !tops.contains(field->name())) continue;
    const auto same = other.GetFieldByName(field->name());
    if (same != nullptr && same->type()->Equals(*field->type())) continue;
    const std::string found = same == nullptr ? "not there" : same->type()->ToString();
    throw Error({StatusCode::kInvalidArgument,
                 "column \"" + field->name() + "\" is " + found + ", and " +
                     field->type()->ToString() + " in " + first_name,
                 {name}});
  }
}

void ExportBatches(std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
                   const std::shared_ptr<arrow::Schema>& schema, ArrowArrayStream* stream) {
  for (auto& batch : batches) {
    if (batch->schema()->Equals(*schema, false)) continue;
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (const auto& field : schema->fields()) {
      columns.push_back(batch->GetColumnByName(field->name()));
      if (columns.back() != nullptr) continue;
      throw ArrowFailure{arrow::Status::Invalid("it has no column \"", field->name(), "\"")};
    }
    batch = arrow::RecordBatch::Make(schema, batch->num_rows(), std::move(columns));
  }
  auto reader = TakeArrow(arrow::RecordBatchReader::Make(std::move(batches), schema));
  NeedArrow(arrow::ExportRecordBatchReader(std::move(reader), stream));
}

}  // namespace ringfeed
