#include "ringfeed/ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

/// A launcher's variables. What Slurm says of a machine's tasks is a list: SlurmLocalSize.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr const char* kTorchrun = "torchrun";
constexpr const char* kIndexedJob = "Kubernetes";
constexpr const char* kSlurmStep = "SLURM_STEP_ID";
constexpr const char* kSlurmStepTasks = "SLURM_STEP_NUM_TASKS";
constexpr const char* kSlurmTasks = "SLURM_NTASKS";
constexpr const char* kSlurmTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

constexpr std::array<Launcher, 8> kLaunchers = {{
    {kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", kSlurmStepTasks, "SLURM_LOCALID", kSlurmTasksPerNode},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", nullptr, nullptr},
    {kIndexedJob, "JOB_COMPLETION_INDEX", "WORLD_SIZE", nullptr, nullptr},
    // Knows no more than this: never whole, but it shows that there are others.
    {"PMIx", "PMIX_RANK", nullptr, nullptr, nullptr},
}};

std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto result = std::from_chars(text.begin(), text.end(), number);
  if (result.ec != std::errc() || result.ptr != text.end() || number < 0) return std::nullopt;
  return number;
}

/// A set of variables as far as it is there.
struct Found {
  const char* variable = nullptr;
  const char* text = nullptr;  // null: the variable is missing

  bool present() const { return text != nullptr; }
  std::string Quoted() const { return std::string(variable) + "=\"" + text + "\""; }
  int Number() const {
    const std::optional<int> number = NumberOf(text);
    if (!number) Refuse(Quoted() + " is no number: set it right, or unset it");
    return *number;
  }
};

Found Look(const EnvironmentLookup& lookup, const char* variable) {
  return {variable, variable == nullptr ? nullptr : lookup(variable)};
}

struct Set {
  std::string name;
  Found rank;
  Found world_size;
  Found local_rank;
  Found local_world_size;

  bool says_rank() const { return rank.present() && world_size.present(); }
  bool whole() const { return says_rank() && local_rank.present() && local_world_size.present(); }
  bool says_several() const { return says_rank() && NumberOf(world_size.text).value_or(1) > 1; }
};

// Outside of a step, in a batch script, the job's variables are set, but only one process runs.
bool IsOutsideOfStep(const Launcher& launcher, const EnvironmentLookup& lookup) {
  return launcher.world_size == kSlurmStepTasks && lookup(kSlurmStep) == nullptr;
}

Set SetOf(const Launcher& launcher, const EnvironmentLookup& lookup) {
  Set set{launcher.name, Look(lookup, launcher.rank), Look(lookup, launcher.world_size),
          Look(lookup, launcher.local_rank), Look(lookup, launcher.local_world_size)};
  // DeepSpeed calls it so.
  if (set.name == kTorchrun && !set.local_world_size.present()) {
    set.local_world_size = Look(lookup, "LOCAL_SIZE");
  }
  // Kubernetes tells a pod its index alone. Kubeflow's jobs, which are of this kind, say how many.
  if (set.name == kIndexedJob) {
    for (const char* variable : {"PET_NNODES", "JAX_NUM_PROCESSES"}) {
      if (!set.world_size.present() && lookup(variable) != nullptr) {
        set.world_size = Look(lookup, variable);
      }
    }
  }
  if (launcher.world_size == kSlurmStepTasks) {
    if (!set.world_size.present()) set.world_size = Look(lookup, kSlurmTasks);
    for (const char* variable : {"SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
      if (!set.local_world_size.present()) set.local_world_size = Look(lookup, variable);
    }
  }
  return set;
}

/// "4", or by machine "4(x2),3": four on each of the first two, three on the third.
std::optional<int> TasksOfNode(std::string_view list, int node) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view group = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    int times = 1;
    if (const std::size_t open = group.find("(x"); open != std::string_view::npos) {
      if (!group.ends_with(')')) return std::nullopt;
      const auto number = NumberOf(group.substr(open + 2, group.size() - open - 3));
      if (!number) return std::nullopt;
      times = *number;
      group = group.substr(0, open);
    }
    const std::optional<int> tasks = NumberOf(group);
    if (!tasks || node < times) return tasks;
    node -= times;
  }
  return std::nullopt;
}

int LocalSize(const Set& set, const EnvironmentLookup& lookup) {
  if (set.name != "Slurm") return set.local_world_size.Number();
  // A single number holds for every machine.
  const std::string_view list = set.local_world_size.text;
  if (const std::optional<int> tasks = NumberOf(list)) return *tasks;
  const Found node = Look(lookup, "SLURM_NODEID");
  if (!node.present()) {
    Refuse(set.local_world_size.Quoted() + " is a list by machine, but SLURM_NODEID is not set");
  }
  const std::optional<int> tasks = TasksOfNode(list, node.Number());
  if (!tasks) Refuse(set.local_world_size.Quoted() + " has no number for " + node.Quoted());
  return *tasks;
}

void CheckBelow(const Found& rank, const Found& size, int number, int limit) {
  if (number < limit) return;
  Refuse(rank.Quoted() + " contradicts " + size.Quoted() + ": ranks count from 0");
}

// For a set that gives its rank and the number of ranks. What it does not say about this machine
// stays unknown.
Rank RankOf(const Set& set, const EnvironmentLookup& lookup) {
  const bool says_local_size = set.local_world_size.present();
  const Rank rank{set.rank.Number(), set.world_size.Number(),
                  set.local_rank.present() ? set.local_rank.Number() : -1,
                  says_local_size ? LocalSize(set, lookup) : 0, set.name};
  CheckBelow(set.rank, set.world_size, rank.rank, rank.world_size);
  if (says_local_size) {
    CheckBelow(set.local_rank, set.local_world_size, rank.local_rank, rank.local_world_size);
  } else if (rank.local_rank >= 0) {
    CheckBelow(set.local_rank, set.world_size, rank.local_rank, rank.world_size);
  }
  if (rank.local_world_size > rank.world_size) {
    Refuse(set.local_world_size.Quoted() + " contradicts " + set.world_size.Quoted() +
           ": more processes on this machine than in all");
  }
  return rank;
}

// A variable of a broken set that shows that there are several processes.
const Found* SignOfOthers(const Set& set) {
  // The first pod of a job would read everything, and the others would be refused.
  if (set.name == kIndexedJob && set.rank.present() && !set.world_size.present()) return &set.rank;
  for (const Found* rank : {&set.rank, &set.local_rank}) {
    if (rank->present() && NumberOf(rank->text).value_or(0) > 0) return rank;
  }
  for (const Found* size : {&set.world_size, &set.local_world_size}) {
    if (size->present() && NumberOf(size->text).value_or(1) > 1) return size;
  }
  return nullptr;
}

void RefuseBroken(const Set& set) {
  const Found* const sign = SignOfOthers(set);
  if (sign == nullptr) return;
  std::string missing;
  for (const Found* found : {&set.rank, &set.world_size}) {
    if (found->present() || found->variable == nullptr) continue;
    missing += (missing.empty() ? "" : ", ") + std::string(found->variable);
  }
  Refuse(sign->Quoted() + " says that there are several processes, but " +
         (missing.empty() ? "nothing says how many" : missing + " is missing") + ": set " +
         (set.name == kIndexedJob ? "WORLD_SIZE to the Job's completions" : "RANK and WORLD_SIZE") +
         ", or unset " + sign->variable);
}

}  // namespace

Rank FindRank(const EnvironmentLookup& lookup) {
  for (const Launcher& launcher : kLaunchers) {
    if (IsOutsideOfStep(launcher, lookup)) continue;
    const Set set = SetOf(launcher, lookup);
    if (set.whole()) return RankOf(set, lookup);
  }
  for (const Launcher& launcher : kLaunchers) {
    if (IsOutsideOfStep(launcher, lookup)) continue;
    const Set set = SetOf(launcher, lookup);
    if (set.says_several()) return RankOf(set, lookup);
  }
  for (const Launcher& launcher : kLaunchers) {
    if (!IsOutsideOfStep(launcher, lookup)) RefuseBroken(SetOf(launcher, lookup));
  }
  return {};
}

Rank FindRank() {
  return FindRank([](const char* name) -> const char* { return std::getenv(name); });
}

Rank DataRank(const Rank& rank, const ParallelGroups& groups, const std::string& order) {
  if (groups.tensor < 1 || groups.context < 1 || groups.pipeline < 1) {
    Refuse("a group of ranks has at least one");
  }
  const std::int64_t together = std::int64_t{groups.tensor} * groups.context;
  const std::int64_t alike = together > rank.world_size ? together : together * groups.pipeline;
  if (rank.world_size % alike != 0) {
    Refuse("groups of " + std::to_string(groups.tensor) + " (tensor), " +
           std::to_string(groups.context) + " (context) and " + std::to_string(groups.pipeline) +
           " (pipeline) ranks do not divide the " + std::to_string(rank.world_size) +
           " ranks (of " + rank.source + ")");
  }
  const int data = rank.world_size / static_cast<int>(alike);
  std::map<std::string_view, int> sizes = {
      {"tp", groups.tensor}, {"cp", groups.context}, {"pp", groups.pipeline}, {"dp", data}};
  Rank found = rank;
  found.world_size = data;
  found.replica = 0;
  found.replicas = static_cast<int>(alike);
  int left = rank.rank;
  int replicas_before = 1;
  for (std::string_view words = order; !words.empty();) {
    const std::string_view word = words.substr(0, words.find('-'));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const auto size = sizes.extract(word);
    if (size.empty()) {
      Refuse(
          "the order of the groups is each of tp, cp, dp and pp once, such as \"tp-cp-dp-pp\", "
          "not \"" +
          order + "\"");
    }
    const int place = left % size.mapped();
    left /= size.mapped();
    if (word == "dp") {
      found.rank = place;
    } else {
      found.replica += place * replicas_before;
      replicas_before *= size.mapped();
    }
  }
  for (const auto& [word, size] : sizes) {
    if (size > 1 || word == "dp") Refuse("the order \"" + order + "\" lacks " + std::string(word));
  }
  return found;
}

int ChooseDevice(const Rank& rank, int visible_devices) {
  if (visible_devices == 1) return 0;
  if (rank.local_rank < 0) {
    Refuse("which of " + std::to_string(visible_devices) +
           " devices is this process's own is not known, since " + rank.source +
           "'s variables say nothing of this machine: set LOCAL_RANK, or name the devices");
  }
  if (rank.local_rank < visible_devices) return rank.local_rank;
  Refuse("local rank " + std::to_string(rank.local_rank) + " (of " + rank.source +
         ") needs device " + std::to_string(rank.local_rank) + ", but this process sees " +
         std::to_string(visible_devices) +
         ": start as many processes a machine as it has devices, or show each of them one");
}

}  // namespace ringfeed
