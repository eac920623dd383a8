#pragma once

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Sees to it that every option of a number takes it as it is written in decimal digits, or refuses
/// it: without this "010" would be eight, and "-1" the largest number of an option that has no
/// sign. To be called once all options of `app` and of its commands are declared.
void TakeNumbersAsWritten(CLI::App* app);

}  // namespace ringfeed::tools
