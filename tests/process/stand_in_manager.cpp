// SPDX-License-Identifier: Apache-2.0
#include "stand_in_manager.h"

#include <linux/kcmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/check.h"
#include "platform/clock.h"
#include "platform/poll_wait.h"
#include "platform/unix_socket.h"

namespace orlop::process_test {
namespace {

constexpr int kFirstFd = 3;  // SD_LISTEN_FDS_START
constexpr MonoNs kLook = 5 * kNsPerMs;

bool same_open_file(int a, int b) {
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, a, b) == 0;
}

}  // namespace

StandInManager::StandInManager(const std::string& folder) : path_(folder + "/notify") {
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  CHECK(path_.size() < sizeof name.sun_path);
  std::memcpy(name.sun_path, path_.data(), path_.size());
  CHECK(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0,
        "notify socket");
  reader_ = std::thread([this] { run(); });
}

StandInManager::~StandInManager() {
  over_ = true;
  reader_.join();
}

void StandInManager::run() {
  while (!over_) {
    if (stalled_ || !wait_readable(socket_.get(), monotonic_ns() + kLook).value_or(false)) {
      if (stalled_) std::this_thread::yield();
      drop_hung_up();
      continue;
    }
    auto received = receive_message(socket_.get());
    CHECK(received.has_value(), "notify socket");
    if (received->state != ReceiveState::kMessage) continue;
    const auto& bytes = received->message.bytes;
    handle({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
           std::move(received->message.descriptors));
  }
}

void StandInManager::handle(const std::string& text, std::vector<FileDescriptor> descriptors) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++lines_[line];
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) fields[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (fields.contains("FDSTORE")) {
    for (FileDescriptor& one : descriptors)
      keep({fields["FDNAME"], std::move(one), fields["FDPOLL"] != "0"});
  }
  if (fields.contains("FDSTOREREMOVE"))
    std::erase_if(store_, [&](const Stored& one) { return one.name == fields["FDNAME"]; });
  // BARRIER: the descriptors end here.
}

void StandInManager::keep(Stored stored) {
  for (const Stored& one : store_) {
    if (same_open_file(one.descriptor.get(), stored.descriptor.get())) return;
  }
  store_.push_back(std::move(stored));
}

void StandInManager::drop_hung_up() {
  const std::lock_guard lock(mutex_);
  std::erase_if(store_, [](const Stored& one) {
    pollfd watched{one.descriptor.get(), 0, 0};
    return one.poll && ::poll(&watched, 1, 0) > 0 && (watched.revents & (POLLHUP | POLLERR)) != 0;
  });
}

std::unique_ptr<Daemon> StandInManager::start(const std::string& folder,
                                              std::vector<std::string> extra,
                                              std::vector<std::string> environment,
                                              std::vector<KeptDescriptor> keep) {
  if (!stalled_) settle();
  DaemonStart start;
  start.service = true;
  start.environment = std::move(environment);
  start.environment.push_back("NOTIFY_SOCKET=" + path_);
  std::string names;
  const std::lock_guard lock(mutex_);
  for (const Stored& one : store_) {
    names += (names.empty() ? "" : ":") + one.name;
    start.keep.push_back({one.descriptor.get(), kFirstFd + static_cast<int>(start.keep.size())});
  }
  start.environment.push_back("LISTEN_FDS=" + std::to_string(store_.size()));
  start.environment.push_back("LISTEN_FDNAMES=" + names);
  start.keep.insert(start.keep.end(), keep.begin(), keep.end());
  return std::make_unique<Daemon>(folder, std::move(extra), std::move(start));
}

unsigned StandInManager::count(const std::string& line) const {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(line);
  return found == lines_.end() ? 0 : found->second;
}

std::vector<std::string> StandInManager::stored() const {
  settle();
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Stored& one : store_) names.push_back(one.name);
  std::ranges::sort(names);
  return names;
}

bool StandInManager::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(store_, name, &Stored::name);
  if (found == store_.end()) return false;
  store_.erase(found);
  return true;
}

void StandInManager::add(const std::string& name, FileDescriptor descriptor) {
  const std::lock_guard lock(mutex_);
  store_.push_back({name, std::move(descriptor), false});
}

// A datagram of our own comes after everything that was sent before it.
void StandInManager::settle() const {
  const unsigned before = count("SETTLE=1");
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path_.data(), path_.size());
  CHECK(::connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
  CHECK(::send(socket.get(), "SETTLE=1", 8, 0) == 8);
  CHECK(eventually([&] { return count("SETTLE=1") > before; }));
}

}  // namespace orlop::process_test
