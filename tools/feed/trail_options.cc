#include "tools/feed/trail_options.h"

#include <CLI/CLI.hpp>

namespace ringfeed::tools {

void AddTrailOptions(CLI::App* app, TrailOptions* options) {
  app->add_option("--max-batches", options->max_batches,
                  "end after so many batches (all ranks alike); 0: at the end of the data")
      ->capture_default_str();
  app->add_option("--position-in", options->position_in,
                  "go on behind the position in this file, saved by any number of ranks")
      ->type_name("FILE");
  CLI::Option* const out =
      app->add_option("--position-out", options->position_out,
                      "save the position behind what was delivered at the end, at once or not at "
                      "all, in a regular file; a link is followed")
          ->type_name("FILE");
  app->add_option("--position-every", options->position_every,
                  "and behind every batch whose number from 1 is a multiple of this")
      ->check(CLI::PositiveNumber.description(""))
      ->needs(out);
  app->add_option("--journal", options->journal,
                  "append which records each batch had, for `ringfeed audit`; a file for each "
                  "rank, for all of its runs")
      ->type_name("FILE");
}

}  // namespace ringfeed::tools
