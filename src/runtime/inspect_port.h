// SPDX-License-Identifier: Apache-2.0
// Where threads of the admin server put questions to the node machine (protocol/node/inspect.h) and
// the server's thread answers them between two rounds of its loop.
//
// Every question has its own answer. At most kMaxQuestions wait and at most kQuestionsPerRound are
// answered in one round, each bounded by itself, so nobody's puts wait long.
// Thread: ask() any but the server's; serve() the server's only; close() any. The destructor
// closes, and waits until those inside have left.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/event_fd.h"
#include "protocol/node/inspect.h"

namespace orlop::runtime {

inline constexpr std::size_t kMaxQuestions = 8;
inline constexpr unsigned kQuestionsPerRound = 2;

class InspectPort {
 public:
  using Answerer = std::function<protocol::InspectAnswer(const protocol::InspectQuestion&)>;

  // wake: rung when a question waits; outlives this object.
  explicit InspectPort(const EventFd& wake) : wake_(wake) {}
  ~InspectPort();
  InspectPort(const InspectPort&) = delete;
  InspectPort& operator=(const InspectPort&) = delete;

  // Errors: the machine's (kInvalidArgument); kLimit (too many wait), kDeadline (the server is
  // stuck), kClosed (it stops).
  Result<protocol::InspectAnswer> ask(const protocol::InspectQuestion& question, MonoNs timeout_ns);

  // Answers some of what waits; rings for the next round if more is left.
  void serve(const Answerer& answerer);
  void close();  // no answers any more

 private:
  struct Entry {
    protocol::InspectQuestion question;
    std::optional<protocol::InspectAnswer> answer;
  };
  std::shared_ptr<Entry> take();

  const EventFd& wake_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::deque<std::shared_ptr<Entry>> waiting_;
  unsigned inside_ = 0;  // askers that wait
  bool closed_ = false;
};

// The answer with all its parts (Holders, Held), each asked for in its turn; the node works on in
// between. Errors: of ask(); kDeadline also if the ledgers are so large that the time is over.
Result<protocol::InspectAnswer> ask_whole(InspectPort& port,
                                          const protocol::InspectQuestion& question,
                                          MonoNs timeout_ns);

}  // namespace orlop::runtime
