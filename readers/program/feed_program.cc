#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readers/program/grammar.h"
#include "readers/program/program_check.h"
#include "readers/program/program_run.h"
#include "readers/program/program_text.h"
#include "readers/program/program_tree.h"
#include "ringfeed/compat/program.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

std::string TextOfFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  if (file == nullptr) throw Error(StatusFromErrno(errno, "open the program " + path));
  std::string text;
  std::array<char, 4096> some;
  while (const std::size_t bytes = std::fread(some.data(), 1, some.size(), file.get())) {
    text.append(some.data(), bytes);
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(StatusFromErrno(errno, "read the program " + path));
  }
  return text;
}

}  // namespace

struct FeedProgram::Parts {
  ProgramTree tree;
  ProgramFunctions functions;
  std::vector<PipelineStats> closed;
};

FeedProgram::FeedProgram(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
FeedProgram::FeedProgram(FeedProgram&&) noexcept = default;
FeedProgram& FeedProgram::operator=(FeedProgram&&) noexcept = default;
FeedProgram::~FeedProgram() = default;

FeedProgram FeedProgram::Load(const std::string& path) { return FromText(TextOfFile(path), path); }

FeedProgram FeedProgram::FromText(const std::string& text, const std::string& name) {
  auto parts = std::make_unique<Parts>();
  parts->tree = ParseProgram(text, name);
  return FeedProgram(std::move(parts));
}

std::string FeedProgram::Grammar() { return ringfeed::Grammar().ProtoText(); }

void FeedProgram::RegisterFunction(const std::string& name, Function function) {
  if (!function) {
    throw Error(Status(StatusCode::kInvalidArgument, "the function \"" + name + "\" is empty"));
  }
  if (!parts_->functions.emplace(name, std::move(function)).second) {
    throw Error(Status(StatusCode::kInvalidArgument,
                       "the program has a function \"" + name + "\" already"));
  }
}

void FeedProgram::RunStartup(Scope* scope) { ringfeed::RunStartup(parts_->tree, scope); }

void FeedProgram::RunMain(Scope* scope) {
  CheckMain(parts_->tree, *scope,
            [this](const std::string& name) { return parts_->functions.contains(name); });
  ringfeed::RunMain(parts_->tree, parts_->functions, scope, &parts_->closed);
}

const std::vector<PipelineStats>& FeedProgram::closed_readers() const { return parts_->closed; }

}  // namespace ringfeed
