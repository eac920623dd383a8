#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// A reader that you write for files of a format of your own. It is bound to one file, declares the
/// shapes of its instances and overrides ReadNextImpl. FromInstanceSource makes a Reader of one;
/// RegisterFormat makes OpenFiles read such files. One thread of ringfeed's calls it at a time.
class FileReader : public InstanceSource {
 public:
  FileReader(std::string path, std::vector<SlotSpec> slots)
      : path_(std::move(path)), slots_(std::move(slots)) {}

  const std::string& path() const { return path_; }
  std::vector<SlotSpec> slots() const final { return slots_; }
  bool Ready() const override { return true; }
  /// Calls ReadNextImpl and checks what it made: number of tensors, dtype, rank, dimensions, LoD. A
  /// failure names the file, the instance's number, the slot, what was expected and what was found.
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) final;
  /// Starts again at the file's first instance.
  bool ReInit() final;

 protected:
  /// Fills `instance`, which is empty, with a tensor per slot, which owns its memory (MakeTensor
  /// makes such); false at the end of the file. May block. What it throws becomes the stream's
  /// failure, after the instances before it.
  virtual bool ReadNextImpl(Instance* instance) = 0;
  /// Goes back to the file's start; false if that cannot be done.
  virtual bool ReInitImpl() { return false; }

 private:
  const std::string path_;
  const std::vector<SlotSpec> slots_;
  std::int64_t read_ = 0;
};

/// Makes the reader of a file, which delivers instances of `slots`. If the file cannot be read,
/// throws the reason that the user gets.
using FileReaderFactory = std::function<std::unique_ptr<FileReader>(
    const std::string& path, const std::vector<SlotSpec>& slots)>;

/// Makes files of a format of the user's own readable by OpenFiles, which then needs
/// OpenOptions::slots: each file by a reader of its own, the files of a list by several threads. A
/// file is one turn of the order. It is of this format if OpenOptions::format is `tag`, if
/// its name ends in ".tag", or its last part begins with "tag-" or "tag_", or, if no name says
/// anything, its first bytes are `magic` (if that is not empty). Thread safe. Throws Error if
/// there is such a tag already, or it is none ([a-z0-9_]+).
void RegisterFormat(const std::string& tag, FileReaderFactory factory,
                    const std::string& magic = {});

}  // namespace ringfeed
