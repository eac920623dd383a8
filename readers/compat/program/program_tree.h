#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ringfeed/compat/registry.h"

namespace ringfeed {

/// A program's text, taken apart: the structs below are the messages of its grammar. Names in them
/// are those of variables, or of functions and readers if it says so.

/// One reader that the startup creates.
struct Creation {
  std::string place;   ///< "FILE:LINE:COLUMN: KIND"
  std::string reader;  ///< its kind, as registered
  std::string name;
  std::vector<std::string> inputs;
  Attributes attributes;
};

struct Step;

struct ReadStep {
  std::string reader;
  std::vector<std::string> outputs;  ///< a tensor each
};
struct HasNextStep {
  std::string reader;
  std::string output;
};
struct ResetStep {
  std::string reader;
};
/// Up to so many instances; the variable is a std::vector<Instance>.
struct ReadRecordIoStep {
  std::string reader;
  std::int64_t count = 1;
  std::string output;
};
struct CloseReaderStep {
  std::string reader;
};
struct WhileStep {
  std::string condition;
  std::vector<Step> body;
};
struct IfElseStep {
  std::string condition;
  std::vector<Step> then_steps;
  std::vector<Step> else_steps;
};
struct FillConstantStep {
  std::string output;
  std::int64_t value = 0;
};
struct IncreaseStep {
  std::string counter;
  std::int64_t by = 1;
};
/// output = x < y, or x < value if there is no y.
struct LessThanStep {
  std::string x;
  std::optional<std::string> y;
  std::int64_t value = 0;
  std::string output;
};
struct CallStep {
  std::string function;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

/// One operation of main.
struct Step {
  using Kind =
      std::variant<ReadStep, HasNextStep, ResetStep, WhileStep, IfElseStep, FillConstantStep,
                   IncreaseStep, LessThanStep, CallStep, ReadRecordIoStep, CloseReaderStep>;
  std::string place;  ///< "FILE:LINE:COLUMN: OPERATION"
  Kind kind;
};

struct ProgramTree {
  std::vector<Creation> startup;
  std::vector<Step> main;
};

/// Takes the text of a program apart. Throws Error(kInvalidArgument) if it is none: the message
/// begins with NAME:LINE:COLUMN and names the field, what was expected and what was found.
ProgramTree ParseProgram(const std::string& text, const std::string& name);

}  // namespace ringfeed
