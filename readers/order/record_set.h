#pragma once
#include "readers/order/row_layout.h"
namespace ringfeed {
class RecordSet : public RowLayout {};
}  // namespace ringfeed
