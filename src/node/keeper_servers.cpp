// SPDX-License-Identifier: Apache-2.0
// Effects of ServerLife: servers and upgrades.
#include <signal.h>

#include <utility>
#include <variant>

#include "base/log.h"
#include "base/units.h"
#include "node/keeper_process.h"
#include "node/kept_configuration.h"
#include "node/version.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "runtime/segment_files.h"

namespace orlop::node {

namespace fx = protocol::life_effect;
using protocol::FrameKind;
using protocol::Program;
using protocol::ServerEnd;
using protocol::ServerLife;
using protocol::UpgradeOutcome;

namespace {

ServerEnd end_of(const ExitStatus& status) {
  if (status.by_signal) return ServerEnd::kOther;
  if (status.value == kExitBadConfiguration) return ServerEnd::kBadConfiguration;
  if (status.value == kExitSegmentCorrupt) return ServerEnd::kSegmentUnreadable;
  return ServerEnd::kOther;
}

}  // namespace

void Keeper::execute(const protocol::LifeEffects& effects) {
  for (const protocol::LifeEffect& effect : effects) {
    std::visit([this](const auto& one) { execute_one(one); }, effect);
  }
  settle_reload();
}

// ---- a server's life -------------------------------------------------------------------------

void Keeper::execute_one(const fx::Start& effect) {
  if (failed_ || over_) return;  // no memory to give it
  const auto started = start_server(effect.program == Program::kGood ? good_ : candidate_);
  if (started) return;
  LOG_ERROR("server_not_started", {"error", started.error().message});
  bury_half_started();
  execute(life_->start_failed(started.error(), monotonic_ns()));
}

Result<void> Keeper::start_server(const Source& source) {
  if (!machine_->served()) {
    const auto formatted = runtime::format_again(segment_);
    if (!formatted) return formatted;
  }
  auto pair = make_socket_pair();
  if (!pair) return std::unexpected<Error>(pair.error());
  SpawnRequest request{source.program.exec_path(),
                       commands_.server,
                       std::nullopt,
                       {{pair->second.get(), kKeeperFdNumber}},
                       SIGKILL};
  if (source.configuration)
    request.keep.push_back({source.configuration.get(), kConfigurationFdNumber});
  if (const int pauses = pause_page_descriptor(); pauses >= 0)
    request.keep.push_back({pauses, pauses});
  auto child = spawn(request);
  if (!child) return std::unexpected<Error>(child.error());
  server_ = std::move(*child);
  handed_over_ = false;
  link_ = runtime::MessageQueue(std::move(pair->first));
  const auto watched = epoll_.add(server_.pidfd.fd(), EPOLLIN, kServer);
  if (!watched) return watched;
  const auto link_watched = epoll_.add(link_.fd(), EPOLLIN, kLink);
  if (!link_watched) return link_watched;
  LOG_INFO("server_started", {"pid", server_.pid}, {"restarts", life_->restarts()});
  PAUSE_POINT(kKeeperSpawned);
  execute(machine_->server_started());
  return {};
}

// For want of processes, descriptors or memory.
void Keeper::bury_half_started() {
  if (link_) (void)epoll_.remove(link_.fd());
  if (server_.pidfd) {
    (void)epoll_.remove(server_.pidfd.fd());
    (void)server_.pidfd.send_signal(SIGKILL);
    (void)reap_child(server_.pidfd, monotonic_ns() + kKillLimit);
  }
  link_ = {};
  server_ = {};
}

// One that waits for its memory has nothing to end in order, and does not expect this word yet.
void Keeper::execute_one(const fx::Stop&) {
  if (!handed_over_) {
    LOG_INFO("server_not_needed", {"pid", server_.pid});
    (void)server_.pidfd.send_signal(SIGKILL);
    return;
  }
  send(protocol::encode_bare(FrameKind::kStop));
}

void Keeper::execute_one(const fx::Kill& effect) {
  LOG_WARN("server_killed", {"pid", server_.pid}, {"reason", effect.why});
  (void)server_.pidfd.send_signal(SIGKILL);
}

void Keeper::execute_one(const fx::Ping&) {
  send(protocol::encode_bare(FrameKind::kPing));
}

// The process is dead: read what it still said, take its status, close its socket.
void Keeper::server_ended() {
  bool closed = false;
  const auto read = read_link(&closed);
  if (!read) LOG_WARN("server_link_unreadable", {"error", read.error().message});
  (void)epoll_.remove(link_.fd());
  (void)epoll_.remove(server_.pidfd.fd());
  const auto status = reap_child(server_.pidfd, monotonic_ns() + kKillLimit);
  link_ = {};
  server_ = {};
  write_status_at_ = kNever;  // the next one's is written when it serves
  PAUSE_POINT(kKeeperServerEnded);
  execute(machine_->server_ended());
  const ExitStatus ended = status && *status ? **status : ExitStatus{false, kExitFailed};
  last_end_ = to_string(ended);
  const MonoNs now = monotonic_ns();
  if (life_->state() == ServerLife::State::kStopping) {
    LOG_INFO("server_stopped", {"end", last_end_});
  } else {
    LOG_WARN("server_ended", {"end", last_end_}, {"clients", channels_.size()});
    tell_manager("STATUS=the server ended (" + last_end_ + "), another one follows");
  }
  execute(life_->ended(end_of(ended), now));
  if (life_->state() == ServerLife::State::kWaiting) {
    const MonoNs at = life_->restart_at();
    LOG_INFO("restart_planned", {"in", format_duration_ns(at > now ? at - now : 0)});
  }
}

void Keeper::execute_one(const fx::NewMemory&) {
  LOG_ERROR("segment_lost", {"segment_id", segment_.id}, {"clients", channels_.size()});
  store_.give_up();
  watch_barrier();
  for (const auto& [client, kept] : channels_) store_checked(store_.forget_client(client));
  channels_.clear();
  segment_ = {};
  const auto made = make_memory();
  if (made) return;
  if (made.error().code == ErrorCode::kClosed) {
    over_ = true;  // told to stop while no server lives
  } else {
    failed_ = made.error();
  }
}

void Keeper::execute_one(const fx::Over& effect) {
  over_ = true;
  failed_ = effect.error;
}

// ---- upgrade ---------------------------------------------------------------------------------

void Keeper::execute_one(const fx::Check&) {
  reloading_ = true;
  tell_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_ns() / kNsPerUs) +
               "\nSTATUS=checking " + one_line(program_path_));
  const auto begun = begin_check();
  if (begun) return;
  execute(life_->checked({false, "?", begun.error().message}, monotonic_ns()));
}

Result<void> Keeper::begin_check() {
  auto program = open_program(program_path_);
  if (!program) return std::unexpected<Error>(program.error());
  candidate_ = {std::move(*program), {}};
  std::vector<KeptDescriptor> keep;
  if (!commands_.configuration_file.empty()) {
    auto configuration = copy_of_configuration(commands_.configuration_file);
    if (!configuration) return std::unexpected<Error>(configuration.error());
    keep.push_back({configuration->get(), kConfigurationFdNumber});
    candidate_.configuration = std::move(*configuration);
  }
  auto check = ProgramCheck::begin(candidate_.program, commands_.preflight, std::move(keep));
  if (!check) return std::unexpected<Error>(check.error());
  check_.emplace(std::move(*check));
  return epoll_.add(check_->process_fd(), EPOLLIN, kCheck);
}

void Keeper::check_ended() {
  if (!check_) return;
  (void)epoll_.remove(check_->process_fd());
  const auto answer = check_->take();
  check_.reset();
  PAUSE_POINT(kKeeperChecked);
  execute(life_->checked(judge(answer), monotonic_ns()));
}

protocol::CheckResult Keeper::judge(const Result<protocol::Preflight>& answer) const {
  if (!answer) return {false, "?", answer.error().message};
  const auto same = protocol::same_abi(*answer, kVersion);
  if (!same) return {false, answer->version, same.error().message};
  for (const std::string& setting : protocol::differing_settings(commands_.ours, *answer)) {
    LOG_WARN("setting_not_taken_up", {"setting", setting},
             {"reason", "the keeper owns it: restart the node for it"});
  }
  LOG_INFO("program_checked", {"program", program_path_}, {"version", answer->version},
           {"unchanged", candidate_.program.same_as(good_.program)});
  return {true, answer->version, {}};
}

void Keeper::execute_one(const fx::EndCheck&) {
  if (!check_) return;
  (void)epoll_.remove(check_->process_fd());
  check_.reset();
}

void Keeper::execute_one(const fx::Adopt&) {
  good_ = std::move(candidate_);
  candidate_ = {};
}

void Keeper::execute_one(const fx::Discard&) {
  candidate_ = {};
}

void Keeper::execute_one(const fx::Report& effect) {
  const protocol::UpgradeFrame& upgrade = effect.upgrade;
  const std::string outcome(to_string(upgrade.outcome));
  if (upgrade.outcome == UpgradeOutcome::kSucceeded) {
    LOG_INFO("upgrade", {"outcome", outcome}, {"from", upgrade.from}, {"to", upgrade.to});
  } else {
    LOG_ERROR("upgrade", {"outcome", outcome}, {"from", upgrade.from}, {"to", upgrade.to},
              {"reason", upgrade.reason});
  }
  if (life_->state() == ServerLife::State::kServing) send(protocol::encode(upgrade));
}

// The service manager waits for the end of a reload, however it ends.
void Keeper::settle_reload() {
  if (!reloading_ || life_->upgrading() || life_->state() != ServerLife::State::kServing) return;
  reloading_ = false;
  const protocol::UpgradeFrame& upgrade = life_->last_upgrade();
  tell_manager("READY=1\nSTATUS=serving; upgrade " + std::string(to_string(upgrade.outcome)) +
               (upgrade.reason.empty() ? "" : ": " + one_line(upgrade.reason)));
}

}  // namespace orlop::node
