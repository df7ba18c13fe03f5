// SPDX-License-Identifier: Apache-2.0
// Stands in for systemd: listens on a notify socket, keeps a descriptor store with systemd's rules
// (sd_pid_notify_with_fds(3), sd_notify(3)) and starts the next daemon with what it has.
//   * Several descriptors may have one name; FDSTOREREMOVE removes all of a name.
//   * One whose open file is in the store already (kcmp) is passed over.
//   * Without FDPOLL=0 a descriptor in error or hung up is let go of.
//   * BARRIER=1: the descriptor that came with it is closed when everything before it was handled.
// Thread: one of its own reads the socket; every call may be made from any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon.h"
#include "platform/file_descriptor.h"

namespace orlop::process_test {

class StandInManager {
 public:
  explicit StandInManager(const std::string& folder);
  ~StandInManager();
  StandInManager(const StandInManager&) = delete;
  StandInManager& operator=(const StandInManager&) = delete;

  // Starts a daemon as its unit, with everything in the store. extra: options; keep: descriptors
  // besides the store's, with numbers above all of those.
  std::unique_ptr<Daemon> start(const std::string& folder, std::vector<std::string> extra = {},
                                std::vector<std::string> environment = {},
                                std::vector<KeptDescriptor> keep = {});

  // How often a line ("READY=1") came.
  unsigned count(const std::string& line) const;
  std::vector<std::string> stored() const;  // names
  bool remove(const std::string& name);     // one of that name; false: there is none
  void add(const std::string& name, FileDescriptor descriptor);
  void stall(bool on) { stalled_ = on; }  // does not read its socket
  // Everything that was sent so far is handled. Only when not stalled.
  void settle() const;

 private:
  struct Stored {
    std::string name;
    FileDescriptor descriptor;
    bool poll = true;
  };
  void run();
  void handle(const std::string& text, std::vector<FileDescriptor> descriptors);
  void keep(Stored stored);
  void drop_hung_up();

  std::string path_;
  FileDescriptor socket_;
  std::atomic<bool> over_{false}, stalled_{false};
  mutable std::mutex mutex_;
  std::vector<Stored> store_;
  std::map<std::string, unsigned> lines_;
  std::thread reader_;
};

}  // namespace orlop::process_test
