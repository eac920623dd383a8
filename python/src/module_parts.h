#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

// The parts of the module that only core_module.cc binds, in the order in which it does.

/// Reader, and the functions that make one: open_files and the decorators.
void BindReaders(nanobind::module_& module);
/// Decorators that call the user's functions, and those of ragged fields.
void BindDecorators(nanobind::module_& module);
/// `jpeg_parser`, in a build with ringfeed::jpeg; after BindParsers.
void BindJpeg(nanobind::module_& module);
/// `DeviceFeed` and `device_feed`, which makes one of a chain of readers; after BindReaders.
void BindDeviceFeed(nanobind::module_& module);
/// from_dataset and map_python: data sets and functions of rows that are Python objects.
void BindUserSources(nanobind::module_& module);
/// `create_reader`: readers by the names and attributes that programs have for them.
void BindRegisteredReaders(nanobind::module_& module);
/// FeedProgram: programs as texts.
void BindPrograms(nanobind::module_& module);
/// `build_example` and the other functions that make a record's bytes of Python's values.
void BindRecordBuilders(nanobind::module_& module);
/// ArrowBatch and `arrow_stream`: batches for Arrow's libraries.
void BindArrow(nanobind::module_& module);
/// `open_table`: tables that Arrow's libraries hold, or open group by group.
void BindTables(nanobind::module_& module);
/// JournalWriter, the file of ringfeed.Journal.
void BindJournal(nanobind::module_& module);
/// The iterators of the package's classes: LoaderNext, LoopNext, PyReaderNext. They are native
/// because no Python step may come between taking a batch and giving it to the loop: Ctrl-C would
/// lose it there.
void BindLoops(nanobind::module_& module);
/// Makes calls of the module's functions and methods with arguments that fit no signature fail with
/// the text of ringfeed.signatures, in place of nanobind's list of types. A function whose argument
/// turns out to be of another type throws nb::next_overload for the same text. Call it once, after
/// all bindings.
void TellRefusedCalls(const nanobind::module_& module);

}  // namespace ringfeed::python
