// SPDX-License-Identifier: Apache-2.0
// Files: reading untrusted ones, replacing one atomically, locking one, and folders that no other user can write to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

// Unavailable: "cannot <what> <path>: <reason of errno>", and the remedy where one is known.
absl::Status FileError(const char* what, const std::string& path, int error);

// An untrusted file, which may change while it is read. It is read and not mapped: a process that reads a mapped file
// gets SIGBUS when the file becomes shorter.
class RegularFile {
 public:
  // Never blocks: a pipe without a writer, a device or a folder is InvalidArgument. NotFound or another error of the
  // system names the path.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  ~RegularFile();

  const std::string& path() const { return path_; }
  // In bytes, when it was opened.
  uint64_t size() const { return size_; }

  // Fills `to` with the bytes from `offset` on. DataLoss if the file has become shorter; any error names the path.
  // Thread-safe.
  absl::Status Read(uint64_t offset, std::span<std::byte> to) const;

 private:
  RegularFile(std::string path, int file, uint64_t size) : path_(std::move(path)), file_(file), size_(size) {}

  std::string path_;
  int file_;
  uint64_t size_;
};

// Reads a whole regular file. InvalidArgument if it has more than `most` bytes; other errors as RegularFile.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most);

// The suffix of unfinished files.
inline constexpr std::string_view kUnfinished = ".part";

struct TempFile {
  int file = -1;  // open for reading and appending; the caller closes it
  std::string path;
};

// Creates <path>.<random>.part, to be renamed to `path`. It is safe in folders that other users can write to, and
// copies the permissions of the file at `path` if there is one. Unavailable with the path, the reason and the remedy.
absl::StatusOr<TempFile> CreateSiblingTempFile(const std::string& path);

// Resolves the symbolic links in `path`, including a last one that dangles. PermissionDenied for a link that neither
// this user nor root owns, because it could lead a writer to any file; Unavailable for a cycle.
absl::StatusOr<std::string> FollowLinks(const std::string& path);

// Writes all of the text. False with errno set on failure.
bool WriteAll(int file, std::string_view text);

// Reads an open file from its beginning to its end, or to the first error. Keeps the offset, which writers may share.
std::string ReadAll(int file);

// Whether a file at `path` can be replaced by rename: it is a regular file, or does not exist.
bool IsReplaceable(const std::string& path);

// Whether `path` leads to a regular file without a name: it was deleted, or is a memfd.
bool IsNameless(const std::string& path);

// A file that is complete or absent: buffered in memory, and at the end written to a sibling and renamed. A reader
// never sees half a file, a failed run keeps the old one, and of two runs that write the same file the last one wins. A
// device or a pipe (/dev/stdout) is written in place; a symbolic link stays, and its target is replaced.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Checks that the file can be written. Errors as FollowLinks; Unavailable with the path, the reason and the remedy.
  absl::Status Open(const std::string& path);
  std::ostream& stream() { return text_; }
  // Writes the file, syncs it, and renames it.
  absl::Status Finish();

 private:
  std::string path_;  // links resolved
  int in_place_ = -1;
  std::ostringstream text_;
};

// Writes `text` to `path` with an AtomicFile.
absl::Status WriteFile(const std::string& path, std::string_view text);

// A file to which one process at a time appends whole records. The lock lasts from Open to the end of the object or the
// process, even if the file is renamed: Replace locks the new file before it renames it. Errors are Unavailable with
// the path, the reason and the remedy, unless stated otherwise.
class LockedFile {
 public:
  // Open waits up to `patience` for another process's lock.
  explicit LockedFile(std::chrono::milliseconds patience) : patience_(patience) {}
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  // Removes an empty file that Open created.
  ~LockedFile() { Close(); }

  // Opens a regular file to read and append; resolves symbolic links, accepts one without a name (memfd). NotFound if
  // it does not exist and `create` is false. Aborted if another process keeps it locked.
  absl::Status Open(const std::string& path, bool create);
  // Opens a device, a pipe with a reader or a file without a name for writing in place, without a lock.
  absl::Status OpenInPlace(const std::string& path);
  void Close();
  bool is_open() const { return file_ >= 0; }

  std::string Read() const { return ReadAll(file_); }
  // Appends all of the text, or nothing.
  absl::Status Append(std::string_view text);
  absl::Status Truncate(std::size_t size);

  enum class Old { kDrop, kKeep };
  // Replaces the whole file; on failure the old one stays. kKeep renames the old one to the first unused name of
  // <path>.previous, <path>.previous.2, …
  absl::Status Replace(std::string_view text, Old old);

 private:
  bool Lock(int file) const;
  // Whether `file_` is still the file at the path: another process may have replaced it while this one waited.
  bool IsInPlace() const;
  absl::Status KeepOld() const;

  std::chrono::milliseconds patience_;
  std::string path_;  // links resolved
  int file_ = -1;
  bool made_ = false;  // and still empty
};

// Makes <base>/<name> with permissions for this user alone, whatever the umask, and creates `base` if needed. Use it
// for files that the program executes. PermissionDenied, with the path, the reason and the remedy, if another user owns
// either folder or can replace its contents; Unavailable if a folder cannot be created.
absl::Status MakePrivateFolder(const std::string& base, const std::string& name);

// Makes the private folder <cache>/roofbench/<name>, <cache> being XDG_CACHE_HOME or ~/.cache, and returns its path.
// Errors as above; Unavailable where neither variable names a place.
absl::StatusOr<std::string> PrivateCacheFolder(const std::string& name);

// OK if the file or folder belongs to this user, is not a link, and no other user can write to it. Otherwise
// PermissionDenied with the reason; NotFound if it does not exist.
absl::Status CheckPrivate(const std::string& path);

}  // namespace roofbench
