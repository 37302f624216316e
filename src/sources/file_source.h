// SPDX-License-Identifier: Apache-2.0
//
// A rule file that may change while the server runs.
//
// Watches the file's folder, not the file: editors and Kubernetes replace a file
// (rename over it, or swap the `..data` link beside it), which kills a watch on the
// file itself.  Where the kernel tells nothing (network file systems), the file is
// looked at from time to time as well.
//
// Invariants
//   (1) A change of content is reported once, when the file has been quiet for
//       kFileQuiet and its writer has closed it; a touch, or a change and back, is
//       not reported.
//   (2) A file that is gone, or cannot be read, changes nothing: the last content
//       stands until there is another.
//
// It has no thread and reads no clock: a loop waits for fd() to be readable or for
// NextPoll(), and calls Poll(now).
//
//   source.fd() readable -> source.Poll(now)      timer at source.NextPoll() -> Poll(now)
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/hash.h"

namespace flowguard::sources {

// The whole of a regular file at one moment.
// Errors: kNotFound, kPermissionDenied or kUnavailable naming the file and the
//         cause; kInvalidArgument above kRuleFileBytesMax.
Result<std::string> ReadFile(const std::string& path);

inline constexpr Duration kFileQuiet = std::chrono::milliseconds(100);
inline constexpr Duration kFilePollEvery = std::chrono::seconds(5);
// How long a writer that has the file open may pause before what is there is read.
inline constexpr Duration kFileWriterPatience = std::chrono::seconds(2);

// Threads: one owner.
class FileSource {
 public:
  struct Options {
    std::string path;
    Duration quiet = kFileQuiet;           // how long a file must rest before it is read
    Duration poll_every = kFilePollEvery;  // how often it is looked at without an event
  };

  // `content` is what the caller has loaded already (the baseline of changes); none:
  // the first Poll that can read the file reports it.  A folder that cannot be
  // watched, or is replaced, leaves the polling, and is watched again when it can be.
  FileSource(Options options, std::optional<std::string> content, Instant now);
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  // Becomes readable when something happened in the folder; the same for ever.  -1:
  // this system cannot watch.
  [[nodiscard]] int fd() const noexcept { return fd_; }

  // When Poll wants to be called at the latest.
  [[nodiscard]] Instant NextPoll() const noexcept;

  // Takes in what happened, and returns the new content if there is one: exactly
  // once per change.
  // Errors: the file cannot be read; reported once per spell of failures, and the
  //         spell ends with the next content.
  Result<std::optional<std::string>> Poll(Instant now);

  // Reads at once, whatever the events say (SIGHUP).  The content is returned even
  // when it is unchanged.
  Result<std::string> ReadNow(Instant now);

 private:
  // What tells a replaced or rewritten file without reading it.
  struct Stamp {
    bool exists = false;
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t bytes = 0;
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  void Watch();
  void TakeEvents(Instant now);
  void TakeEvent(uint32_t mask, std::string_view name, Instant now);
  void Look(Instant now);
  void ReadAfter(Duration rest, Instant now) noexcept { read_at_ = now + rest; }
  [[nodiscard]] Stamp StampOf() const;
  Result<std::optional<std::string>> Load(Instant now);

  const Options options_;
  const std::string folder_;
  const std::string file_name_;  // within the folder
  int fd_ = -1;
  int watch_ = -1;                     // of the folder; -1: not watched now
  Stamp seen_;                         // of the last look
  std::optional<base::Hash128> hash_;  // of the last content
  std::optional<Instant> read_at_;     // a change is settling
  Instant look_at_;                    // the next look without an event
  bool failing_ = false;               // the failure was reported
};

}  // namespace flowguard::sources
