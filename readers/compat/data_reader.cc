#include "ringfeed/compat/data_reader.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <utility>

#include "base/balanced_split.h"
#include "base/machine/cpu_count.h"
#include "base/machine/signals_blocked.h"
#include "base/refuse.h"
#include "base/type_name.h"
#include "readers/chain/reader_access.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

constexpr int kMaxThreads = 16;

Reader Batches(Reader samples, const DataReaderOptions& options) {
  if (options.prefetch == 0) Refuse("prefetch must be at least 1: one is made while one is used");
  return Batch(std::move(samples), {.size = options.batch_size,
                                    .drop_remainder = options.drop_remainder,
                                    .slots = options.prefetch + 1});
}

}  // namespace

Reader ParseSamples(Reader samples, std::shared_ptr<const SampleParser> parser) {
  if (parser == nullptr) Refuse("the parser is null");
  std::vector<FieldSpec> fields = parser->fields();
  const SampleParser& its_class = *parser;
  std::string name = TypeName(typeid(its_class)) + "::Parse";
  MapFunction parse = [parser = std::move(parser)](const MapInput& input, RowWriter& row) {
    const RecordSpan& record = input.record;
    parser->Parse({reinterpret_cast<const char*>(record.data), record.size}, row);
  };
  return Map(samples, std::move(fields), std::move(parse), {.name = std::move(name)});
}

DataReader::DataReader(Reader loader, std::shared_ptr<const SampleParser> parser,
                       const DataReaderOptions& options)
    : DataReader(ParseSamples(std::move(loader), std::move(parser)), options) {}

DataReader::DataReader(Reader samples, const DataReaderOptions& options)
    : batches_(Batches(std::move(samples), options)) {}

bool DataReader::Read(Instance* batch) {
  const ReadResult result = batches_.TryReadNext(batch);
  if (result == ReadResult::kFailed) throw Error(batches_.status());
  return result == ReadResult::kRecord;
}

void MultiThreadLoop(std::size_t count, const std::function<void(std::size_t index)>& function,
                     int threads) {
  if (threads < 0) Refuse("threads must not be negative; 0 takes one per core");
  if (threads == 0) threads = std::min(kMaxThreads, CountCpus().usable);
  const std::size_t ranges = std::min(count, static_cast<std::size_t>(threads));
  std::vector<std::exception_ptr> failures(ranges);
  const auto run = [&](std::size_t number) {
    const NumberRange range = BalancedRange(count, ranges, number);
    try {
      for (std::uint64_t i = range.begin; i < range.end; ++i) function(i);
    } catch (...) {
      failures[number] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t number = 1; number < ranges; ++number) {
      try {
        const SignalsBlocked blocked;
        others.emplace_back(run, number);
      } catch (const std::system_error&) {
        run(number);  // no more threads can be started: later rather than never
      }
    }
    if (ranges > 0) run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

}  // namespace ringfeed
