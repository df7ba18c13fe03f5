// SPDX-License-Identifier: Apache-2.0
#include "scribbler.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "base/rng.h"
#include "raw_client.h"

namespace orlop::process_test {
namespace {

constexpr unsigned kWritesARound = 64;

bool hung_up(int socket) {
  pollfd one{socket, POLLIN, 0};
  return ::poll(&one, 1, 0) != 0;
}

class Hostile {
 public:
  Hostile(const std::string& socket, std::uint64_t seed)
      : socket_(socket), rng_(seed), nonce_(seed) {
    // Its own fork pipe: the test's would outlive it.
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(9);
    fork_pipe_ = ends[0];
  }

  // Always with the same nonce: the channel before is given up on our word.
  bool attach() {
    auto client =
        RawClient::attach(socket_, {.nonce = nonce_, .name = "hostile", .fork_pipe = fork_pipe_});
    if (!client) return false;
    client_ = std::move(*client);
    return true;
  }

  int write_channel(unsigned rounds) {
    unsigned attached = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      const bool closed = client_ == nullptr || hung_up(client_->socket());
      if (closed && (client_ == nullptr || rng_.uniform(2) == 0 || !client_->resume(socket_))) {
        if (!attach()) continue;
        ++attached;
      }
      for (unsigned i = 0; i < kWritesARound; ++i) {
        write_once();
        if (i % 8 == 0) {
          client_->ring_node();
          ::sched_yield();
        }
      }
    }
    return attached > 0 ? 0 : 1;
  }

  void write_values(std::uint64_t bytes) {
    if (!attach()) ::_exit(9);
    const std::span<std::byte> values = client_->values().first(bytes);
    for (;;) {
      fill(values.subspan(rng_.uniform(values.size() - 64), 1 + rng_.uniform(64)));
      ::sched_yield();
    }
  }

 private:
  void fill(std::span<std::byte> bytes) {
    for (std::byte& one : bytes) one = static_cast<std::byte>(rng_.uniform(256));
  }

  void write_once() {
    const std::span<std::byte> all = client_->channel_bytes();
    const segment::ChannelView channel = client_->channel();
    segment::ChannelHeader& header = channel.header();
    switch (rng_.uniform(6)) {
      case 0: {  // anywhere
        const std::size_t at = rng_.uniform(all.size());
        fill(all.subspan(at, std::min<std::size_t>(all.size() - at, 1 + rng_.uniform(4096))));
        break;
      }
      case 1: {  // the counters, flags and rings at the front
        const std::size_t at = rng_.uniform(40 * kKiB);
        fill(all.subspan(at, 1 + rng_.uniform(16)));
        break;
      }
      case 2:
        header.request_tail.store(header.request_head.load() +
                                  static_cast<std::uint32_t>(rng_.uniform(300)));
        break;
      case 3: {  // pins of everything
        const auto cells = channel.geometry().ledger_chunks * segment::kCellsPerChunk;
        channel.bitmap()[rng_.uniform(channel.bitmap_words())].store(rng_.next());
        const SlotId slot{static_cast<std::uint32_t>(rng_.uniform(2000))};
        const Generation generation{static_cast<std::uint32_t>(rng_.uniform(4))};
        channel.cells()[rng_.uniform(cells)].store(segment::LedgerCell{slot, generation}.pack());
        break;
      }
      default:
        post();
    }
  }

  // A request that is nearly right.
  void post() {
    const segment::ChannelView channel = client_->channel();
    segment::ChannelHeader& header = channel.header();
    segment::RingMessage message;
    message.code = static_cast<std::uint32_t>(rng_.uniform(12));
    message.request_id = rng_.uniform(1000);
    message.ring_generation = header.ring_generation.load();
    message.body_offset = static_cast<std::uint32_t>(rng_.uniform(channel.arena().size()));
    message.body_bytes = static_cast<std::uint32_t>(rng_.uniform(8192));
    for (std::uint64_t& one : message.args)
      one = rng_.uniform(4) == 0 ? rng_.next() : rng_.uniform(16) << 32 | rng_.uniform(16);
    const std::uint32_t tail = header.request_tail.load();
    channel.request_cells()[tail % segment::kRingCells] = message;
    header.request_tail.store(tail + 1);
  }

  std::string socket_;
  Rng rng_;
  std::uint64_t nonce_;  // not 0; another process may not have it
  int fork_pipe_ = -1;
  std::unique_ptr<RawClient> client_;
};

}  // namespace

Scribbler::Scribbler(const std::string& socket, Options options) {
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Hostile hostile(socket, options.seed);
  if (options.values_bytes != 0) hostile.write_values(options.values_bytes);
  ::_exit(hostile.write_channel(options.rounds));
}

bool Scribbler::wait() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) return false;
  pid_ = 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void Scribbler::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace orlop::process_test
