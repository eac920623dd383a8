#pragma once

/// @file
/// @details Everything that a training loop needs: write, open, parse, shuffle, batch, read,
/// resume, feed to devices; readers, samples and tensors of your own. docs/HEADERS.md lists all
/// other headers, by task.

#include "ringfeed/arena.h"
#include "ringfeed/data_balance.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/export/shared_lease.h"
#include "ringfeed/formats.h"
#include "ringfeed/instance.h"
#include "ringfeed/journal.h"
#include "ringfeed/parsers.h"
#include "ringfeed/ranks.h"
#include "ringfeed/reader.h"
#include "ringfeed/sequences.h"
#include "ringfeed/source.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"
