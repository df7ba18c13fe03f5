// SPDX-License-Identifier: Apache-2.0
#include "resources.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "daemon.h"

namespace orlop::limits_test {

namespace {

std::string proc(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool write_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

std::set<unsigned long> open_numbers(pid_t pid) {
  std::set<unsigned long> numbers;
  std::error_code gone;
  for (const auto& one : std::filesystem::directory_iterator(proc(pid, "fd"), gone))
    numbers.insert(std::stoul(one.path().filename().string()));
  return numbers;
}

// The value of "NAME VALUE" or "NAME: VALUE kB"; 0: not there.
std::uint64_t value_in(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t value = 0;
    if (words >> first >> value && (first == name || first == name + ":")) return value;
  }
  return 0;
}

void set_soft_limit(pid_t pid, std::uint64_t limit, std::uint64_t* before) {
  rlimit now{};
  CHECK(::prlimit(pid, RLIMIT_NOFILE, nullptr, &now) == 0, "limit of open files");
  if (before != nullptr) *before = now.rlim_cur;
  now.rlim_cur = limit;
  CHECK(::prlimit(pid, RLIMIT_NOFILE, &now, nullptr) == 0, "limit of open files");
}

constexpr const char* kV1Root = "/sys/fs/cgroup/memory";

// Where a cgroup of that version with the memory controller can be made.
Result<std::string> memory_root(MemoryCgroup::Version version) {
  if (version == MemoryCgroup::Version::kV1) {
    if (::access((std::string(kV1Root) + "/memory.limit_in_bytes").c_str(), F_OK) == 0 ||
        ::access((std::string(kV1Root) + "/memory.usage_in_bytes").c_str(), F_OK) == 0)
      return std::string(kV1Root);
    return fail(ErrorCode::kRefused, std::string("no memory cgroup of version 1 at ") + kV1Root);
  }
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    const std::string controllers = text_of(std::string(root) + "/cgroup.controllers");
    if ((" " + controllers + " ").find("memory") != std::string::npos) {
      (void)write_text(std::string(root) + "/cgroup.subtree_control", "+memory");
      return std::string(root);
    }
  }
  return fail(ErrorCode::kRefused,
              "no memory controller in a cgroup of version 2 here (cgroup.controllers: " +
                  text_of("/sys/fs/cgroup/unified/cgroup.controllers") + ")");
}

}  // namespace

bool tried(const Client& client) {
  return client.last_attach_error().message.find("not over yet") == std::string::npos;
}

Footprint footprint_of(pid_t pid) {
  Footprint footprint;
  footprint.descriptors = open_numbers(pid).size();
  const std::string maps = text_of(proc(pid, "maps"));
  footprint.maps = static_cast<std::size_t>(std::ranges::count(maps, '\n'));
  footprint.resident_kib = value_in(text_of(proc(pid, "status")), "RssAnon");
  return footprint;
}

std::string to_string(const Footprint& footprint) {
  return std::to_string(footprint.descriptors) + " descriptors, " + std::to_string(footprint.maps) +
         " maps, " + std::to_string(footprint.resident_kib) + " KiB";
}

DescriptorsLeft::DescriptorsLeft(pid_t pid, unsigned left) : pid_(pid) {
  const auto open = open_numbers(pid);
  std::uint64_t limit = 0;
  for (unsigned free = 0; free < left || open.contains(limit); ++limit)
    if (!open.contains(limit)) ++free;
  set_soft_limit(pid, limit, &before_);
}

DescriptorsLeft::~DescriptorsLeft() {
  if (::kill(pid_, 0) == 0) set_soft_limit(pid_, before_, nullptr);
}

Result<MemoryCgroup> MemoryCgroup::create(Version version) {
  const auto root = memory_root(version);
  if (!root) return std::unexpected(root.error());
  static int number = 0;
  const std::string path =
      *root + "/orlop-limits-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
  if (::mkdir(path.c_str(), 0755) != 0) {
    return fail(ErrorCode::kRefused,
                "mkdir(" + path + "): " + std::strerror(errno) + "; needs root");
  }
  MemoryCgroup made(version, path);
  if (!made.limit(std::uint64_t{1} << 40))
    return fail(ErrorCode::kRefused, path + " takes no memory limit");
  return made;
}

MemoryCgroup::MemoryCgroup(MemoryCgroup&& other) noexcept
    : version_(other.version_), path_(std::exchange(other.path_, {})) {}

MemoryCgroup::~MemoryCgroup() {
  if (path_.empty()) return;
  // The dead leave it when they are reaped.
  const bool removed = process_test::eventually([&] { return ::rmdir(path_.c_str()) == 0; });
  CHECK(removed, "a cgroup of a test is empty at its end");
}

std::string MemoryCgroup::enter() const {
  return "echo $$ > " + path_ + "/cgroup.procs";
}

void MemoryCgroup::enter_self() const {
  CHECK(write_text(path_ + "/cgroup.procs", std::to_string(::getpid())), "enters a cgroup");
}

std::string MemoryCgroup::limit_file() const {
  return path_ + (version_ == Version::kV1 ? "/memory.limit_in_bytes" : "/memory.max");
}

bool MemoryCgroup::limit(std::uint64_t bytes) {
  return write_text(limit_file(), std::to_string(bytes));
}

std::uint64_t MemoryCgroup::usage() const {
  const std::string file = version_ == Version::kV1 ? "/memory.usage_in_bytes" : "/memory.current";
  return std::stoull(text_of(path_ + file));
}

std::uint64_t MemoryCgroup::kills() const {
  const std::string file = version_ == Version::kV1 ? "/memory.oom_control" : "/memory.events";
  return value_in(text_of(path_ + file), "oom_kill");
}

Result<void> enter_private_mounts() {
  if (::unshare(CLONE_NEWNS) != 0)
    return fail(ErrorCode::kRefused, "unshare(CLONE_NEWNS): " + std::string(std::strerror(errno)) +
                                         "; needs root (CAP_SYS_ADMIN)");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail(ErrorCode::kRefused, "private mounts: " + std::string(std::strerror(errno)));
  return {};
}

SmallDisk::SmallDisk(std::string folder, std::uint64_t bytes) : folder_(std::move(folder)) {
  const std::string size = "size=" + std::to_string(bytes) + ",mode=0755";
  CHECK(::mount("tmpfs", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0, "mounts a tmpfs");
}

SmallDisk::~SmallDisk() {
  CHECK(::umount2(folder_.c_str(), MNT_DETACH) == 0, "unmounts a tmpfs");
}

void SmallDisk::fill() {
  const int fd =
      ::open((folder_ + "/ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK(fd >= 0, "ballast");
  const char block[4096] = {};
  while (::write(fd, block, sizeof block) > 0) {
  }
  CHECK(errno == ENOSPC, "the disk is full");
  ::close(fd);
}

void SmallDisk::empty() {
  ::unlink((folder_ + "/ballast").c_str());
}

}  // namespace orlop::limits_test
