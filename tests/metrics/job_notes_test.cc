#include "metrics/job_notes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

class JobNotesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/notes-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1), 0);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(folder_);
  }
  // Containers may share the folder, and their processes have the same numbers.
  static std::string PidNamespace() {
    const std::string link = std::filesystem::read_symlink("/proc/self/ns/pid").string();
    return link.substr(5, link.size() - 6);  // of "pid:[4026531836]"
  }
  std::string NoteOf(const std::string& pid) const {
    return folder_ + "/ringfeed/" + pid + "-" + PidNamespace();
  }
  std::string OwnNote() const { return NoteOf(std::to_string(getpid())); }
  static std::vector<JobNote> OwnJobs() {
    std::vector<JobNote> jobs = FindJobs();
    std::erase_if(jobs, [](const JobNote& job) { return job.pid != getpid(); });
    return jobs;
  }
  std::string folder_;
};

TEST_F(JobNotesTest, ANoteIsFoundUntilItIsTaken) {
  ASSERT_TRUE(LeaveJobNote("unix:/run/job").ok());
  struct stat note {};
  ASSERT_EQ(stat(OwnNote().c_str(), &note), 0);
  EXPECT_EQ(note.st_mode & 0777, 0600U);
  ASSERT_EQ(OwnJobs().size(), 1U);
  EXPECT_EQ(OwnJobs().front().address, "unix:/run/job");
  EXPECT_NE(OwnJobs().front().command, "");
  TakeJobNote();
  EXPECT_TRUE(OwnJobs().empty());
  EXPECT_FALSE(std::filesystem::exists(OwnNote()));
}

TEST_F(JobNotesTest, NotesOfProcessesThatAreGoneArePassedOverAndTakenAway) {
  const ChildResult child = RunInChild([](std::string* text) {
    *text = std::to_string(getpid());
    return LeaveJobNote("unix:/run/gone").ok() ? 0 : 1;
  });
  ASSERT_EQ(child.status, 0);
  const std::string note = NoteOf(child.text);
  ASSERT_TRUE(std::filesystem::exists(note));
  for (const JobNote& job : FindJobs()) EXPECT_NE(std::to_string(job.pid), child.text);
  EXPECT_FALSE(std::filesystem::exists(note));
}

TEST_F(JobNotesTest, NotesOfOtherContainersAreLeftAlone) {
  ASSERT_TRUE(LeaveJobNote("unix:/run/job").ok());
  const std::string gone = std::to_string(1 << 30);
  for (const std::string& name : {gone + "-17", std::to_string(getpid()) + "-17", gone}) {
    const std::string note = folder_ + "/ringfeed/" + name;
    std::filesystem::copy(OwnNote(), note);
    EXPECT_EQ(OwnJobs().size(), 1U) << name;
    EXPECT_TRUE(std::filesystem::exists(note)) << name;
  }
  TakeJobNote();
  EXPECT_TRUE(OwnJobs().empty());
}

TEST_F(JobNotesTest, ANoteOfAnotherProcessOfThatNumberIsPassedOver) {
  ASSERT_TRUE(LeaveJobNote("unix:/run/job").ok());
  std::ofstream(OwnNote()) << "ringfeed job 1\n" << StartTicksOf(getpid()) - 1 << "\nunix:/evil\n";
  EXPECT_TRUE(OwnJobs().empty());
  for (const char* text : {"", "ringfeed job 1\n", "ringfeed job 1\nx\ny\n", "{}"}) {
    std::ofstream(OwnNote()) << text;
    EXPECT_TRUE(OwnJobs().empty()) << text;
  }
  TakeJobNote();
}

TEST_F(JobNotesTest, AFolderThatOthersMayUseIsNotUsed) {
  ASSERT_EQ(mkdir((folder_ + "/ringfeed").c_str(), 0700), 0);
  ASSERT_EQ(chmod((folder_ + "/ringfeed").c_str(), 0777), 0);
  (void)LeaveJobNote("unix:/run/job");
  EXPECT_FALSE(std::filesystem::exists(OwnNote()));
  TakeJobNote();  // it was left in the other folder
  std::filesystem::remove_all(folder_ + "/ringfeed");
  std::filesystem::create_directory(folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", folder_ + "/ringfeed");
  (void)LeaveJobNote("unix:/run/job");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/elsewhere"));
  TakeJobNote();
}

TEST(StartTicksTest, AProcessHasAStartAndNoProcessHasNone) {
  EXPECT_GT(StartTicksOf(getpid()), 0U);
  EXPECT_EQ(StartTicksOf(1 << 30), 0U);
}

}  // namespace
}  // namespace ringfeed
