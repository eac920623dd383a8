#pragma once

#include <functional>
#include <string>

namespace ringfeed {

/// Which of several like processes this one is.
struct Rank {
  int rank = 0;  ///< from 0, over all machines
  int world_size = 1;
  int local_rank = 0;           ///< from 0, on this machine; -1: not known
  int local_world_size = 1;     ///< 0: not known
  std::string source = "none";  ///< the launcher: "torchrun", "Open MPI", …; or "none"
};

/// An environment variable by its name; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// The rank that a launcher left in the environment: torchrun (and Ray Train, DeepSpeed, Kubeflow),
/// Open MPI, a Slurm step, MPICH and Intel MPI (Hydra), MVAPICH2, JAX (JAX_PROCESS_ID and
/// JAX_NUM_PROCESSES), an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX, and WORLD_SIZE, which
/// you set to its completions). The first in this order with all its variables set counts, else the
/// first that has a rank and the number of ranks (as "env://" has it). Of two nested launchers the
/// inner one is the earlier. Without any, this is the only process.
///
/// Throws Error (kInvalidArgument) that names the variable if one is no number, if they
/// contradict each other, and if some name several processes but none names this one: to go on as
/// the only process would read everything several times.
Rank FindRank(const EnvironmentLookup& lookup);
/// FindRank of this process's environment.
Rank FindRank();

/// How many ranks work on the same data, by what they split in place of it: each layer (tensor),
/// the sequences (context), or the layers (pipeline).
struct ParallelGroups {
  int tensor = 1;
  int context = 1;
  int pipeline = 1;
};

/// The rank among those that get different data, for Batch and the others: all ranks that share a
/// tensor, a context or a pipeline group have the same. What it says of the machine stays that of
/// the process. `order` names the groups, "tp", "cp", "pp", and "dp" for the data, the one whose
/// ranks follow each other first: that of Megatron-LM is the default; in a device mesh of Torch the
/// last dimension comes first.
///
/// Throws Error (kInvalidArgument) if the groups do not divide the number of ranks, or `order` does
/// not name each of them once.
Rank DataRank(const Rank& rank, const ParallelGroups& groups,
              const std::string& order = "tp-cp-dp-pp");

/// Which of the devices that this process sees is its own: the only one, else the one of its local
/// rank. Throws Error (kInvalidArgument) if there are too few, or the local rank is not known.
int ChooseDevice(const Rank& rank, int visible_devices);

}  // namespace ringfeed
