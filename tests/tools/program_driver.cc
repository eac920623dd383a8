// The graph of run_test.py's program, built by calls: prints what its digest is.
//
// program_driver FILE…: batches of 7 raw records, shuffled, two passes.

#include <cstdio>
#include <string>
#include <vector>

#include "ringfeed/ringfeed.h"
#include "tools/digests.h"

int main(int argc, char** argv) {
  using namespace ringfeed;
  const std::vector<std::string> files(argv + 1, argv + argc);
  const Reader records = MultiPass(OpenFiles(files, {.cycle = 2, .stripe_bytes = 4096}), 2);
  const Reader samples = Parse(records, RawParser());
  Reader batches = Batch(Shuffle(samples, {.block = 16, .seed = 5}), {.size = 7});
  tools::RecordDigest digest;
  while (batches.HasNext()) {
    const Instance batch = batches.ReadNext();
    digest.Add({batch[0].data, batch[0].bytes});
    digest.Add(std::as_bytes(batch[0].lod[0]));
  }
  std::puts(tools::HexText(digest.FinishSequence()).c_str());
}
