// SPDX-License-Identifier: Apache-2.0
// Daemons that must not start, and sockets that are in the way.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "node/exit_status.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::Daemon;
using process_test::eventually;
using process_test::TemporaryFolder;

// A daemon that ends by itself: its log, as an error whose code stands for its exit status.
Result<void> start_in_vain(std::vector<std::string> flags) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path(), std::move(flags));
  const ExitStatus ended = daemon.wait_exit();
  if (ended.by_signal) return fail(ErrorCode::kSystem, to_string(ended));
  if (ended.value == node::kStatusRefused) return fail(ErrorCode::kRefused, daemon.log());
  if (ended.value == node::kStatusUsage) return fail(ErrorCode::kInvalidArgument, daemon.log());
  return fail(ErrorCode::kSystem, to_string(ended) + daemon.log());
}

Row start_row(Item item, std::string name, ErrorCode code, std::vector<std::string> says,
              std::vector<std::string> flags) {
  return {item, std::move(name), code, std::move(says),
          [flags = std::move(flags)](World&) { return start_in_vain(flags); }};
}

std::string twice_the_machine() {
  const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::to_string(2 * bytes >> 20) + "MiB";
}

// A socket file that nobody listens at any more.
void leave_stale_socket(const std::string& path) {
  const int stale = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(::bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(stale);
}

Result<void> occupied(World& world) {
  auto refused = start_in_vain({"--socket", world.socket()});
  if (refused) return refused;
  const std::string pid = std::to_string(world.daemon().keeper_pid());
  EXPECT_NE(refused.error().message.find("process " + pid), std::string::npos)
      << refused.error().message;
  return refused;
}

// Somebody else's socket, without our lock.
Result<void> occupied_by_another_program(World&) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/theirs.sock";
  const int theirs = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(::bind(theirs, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(theirs, 1), 0);
  auto refused = start_in_vain({"--socket", path});
  EXPECT_TRUE(std::filesystem::exists(path));
  ::close(theirs);
  return refused;
}

Result<void> file_in_the_way(World&) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/precious";
  std::ofstream(path) << "text";
  auto refused = start_in_vain({"--socket", path});
  std::string kept;
  std::ifstream(path) >> kept;
  EXPECT_EQ(kept, "text");
  return refused;
}

Result<void> stale_is_replaced(World&) {
  const TemporaryFolder folder;
  leave_stale_socket(folder.path() + "/node.sock");
  Daemon daemon(folder.path());
  EXPECT_TRUE(daemon.wait_serving()) << daemon.log();
  Worker worker(Worker::options(daemon.socket(), "after"));
  EXPECT_TRUE(worker.usable());
  EXPECT_TRUE(all_are(worker.put(Keys(2)), Outcome::kStored));
  return {};
}

Result<void> client_path_too_long(World&) {
  Client client(Worker::options("/tmp/" + std::string(200, 'x'), "long", Milliseconds{50}));
  EXPECT_TRUE(eventually(
      [&] { return client.last_attach_error().code == ErrorCode::kInvalidArgument; }, 10));
  EXPECT_FALSE(client.ready());
  auto ns = client.open_namespace(descriptor());
  EXPECT_TRUE(ns.has_value());
  // What a caller sees says it, too.
  const auto flushed = client.flush(*ns);
  EXPECT_EQ(flushed.error().code, ErrorCode::kNoNode);
  EXPECT_NE(flushed.error().message.find("107"), std::string::npos) << flushed.error().message;
  return std::unexpected(client.last_attach_error());
}

}  // namespace

Rows start_rows() {
  using enum Item;
  return {
      start_row(
          kCapacityThatCannotFit, "capacity_beyond_the_machine", ErrorCode::kRefused,
          {"bytes) needed (value area", "control area", "available by", "lower memory.capacity"},
          {"--capacity", "10TiB"}),
      start_row(kCapacityThatCannotFit, "twice_the_machine_resident", ErrorCode::kRefused,
                {"bytes) needed (value area", "available by", "lower memory.capacity"},
                {"--capacity", twice_the_machine(), "--touch", "on"}),
      start_row(kCapacityThatCannotFit, "capacity_below_a_slab", ErrorCode::kInvalidArgument,
                {"less than one slab"}, {"--capacity", "16KiB"}),
      start_row(kSocketPathTooLong, "daemon_socket_path_too_long", ErrorCode::kInvalidArgument,
                {"205 bytes", "107", "shorter"}, {"--socket", "/tmp/" + std::string(200, 'x')}),
      {kSocketPathTooLong,
       "client_socket_path_too_long",
       ErrorCode::kInvalidArgument,
       {"205 bytes", "107", "shorter"},
       client_path_too_long},
      {kSocketOccupied,
       "second_daemon",
       ErrorCode::kRefused,
       {"another daemon", "owns", "stop it, or choose another path"},
       occupied},
      {kSocketOccupied,
       "socket_of_another_program",
       ErrorCode::kRefused,
       {"another process answers", "theirs.sock"},
       occupied_by_another_program},
      {kSocketOccupied,
       "file_that_is_no_socket",
       ErrorCode::kRefused,
       {"precious", "no socket", "left alone"},
       file_in_the_way},
      {kSocketStale, "stale_socket_is_replaced", {}, {}, stale_is_replaced},
  };
}

}  // namespace orlop::negative_test
