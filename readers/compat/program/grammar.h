#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace ringfeed {

/// The language of programs as Protobuf's descriptors. They are made at run time, since every
/// registered reader is an operation of the startup, with its attributes as fields. So Protobuf's
/// own parser knows all readers, also the user's.
class Grammar {
 public:
  /// Of the readers that are registered now.
  Grammar();

  /// The message of a program. Valid as long as this object.
  const google::protobuf::Descriptor* program() const { return program_; }
  /// The message of that full name; null if there is none.
  const google::protobuf::Descriptor* Find(const std::string& name) const {
    return pool_.FindMessageTypeByName(name);
  }
  /// As a .proto file.
  std::string ProtoText() const { return program_->file()->DebugString(); }

 private:
  google::protobuf::DescriptorPool pool_;
  const google::protobuf::Descriptor* program_ = nullptr;
};

}  // namespace ringfeed
