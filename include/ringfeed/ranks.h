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
  std::string source = "none";  ///< who said so: "torchrun", "Open MPI", …; "none": nobody did
};

/// An environment variable by its name; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// The rank that a launcher left in the environment: of torchrun (and Ray Train, DeepSpeed), Open
/// MPI, a Slurm step, MPICH and Intel MPI (Hydra), MVAPICH2, the first in this order whose
/// variables are all there, else the first that says a rank and of how many (as "env://" has it).
/// The launcher inside of the other is the earlier one. Without any it is the only process.
///
/// Throws Error (kInvalidArgument) that names the variable if one is no number, if they
/// contradict each other, and if some speak of several processes but none says which this is:
/// going on as the only process would read everything several times.
Rank FindRank(const EnvironmentLookup& lookup);
/// FindRank of this process's environment.
Rank FindRank();

/// Which of the devices that this process sees is its own: the only one, else the one of its local
/// rank. Throws Error (kInvalidArgument) if there are too few, or that is not known.
int ChooseDevice(const Rank& rank, int visible_devices);

}  // namespace ringfeed
