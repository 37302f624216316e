// SPDX-License-Identifier: Apache-2.0
#include "sources/file_source.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounds.h"

namespace flowguard::sources {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Instant kStart{Duration(1'000'000'000)};

// A folder of its own with a rule file in it, real events, and time that the test
// moves.
class FileSourceTest : public ::testing::Test {
 protected:
  FileSourceTest() {
    std::string name = (fs::temp_directory_path() / "flowguard-source-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "rules.yaml";
  }
  ~FileSourceTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  static void Write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  FileSource Source(std::optional<std::string> content) {
    return FileSource({.path = path_.string()}, std::move(content), now_);
  }

  // Waits until the kernel has told of what the test did.
  static void AwaitEvent(const FileSource& source) {
    pollfd wait{.fd = source.fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&wait, 1, 10'000), 1) << "no event within 10 s";
  }

  // Lets time pass as a loop would: it polls when asked to, up to `span` from now.
  // Returns every content that was reported.
  std::vector<std::string> Run(FileSource& source, Duration span) {
    std::vector<std::string> reported;
    const Instant end = now_ + span;
    Take(source, reported);
    while (source.NextPoll() <= end) {
      now_ = std::max(now_, source.NextPoll());
      Take(source, reported);
    }
    now_ = end;
    return reported;
  }

  void Take(FileSource& source, std::vector<std::string>& reported) {
    auto content = source.Poll(now_);
    if (!content.ok()) {
      errors_.push_back(content.error().message);
    } else if (content->has_value()) {
      reported.push_back(**content);
    }
  }

  fs::path folder_;
  fs::path path_;
  Instant now_ = kStart;
  std::vector<std::string> errors_;
};

using Contents = std::vector<std::string>;

TEST_F(FileSourceTest, ReportsTheFirstContentWhenNoneIsKnown) {
  Write(path_, "one");
  FileSource source = Source(std::nullopt);

  EXPECT_EQ(Run(source, 0s), Contents{"one"});
  EXPECT_EQ(Run(source, 1min), Contents{});
}

TEST_F(FileSourceTest, SaysNothingWhileNothingChanges) {
  Write(path_, "one");
  FileSource source = Source("one");

  EXPECT_EQ(Run(source, 1h), Contents{});
}

// Between the reading at the start and the watch a change would go unseen.
TEST_F(FileSourceTest, SeesAChangeFromBeforeItWatched) {
  Write(path_, "two");
  FileSource source = Source("one");

  EXPECT_EQ(Run(source, 1s), Contents{"two"});
}

TEST_F(FileSourceTest, WriteInPlaceIsReportedOnce) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);

  Write(path_, "two");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, kFileQuiet), Contents{"two"});
  EXPECT_EQ(Run(source, 1min), Contents{});
}

// A save by rename kills a watch on the file itself.
TEST_F(FileSourceTest, EveryRenameOverTheFileIsReportedOnce) {
  Write(path_, "0");
  FileSource source = Source("0");
  Run(source, 1s);

  for (int i = 1; i <= 3; ++i) {
    Write(folder_ / ".rules.yaml.tmp", std::to_string(i));
    fs::rename(folder_ / ".rules.yaml.tmp", path_);
    AwaitEvent(source);

    EXPECT_EQ(Run(source, kFileQuiet), Contents{std::to_string(i)});
    EXPECT_EQ(Run(source, 1s), Contents{});
  }
}

// As the kubelet updates a ConfigMap: the file is a link through ..data, which is
// swapped for one to a new folder; the old folder goes.
TEST_F(FileSourceTest, KubernetesLinkSwapIsReportedOnce) {
  const auto publish = [this](const std::string& stamp, const std::string& content) {
    fs::create_directory(folder_ / stamp);
    Write(folder_ / stamp / "rules.yaml", content);
    fs::create_directory_symlink(stamp, folder_ / "..data_tmp");
    fs::rename(folder_ / "..data_tmp", folder_ / "..data");
  };
  publish("..2024_01_01", "one");
  fs::create_symlink("..data/rules.yaml", path_);
  FileSource source = Source("one");
  Run(source, 1s);

  publish("..2024_01_02", "two");
  fs::remove_all(folder_ / "..2024_01_01");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, kFileQuiet), Contents{"two"});
  EXPECT_EQ(Run(source, 1min), Contents{});
  EXPECT_TRUE(errors_.empty());
}

TEST_F(FileSourceTest, DeletionKeepsTheLastContentAndRecreationIsReportedOnce) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);

  fs::remove(path_);
  AwaitEvent(source);
  EXPECT_EQ(Run(source, 2s), Contents{});
  Write(path_, "two");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, kFileQuiet), Contents{"two"});
  EXPECT_EQ(Run(source, 1min), Contents{});
}

// A log must not fill with one line a poll while a file is away.
TEST_F(FileSourceTest, FailureIsToldOncePerSpell) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);

  fs::remove(path_);
  Run(source, 1h);
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0], path_.string() + ": cannot be read: No such file or directory");
  Write(path_, "one");
  Run(source, 1min);
  fs::remove(path_);
  Run(source, 1h);

  EXPECT_EQ(errors_.size(), 2u);
}

TEST_F(FileSourceTest, TouchAndChangeAndBackAreNotReported) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);

  Write(path_, "two");
  Write(path_, "one");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, 1min), Contents{});
}

// Half a file may be valid, with half the rules: it is not read while it is written.
TEST_F(FileSourceTest, HalfWrittenFileIsNotRead) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);
  const int fd = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  ASSERT_GE(fd, 0);

  ASSERT_EQ(::write(fd, "tw", 2), 2);
  AwaitEvent(source);
  EXPECT_EQ(Run(source, kFileQuiet * 3), Contents{});
  ASSERT_EQ(::write(fd, "o", 1), 1);
  AwaitEvent(source);
  EXPECT_EQ(Run(source, kFileQuiet * 3), Contents{});
  ::close(fd);
  AwaitEvent(source);

  EXPECT_EQ(Run(source, kFileQuiet), Contents{"two"});
}

// Many saves in a row are one change.
TEST_F(FileSourceTest, ChangesInARowAreReportedWhenTheyEnd) {
  Write(path_, "0");
  FileSource source = Source("0");
  Run(source, 1s);
  Contents reported;

  for (int i = 1; i <= 5; ++i) {
    Write(path_, std::to_string(i));
    AwaitEvent(source);
    for (const std::string& content : Run(source, kFileQuiet / 2))
      reported.push_back(content);
  }
  for (const std::string& content : Run(source, 1s))
    reported.push_back(content);

  EXPECT_EQ(reported, Contents{"5"});
}

TEST_F(FileSourceTest, OtherFilesOfTheFolderAreNotItsBusiness) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);
  const Instant quiet_poll = source.NextPoll();

  Write(folder_ / "app.log", "line");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, 0s), Contents{});
  EXPECT_EQ(source.NextPoll(), quiet_poll);
}

// Network file systems tell nothing; a link to another folder shows no event here.
TEST_F(FileSourceTest, ChangeWithoutAnEventIsFoundByLooking) {
  fs::create_directory(folder_ / "elsewhere");
  Write(folder_ / "elsewhere" / "real.yaml", "one");
  fs::create_symlink("elsewhere/real.yaml", path_);
  FileSource source = Source("one");
  Run(source, 1s);

  Write(folder_ / "elsewhere" / "real.yaml", "two!");

  EXPECT_EQ(Run(source, kFilePollEvery + kFileQuiet), Contents{"two!"});
}

TEST_F(FileSourceTest, FolderThatIsReplacedIsWatchedAgain) {
  const fs::path folder = folder_ / "conf";
  path_ = folder / "rules.yaml";
  fs::create_directory(folder);
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);

  fs::rename(folder, folder_ / "old");
  fs::create_directory(folder);
  Write(path_, "two");
  AwaitEvent(source);
  EXPECT_EQ(Run(source, kFilePollEvery + kFileQuiet), Contents{"two"});
  Write(path_, "three");
  AwaitEvent(source);

  EXPECT_EQ(Run(source, kFileQuiet), Contents{"three"});
}

// The data may be published after the start.
TEST_F(FileSourceTest, FileAndFolderThatAppearLaterAreFound) {
  path_ = folder_ / "later" / "rules.yaml";
  FileSource source = Source(std::nullopt);
  EXPECT_EQ(Run(source, 1s), Contents{});
  ASSERT_EQ(errors_.size(), 1u);

  fs::create_directory(folder_ / "later");
  Write(path_, "one");

  EXPECT_EQ(Run(source, kFilePollEvery + kFileQuiet), Contents{"one"});
}

TEST_F(FileSourceTest, ReadNowGivesTheContentAndIsNotReportedAgain) {
  Write(path_, "one");
  FileSource source = Source("one");
  Run(source, 1s);
  Write(path_, "two");

  const auto content = source.ReadNow(now_);

  ASSERT_TRUE(content.ok()) << content.error().message;
  EXPECT_EQ(*content, "two");
  EXPECT_EQ(Run(source, 1min), Contents{});
}

TEST_F(FileSourceTest, ReadNowOfAMissingFileIsAnError) {
  FileSource source = Source("one");

  const auto content = source.ReadNow(now_);

  ASSERT_FALSE(content.ok());
  EXPECT_EQ(content.error().code, ErrorCode::kNotFound);
}

TEST_F(FileSourceTest, ReadFileRefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);

  EXPECT_EQ(ReadFile(folder_.string()).error().message,
            folder_.string() + ": cannot be read: Is a directory");
  EXPECT_EQ(ReadFile((folder_ / "fifo").string()).error().message,
            (folder_ / "fifo").string() + ": is no file; a regular file is allowed");
  EXPECT_EQ(ReadFile((folder_ / "absent").string()).error().code, ErrorCode::kNotFound);
}

TEST_F(FileSourceTest, ReadFileIsBounded) {
  Write(path_, "x");
  fs::resize_file(path_, base::kRuleFileBytesMax + 1);

  const auto content = ReadFile(path_.string());

  ASSERT_FALSE(content.ok());
  EXPECT_EQ(content.error().message, path_.string() + ": more than 67108864 bytes");
}

}  // namespace
}  // namespace flowguard::sources
