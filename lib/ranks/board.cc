// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/board.h"

#include <c10/util/Logging.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text.h"

namespace roofbench::ranks {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook(5);  // between two looks at a key

// A socket of the loopback interface, which the store would otherwise open on every one. Negative: errno says why.
int ListenOnLoopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return listener;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(listener, SOMAXCONN) == 0) {
    return listener;
  }
  close(listener);
  return -1;
}

uint16_t PortOf(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

std::string TextOf(const c10::Error& error) { return FirstLine(error.what_without_backtrace()); }

[[noreturn]] void ThrowLost(const c10::Error& error) {
  throw ContactLost(absl::StrCat("no contact to the rank where all ranks meet: ", TextOf(error)));
}

std::string WhyUnavailable(const Place& place, milliseconds timeout, const std::string& reason) {
  if (place.serves) {
    return absl::StrCat("rank ", place.rank, " cannot wait for the others at port ", place.port, ": ", reason,
                        "; if another program has that port, choose a different MASTER_PORT");
  }
  return absl::StrCat("rank ", place.rank, " did not reach rank 0 at ", place.host, ":", place.port, " within ",
                      HumanTime(std::chrono::duration<double>(timeout).count()),
                      ": MASTER_ADDR and MASTER_PORT must be those of rank 0, which must run (", reason, ")");
}

}  // namespace

struct Board::Shared {
  c10::intrusive_ptr<c10d::TCPStore> server;
  c10::intrusive_ptr<c10d::PrefixStore> store;
};

Board::Board(int rank, int size, std::unique_ptr<Shared> shared)
    : rank_(rank), size_(size), shared_(std::move(shared)), store_(shared_->store.get()) {}
Board::~Board() = default;

uint16_t Board::port() const { return shared_->server->getPort(); }

absl::StatusOr<std::unique_ptr<Board>> Board::Open(const Place& place, milliseconds timeout) {
  // The store also logs, with its stack, whatever it throws.
  constexpr int kFatal = 3;
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kFatal);
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.serves;
  options.numWorkers = place.size;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (place.serves && place.port == 0) {
    const int listener = ListenOnLoopback();
    if (listener < 0) return absl::UnavailableError(absl::StrCat("no port for the ranks: ", std::strerror(errno)));
    options.masterListenFd = listener;
    options.port = PortOf(listener);
  }
  try {
    auto shared = std::make_unique<Shared>();
    shared->server = c10::make_intrusive<c10d::TCPStore>(place.host, options);
    // torchrun's own store outlives the ranks of an earlier start, with their keys.
    shared->store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("start/", place.restarts), shared->server);
    std::unique_ptr<Board> board(new Board(place.rank, place.size, std::move(shared)));
    if (board->store_->add(absl::StrCat("present/", place.rank), 1) == 1) return board;
    return absl::AlreadyExistsError(absl::StrCat("rank ", place.rank, " is already in the run at ", place.host, ":",
                                                 place.port,
                                                 ": another run has this port; choose a different "
                                                 "MASTER_PORT"));
  } catch (const c10::Error& error) {
    return absl::UnavailableError(WhyUnavailable(place, timeout, TextOf(error)));
  }
}

void Board::Write(const std::string& key, const std::string& text) try {
  store_->set(key, std::vector<uint8_t>(text.begin(), text.end()));
} catch (const c10::Error& error) {
  ThrowLost(error);
}

bool Board::Has(const std::string& key) try { return store_->check({key}); } catch (const c10::Error& error) {
  ThrowLost(error);
}

std::optional<std::string> Board::Read(const std::string& key, milliseconds timeout, const GivesUp& gives_up) try {
  // Looks again and again, which costs a round trip each: the store's own wait logs warnings at its end.
  for (const Clock::time_point end = Clock::now() + timeout; !store_->check({key});
       std::this_thread::sleep_for(kLook)) {
    if (Clock::now() >= end) return std::nullopt;
    if (!gives_up) continue;
    if (const std::optional<std::string> reason = gives_up()) throw ContactLost(*reason);
  }
  const std::vector<uint8_t> bytes = store_->get(key);
  return std::string(bytes.begin(), bytes.end());
} catch (const c10::Error& error) {
  ThrowLost(error);
}

std::string Board::Await(const std::string& key) try {
  for (bool is_there = false; !is_there;) {
    try {
      store_->wait({key}, std::chrono::hours(24));
      is_there = true;
    } catch (const c10::DistStoreError&) {  // NOLINT(bugprone-empty-catch): a day has passed
    }
  }
  const std::vector<uint8_t> bytes = store_->get(key);
  return std::string(bytes.begin(), bytes.end());
} catch (const c10::Error& error) {
  ThrowLost(error);
}

std::vector<std::optional<std::string>> Board::Exchange(const std::string& name, const std::string& text,
                                                        milliseconds timeout, const GivesUp& gives_up) {
  const Clock::time_point end = Clock::now() + timeout;
  Write(absl::StrCat(name, "/", rank_), text);
  std::vector<std::optional<std::string>> texts;
  for (int rank = 0; rank < size_; ++rank) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    texts.push_back(Read(absl::StrCat(name, "/", rank), std::max(left, milliseconds(0)), gives_up));
  }
  return texts;
}

std::string MissingRanks(const std::vector<std::optional<std::string>>& texts) {
  std::vector<std::size_t> missing;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank]) missing.push_back(rank);
  }
  if (missing.empty()) return "";
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "));
}

}  // namespace roofbench::ranks
