// What a user's first program does with an installed ringfeed: include its headers, call into it.

#include <ringfeed/status.h>
#include <ringfeed/tensor.h>

#include <cstdio>

int main() {
  const ringfeed::Status status(ringfeed::StatusCode::kDamaged, "checksum", {"a.tfrecord", 12, 3});
  if (status.ToString() != "damaged: a.tfrecord: offset 12: record 3: checksum") return 1;
  if (ringfeed::DTypeBytes(ringfeed::kInt64) != 8) return 1;
  std::puts("ringfeed is installed");
  return 0;
}
