#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "ringfeed/device_backend.h"

namespace ringfeed {

/// Hands each call on to another backend: tests change single ones.
class ForwardingBackend : public DeviceBackend {
 public:
  explicit ForwardingBackend(std::shared_ptr<DeviceBackend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  int DeviceCount() const override { return inner_->DeviceCount(); }
  Status Info(int device, DeviceInfo* info) override { return inner_->Info(device, info); }
  Status BindThread(int device) override { return inner_->BindThread(device); }
  Status RegisterHost(std::byte* data, std::size_t bytes) override {
    return inner_->RegisterHost(data, bytes);
  }
  const void* Registrations() const override { return inner_->Registrations(); }
  Status UnregisterHost(std::byte* data) override { return inner_->UnregisterHost(data); }
  Status AllocDevice(int device, std::size_t bytes, std::byte** data) override {
    return inner_->AllocDevice(device, bytes, data);
  }
  Status FreeDevice(int device, std::byte* data) override {
    return inner_->FreeDevice(device, data);
  }
  Status CreateStream(int device, StreamPriority priority, DeviceStream* stream) override {
    return inner_->CreateStream(device, priority, stream);
  }
  Status LoadKernels(int device) override { return inner_->LoadKernels(device); }
  Status DestroyStream(DeviceStream stream) override { return inner_->DestroyStream(stream); }
  Status CreateEvent(int device, EventKind kind, DeviceEvent* event) override {
    return inner_->CreateEvent(device, kind, event);
  }
  Status DestroyEvent(DeviceEvent event) override { return inner_->DestroyEvent(event); }
  Status Record(DeviceEvent event, DeviceStream stream) override {
    return inner_->Record(event, stream);
  }
  Status RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) override {
    return inner_->RecordUnlessCaptured(event, stream, captured);
  }
  Status StreamWait(DeviceStream stream, DeviceEvent event) override {
    return inner_->StreamWait(stream, event);
  }
  bool IsCapturing(DeviceStream stream) override { return inner_->IsCapturing(stream); }
  int DeviceOfStream(DeviceStream stream) override { return inner_->DeviceOfStream(stream); }
  Status Query(DeviceEvent event, bool* done) override { return inner_->Query(event, done); }
  Status CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                      std::size_t bytes) override {
    return inner_->CopyToDevice(stream, to, from, bytes);
  }
  Status CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) override {
    return inner_->CopyBatchToDevice(stream, pieces);
  }
  Status CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                    std::size_t bytes) override {
    return inner_->CopyToHost(stream, to, from, bytes);
  }
  Status Fill(DeviceStream stream, std::byte* data, std::byte value, std::size_t bytes) override {
    return inner_->Fill(stream, data, value, bytes);
  }
  Status Launch(DeviceStream stream, const DeviceKernel& kernel) override {
    return inner_->Launch(stream, kernel);
  }
  Status Busy(DeviceStream stream, std::int64_t nanos) override {
    return inner_->Busy(stream, nanos);
  }
  Status SyncEvent(DeviceEvent event) override { return inner_->SyncEvent(event); }
  Status SyncStream(DeviceStream stream) override { return inner_->SyncStream(stream); }
  Status Elapsed(DeviceEvent begin, DeviceEvent end, double* ms) override {
    return inner_->Elapsed(begin, end, ms);
  }
  Status DeviceStatus(int device) override { return inner_->DeviceStatus(device); }
  BackendCounters Counters() const override { return inner_->Counters(); }
  std::int64_t NowNanos() const override { return inner_->NowNanos(); }
  void Idle(std::int64_t until_ns) override { inner_->Idle(until_ns); }
  void NoteHostRead(const std::byte* data, std::size_t bytes, const char* what) override {
    inner_->NoteHostRead(data, bytes, what);
  }
  void NoteHostWrite(const std::byte* data, std::size_t bytes, const char* what) override {
    inner_->NoteHostWrite(data, bytes, what);
  }
  void NoteHandOver(const void* token) override { inner_->NoteHandOver(token); }
  void NoteTakeOver(const void* token) override { inner_->NoteTakeOver(token); }
  void BeginRange(const char* name) override { inner_->BeginRange(name); }
  void EndRange() override { inner_->EndRange(); }

 private:
  const std::shared_ptr<DeviceBackend> inner_;
};

}  // namespace ringfeed
