// SPDX-License-Identifier: Apache-2.0
// The threads of the probes in a Python process. The extension links no OpenMP: where a package has loaded libgomp, as
// PyTorch does, they are that runtime's pool, as in the program; elsewhere they are this file's own.
#include "lib/kernels/threading/thread_pool.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace roofbench::kernels {
namespace {

using ThreadBody = FunctionRef<void(int index)>;

// libgomp's threads do not survive a fork, and a child would wait for them forever.
const pid_t kProcess = getpid();

// The functions of a libgomp that is already in the process.
struct OpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*thread_num)() = nullptr;
  int (*num_threads)() = nullptr;

  // nullptr in a forked child, and while there is none: a later import may load it.
  static const OpenMp* Loaded() {
    static OpenMp loaded;
    if (getpid() != kProcess) return nullptr;
    if (loaded.parallel != nullptr) return &loaded;
    void* const library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return nullptr;
    const auto load = [library]<typename Function>(Function& function, const char* name) {
      function = reinterpret_cast<Function>(dlsym(library, name));
      return function != nullptr;
    };
    const bool complete = load(loaded.thread_num, "omp_get_thread_num") &&
                          load(loaded.num_threads, "omp_get_num_threads") && load(loaded.parallel, "GOMP_parallel");
    return complete ? &loaded : nullptr;
  }

  void OnEach(int threads, ThreadBody body) const {
    auto share = [&] {
      // With fewer threads than asked for (a thread limit), each takes several turns.
      for (int index = thread_num(); index < threads; index += num_threads()) body(index);
    };
    parallel([](void* data) { (*static_cast<decltype(share)*>(data))(); }, &share, static_cast<unsigned>(threads), 0);
  }
};

// Threads that wait for work between calls, and live as long as the process. A forked child has none, and starts its
// own.
class OwnThreads {
 public:
  static OwnThreads& Get() {
    static OwnThreads* threads = nullptr;
    if (threads == nullptr || threads->process_ != getpid()) threads = new OwnThreads();
    return *threads;
  }

  // The caller is one of the threads.
  void OnEach(int threads, ThreadBody body) {
    {
      const std::lock_guard lock(mutex_);
      for (; started_ < threads; ++started_) std::thread(&OwnThreads::Serve, this, started_).detach();
      body_ = &body;
      wanted_ = threads;
      working_ = threads - 1;
      ++call_;
    }
    begin_.notify_all();
    body(0);
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void Serve(int index) {
    std::unique_lock lock(mutex_);
    for (int64_t served = call_ - 1;;) {
      begin_.wait(lock, [&] { return call_ != served; });
      served = call_;
      if (index >= wanted_) continue;
      const ThreadBody body = *body_;
      lock.unlock();
      body(index);
      lock.lock();
      if (--working_ == 0) end_.notify_one();
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  int started_ = 1;
  int64_t call_ = 0;
  int wanted_ = 0;
  int working_ = 0;
  const ThreadBody* body_ = nullptr;
};

}  // namespace

int Processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed)
                                                              : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

void ThreadPool::OnEach(FunctionRef<void(int index)> body) const {
  if (threads_ == 1) return body(0);
  if (const OpenMp* openmp = OpenMp::Loaded()) return openmp->OnEach(threads_, body);
  OwnThreads::Get().OnEach(threads_, body);
}

}  // namespace roofbench::kernels
