#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ringfeed {

/// Which of several like processes this one is.
struct Rank {
  int rank = 0;  ///< from 0, over all machines
  int world_size = 1;
  int local_rank = 0;           ///< from 0, on this machine; -1: not known
  int local_world_size = 1;     ///< 0: not known
  std::string source = "none";  ///< the launcher: "torchrun", "Open MPI", …; or "none"
  int replica = 0;              ///< among those that get the same data (DataRank), from 0
  int replicas = 1;             ///< how many those are
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
/// tensor, a context or a pipeline group have the same, and differ by `replica`. What it says of
/// the machine stays that of the process. `order` names the groups, "tp", "cp", "pp", and "dp" for
/// the data, the one whose ranks follow each other first: that of Megatron-LM is the default; in a
/// device mesh of Torch the last dimension comes first.
///
/// Throws Error (kInvalidArgument) if the groups do not divide the number of ranks, or `order` does
/// not name each of them once.
Rank DataRank(const Rank& rank, const ParallelGroups& groups,
              const std::string& order = "tp-cp-dp-pp");

/// What is done with the shares of a pass that fill no step: see StepOptions.
enum class Rest : std::uint8_t {
  kShort,  ///< a step of fewer shares
  kDrop,   ///< none: they are not read, and come in no batch of the pass
  /// A step that is filled up with empty shares. Every batch then has all its rows, on every rank
  /// as many, and a last field "mask" (uint8, one per row): 0 for rows without a record, else 1.
  kPad,
  /// As kPad, but filled up with the first shares of the pass, again: they have 0 in "mask", and a
  /// journal does not note them. They are read, counted as records, and met if damaged, once more.
  /// (Ranks that do not divide a step's shares still get an empty one.) Not of a mixture.
  kRepeat,
};

/// Splits a step so that all ranks have as much work. A record of u units costs linear * u + square
/// * u * u, a share the sum of its records: {24576, 1} is a transformer of 7 billion parameters, in
/// which attention costs the square.
struct Balance {
  std::uint64_t linear = 1;
  std::uint64_t square = 0;
  /// Exchanges shares among so many steps, so that the shares of a step cost alike. For ranks with
  /// one row each, which a split cannot balance. Costs randomness: of so many steps, records of one
  /// length come together.
  std::uint64_t alike = 1;
};

/// Of Pack, TokenBatch, BucketBatch and Batch: batches over several ranks. The content makes
/// *shares*: a packed row, a token batch, or a row of a batch. A *step* is a fixed number of
/// shares, whatever the number of ranks, and the ranks split it. So all ranks take as many steps,
/// any number of ranks up to the shares of a step goes on where another number stopped, and a step
/// has the same records for each. docs/ORDER.md has the formulas.
///
/// If a decorator is given StepOptions, also those of one rank, or an option that says so, its
/// batches are planned from the records' lengths, before any record is read. The lengths are kept
/// beside the indexes of the files. Missing ones are made when the chain is opened, from the index
/// if that tells them (Megatron's, rows of one size); else it reads the files once, and several
/// ranks that would read 1 GiB or more are told the command that makes them (ringfeed index
/// --lengths). Takes files with an index, shuffled or mixed, Parse, Map, Truncate and Pad; no
/// Filter.
struct StepOptions {
  Rank rank{};  ///< this process; FindRank() asks the launcher, DataRank groups ranks
  /// How many shares each rank gets, in proportion: one number for each, from 1. Empty: all as
  /// many, give or take one. With Rest::kPad each rank needs a share of a step: weights that give
  /// one none are refused.
  std::vector<std::uint32_t> rank_weights{};
  std::optional<Balance> balance{};  ///< else each rank gets shares that follow each other
  Rest rest = Rest::kShort;
  std::uint64_t seed = 0;  ///< of the order of shares by best fit, and of steps that are alike
  /// If a function of yours makes the field (Map, a parser of your own): the name under which its
  /// lengths are kept. Give it another one after the function changed.
  std::string lengths{};
};

/// Which of the devices that this process sees is its own: the only one, else the one of its local
/// rank. Throws Error (kInvalidArgument) if there are too few, or the local rank is not known.
int ChooseDevice(const Rank& rank, int visible_devices);

}  // namespace ringfeed
