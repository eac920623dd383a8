#include "ringfeed/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using Environment = std::map<std::string, std::string>;

Rank Find(const Environment& environment) {
  return FindRank([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// The message of the Error that this environment is refused with.
std::string Complaint(const Environment& environment) {
  try {
    const Rank rank = Find(environment);
    return "rank " + std::to_string(rank.rank) + " by " + rank.source;
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    return error.status().message();
  }
}

void ExpectRank(const Environment& environment, const Rank& expected) {
  const Rank rank = Find(environment);
  EXPECT_EQ(rank.rank, expected.rank);
  EXPECT_EQ(rank.world_size, expected.world_size);
  EXPECT_EQ(rank.local_rank, expected.local_rank);
  EXPECT_EQ(rank.local_world_size, expected.local_world_size);
  EXPECT_EQ(rank.source, expected.source);
}

const Environment kTorchrun = {
    {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "6"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kSlurm = {
    {"SLURM_STEP_ID", "0"},          {"SLURM_PROCID", "9"},
    {"SLURM_STEP_NUM_TASKS", "11"},  {"SLURM_NTASKS", "32"},
    {"SLURM_LOCALID", "1"},          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
    {"SLURM_NTASKS_PER_NODE", "16"}, {"SLURM_NODEID", "2"}};

TEST(RanksTest, WithoutALauncherThisIsTheOnlyProcess) { ExpectRank({}, {0, 1, 0, 1, "none"}); }

TEST(RanksTest, EveryLauncherIsUnderstood) {
  ExpectRank(kTorchrun, {5, 8, 1, 4, "torchrun"});
  ExpectRank(kOpenMpi, {2, 6, 0, 2, "Open MPI"});
  ExpectRank(kSlurm, {9, 11, 1, 3, "Slurm"});
  ExpectRank(
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
      {3, 4, 1, 2, "MPICH"});
  ExpectRank({{"MV2_COMM_WORLD_RANK", "3"},
              {"MV2_COMM_WORLD_SIZE", "4"},
              {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
              {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}},
             {3, 4, 1, 2, "MVAPICH2"});
}

TEST(RanksTest, TheInnerOfTwoLaunchersWins) {
  Environment both = kTorchrun;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  both.insert(kSlurm.begin(), kSlurm.end());
  EXPECT_EQ(Find(both).source, "torchrun");
  both.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(Find(both).source, "Open MPI") << "a set that is not whole does not count";
}

TEST(RanksTest, TasksOfASlurmNodeAreFoundInTheList) {
  Environment slurm = kSlurm;
  const std::map<std::string, std::string> nodes = {{"0", "4"}, {"1", "4"}, {"2", "3"}};
  for (const auto& [node, tasks] : nodes) {
    slurm["SLURM_NODEID"] = node;
    EXPECT_EQ(std::to_string(Find(slurm).local_world_size), tasks) << "node " << node;
  }
  slurm["SLURM_STEP_TASKS_PER_NODE"] = "4";
  EXPECT_EQ(Find(slurm).local_world_size, 4);
}

TEST(RanksTest, OlderSlurmVariablesDo) {
  ExpectRank({{"SLURM_STEP_ID", "1"},
              {"SLURM_PROCID", "1"},
              {"SLURM_NTASKS", "4"},
              {"SLURM_LOCALID", "1"},
              {"SLURM_NTASKS_PER_NODE", "2"}},
             {1, 4, 1, 2, "Slurm"});
}

TEST(RanksTest, ABatchScriptOfSlurmIsNoStep) {
  Environment slurm = kSlurm;
  slurm.erase("SLURM_STEP_ID");
  ExpectRank(slurm, {0, 1, 0, 1, "none"});
}

TEST(RanksTest, GarbageIsRefusedByName) {
  for (const auto& [name, unused] : kTorchrun) {
    for (const std::string text : {"", "x", "1x", "-1", " 1", "1.0", "99999999999"}) {
      Environment environment = kTorchrun;
      environment[name] = text;
      EXPECT_EQ(Complaint(environment),
                name + "=\"" + text + "\" is no number: set it right, or unset it");
    }
  }
}

TEST(RanksTest, ContradictionsAreRefusedByName) {
  const auto changed = [](const std::string& name, const std::string& text) {
    Environment environment = kTorchrun;
    environment[name] = text;
    return Complaint(environment);
  };
  EXPECT_EQ(changed("RANK", "8"), "RANK=\"8\" contradicts WORLD_SIZE=\"8\": ranks count from 0");
  EXPECT_EQ(changed("WORLD_SIZE", "0"),
            "RANK=\"5\" contradicts WORLD_SIZE=\"0\": ranks count from 0");
  EXPECT_EQ(changed("LOCAL_RANK", "4"),
            "LOCAL_RANK=\"4\" contradicts LOCAL_WORLD_SIZE=\"4\": ranks count from 0");
  EXPECT_EQ(changed("LOCAL_WORLD_SIZE", "9"),
            "LOCAL_WORLD_SIZE=\"9\" contradicts WORLD_SIZE=\"8\": more processes on this machine "
            "than in all");
}

TEST(RanksTest, ASlurmListThatDoesNotNameTheNodeIsRefused) {
  Environment slurm = kSlurm;
  slurm["SLURM_NODEID"] = "3";
  EXPECT_EQ(Complaint(slurm),
            "SLURM_STEP_TASKS_PER_NODE=\"4(x2),3\" has no number for SLURM_NODEID=\"3\"");
  slurm.erase("SLURM_NODEID");
  EXPECT_EQ(Complaint(slurm),
            "SLURM_STEP_TASKS_PER_NODE=\"4(x2),3\" is a list by machine, but SLURM_NODEID is not "
            "set");
  slurm["SLURM_NODEID"] = "0";
  for (const std::string list : {"", "x", "4(x2", "4(y2)", "(x2)", ",4"}) {
    slurm["SLURM_STEP_TASKS_PER_NODE"] = list;
    EXPECT_EQ(Complaint(slurm),
              "SLURM_STEP_TASKS_PER_NODE=\"" + list + "\" has no number for SLURM_NODEID=\"0\"");
  }
}

TEST(RanksTest, ARankAndTheirNumberAreEnough) {
  ExpectRank({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {1, 2, -1, 0, "torchrun"});
  ExpectRank({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}, {0, 4, 0, 0, "torchrun"});
  ExpectRank({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, {3, 4, -1, 0, "MPICH"});
  ExpectRank({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
             {1, 2, -1, 0, "Open MPI"});
  ExpectRank({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}},
             {1, 4, -1, 0, "Slurm"});
}

TEST(RanksTest, DeepSpeedsVariablesAreTorchruns) {
  ExpectRank({{"RANK", "3"},
              {"LOCAL_RANK", "1"},
              {"WORLD_SIZE", "4"},
              {"LOCAL_SIZE", "2"},
              {"CROSS_RANK", "1"},
              {"CROSS_SIZE", "2"}},
             {3, 4, 1, 2, "torchrun"});
}

TEST(RanksTest, JaxsVariablesSayTheRank) {
  ExpectRank({{"JAX_PROCESS_ID", "2"}, {"JAX_NUM_PROCESSES", "4"}}, {2, 4, -1, 0, "JAX"});
  EXPECT_EQ(Complaint({{"JAX_PROCESS_ID", "2"}}),
            "JAX_PROCESS_ID=\"2\" says that there are several processes, but JAX_NUM_PROCESSES is "
            "missing: set RANK and WORLD_SIZE, or unset JAX_PROCESS_ID");
  Environment nested = kTorchrun;
  nested.insert({{"JAX_PROCESS_ID", "0"}, {"JAX_NUM_PROCESSES", "2"}});
  EXPECT_EQ(Find(nested).source, "torchrun");
}

TEST(RanksTest, AnIndexedJobOfKubernetesSaysTheRankIfItsCompletionsAreKnown) {
  ExpectRank({{"JOB_COMPLETION_INDEX", "3"}, {"WORLD_SIZE", "4"}}, {3, 4, -1, 0, "Kubernetes"});
  ExpectRank({{"JOB_COMPLETION_INDEX", "0"}, {"WORLD_SIZE", "1"}}, {0, 1, 0, 1, "none"});
  Environment nested = kTorchrun;
  nested["JOB_COMPLETION_INDEX"] = "1";
  EXPECT_EQ(Find(nested).source, "torchrun");
  EXPECT_EQ(Complaint({{"JOB_COMPLETION_INDEX", "4"}, {"WORLD_SIZE", "4"}}),
            "JOB_COMPLETION_INDEX=\"4\" contradicts WORLD_SIZE=\"4\": ranks count from 0");
}

TEST(RanksTest, NoPodOfAnIndexedJobReadsEverythingUnasked) {
  for (const std::string index : {"0", "1"}) {
    EXPECT_EQ(Complaint({{"JOB_COMPLETION_INDEX", index}}),
              "JOB_COMPLETION_INDEX=\"" + index +
                  "\" says that there are several processes, but WORLD_SIZE is missing: set "
                  "WORLD_SIZE to the Job's completions, or unset JOB_COMPLETION_INDEX");
  }
}

TEST(RanksTest, KubeflowsVariablesSayTheRank) {
  ExpectRank({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "a"}, {"PET_NNODES", "3"}},
             {1, 3, -1, 0, "torchrun"});
  ExpectRank({{"JOB_COMPLETION_INDEX", "1"}, {"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}},
             {1, 2, -1, 0, "Kubernetes"});
  ExpectRank({{"JOB_COMPLETION_INDEX", "1"}, {"JAX_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "2"}},
             {1, 2, -1, 0, "JAX"});
  ExpectRank({{"JOB_COMPLETION_INDEX", "0"}, {"PET_NNODES", "1"}}, {0, 1, 0, 1, "none"});
}

TEST(RanksTest, AWholeSetGoesBeforeARankAndTheirNumberAlone) {
  Environment slurm = kSlurm;  // a script of its own set these for the machines
  slurm["RANK"] = "2";
  slurm["WORLD_SIZE"] = "3";
  ExpectRank(slurm, {9, 11, 1, 3, "Slurm"});
}

TEST(RanksTest, ALocalRankBeyondAllRanksIsRefused) {
  EXPECT_EQ(Complaint({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}),
            "LOCAL_RANK=\"2\" contradicts WORLD_SIZE=\"2\": ranks count from 0");
}

TEST(RanksTest, PartOfASetThatSpeaksOfOthersIsRefused) {
  EXPECT_EQ(Complaint({{"WORLD_SIZE", "4"}}),
            "WORLD_SIZE=\"4\" says that there are several processes, but RANK is missing: set RANK "
            "and WORLD_SIZE, or unset WORLD_SIZE");
  EXPECT_EQ(Complaint({{"NODE_RANK", "0"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "LOCAL_RANK=\"1\" says that there are several processes, but RANK is missing: set RANK "
            "and WORLD_SIZE, or unset LOCAL_RANK")
      << "a launcher in the program (Lightning's): its first process has none of them";
  EXPECT_EQ(Complaint({{"PMIX_RANK", "3"}}),
            "PMIX_RANK=\"3\" says that there are several processes, but nothing says how many: set "
            "RANK and WORLD_SIZE, or unset PMIX_RANK");
  EXPECT_EQ(Complaint({{"OMPI_COMM_WORLD_RANK", "1"}}).substr(0, 26),
            "OMPI_COMM_WORLD_RANK=\"1\" s");
}

TEST(RanksTest, PartOfASetThatSpeaksOfOneProcessDoesNoHarm) {
  ExpectRank({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {0, 1, 0, 1, "none"});
  ExpectRank({{"PMIX_RANK", "0"}}, {0, 1, 0, 1, "none"});
  ExpectRank({{"RANK", "captain"}}, {0, 1, 0, 1, "none"});
}

TEST(ChooseDeviceTest, TheOnlyDeviceIsEverybodys) {
  EXPECT_EQ(ChooseDevice({5, 8, 3, 4, "torchrun"}, 1), 0);
}

TEST(ChooseDeviceTest, OfSeveralItIsTheOneOfTheLocalRank) {
  EXPECT_EQ(ChooseDevice({5, 8, 3, 4, "torchrun"}, 4), 3);
  EXPECT_EQ(ChooseDevice({5, 8, 3, 4, "torchrun"}, 8), 3);
}

TEST(ChooseDeviceTest, OfSeveralNoneIsTakenIfThePlaceOnTheMachineIsNotKnown) {
  EXPECT_EQ(ChooseDevice({1, 2, -1, 0, "torchrun"}, 1), 0);
  EXPECT_EQ(ChooseDevice({1, 2, 1, 0, "torchrun"}, 2), 1);
  try {
    ChooseDevice({1, 2, -1, 0, "torchrun"}, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("set LOCAL_RANK"), std::string::npos);
  }
}

TEST(ChooseDeviceTest, TooFewDevicesAreRefused) {
  for (const int visible : {0, 2, 3}) {
    try {
      ChooseDevice({5, 8, 3, 4, "torchrun"}, visible);
      FAIL() << visible;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      const std::string& message = error.status().message();
      EXPECT_NE(message.find("local rank 3 (of torchrun)"), std::string::npos) << message;
      EXPECT_NE(message.find("sees " + std::to_string(visible)), std::string::npos) << message;
    }
  }
}

// ---- Groups of ranks ----

int DataRankOf(int rank, int ranks, const ParallelGroups& groups,
               const std::string& order = "tp-cp-dp-pp") {
  const Rank found = DataRank({rank, ranks, 3, 8, "torchrun"}, groups, order);
  EXPECT_EQ(found.world_size, ranks / (groups.tensor * groups.context * groups.pipeline));
  EXPECT_EQ(found.local_rank, 3);  // it is still this process of this machine
  EXPECT_EQ(found.local_world_size, 8);
  EXPECT_EQ(found.replicas, groups.tensor * groups.context * groups.pipeline);
  return found.rank;
}

std::vector<int> DataRanks(int ranks, const ParallelGroups& groups, const std::string& order) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks; ++rank) found.push_back(DataRankOf(rank, ranks, groups, order));
  return found;
}

TEST(DataRankTest, RanksOfAGroupHaveTheSameData) {
  EXPECT_EQ(DataRanks(8, {.tensor = 2, .pipeline = 2}, "tp-cp-dp-pp"),
            (std::vector{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(DataRanks(8, {.tensor = 2, .context = 2}, "tp-cp-dp-pp"),
            (std::vector{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(DataRanks(4, {}, "tp-cp-dp-pp"), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(DataRanks(8, {.tensor = 4}, "dp-tp"), (std::vector{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(DataRankTest, EachDataRankHasAsManyRanksInEveryOrder) {
  for (const char* order : {"tp-cp-dp-pp", "tp-dp-cp-pp", "pp-tp-cp-dp", "dp-tp-cp-pp"}) {
    for (int code = 0; code < 81; ++code) {
      const ParallelGroups groups{1 + code % 3, 1 + code / 3 % 3, 1 + code / 9 % 3};
      const int data = 1 + code / 27;
      const int alike = groups.tensor * groups.context * groups.pipeline;
      std::map<int, int> ranks_of;
      for (int rank = 0; rank < data * alike; ++rank) {
        const Rank found = DataRank({rank, data * alike, 3, 8, "torchrun"}, groups, order);
        // Those with the same data are numbered in their order.
        EXPECT_EQ(found.replica, ranks_of[found.rank]++) << order << " " << rank;
        EXPECT_EQ(found.rank, DataRankOf(rank, data * alike, groups, order));
      }
      EXPECT_EQ(ranks_of.size(), static_cast<std::size_t>(data));
      for (const auto& [rank, count] : ranks_of) EXPECT_EQ(count, alike) << order << " " << rank;
    }
  }
}

TEST(DataRankTest, RefusesGroupsThatDoNotDivideAndOrdersThatLackOne) {
  const Rank rank{0, 8, 0, 8, "torchrun"};
  EXPECT_THROW(DataRank(rank, {.tensor = 3}), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 16}), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 0}), Error);
  EXPECT_THROW(DataRank(rank, {2147483647, 2147483647, 2147483647}), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 2}, "cp-dp-pp"), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 2}, "tp-cp-pp"), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 2}, "tp-tp-dp"), Error);
  EXPECT_THROW(DataRank(rank, {.tensor = 2}, "tp-cp-dp-ep"), Error);
}

}  // namespace
}  // namespace ringfeed
