#pragma once

namespace ringfeed {

/// Ends the process by SIGALRM where a test of this program runs for longer than `seconds` (times
/// ten under a sanitizer); the last line that the framework printed names the test. Call it after
/// InitGoogleTest.
void InstallWatchdog(unsigned seconds);

}  // namespace ringfeed
