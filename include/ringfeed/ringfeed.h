#pragma once

/// Everything that a training loop needs: open, parse, shuffle, batch, read, feed to devices; data
/// sets of one's own.

#include "ringfeed/arena.h"
#include "ringfeed/data_reader.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/journal.h"
#include "ringfeed/parsers.h"
#include "ringfeed/part_files.h"
#include "ringfeed/persistent_in_stream.h"
#include "ringfeed/reader.h"
#include "ringfeed/sequences.h"
#include "ringfeed/shared_lease.h"
#include "ringfeed/source.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"
