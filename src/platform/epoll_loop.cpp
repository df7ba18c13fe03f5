// SPDX-License-Identifier: Apache-2.0
#include "platform/epoll_loop.h"

#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <string>

#include "platform/system_error.h"

namespace orlop {
namespace {

Result<void> control(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll, operation, fd, &event) == 0) return {};
  const char* name = operation == EPOLL_CTL_ADD   ? "epoll_ctl(EPOLL_CTL_ADD, "
                     : operation == EPOLL_CTL_MOD ? "epoll_ctl(EPOLL_CTL_MOD, "
                                                  : "epoll_ctl(EPOLL_CTL_DEL, ";
  const bool state = errno == EEXIST || errno == ENOENT;
  return system_failure(name + std::to_string(fd) + ")", errno, {},
                        state ? ErrorCode::kWrongState : ErrorCode::kSystem);
}

int wait_ns(int epoll, epoll_event* out, int limit, MonoNs timeout_ns) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(timeout_ns / kNsPerSecond);
  time.tv_nsec = static_cast<long>(timeout_ns % kNsPerSecond);
  const int ready =
      ::epoll_pwait2(epoll, out, limit, timeout_ns == kNever ? nullptr : &time, nullptr);
  if (ready >= 0 || errno != ENOSYS) return ready;
  // Before Linux 5.11 there are milliseconds only; rounded up, so that a deadline is not spun on.
  const MonoNs ms = timeout_ns / kNsPerMs + (timeout_ns % kNsPerMs != 0 ? 1 : 0);
  const int limited = timeout_ns == kNever ? -1 : ms > INT_MAX ? INT_MAX : static_cast<int>(ms);
  return ::epoll_wait(epoll, out, limit, limited);
}

}  // namespace

Result<EpollLoop> EpollLoop::create() {
  EpollLoop made;
  made.descriptor_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!made.descriptor_) return system_failure("epoll_create1", errno);
  made.ready_.reserve(kMaxEvents);
  return made;
}

Result<void> EpollLoop::add(int fd, std::uint32_t events, std::uint64_t tag) {
  return control(descriptor_.get(), EPOLL_CTL_ADD, fd, events, tag);
}

Result<void> EpollLoop::modify(int fd, std::uint32_t events, std::uint64_t tag) {
  return control(descriptor_.get(), EPOLL_CTL_MOD, fd, events, tag);
}

Result<void> EpollLoop::remove(int fd) {
  return control(descriptor_.get(), EPOLL_CTL_DEL, fd, 0, 0);
}

Result<std::span<const EpollEvent>> EpollLoop::wait(MonoNs timeout_ns) {
  std::array<epoll_event, kMaxEvents> raw;
  ready_.clear();
  const int ready =
      wait_ns(descriptor_.get(), raw.data(), static_cast<int>(raw.size()), timeout_ns);
  if (ready < 0 && errno != EINTR) return system_failure("epoll_pwait2", errno);
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = raw[static_cast<std::size_t>(i)];
    ready_.push_back(EpollEvent{event.data.u64, event.events});
  }
  return std::span<const EpollEvent>(ready_);
}

}  // namespace orlop
