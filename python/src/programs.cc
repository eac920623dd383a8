#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fork_guard.h"
#include "gil.h"
#include "held_object.h"
#include "module_parts.h"
#include "program_scope.h"
#include "ringfeed/compat/program.h"
#include "stats_dict.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

class ProgramHandle {
 public:
  ProgramHandle(const std::string& text, const std::string& name)
      : program_(std::make_shared<FeedProgram>(FeedProgram::FromText(text, name))) {}

  void RegisterFunction(const std::string& name, nb::handle function) {
    const Turn turn(this);
    auto held = Hold(function);
    program_.Get().RegisterFunction(
        name, [held, this](Scope*, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
          CallUser(*keeper_, [&] { held->Get()(scope_, inputs, outputs); });
        });
  }

  void RunStartup(nb::handle scope) {
    Run(scope, [&](Scope* s) { program_.Get().RunStartup(s); });
  }

  void RunMain(nb::handle scope) {
    // A signal handler may raise.
    const auto look_at_signals = [this] {
      CallUser(*keeper_, [] {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      });
    };
    Run(scope, [&](Scope* s) { program_.Get().RunMain(s, look_at_signals); });
  }

  nb::list ClosedReaders() {
    const Turn turn(this);
    nb::list reports;
    for (const PipelineStats& stats : program_.Get().closed_readers()) {
      reports.append(StatsDict(stats));
    }
    return reports;
  }

 private:
  // One call at a time, by one thread.
  class Turn {
   public:
    explicit Turn(ProgramHandle* program) : program_(program) {
      const std::scoped_lock lock(program->mutex_);
      if (std::exchange(program->running_, true)) {
        throw std::runtime_error("the program runs: wait until that is over");
      }
    }
    ~Turn() {
      const std::scoped_lock lock(program_->mutex_);
      program_->running_ = false;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ProgramHandle* const program_;
  };

  template <typename Function>
  void Run(nb::handle scope, Function&& function) {
    const Turn turn(this);
    const ScopeHandle* handle = nullptr;
    if (!nb::try_cast(scope, handle) || handle == nullptr) {
      throw nb::type_error("a program runs on the variables of a Scope");
    }
    Scope& variables = handle->scope();
    keeper_->Forget();
    scope_ = nb::borrow(scope);
    Status failure;
    bool at_end = false;
    std::string end;
    try {
      const GilReleased unlocked;
      function(&variables);
    } catch (const EndOfData& thrown) {
      at_end = true;
      end = thrown.what();
    } catch (const Error& thrown) {
      failure = thrown.status();
    }
    scope_.reset();
    if (at_end) {
      PyErr_SetString(PyExc_EOFError, end.c_str());
      throw nb::python_error();
    }
    if (failure.ok()) return;
    if (failure.code() == StatusCode::kUserError) {
      keeper_->RaiseAgain(failure);
      handle->RaiseThrown(failure);
    }
    Raise(failure);
  }

  OwnedHere<FeedProgram> program_;
  std::shared_ptr<ThrownKeeper> keeper_ = std::make_shared<ThrownKeeper>();
  nb::object scope_;  // of the running run
  std::mutex mutex_;
  bool running_ = false;
};

}  // namespace

void BindPrograms(nb::module_& module) {
  nb::class_<ProgramHandle>(module, "FeedProgram",
                            "A program as a text: a startup that creates readers, and a main that "
                            "reads, loops and calls Python's functions. One call at a time.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("text"), nb::arg("name"))
      .def_static("grammar", &FeedProgram::Grammar,
                  "The language as a .proto file, with the readers that are registered.")
      .def("register_function", &ProgramHandle::RegisterFunction, nb::arg("name"),
           nb::arg("function"),
           nb::sig("def register_function(self, name: str, function: typing.Any) -> None"))
      .def("run_startup", &ProgramHandle::RunStartup, nb::arg("scope"),
           nb::sig("def run_startup(self, scope: Scope) -> None"),
           "Creates the readers of the startup that the scope does not hold yet. Nothing is read. "
           "Raises an Error, with file, line and operation, at the first that cannot be created.")
      .def("run_main", &ProgramHandle::RunMain, nb::arg("scope"),
           nb::sig("def run_main(self, scope: Scope) -> None"),
           "Runs main on this thread, which waits without Python's lock; Ctrl-C ends that. Raises "
           "an Error with file, line and operation, before anything runs if readers, functions "
           "or variables are missing; EOFError if `read` finds no more; what a function raised.")
      .def("closed_readers", &ProgramHandle::ClosedReaders,
           nb::sig("def closed_readers(self) -> list[dict[str, typing.Any]]"),
           "The stats of each reader that `close_reader` closed, in that order.");
}

}  // namespace ringfeed::python
