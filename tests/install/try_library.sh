#!/bin/sh
# Builds programs with the installed library and runs them, in an empty folder: README.md's first program
# with README.md's lines of CMake, and tests/consumer by find_package and by pkg-config.
#
# try_library.sh VERSION; README.md and consumer are beside this folder.
set -eu
try=$(cd "$(dirname "$0")/.." && pwd)

# block LANGUAGE: the first program in README.md.
block() {
  sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/!p;/^\`\`\`\$/q}" "$try/README.md"
}

mkdir readme
block cpp >readme/train.cc
cat >readme/train_step.cc <<'EOF'
#include <ringfeed/tensor.h>

#include <cstdint>
#include <cstdio>

void TrainStep(const ringfeed::Tensor& images, const ringfeed::Tensor& labels) {
  std::printf("%zu labels, %zu bytes\n", labels.Values<std::int64_t>().size(), images.Values<std::uint8_t>().size());
}
EOF
{
  echo 'cmake_minimum_required(VERSION 3.25)'
  echo 'project(train LANGUAGES CXX)'
  echo 'add_executable(train train.cc train_step.cc)'
  block cmake
} >readme/CMakeLists.txt
cmake -S readme -B readme/build -G Ninja
cmake --build readme/build
ringfeed make data --kind image --bytes 10MiB
for file in data/*; do
  ln -s "$file" "train-$(basename "$file")"
done
ls
readme/build/train | grep ' labels, '
if ldd readme/build/train | grep -E 'protobuf|mimalloc'; then
  exit 1
fi

for with in cmake pkg-config; do
  cmake -S "$try/consumer" -B "$with" -G Ninja -D WITH="$with" -D VERSION="${1%.*}"
  cmake --build "$with"
  "$with/consumer"
done
