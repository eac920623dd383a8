#pragma once

/// Everything that a training loop needs: open, parse, shuffle, batch, read.

#include "ringfeed/arena.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/source.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"
