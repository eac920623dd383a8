#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "io/remote/remote_source.h"
#include "ringfeed/open_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The most names that one pattern may give.
inline constexpr std::size_t kMostPatternNames = 1'000'000;

/// Appends the files that `pattern` names:
///   - a file of that very name: that alone, whatever is in the name;
///   - a folder of that very name: all files in it and in the folders in it, sorted, but none that
///     is hidden, or in a hidden folder (".name"), as an index beside its file is, and none that is
///     another program's index of a file there ("a.tar.idx", "a.tar.index"); at least one;
///   - the table of a data set (FindDataSet), or its folder: the files that it names, in its order;
///     a table among others that a folder or a pattern gives, too, unless its files are there;
///   - "*", "?", "[…]": what matches, sorted; at least one file;
///   - "{000..003}", "{0..10..5}", "{a,b}": each of these, in this order, as a shell does: with
///     the zeros that one of the ends has, down if the first number is larger, one inside another.
///     What a shell leaves alone ("{a}", "{}") stays as it is. Files whose names have these braces
///     come first, and then alone.
/// A name without any of these names itself, whether the file exists or not.
///
/// kNotFound: nothing matches. kIoError, kPermissionDenied: a folder cannot be read.
/// An address of a store's object or objects: see ExpandAddress (io/remote/remote_source.h); of a
/// data set's table, or of its folder with a last "/": the objects that the table names.
///
/// kInvalidArgument: more than kMostPatternNames. kUnsupported: an address of another scheme
/// (RefuseAddress). Nothing is appended then.
Status ExpandPattern(const std::string& pattern, std::vector<std::string>* names);

/// The same, with what is read in place of each file: null for a file, the object of a store. Of
/// objects that were listed the state is known.
struct ExpandedFiles {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Source>> sources;
  bool any_remote = false;
};
Status ExpandPattern(const std::string& pattern,
                     const std::shared_ptr<const RemoteReading>& reading, ExpandedFiles* files);

/// What the names stand for, with the cache of `options`. Throws Error: also for a stream.
ExpandedFiles ExpandNames(const std::vector<std::string>& names, const OpenOptions& options);

}  // namespace ringfeed
