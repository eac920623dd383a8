#pragma once

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Makes every option of a number take it as written in decimal digits, or refuse it: without this
/// "010" would be eight, and "-1" the largest number of an option that has no sign. Call it after
/// all options of `app` and of its commands are declared.
void TakeNumbersAsWritten(CLI::App* app);

}  // namespace ringfeed::tools
