// SPDX-License-Identifier: Apache-2.0
// What a machine gives and can take away: descriptors of one process, the memory of a cgroup, file
// systems of a private mount namespace. And what a process uses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "orlop/client.h"
#include "orlop/error.h"

namespace orlop::limits_test {

// It has tried to attach, and was refused.
bool tried(const Client& client);

// Of a living process, from /proc.
struct Footprint {
  std::size_t descriptors = 0, maps = 0;
  std::uint64_t resident_kib = 0;  // without memory that is shared with others
};
Footprint footprint_of(pid_t pid);
std::string to_string(const Footprint& footprint);

// While it lives, exactly `left` more descriptors fit into the process (its soft limit; the hard
// one stays). Requires: right to change it (our own process or child of our user).
class DescriptorsLeft {
 public:
  DescriptorsLeft(pid_t pid, unsigned left);
  ~DescriptorsLeft();
  DescriptorsLeft(const DescriptorsLeft&) = delete;
  DescriptorsLeft& operator=(const DescriptorsLeft&) = delete;

 private:
  pid_t pid_;
  std::uint64_t before_ = 0;
};

// A memory cgroup of our own, below ours; empty and removed at the end.
class MemoryCgroup {
 public:
  enum class Version { kV1, kV2 };
  // Errors: kRefused: cannot be had here, with the reason in words.
  static Result<MemoryCgroup> create(Version version);
  MemoryCgroup(MemoryCgroup&&) noexcept;
  MemoryCgroup& operator=(MemoryCgroup&&) = delete;
  ~MemoryCgroup();

  // Shell commands by which a process enters it (DaemonStart::before).
  std::string enter() const;
  void enter_self() const;  // CHECKs
  // False: what is in use does not fit under it.
  bool limit(std::uint64_t bytes);
  std::uint64_t usage() const;
  std::uint64_t kills() const;     // by the kernel for want of memory
  std::string limit_file() const;  // name of the file, as messages of the node have it

 private:
  MemoryCgroup(Version version, std::string path) : version_(version), path_(std::move(path)) {}
  Version version_;
  std::string path_;
};

// This thread and what it starts see mounts of their own from now on. Errors: kRefused, with the
// reason in words.
Result<void> enter_private_mounts();

// A tmpfs of so many bytes at a folder, in private mounts.
class SmallDisk {
 public:
  SmallDisk(std::string folder, std::uint64_t bytes);  // CHECKs
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  void fill();  // until not a byte fits
  void empty();

 private:
  std::string folder_;
};

}  // namespace orlop::limits_test
