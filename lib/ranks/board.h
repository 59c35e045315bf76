// SPDX-License-Identifier: Apache-2.0
// The board of a group of ranks: short texts that each rank writes and every other one reads, by which they agree on
// what to do next and notice which of them is missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/ranks/place.h"

namespace c10d {
class Store;
}

namespace roofbench::ranks {

// Another rank ended, left, or did not answer in time. Its message names a consequence: the cause is that rank's own.
class ContactLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Board {
 public:
  using Clock = std::chrono::steady_clock;
  // Polled while a call waits: a text ends the wait, as the reason of ContactLost.
  using GivesUp = std::function<std::optional<std::string>()>;

  // Meets the others at `place`, waiting up to `timeout` for the rank that serves the board. Unavailable with the
  // address and the reason; AlreadyExists if this rank is there already: the port belongs to another run.
  static absl::StatusOr<std::unique_ptr<Board>> Open(const Place& place, std::chrono::milliseconds timeout);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Where it is served: the port that the system chose for port 0.
  uint16_t port() const;

  // Each key is written once. Both throw ContactLost if the rank that serves the board is gone.
  void Write(const std::string& key, const std::string& text);
  bool Has(const std::string& key);
  // Waits up to `timeout`; nullopt: it was not written in time, or `gives_up`.
  std::optional<std::string> Read(const std::string& key, std::chrono::milliseconds timeout,
                                  const GivesUp& gives_up = {});

  // Waits without a limit and without using the processor.
  std::string Await(const std::string& key);

  // Writes this rank's text and returns those of all, by rank; nullopt for each rank that did not write in time. Every
  // rank calls it with the same `name`, which is used once.
  std::vector<std::optional<std::string>> Exchange(const std::string& name, const std::string& text,
                                                   std::chrono::milliseconds timeout, const GivesUp& gives_up = {});

  // For MakeGloo.
  c10d::Store& store() { return *store_; }

 private:
  struct Shared;  // keeps c10d out of this header
  Board(int rank, int size, std::unique_ptr<Shared> shared);

  const int rank_;
  const int size_;
  const std::unique_ptr<Shared> shared_;
  c10d::Store* const store_;
};

// "rank 2", or "ranks 2, 5": those without a text; empty if there are none.
std::string MissingRanks(const std::vector<std::optional<std::string>>& texts);

}  // namespace roofbench::ranks
