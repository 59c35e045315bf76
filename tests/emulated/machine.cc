// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated/machine.h"

#include <link.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace roofbench::emulated {
namespace {

// A separate stack for functions that can be left and entered again, announced to AddressSanitizer.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 128 * 1024;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next Enter begins it. The last body has ended.
  void Begin(std::function<void()> body) {
    body_ = std::move(body);
    ended_ = false;
  }
  // Runs the body until it calls Leave or ends. Throws what the body threw. A fiber that is destroyed before its body
  // ended abandons it: objects on its stack are not destroyed.
  void Enter() {
    Switch(&outside_, &inside_, stack_.get(), kStackBytes);
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
  // Returns to the caller of Enter. Called from the body.
  void Leave() { Switch(&inside_, &outside_, outside_stack_, outside_bytes_); }
  bool ended() const { return ended_; }

 private:
  static void Start(unsigned high, unsigned low);
  [[noreturn]] void RunBodies() {
    for (;;) {
      try {
        body_();
      } catch (...) {
        thrown_ = std::current_exception();
      }
      ended_ = true;
      Leave();
    }
  }
  void Switch(ucontext_t* from, const ucontext_t* to, const void* stack, std::size_t bytes);

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  std::exception_ptr thrown_;
  bool ended_ = true;
  ucontext_t inside_ = {};
  ucontext_t outside_ = {};
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
};

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // makecontext passes integers.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  // AddressSanitizer would clear its state for the whole stack, which takes long, each time that it is entered.
  inside_.uc_stack = {};
}

void Fiber::Switch(ucontext_t* from, const ucontext_t* to, [[maybe_unused]] const void* stack,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack, bytes);
#endif
  swapcontext(from, to);
#ifdef __SANITIZE_ADDRESS__
  const bool inside = from == &inside_;
  __sanitizer_finish_switch_fiber(fake_stack, inside ? &outside_stack_ : nullptr, inside ? &outside_bytes_ : nullptr);
#endif
}

void Fiber::Start(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  self->RunBodies();
}

// Whether the module has this function's code; if so, sets all bytes of the calling thread's copy of its variables to
// 0xff: NaN, and an invalid address. They are the __shared__ variables of the kernels in this library and nothing else.
int PoisonIfOwn(dl_phdr_info* module, std::size_t /*size*/, void* /*nothing*/) {
  const auto here = reinterpret_cast<uintptr_t>(&PoisonIfOwn);
  bool own = false;
  std::size_t bytes = 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    own = own || (part.p_type == PT_LOAD && here >= begin && here < begin + part.p_memsz);
    if (part.p_type == PT_TLS) bytes = part.p_memsz;
  }
  if (own && module->dlpi_tls_data != nullptr) std::memset(module->dlpi_tls_data, 0xff, bytes);
  return own ? 1 : 0;
}

// uint_fast32_t of the standard library's engines would be 64 bits wide.
std::mt19937& Random() {
  static auto* random = new std::mt19937(1);
  return *random;
}
std::size_t Below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(Random()); }

// Threads of a block: a bit for each lane of each warp.
class Lanes {
 public:
  void Add(std::size_t thread) { of_warp_[thread / kWarp] |= Bit(thread); }
  void Remove(std::size_t thread) { of_warp_[thread / kWarp] &= ~Bit(thread); }
  Lanes operator&(const Lanes& other) const {
    Lanes both = *this;
    for (std::size_t warp = 0; warp < of_warp_.size(); ++warp) both.of_warp_[warp] &= other.of_warp_[warp];
    return both;
  }
  std::size_t Count() const {
    std::size_t count = 0;
    for (const uint32_t lanes : of_warp_) count += Members(lanes);
    return count;
  }
  // The member before which there are `number` others.
  std::size_t Member(std::size_t number) const {
    std::size_t warp = 0;
    for (; number >= Members(of_warp_[warp]); ++warp) number -= Members(of_warp_[warp]);
    uint32_t lanes = of_warp_[warp];
    for (; number > 0; --number) lanes &= lanes - 1;
    return warp * kWarp + static_cast<std::size_t>(std::countr_zero(lanes));
  }

 private:
  static std::size_t Members(uint32_t lanes) { return static_cast<std::size_t>(std::popcount(lanes)); }
  static uint32_t Bit(std::size_t thread) { return uint32_t{1} << thread % kWarp; }
  std::array<uint32_t, kMostThreads / kWarp> of_warp_ = {};
};

// The threads that run ahead of the others: all of them, one warp, all warps but one, one lane of each warp, or all
// lanes but one. A missing barrier shows only where some threads are far ahead, which fair turns hardly ever are.
Lanes Favored(std::size_t threads) {
  const std::size_t kind = Below(5);
  const std::size_t warp = Below((threads + kWarp - 1) / kWarp);
  const std::size_t lane = Below(std::min<std::size_t>(threads, kWarp));
  Lanes favored;
  for (std::size_t i = 0; i < threads; ++i) {
    const bool chosen = kind < 3 ? i / kWarp == warp : i % kWarp == lane;
    if (kind == 0 || chosen == (kind % 2 == 1)) favored.Add(i);
  }
  return favored;
}

std::string Text(const std::source_location& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

bool SamePlace(const std::source_location& a, const std::source_location& b) { return Text(a) == Text(b); }

enum class State { kReady, kAtBarrier, kAtExchange, kEnded };

// Fibers of blocks that ended without a fault are reused: a new one costs more than most kernels do.
std::vector<std::unique_ptr<Fiber>>& IdleFibers() {
  static auto* fibers = new std::vector<std::unique_ptr<Fiber>>;
  return *fibers;
}

std::unique_ptr<Fiber> TakeFiber() {
  if (IdleFibers().empty()) return std::make_unique<Fiber>();
  std::unique_ptr<Fiber> fiber = std::move(IdleFibers().back());
  IdleFibers().pop_back();
  return fiber;
}

struct Thread {
  std::unique_ptr<Fiber> fiber;
  State state = State::kReady;
  std::source_location where;
  unsigned lanes = 0;  // that it waits for
  uint64_t offered = 0;
  std::array<uint64_t, kWarp> received = {};
};

class Block {
 public:
  Block(Place place, const std::function<void()>& kernel)
      : place_(place), kernel_(kernel), threads_(place.block.x), favored_(Favored(place.block.x)) {}

  void Run() {
    dl_iterate_phdr(&PoisonIfOwn, nullptr);
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      threads_[i].fiber = TakeFiber();
      threads_[i].fiber->Begin(kernel_);
      ready_.Add(i);
    }
    running_block = this;
    while (ready_.Count() > 0) Turn();
    const auto waits = std::find_if(threads_.begin(), threads_.end(),
                                    [](const Thread& thread) { return thread.state != State::kEnded; });
    if (waits != threads_.end()) {
      throw Fault("thread " + std::to_string(waits - threads_.begin()) + " waits forever at " + Text(waits->where));
    }
    for (Thread& thread : threads_) IdleFibers().push_back(std::move(thread.fiber));
  }

  void Barrier(const std::source_location& where) {
    Wait(State::kAtBarrier, where, [this] { OpenBarrier(); });
  }

  uint64_t Exchange(unsigned lanes, uint64_t value, unsigned lane, const std::source_location& where) {
    Thread& mine = threads_[running_];
    if ((lanes >> (running_ % kWarp) & 1) == 0) throw Fault("a thread is not among its own lanes at " + Text(where));
    mine.lanes = lanes;
    mine.offered = value;
    Wait(State::kAtExchange, where, [this] { OpenExchange(running_ / kWarp * kWarp); });
    return mine.received[lane % kWarp];
  }

  const Place& place() {
    place_.thread.x = static_cast<unsigned>(running_);
    return place_;
  }

  static Block* running_block;

 private:
  void Turn() {
    const Lanes ahead = ready_ & favored_;
    const Lanes& among = ahead.Count() > 0 && Below(8) > 0 ? ahead : ready_;
    running_ = among.Member(Below(among.Count()));
    ready_.Remove(running_);
    Thread& thread = threads_[running_];
    thread.fiber->Enter();
    if (thread.fiber->ended()) thread.state = State::kEnded;
  }

  template <typename Open>
  void Wait(State state, const std::source_location& where, const Open& open) {
    Thread& mine = threads_[running_];
    mine.state = state;
    mine.where = where;
    open();
    mine.fiber->Leave();
  }

  void Release(std::size_t thread) {
    threads_[thread].state = State::kReady;
    ready_.Add(thread);
  }

  void OpenBarrier() {
    const std::source_location& where = threads_[running_].where;
    for (const Thread& thread : threads_) {
      if (thread.state != State::kAtBarrier) return;
      if (!SamePlace(thread.where, where)) {
        throw Fault("threads wait at different barriers: " + Text(where) + " and " + Text(thread.where));
      }
    }
    for (std::size_t i = 0; i < threads_.size(); ++i) Release(i);
  }

  void OpenExchange(std::size_t warp) {
    const Thread& mine = threads_[running_];
    std::vector<std::size_t> lanes;
    for (std::size_t lane = 0; lane < kWarp; ++lane) {
      if ((mine.lanes >> lane & 1) == 0) continue;
      if (warp + lane >= threads_.size()) throw Fault("a shuffle of lanes that do not exist at " + Text(mine.where));
      const Thread& other = threads_[warp + lane];
      if (other.state != State::kAtExchange) return;
      if (!SamePlace(other.where, mine.where) || other.lanes != mine.lanes) {
        throw Fault("lanes wait at different shuffles: " + Text(mine.where) + " and " + Text(other.where));
      }
      lanes.push_back(warp + lane);
    }
    for (const std::size_t to : lanes) {
      for (const std::size_t from : lanes) threads_[to].received[from - warp] = threads_[from].offered;
      Release(to);
    }
  }

  Place place_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  const Lanes favored_;
  Lanes ready_;
  std::size_t running_ = 0;
};

Block* Block::running_block = nullptr;

unsigned g_first_block = 0;

}  // namespace

void Seed(uint32_t seed) { Random().seed(seed); }

const Place& Here() { return Block::running_block->place(); }

Clocks& TheClocks() {
  static Clocks clocks = [] {
    const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    return Clocks{.nanoseconds = [now] { return static_cast<uint64_t>(now()); }, .cycles = now};
  }();
  return clocks;
}

void Barrier(const std::source_location& where) { Block::running_block->Barrier(where); }

uint64_t Exchange(unsigned lanes, uint64_t value, unsigned lane, const std::source_location& where) {
  return Block::running_block->Exchange(lanes, value, lane, where);
}

BlocksFrom::BlocksFrom(unsigned x) { g_first_block = x; }
BlocksFrom::~BlocksFrom() { g_first_block = 0; }

void Run(Index grid, Index block, const std::function<void()>& kernel) {
  const unsigned columns = grid.x - g_first_block;
  std::vector<std::size_t> order(std::size_t{columns} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), Random());
  for (const std::size_t number : order) {
    const Index of_grid{g_first_block + static_cast<unsigned>(number % columns),
                        static_cast<unsigned>(number / columns % grid.y),
                        static_cast<unsigned>(number / columns / grid.y)};
    Block(Place{grid, block, of_grid, {0, 0, 0}}, kernel).Run();
  }
}

}  // namespace roofbench::emulated
