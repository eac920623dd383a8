#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// A reader that the user writes for files of a format of their own: bound to one file, it declares
/// the shapes of its instances and overrides ReadNextImpl. FromInstanceSource makes a Reader of
/// one; RegisterFormat makes OpenFiles read such files. Called by one thread of ringfeed's.
class FileReader : public InstanceSource {
 public:
  FileReader(std::string path, std::vector<SlotSpec> slots)
      : path_(std::move(path)), slots_(std::move(slots)) {}

  const std::string& path() const { return path_; }
  std::vector<SlotSpec> slots() const final { return slots_; }
  bool Ready() const override { return true; }
  /// Checks what ReadNextImpl made: number of tensors, dtype, rank and dimensions, LoD. An error
  /// names the file, the instance's number, the slot, what was expected and what was found.
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) final;
  /// Starts again at the file's first instance.
  bool ReInit() final;

 protected:
  /// Fills `instance`, which is empty, with a tensor per slot, which owns its memory; false at the
  /// end of the file. What it throws becomes the stream's failure behind the instances before it.
  virtual bool ReadNextImpl(Instance* instance) = 0;
  /// Goes back to the file's start; false where that cannot be done.
  virtual bool ReInitImpl() { return false; }

 private:
  const std::string path_;
  const std::vector<SlotSpec> slots_;
  std::int64_t read_ = 0;
};

/// Makes the reader of a file, which delivers instances of `slots`. Throws what the user gets as
/// the reason why the file cannot be read.
using FileReaderFactory = std::function<std::unique_ptr<FileReader>(
    const std::string& path, const std::vector<SlotSpec>& slots)>;

/// Makes files of a format of the user's own readable by OpenFiles, which then needs
/// OpenOptions::slots: each file by a reader of its own, the files of a list by several threads. A
/// file is one turn of the order. It is of this format where OpenOptions::format is `tag`, where
/// its name ends in ".tag", or its last part begins with "tag-" or "tag_", or, where no name says
/// anything, its first bytes are `magic` (if that is not empty). Thread safe. Throws Error where
/// there is such a tag already, or it is none ([a-z0-9_]+).
void RegisterFormat(const std::string& tag, FileReaderFactory factory,
                    const std::string& magic = {});

}  // namespace ringfeed
