#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace ringfeed {

/// What protoc makes of program.proto: a FileDescriptorSet.
std::string_view ProgramDescriptors();

/// The language of programs: program.proto, and the readers. Those are added at run time, since
/// each one that is registered is an operation of the startup, with its attributes as fields. So
/// Protobuf's own parser knows all readers, also the user's. Nothing is in Protobuf's own pool,
/// which ends a process that has two of a name: two shared objects may each link this.
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
