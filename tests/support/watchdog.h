#pragma once

namespace ringfeed {

/// Ends the process, loudly and by the test's name, where a test of this program runs for longer
/// than `seconds` (times ten under a sanitizer). Call it after InitGoogleTest.
void InstallWatchdog(int seconds);

}  // namespace ringfeed
