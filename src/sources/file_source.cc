// SPDX-License-Identifier: Apache-2.0
#include "sources/file_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounds.h"

namespace flowguard::sources {

namespace {

constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE |
                             IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
constexpr uint32_t kFolderGone = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Error CannotRead(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound
                         : error == EACCES                   ? ErrorCode::kPermissionDenied
                                                             : ErrorCode::kUnavailable;
  return {code, path + ": cannot be read: " + std::strerror(error)};
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

int64_t NanosecondsOf(const timespec& time) noexcept {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

base::Hash128 HashOfContent(std::string_view content) noexcept {
  return base::HashOf(content, 0);
}

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  // Not blocking: a fifo would hold the caller until somebody writes.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return CannotRead(path, errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return CannotRead(path, errno);
  if (S_ISDIR(status.st_mode)) return CannotRead(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return Error::InvalidArgument(path + ": is no file; a regular file is allowed");
  }
  std::string content;
  char chunk[64 * 1024];
  for (;;) {
    const ssize_t bytes = ::read(file.get(), chunk, sizeof chunk);
    if (bytes == 0) return content;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return CannotRead(path, errno);
    content.append(chunk, static_cast<size_t>(bytes));
    if (content.size() > base::kRuleFileBytesMax) {
      return Error::InvalidArgument(path + ": more than " +
                                    std::to_string(base::kRuleFileBytesMax) + " bytes");
    }
  }
}

FileSource::FileSource(Options options, std::optional<std::string> content, Instant now)
    : options_(std::move(options)),
      folder_(FolderOf(options_.path)),
      file_name_(NameOf(options_.path)),
      fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      look_at_(now + options_.poll_every) {
  Watch();
  seen_ = StampOf();
  // The file may have changed between the caller's reading and the watch.
  if (content) hash_ = HashOfContent(*content);
  ReadAfter(content ? options_.quiet : Duration{}, now);
}

FileSource::~FileSource() {
  if (fd_ >= 0) ::close(fd_);
}

Instant FileSource::NextPoll() const noexcept {
  return read_at_ ? std::min(*read_at_, look_at_) : look_at_;
}

Result<std::optional<std::string>> FileSource::Poll(Instant now) {
  TakeEvents(now);
  if (now >= look_at_) {
    if (watch_ < 0) Watch();
    Look(now);
  }
  if (!read_at_ || now < *read_at_) return std::optional<std::string>{};
  return Load(now);
}

Result<std::string> FileSource::ReadNow(Instant now) {
  TakeEvents(now);
  seen_ = StampOf();
  auto content = ReadFile(options_.path);
  failing_ = !content.ok();
  if (!content.ok()) return content;
  hash_ = HashOfContent(*content);
  // A writer may be at it still.
  ReadAfter(options_.quiet, now);
  return content;
}

void FileSource::Watch() {
  if (fd_ >= 0) watch_ = ::inotify_add_watch(fd_, folder_.c_str(), kEvents | IN_ONLYDIR);
}

void FileSource::TakeEvents(Instant now) {
  if (fd_ < 0) return;
  alignas(inotify_event) char buffer[16 * 1024];
  for (;;) {
    const ssize_t bytes = ::read(fd_, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return;
    size_t at = 0;
    while (at < static_cast<size_t>(bytes)) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof event);
      const char* name = buffer + at + sizeof event;
      at += sizeof event + event.len;
      // Events of a watch that was given up are late news.
      if (event.wd != watch_ && event.wd >= 0) continue;
      TakeEvent(event.mask, {name, event.len > 0 ? std::strlen(name) : 0}, now);
    }
  }
}

void FileSource::TakeEvent(uint32_t mask, std::string_view name, Instant now) {
  if ((mask & kFolderGone) != 0) {
    if ((mask & IN_IGNORED) == 0) ::inotify_rm_watch(fd_, watch_);
    watch_ = -1;
    Watch();
    ReadAfter(options_.quiet, now);
    return;
  }
  // Kubernetes swaps a link whose name begins with two dots, through which the file
  // is seen.
  const bool of_file = name == file_name_ || name.substr(0, 2) == "..";
  if (!of_file && (mask & IN_Q_OVERFLOW) == 0) return;
  // A change of rights says nothing of what a writer is still at.
  if ((mask & IN_ATTRIB) != 0 && read_at_) return;
  const bool being_written = (mask & IN_MODIFY) != 0;
  ReadAfter(being_written ? std::max(kFileWriterPatience, options_.quiet) : options_.quiet, now);
}

void FileSource::Look(Instant now) {
  look_at_ = now + options_.poll_every;
  const Stamp stamp = StampOf();
  if (stamp == seen_) return;
  seen_ = stamp;
  if (!read_at_) ReadAfter(options_.quiet, now);
}

FileSource::Stamp FileSource::StampOf() const {
  struct stat status = {};
  if (::stat(options_.path.c_str(), &status) != 0) return {};
  return {.exists = true,
          .device = static_cast<uint64_t>(status.st_dev),
          .inode = static_cast<uint64_t>(status.st_ino),
          .bytes = static_cast<int64_t>(status.st_size),
          .modified_ns = NanosecondsOf(status.st_mtim),
          .changed_ns = NanosecondsOf(status.st_ctim)};
}

Result<std::optional<std::string>> FileSource::Load(Instant now) {
  read_at_.reset();
  const Stamp before = StampOf();
  auto content = ReadFile(options_.path);
  seen_ = StampOf();
  if (!content.ok()) {
    if (std::exchange(failing_, true)) return std::optional<std::string>{};
    return std::move(content).error();
  }
  if (before != seen_) {
    ReadAfter(options_.quiet, now);
    return std::optional<std::string>{};
  }
  failing_ = false;
  const base::Hash128 hash = HashOfContent(*content);
  if (hash_ == hash) return std::optional<std::string>{};
  hash_ = hash;
  return std::optional<std::string>(std::move(*content));
}

}  // namespace flowguard::sources
