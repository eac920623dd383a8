#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/compat/registry.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/stats.h"

namespace ringfeed {

/// A program in Protobuf's text format: a startup that creates readers by name, and a main that
/// reads, loops and calls functions of the user's (docs/PROGRAMS.md has the language). Errors of
/// the text and of what it does begin with "FILE:LINE:COLUMN: OPERATION", or with the field. One
/// thread at a time; several programs may share a scope.
class FeedProgram {
 public:
  /// What `call` calls: the names of the variables that it takes and that it is to set.
  using Function = std::function<void(Scope* scope, const std::vector<std::string>& inputs,
                                      const std::vector<std::string>& outputs)>;

  /// The program of a file. It may create what is registered by now (RegisterReader). Throws Error:
  /// kInvalidArgument if the text is no program, and what opening the file gives.
  static FeedProgram Load(const std::string& path);
  /// The program of a text, as Load; errors call it `name`.
  static FeedProgram FromText(const std::string& text, const std::string& name);
  /// The language as a .proto file, with the readers that are registered by now.
  static std::string Grammar();

  FeedProgram(FeedProgram&&) noexcept;
  FeedProgram& operator=(FeedProgram&&) noexcept;
  ~FeedProgram();

  /// Gives this program the function `name`. Throws Error if it has one of that name.
  void RegisterFunction(const std::string& name, Function function);

  /// Creates the startup's readers that `scope` does not hold yet, as ReaderHolders; the others
  /// stay as they are. Nothing is read. Throws Error at the first that cannot be created.
  void RunStartup(Scope* scope);
  /// Runs main on the variables of `scope`, on this thread. Before anything runs it checks that the
  /// readers and functions are there and that each variable is set before it is used. Throws
  /// EndOfData if `read` finds no more, Error on failures; what a function throws otherwise
  /// passes as it is. `tick`, if there is one, is called on this thread about every 50 ms, between
  /// steps and while one waits for a reader's data; what it throws ends the run in the same way.
  void RunMain(Scope* scope, const std::function<void()>& tick = {});

  /// What the readers that `close_reader` closed had met, in the order of closing.
  const std::vector<PipelineStats>& closed_readers() const;

 private:
  struct Parts;
  explicit FeedProgram(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ringfeed
