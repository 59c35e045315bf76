// SPDX-License-Identifier: Apache-2.0
#include "lib/base/readable.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <system_error>

namespace roofbench {

// By its open files: the list of its memory takes milliseconds to read.
bool ServesMemory() {
  std::error_code error;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error)) {
    std::error_code closed;
    if (std::filesystem::read_symlink(file->path(), closed).string().find("userfaultfd") != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool IsReadable(const void* begin, std::size_t bytes) {
  if (bytes == 0) return true;
  constexpr std::size_t kPlaces = 32;
  thread_local std::minstd_rand random{std::random_device()()};
  std::uniform_int_distribution<std::size_t> below(0, bytes - 1);
  std::array<char, kPlaces> read{};
  std::array<iovec, kPlaces> places{};
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::size_t place = i == 0 ? 0 : i == 1 ? bytes - 1 : below(random);
    places.at(i) = {reinterpret_cast<void*>(first + place), 1};  // NOLINT(performance-no-int-to-ptr): as iovec has it
  }
  const iovec here{read.data(), read.size()};
  const ssize_t count = process_vm_readv(getpid(), &here, 1, places.data(), places.size(), 0);
  return count == static_cast<ssize_t>(kPlaces) || (count < 0 && errno != EFAULT);
}

bool IsServed(const void* begin, std::size_t bytes) {
  if (bytes == 0 || !ServesMemory()) return false;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  std::ifstream file("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    if (words >> std::hex >> from >> dash >> to && dash == '-') {
      is_here = from < first + bytes && first < to;
    } else if (is_here && line.starts_with("VmFlags:") && (line + ' ').find(" um ") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace roofbench
