// SPDX-License-Identifier: Apache-2.0
#include "lib/base/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as in Linux
constexpr mode_t kPermissions = 0777;

const char* Remedy(int error) {
  switch (error) {
    case ENOENT:
      return " (make its folder first)";
    case EISDIR:
      return " (name a file in it)";
    case ENOTDIR:
      return " (a part of the path is a file)";
    case EACCES:
    case EPERM:
    case EROFS:
      return " (choose a place that you may write to)";
    case ENOSPC:
    case EDQUOT:
      return " (make room, or choose another disk)";
    case EFBIG:
      return " (raise the limit on the size of files: ulimit -f)";
    case ENXIO:
      return " (start the reader of a pipe first)";
    default:
      return "";
  }
}

constexpr mode_t kMine = S_IRWXU;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

absl::Status Refusal(const std::string& path, const char* reason, const char* remedy) {
  return absl::PermissionDeniedError(absl::StrCat(path, " ", reason, "; ", remedy));
}

absl::Status Make(const std::string& path) {
  if (mkdir(path.c_str(), kMine) != 0) return errno == EEXIST ? absl::OkStatus() : FileError("make", path, errno);
  return chmod(path.c_str(), kMine) == 0 ? absl::OkStatus() : FileError("make", path, errno);  // undoes the umask
}

// OK if this user or the system owns the folder, and no other user can replace an entry of ours in it.
absl::Status CheckBase(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return FileError("use", path, errno);
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return Refusal(path, "belongs to another user", "name a folder of your own by XDG_CACHE_HOME");
  }
  if ((facts.st_mode & kOthersWrite) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return Refusal(path, "can be written by other users", "take that from them, or name another by XDG_CACHE_HOME");
  }
  return absl::OkStatus();
}

// The locked files of this process. A process that it forks shares their locks, for as long as it lives: it lets go of
// them, so that a case that leaves a process behind does not keep the journal from the next run.
class SharedLocks {
 public:
  static void Add(int file) {
    static const int registered = pthread_atfork(nullptr, nullptr, LetGo);
    static_cast<void>(registered);
    for (std::atomic<int>& slot : files_) {
      int free = kFree;
      if (slot.compare_exchange_strong(free, file)) return;
    }
  }
  static void Remove(int file) {
    for (std::atomic<int>& slot : files_) {
      int held = file;
      if (slot.compare_exchange_strong(held, kFree)) return;
    }
  }

 private:
  static constexpr int kFree = 0;  // no file of ours
  static constexpr std::size_t kMost = 16;

  // In the new process, which may call little more than the system. The numbers stay in use: their owners close them.
  static void LetGo() {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const std::atomic<int>& slot : files_) {
      if (const int file = slot; file != kFree) dup3(nowhere, file, O_CLOEXEC);
    }
    close(nowhere);
  }

  static inline std::array<std::atomic<int>, kMost> files_{};
};

// Opens a device, a pipe or a file without a name. Without O_NONBLOCK, a pipe without a reader would block forever.
absl::StatusOr<int> OpenForWriting(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return FileError("write", path, errno);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);  // a slow reader is waited for
  return file;
}

}  // namespace

absl::Status FileError(const char* what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error), Remedy(error)));
}

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for its writer. It has no effect on a regular file.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  struct stat facts = {};
  const int error = fstat(file, &facts) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(facts.st_mode)) return RegularFile(path, file, static_cast<uint64_t>(facts.st_size));
  close(file);
  if (error != 0) return absl::ErrnoToStatus(error, path);
  const char* const kind = S_ISDIR(facts.st_mode) ? "a folder" : S_ISFIFO(facts.st_mode) ? "a pipe" : "a device";
  return absl::InvalidArgumentError(absl::StrCat(path, ": is ", kind, " and not a regular file"));
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}

RegularFile::~RegularFile() {
  if (file_ >= 0) close(file_);
}

absl::Status RegularFile::Read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read: it ends at byte ", offset,
                                              " of the ", size_, " that it had"));
    }
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", HumanBytes(static_cast<double>(file->size())),
                                                   ", more than the ", HumanBytes(static_cast<double>(most)),
                                                   " that such a file may have"));
  }
  std::string text(file->size(), '\0');
  if (absl::Status status = file->Read(0, std::as_writable_bytes(std::span(text))); !status.ok()) return status;
  return text;
}

absl::StatusOr<TempFile> CreateSiblingTempFile(const std::string& path) {
  TempFile made;
  do {
    // Random: another user cannot occupy the name. O_EXCL: nor is an existing file or link followed or written to.
    uint64_t bits = 0;
    if (getentropy(&bits, sizeof(bits)) != 0) return FileError("write", path, errno);
    made.path = absl::StrFormat("%s.%016x%s", path, bits, View(kUnfinished));
    made.file = open(made.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0666);
  } while (made.file < 0 && errno == EEXIST);
  if (made.file < 0) return FileError("write", path, errno);
  struct stat old {};
  struct stat facts {};
  // What is given to a user is theirs: of another user's file nothing is taken over, and no bit that a new file would
  // not have. Compare first: some file systems do not support fchmod.
  const bool is_ours = stat(path.c_str(), &old) == 0 && fstat(made.file, &facts) == 0 && old.st_uid == geteuid();
  const mode_t kept = old.st_mode & facts.st_mode & kPermissions;
  if (is_ours && kept != (facts.st_mode & kPermissions) && fchmod(made.file, kept) != 0) {
    const absl::Status status = FileError("write", path, errno);
    close(made.file);
    unlink(made.path.c_str());
    return status;
  }
  return made;
}

absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  const fs::path given = path;
  std::list<fs::path> left(given.begin(), given.end());
  fs::path followed;
  for (int links = 0; !left.empty();) {
    const fs::path next = followed / left.front();
    left.pop_front();
    std::error_code error;
    struct stat facts {};
    // A missing file is not a link, and opening reports any other error.
    if (lstat(next.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) {
      followed = next;
      continue;
    }
    // As the kernel does in shared folders where fs.protected_symlinks is set, which is not the case everywhere.
    if (facts.st_uid != geteuid() && facts.st_uid != 0) {
      return Refusal(next, "is a symbolic link of another user", "name the file that you want to write");
    }
    if (++links > kMostLinks) return FileError("write", path, ELOOP);
    const fs::path target = fs::read_symlink(next, error);
    if (error) return FileError("write", next, error.value());
    left.insert(left.begin(), target.begin(), target.end());
  }
  return followed.string();
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string ReadAll(int file) {
  std::string text;
  std::array<char, 1 << 16> block{};
  for (;;) {
    const ssize_t count = pread(file, block.data(), block.size(), static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

bool IsReplaceable(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode);
}

bool IsNameless(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0;
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  AtomicFile file;
  if (absl::Status status = file.Open(path); !status.ok()) return status;
  file.stream() << text;
  return file.Finish();
}

AtomicFile::~AtomicFile() {
  if (in_place_ >= 0) close(in_place_);
}

absl::Status AtomicFile::Open(const std::string& path) {
  struct stat facts {};
  if (path.back() == '/' || (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))) {
    return FileError("write", path, EISDIR);
  }
  absl::StatusOr<std::string> real = FollowLinks(path);
  if (!real.ok()) return real.status();
  if (!IsReplaceable(path)) {
    path_ = path;  // the links of /proc, to which /dev/stdout leads, are not paths
    const absl::StatusOr<int> file = OpenForWriting(path);
    in_place_ = file.value_or(-1);
    return file.status();
  }
  path_ = *std::move(real);
  // Try now, before any work is lost. Finish creates it again, so that a killed process leaves no file.
  const absl::StatusOr<TempFile> tried = CreateSiblingTempFile(path_);
  if (!tried.ok()) return tried.status();
  close(tried->file);
  unlink(tried->path.c_str());
  return absl::OkStatus();
}

absl::Status AtomicFile::Finish() {
  const std::string text = std::move(text_).str();
  if (in_place_ >= 0) return WriteAll(in_place_, text) ? absl::OkStatus() : FileError("write", path_, errno);
  const absl::StatusOr<TempFile> made = CreateSiblingTempFile(path_);
  if (!made.ok()) return made.status();
  // Sync before the rename: otherwise a power cut can leave an empty file.
  const bool kept =
      WriteAll(made->file, text) && fsync(made->file) == 0 && std::rename(made->path.c_str(), path_.c_str()) == 0;
  absl::Status status = kept ? absl::OkStatus() : FileError("write", path_, errno);
  close(made->file);
  if (!kept) unlink(made->path.c_str());
  return status;
}

bool LockedFile::Lock(int file) const {
  constexpr std::chrono::milliseconds kPause(20);
  for (std::chrono::milliseconds waited(0);; waited += kPause) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    if (waited >= patience_) return false;
    std::this_thread::sleep_for(kPause);
  }
}

bool LockedFile::IsInPlace() const {
  struct stat held {};
  struct stat named {};
  return fstat(file_, &held) == 0 && stat(path_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

absl::Status LockedFile::Open(const std::string& path, bool create) {
  Close();
  path_ = path;
  int flags = O_RDWR | O_APPEND | O_CLOEXEC;
  if (!IsNameless(path)) {
    absl::StatusOr<std::string> real = FollowLinks(path);
    if (!real.ok()) return real.status();
    path_ = *std::move(real);
    flags |= O_NOFOLLOW;  // a link that appears from now on
  }
  for (;;) {
    file_ = open(path_.c_str(), flags);
    if (file_ < 0 && errno == ENOENT) {
      if (!create) return absl::NotFoundError(path);
      file_ = open(path_.c_str(), flags | O_CREAT | O_EXCL, 0666);
      if (file_ < 0 && errno == EEXIST) continue;
      made_ = file_ >= 0;
    }
    if (file_ < 0) return FileError("write", path, errno);
    if (!Lock(file_)) {
      made_ = false;
      Close();
      return absl::AbortedError(path);
    }
    if (IsInPlace()) {
      SharedLocks::Add(file_);
      return absl::OkStatus();
    }
    made_ = false;
    Close();
  }
}

absl::Status LockedFile::OpenInPlace(const std::string& path) {
  Close();
  path_ = path;
  if (const auto real = FollowLinks(path); !real.ok()) return real.status();
  const absl::StatusOr<int> file = OpenForWriting(path);
  file_ = file.value_or(-1);
  return file.status();
}

void LockedFile::Close() {
  if (std::exchange(made_, false) && IsInPlace()) unlink(path_.c_str());
  SharedLocks::Remove(file_);
  if (file_ >= 0) close(file_);
  file_ = -1;
}

absl::Status LockedFile::Append(std::string_view text) {
  const off_t before = lseek(file_, 0, SEEK_END);
  if (WriteAll(file_, text)) {
    made_ = false;
    return absl::OkStatus();
  }
  const int error = errno;
  // Remove a partial record, so that later appends start on a clean boundary.
  if (before >= 0 && ftruncate(file_, before) != 0 && errno != EINVAL) return FileError("repair", path_, errno);
  return FileError("write", path_, error);
}

absl::Status LockedFile::Truncate(std::size_t size) {
  return ftruncate(file_, static_cast<off_t>(size)) == 0 ? absl::OkStatus() : FileError("repair", path_, errno);
}

absl::Status LockedFile::KeepOld() const {
  for (int number = 1;; ++number) {
    const std::string kept = absl::StrCat(path_, ".previous", number == 1 ? "" : absl::StrCat(".", number));
    // Link, not rename: if the path were free for a moment, another process would create a file there.
    if (link(path_.c_str(), kept.c_str()) == 0) return absl::OkStatus();
    struct stat facts {};
    if (errno == EEXIST || lstat(kept.c_str(), &facts) == 0) continue;
    // The file system does not support links.
    return std::rename(path_.c_str(), kept.c_str()) == 0 ? absl::OkStatus() : FileError("write", kept, errno);
  }
}

absl::Status LockedFile::Replace(std::string_view text, Old old) {
  if (IsNameless(absl::StrCat("/proc/self/fd/", file_))) {  // rename cannot replace it
    if (absl::Status status = Truncate(0); !status.ok()) return status;
    return Append(text);
  }
  const absl::StatusOr<TempFile> made = CreateSiblingTempFile(path_);
  if (!made.ok()) return made.status();
  absl::Status status;
  if (!Lock(made->file) || !WriteAll(made->file, text) || fsync(made->file) != 0) {
    status = FileError("write", path_, errno);
  }
  if (status.ok() && old == Old::kKeep) status = KeepOld();
  if (status.ok() && std::rename(made->path.c_str(), path_.c_str()) != 0) status = FileError("write", path_, errno);
  if (!status.ok()) {
    close(made->file);
    unlink(made->path.c_str());
    return status;
  }
  made_ = false;
  SharedLocks::Remove(file_);
  close(std::exchange(file_, made->file));
  SharedLocks::Add(file_);
  return absl::OkStatus();
}

absl::Status CheckPrivate(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? absl::NotFoundError(path) : FileError("use", path, errno);
  }
  constexpr char kDelete[] = "delete it to have it made again";
  if (S_ISLNK(facts.st_mode)) return Refusal(path, "is a symbolic link", kDelete);
  if (facts.st_uid != geteuid()) return Refusal(path, "belongs to another user", kDelete);
  if ((facts.st_mode & kOthersWrite) != 0) return Refusal(path, "can be written by other users", kDelete);
  return absl::OkStatus();
}

absl::Status MakePrivateFolder(const std::string& base, const std::string& name) {
  std::error_code error;
  if (!std::filesystem::exists(base, error)) {
    std::filesystem::create_directories(std::filesystem::path(base).parent_path(), error);
    if (absl::Status status = Make(base); !status.ok()) return status;
  }
  if (absl::Status status = CheckBase(base); !status.ok()) return status;
  const std::string folder = absl::StrCat(base, "/", name);
  if (absl::Status status = Make(folder); !status.ok()) return status;
  return CheckPrivate(folder);
}

absl::StatusOr<std::string> PrivateCacheFolder(const std::string& name) {
  const auto variable = [](const char* key) {
    const char* const value = std::getenv(key);
    return std::string(value == nullptr ? "" : value);
  };
  std::string base = variable("XDG_CACHE_HOME");
  if (base.empty() && !variable("HOME").empty()) base = absl::StrCat(variable("HOME"), "/.cache");
  if (base.empty()) return absl::UnavailableError("neither XDG_CACHE_HOME nor HOME names a place for a cache");
  const std::string ours = absl::StrCat(base, "/roofbench");
  for (const auto& [parent, folder] : {std::pair<std::string, std::string>{base, "roofbench"}, {ours, name}}) {
    if (absl::Status status = MakePrivateFolder(parent, folder); !status.ok()) return status;
  }
  return absl::StrCat(ours, "/", name);
}

}  // namespace roofbench
