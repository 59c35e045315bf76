// SPDX-License-Identifier: Apache-2.0
// Memory of which a thread may supply the pages when they are read. None does here, so these have to be there before.
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace roofbench {

class ServedMemory {
 public:
  // Whole pages.
  ServedMemory(void* begin, std::size_t bytes)
      : server_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))) {
    uffdio_api api = {.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register pages = {.range = {.start = reinterpret_cast<std::uintptr_t>(begin), .len = bytes},
                             .mode = UFFDIO_REGISTER_MODE_MISSING,
                             .ioctls = 0};
    is_served_ = server_ >= 0 && ioctl(server_, UFFDIO_API, &api) == 0 && ioctl(server_, UFFDIO_REGISTER, &pages) == 0;
  }
  ServedMemory(const ServedMemory&) = delete;
  ServedMemory& operator=(const ServedMemory&) = delete;
  ~ServedMemory() {
    if (server_ >= 0) close(server_);
  }

  // False where the system does not permit it.
  bool is_served() const { return is_served_; }

 private:
  const int server_;
  bool is_served_ = false;
};

}  // namespace roofbench
