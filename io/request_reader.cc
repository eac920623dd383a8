#include "io/request_reader.h"

#include "io/read_progress.h"

namespace ringfeed {

ReadCompletion FinishRead(std::uint64_t tag, const ReadProgress& progress, ReadEngineStats* stats) {
  ++stats->reads;
  stats->bytes += progress.done();
  stats->short_reads += progress.short_reads();
  stats->retries += progress.retries();
  if (!progress.status().ok()) ++stats->failures;
  return {tag, progress.done(), progress.status()};
}

ReadCompletion ReadRequestBlocking(const ReadRequest& request, int retries,
                                   ReadEngineStats* stats) {
  if (request.file->descriptor() >= 0) {
    ReadProgress progress(request.file, request.offset, request.buffer, request.bytes, retries);
    ReadBlocking(&progress);
    stats->enters += 1 + progress.short_reads() + progress.retries();
    return FinishRead(request.tag, progress, stats);
  }
  std::size_t bytes = 0;
  Status status = request.file->ReadAt(request.offset, {request.buffer, request.bytes}, &bytes);
  ++stats->reads;
  stats->bytes += bytes;
  if (!status.ok()) ++stats->failures;
  return {request.tag, static_cast<std::uint32_t>(bytes), std::move(status)};
}

}  // namespace ringfeed
