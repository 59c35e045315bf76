// SPDX-License-Identifier: Apache-2.0
#include "lib/run/rank_team.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/device/gpu.h"
#include "lib/hardware/system_tree.h"
#include "lib/run/run_context.h"
#include "lib/run/thrown.h"

namespace roofbench {
namespace {

using std::chrono::milliseconds;

constexpr char kOver[] = "over";
constexpr int kDismissed = -1;  // in place of the number of cases
constexpr milliseconds kFarewell(5000);
constexpr milliseconds kStartOfAProcess(60'000);  // it loads LibTorch, perhaps while other programs run

std::string LinkOf(const char* path) {
  std::array<char, 256> target{};
  const ssize_t size = readlink(path, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : "";
}

// The same for processes that see each other and reach each other by the loopback interface.
std::string ThisHost() {
  return absl::StrCat(hardware::SystemTree("").Word("/proc/sys/kernel/random/boot_id"), LinkOf("/proc/self/ns/pid"),
                      LinkOf("/proc/self/ns/net"));
}

// The lines of `a` that `b` has not.
std::string Without(const std::string& a, const std::string& b) {
  const std::vector<std::string> others = absl::StrSplit(b, '\n');
  std::vector<std::string> lines = absl::StrSplit(a, '\n');
  std::erase_if(lines, [&](const std::string& line) { return std::ranges::find(others, line) != others.end(); });
  return lines.empty() ? "nothing" : absl::StrJoin(lines, " ");
}

std::string TextOf(const absl::Status& status) {
  return absl::StrCat(static_cast<int>(status.code()), " ", std::string(status.message()));
}

absl::Status StatusOfText(const std::string& text, std::size_t rank) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) return absl::InternalError("an unreadable status");
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), absl::StrCat("rank ", rank, ": ", parts.second));
}

// The cause of a failure: a rank that lost contact to another one only saw its consequence.
absl::Status CauseIn(const std::vector<std::optional<std::string>>& texts) {
  absl::Status cause;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    absl::Status status = StatusOfText(*texts[rank], rank);
    if (!status.ok() && (cause.ok() || (absl::IsUnavailable(cause) && !absl::IsUnavailable(status)))) {
      cause = std::move(status);
    }
  }
  return cause;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankTeam>> RankTeam::Meet(const ranks::Place& place, const std::string& fingerprint,
                                                         milliseconds timeout, const Start& start) try {
  absl::StatusOr<std::unique_ptr<ranks::Board>> board = ranks::Board::Open(place, timeout);
  if (!board.ok()) return board.status();
  std::unique_ptr<RankTeam> team(new RankTeam(*std::move(board), timeout));
  if (start) {
    absl::StatusOr<std::unique_ptr<ranks::RankProcesses>> processes = start(team->board_->port());
    if (!processes.ok()) return processes.status();
    team->processes_ = *std::move(processes);
  }
  const std::string mine = absl::StrCat(fingerprint, "\n", ThisHost(), " ", getpid());
  const auto texts = team->board_->Exchange("ranks", mine, start ? timeout + kStartOfAProcess : timeout,
                                            [&] { return team->GivesUp(); });
  absl::Status status = team->CompareWith(texts, mine);
  if (status.ok()) return team;
  // Whoever serves the board stays until all have compared.
  if (absl::IsFailedPrecondition(status)) team->SeeOff("compared");
  team->cases_ = kDismissed;
  return status;
} catch (const ranks::ContactLost& lost) {
  return absl::UnavailableError(lost.what());
}

absl::Status RankTeam::CompareWith(const std::vector<std::optional<std::string>>& texts, const std::string& mine) {
  if (const std::string missing = ranks::MissingRanks(texts); !missing.empty()) {
    return absl::UnavailableError(absl::StrCat(missing, " of ", size(), " did not come in time (--rank_timeout)"));
  }
  // Without the last line, the machine and the process.
  const auto split = [](const std::string& text) {
    const std::size_t last = text.rfind('\n');
    return std::pair(text.substr(0, last), text.substr(last + 1));
  };
  const auto [facts, process] = split(mine);
  const std::string host = process.substr(0, process.rfind(' '));
  for (std::size_t other = 0; other < texts.size(); ++other) {
    const auto [their_facts, their_process] = split(*texts[other]);
    if (their_facts != facts) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", other, " differs from rank ", rank(), ": it has ", Without(their_facts, facts), " instead of ",
          Without(facts, their_facts), "; start all ranks with the same program and flags"));
    }
    const std::size_t space = their_process.rfind(' ');
    pid_t pid = 0;
    if (static_cast<int>(other) == rank() || their_process.substr(0, space) != host) continue;
    if (absl::SimpleAtoi(their_process.substr(space + 1), &pid)) pids_here_.push_back(pid);
  }
  is_local_ = ranks_here() == size();
  return absl::OkStatus();
}

RankTeam::~RankTeam() {
  if (rank() != 0 || processes_ != nullptr || cases_ == kDismissed) return;  // our processes end with `processes_`
  try {
    board_->Write(absl::StrCat("case/", ++cases_), kOver);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the others are gone
  }
  SeeOff("farewell");
}

void RankTeam::SeeOff(const char* key) {
  try {
    board_->Exchange(key, "", rank() == 0 ? kFarewell : milliseconds(0));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): they are gone already
  }
}

int RankTeam::ranks_sharing() const {
  return 1 + static_cast<int>(std::count_if(pids_here_.begin(), pids_here_.end(), ranks::SharesProcessors));
}

double RankTeam::OtherCpuSeconds() const {
  double seconds = 0;
  for (const pid_t pid : pids_here_) seconds += ranks::CpuSecondsOf(pid);
  return seconds;
}

std::string RankTeam::CaseKey(const char* what) const { return absl::StrCat("case/", cases_, "/", what); }

std::optional<std::string> RankTeam::GivesUp() {
  if (processes_ != nullptr) return processes_->Dead();
  if (rank() != 0 && cases_ > 0 && board_->Has(CaseKey(kOver))) return "rank 0 has given up this case";
  if (!interrupted_ || !interrupted_()) return std::nullopt;
  // A launcher that ends the others after one died soon kills this rank too, with all results that are not written.
  const auto now = ranks::Board::Clock::now();
  if (!interrupted_at_) interrupted_at_ = now;
  if (now - *interrupted_at_ < kFarewell) return std::nullopt;
  return "interrupted while another rank did not answer";
}

absl::Status RankTeam::Lost(const std::string& reason) {
  broken_ = true;
  group_.reset();
  failure_ = interrupted_at_ ? absl::CancelledError(reason) : absl::UnavailableError(reason);
  return *failure_;
}

absl::Status RankTeam::Agree(absl::Status mine) try {
  if (failure_) return *failure_;
  // A rank that waits in a collective then sees its connection closed.
  if (!mine.ok()) group_.reset();
  const auto texts = board_->Exchange(CaseKey(absl::StrCat(agreements_++).c_str()), TextOf(mine), timeout_,
                                      [this] { return GivesUp(); });
  if (const std::string missing = ranks::MissingRanks(texts); !missing.empty()) {
    if (rank() == 0) board_->Write(CaseKey(kOver), "");
    return Lost(absl::StrCat(missing, " did not answer within ",
                             HumanTime(std::chrono::duration<double>(timeout_).count()), " (--rank_timeout)"));
  }
  absl::Status cause = CauseIn(texts);
  if (cause.ok()) return cause;
  group_.reset();
  failure_ = cause;
  return cause;
} catch (const ranks::ContactLost& lost) {
  return Lost(lost.what());
}

bool RankTeam::Any(bool mine) const {
  at::Tensor votes = at::full({1}, mine ? 1.0 : 0.0, at::kDouble);
  group_->AllReduce(votes);
  return *votes.data_ptr<double>() > 0;
}

int64_t RankTeam::OfRankZero(int64_t mine) const {
  at::Tensor number = at::full({1}, mine, at::kLong);
  group_->Broadcast(number, 0);
  return *number.const_data_ptr<int64_t>();
}

void RankTeam::SetDevice(const Device& device) {
  const Gpu* const gpu = device.gpu();
  if (gpu == nullptr) return;
  device_ = {.id = absl::StrCat(gpu->facts().pci_bus_id, " of machine ",
                                hardware::SystemTree("").Word("/proc/sys/kernel/random/boot_id")),
             .device = device.torch_device(),
             .nccl = static_cast<const ranks::NcclModule*>(gpu->Export(ranks::kNcclSymbol))};
}

absl::Status RankTeam::RunCase(const std::function<absl::Status()>& work) {
  agreements_ = 0;
  failure_.reset();
  absl::Status status = Agree(absl::OkStatus());  // all are here
  if (!status.ok()) return status;
  if (group_ == nullptr) {
    absl::StatusOr<std::unique_ptr<ranks::Group>> made =
        ranks::MakeGloo(*board_, absl::StrCat("group/", cases_), timeout_, is_local_, [this] { return GivesUp(); });
    status = Agree(made.status());
    if (!status.ok()) return status;
    made = ranks::WithDevice(*std::move(made), device_, *board_, absl::StrCat("group/", cases_), timeout_,
                             [this] { return GivesUp(); });
    if (made.ok()) group_ = *std::move(made);
    status = Agree(made.status());
    if (!status.ok()) return status;
  }
  try {
    status = work();
  } catch (...) {
    status = StatusOfThrown();
  }
  return Agree(std::move(status));
}

absl::Status RankTeam::Lead(std::size_t index, const std::function<absl::Status()>& work,
                            const std::function<bool()>& interrupted) try {
  ++cases_;
  interrupted_ = interrupted;
  // The others may still have a group that this rank has left.
  board_->Write(absl::StrCat("case/", cases_), absl::StrCat(index, group_ == nullptr ? " new_group" : ""));
  return RunCase(work);
} catch (const ranks::ContactLost& lost) {
  return Lost(lost.what());
}

std::optional<std::size_t> RankTeam::NextCase() {
  const std::string order = board_->Await(absl::StrCat("case/", ++cases_));
  if (order == kOver) {
    SeeOff("farewell");
    return std::nullopt;
  }
  if (absl::EndsWith(order, "new_group")) group_.reset();
  return static_cast<std::size_t>(std::stoll(order));
}

absl::Status RankTeam::Follow(const std::function<absl::Status()>& work) { return RunCase(work); }

RankTeams::RankTeams(const RunOptions& options, std::string fingerprint, std::vector<std::string> arguments)
    : timeout_(RankTimeout(options)),
      device_spec_(options.device),
      fingerprint_(std::move(fingerprint)),
      arguments_(std::move(arguments)),
      is_launched_(false) {}

RankTeams::RankTeams(const RunOptions& options, std::unique_ptr<RankTeam> team)
    : timeout_(RankTimeout(options)), device_spec_(options.device), is_launched_(true), team_(std::move(team)) {}

int64_t RankTeams::RanksHere(int64_t ranks) const { return is_launched_ ? team_->ranks_here() : ranks; }

absl::Status RankTeams::CheckDevices(int64_t ranks, const Device& device) const {
  if (device.gpu() == nullptr) return absl::OkStatus();
  if (absl::StartsWith(device_spec_, "cuda:")) {
    return absl::UnimplementedError(absl::StrCat("each rank needs a GPU of its own, and --device=", device_spec_,
                                                 " names one; CUDA_VISIBLE_DEVICES chooses those of --device=cuda"));
  }
  return is_launched_ ? absl::OkStatus() : SeesGpus(ranks);  // a launcher may show each rank its own GPU alone
}

absl::StatusOr<RankTeam*> RankTeams::For(int64_t ranks, const Device& device) {
  if (absl::Status status = ranks::GlooIsBuilt(); !status.ok()) return status;
  if (absl::Status status = CheckDevices(ranks, device); !status.ok()) return status;
  if (is_launched_) {
    team_->SetDevice(device);
    if (ranks == team_->size()) return team_.get();
    return absl::UnimplementedError(
        absl::StrCat("needs ", ranks, " ranks, and the launcher has started ", team_->size()));
  }
  if (team_ != nullptr && team_->size() == ranks && !team_->IsBroken()) return team_.get();
  team_.reset();
  const int size = static_cast<int>(ranks);
  absl::StatusOr<std::unique_ptr<RankTeam>> made =
      RankTeam::Meet({.launcher = ranks::Launcher::kOurs, .size = size, .serves = true}, fingerprint_, timeout_,
                     [&](uint16_t port) { return ranks::RankProcesses::Start(size, port, arguments_); });
  if (!made.ok()) return made.status();
  team_ = *std::move(made);
  team_->SetDevice(device);
  return team_.get();
}

std::string FingerprintOf(const RunOptions& options, const std::vector<PlannedCase>& plan) {
  std::vector<std::string> lines = {VersionLine(options)};
  lines.insert(lines.end(), options.measuring_flags.begin(), options.measuring_flags.end());
  std::string names;
  for (const PlannedCase& planned : plan) absl::StrAppend(&names, planned.name, "\n");
  lines.push_back(absl::StrCat(plan.size(), " cases (", absl::Hex(PortableHash(names)), ")"));
  return absl::StrJoin(lines, "\n");
}

milliseconds RankTimeout(const RunOptions& options) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(options.rank_timeout));
}

ThreadShare::ThreadShare(int threads, int ranks_sharing) : before_(at::get_num_threads()) {
  at::set_num_threads(std::max(1, threads / ranks_sharing));
}

ThreadShare::~ThreadShare() { at::set_num_threads(before_); }

}  // namespace roofbench
