#pragma once

#include <cstddef>
#include <string>

#include "bench/io_loop.h"

namespace ringfeed::bench {

/// Whether the program `fio` can be run here.
bool HasFio();

/// fio reading `path` from start to end with O_DIRECT through io_uring: one job, fixed buffers in
/// huge pages (explicit ones where the system has some set aside, else transparent ones by way of
/// malloc, aligned so that they fit). The time is what fio reports for its job, without its start.
IoFigures RunFio(const std::string& path, std::size_t block_bytes, std::size_t blocks_in_flight);

}  // namespace ringfeed::bench
