#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/compat/program.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/ringfeed.h"

// What the pieces of programs in the documents take for granted: page_pieces.py makes functions of
// them.

/// How often a piece trained.
inline int train_steps = 0;

/// "Yours", in the pages.
template <typename... Parts>
double TrainStep(const Parts&...) {
  return ++train_steps;
}

/// The program of docs/PROGRAMS.md.
extern const char kProgramOfThePage[];

void Train(const ringfeed::Reader& batches, const std::string& kind);
void TrainFrom(const ringfeed::Reader& records,
               const std::shared_ptr<const ringfeed::Parser>& parser, std::string saved,
               ringfeed::Instance batch);
void PackOnRanks();
void RunProgram();
void RegisterWindowReader();
void OpenTuned(const std::vector<std::string>& files);
