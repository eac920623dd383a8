#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A kind of devices, and whether it can be used here.
struct DeviceKindStatus {
  std::string name;  ///< "cuda", "emu"
  Status status;     ///< why it cannot be used, in words that its user can act on
  int devices = 0;   ///< that there are; of emulated ones any number can be made, this is 0
};

/// Opens the devices of a kind. `argument` is the text after the name and a colon, or empty. Throws
/// Error if it cannot.
using DeviceOpener = std::function<std::shared_ptr<DeviceBackend>(const std::string& argument)>;
/// Whether the kind can be used here, and how many devices there are. Does not throw.
using DeviceProbe = std::function<Status(int* devices)>;

/// Makes a kind of devices known under a name (letters, digits, "_"), for OpenDevices and
/// DeviceKinds. Throws Error(kInvalidArgument) for other names and for one that is taken; "emu" is
/// there from the start, and "auto" is none. Thread safe, as all functions here.
void RegisterDeviceKind(const std::string& name, DeviceOpener opener, DeviceProbe probe);

/// All kinds by name, probed now. "cuda" is among them in any case: if it is not registered
/// (UseCuda in cuda_devices.h does that) its status says what is missing. Probing CUDA for the
/// first time loads its driver.
std::vector<DeviceKindStatus> DeviceKinds();

/// Opens devices by a text, as an option of a command has it: "cuda", "emu" (one emulated device),
/// "emu:N". Throws Error: kNotFound for a kind that is not known, naming those that are,
/// kInvalidArgument for an argument that makes no sense, else with what the kind says. It never
/// opens other devices instead: if CUDA cannot be used, "cuda" is an error.
std::shared_ptr<DeviceBackend> OpenDevices(const std::string& kind);

/// The kind of a device, from its backend's name and its own: "emu", "cuda: NVIDIA H200". A tuning
/// for one kind (Tuning::devices) says little about another. The backend's name alone if the device
/// does not tell. Thread safe; as DeviceBackend::Info it may wait for the driver.
std::string DeviceKindOf(DeviceBackend& backend, int device);

/// What OpenAutoDevices took.
struct AutoDevices {
  std::shared_ptr<DeviceBackend> backend;
  std::string reason;  ///< for the user's eyes: which devices, and why not CUDA's
  bool emulated = false;
};
/// CUDA's devices if they can be used here, else `emulated` emulated ones: for programs that are to
/// run anywhere. A run on emulated devices is a trial, so show `reason`. Throws Error as
/// OpenDevices does.
AutoDevices OpenAutoDevices(int emulated = 2);

}  // namespace ringfeed
