// SPDX-License-Identifier: Apache-2.0
// One run of a program: fibers, a store buffer for each, and a Chooser that is asked wherever the
// order may matter.
//
// Memory model: x86-TSO, the machines this project runs on. Loads and stores of a fiber happen in
// program order; a store may become visible late; a full fence, a read-modify-write and sleeping
// make all earlier stores visible. Weaker machines are not modelled.
//
// Options at a branch, beside going on: another fiber runs (keeping some stores in the buffer),
// part of a waiting buffer becomes visible, the running fiber is abandoned. Options that no fiber
// could tell from an earlier one are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fiber.h"
#include "program.h"
#include "schedule.h"
#include "segment/atomics.h"
#include "shared_addresses.h"
#include "store_buffer.h"

namespace orlop::interleaving {

class Chooser {
 public:
  virtual ~Chooser() = default;
  // options[0] is what happens by default; at least two are given, all within budget_left().
  virtual std::size_t choose(std::span<const Action> options) = 0;
  virtual unsigned budget_left() const = 0;
};

class Machine final : public segment::AtomicHooks {
 public:
  explicit Machine(Program& program);
  ~Machine() override;

  // Runs the program once from its start and puts its memory back. Returns what went wrong.
  std::optional<std::string> run(Chooser& chooser);

  // Of the last run.
  const Schedule& taken() const { return taken_; }
  std::uint64_t branches() const { return branches_; }
  const SharedAddresses& addresses() const { return addresses_; }

  // true: branches at every access and every option, shared or not (learning, replay).
  void branch_everywhere(bool everywhere) { everywhere_ = everywhere; }
  // Not null: one line for each access and action of the following runs.
  void trace_into(std::vector<std::string>* lines) { trace_ = lines; }

  // From the running fiber.
  void sleep_until(std::function<bool()> ready);
  bool somebody_was_abandoned() const { return abandoned_ != 0; }

  std::uint64_t load(const void* address, unsigned bytes) override;
  void store(void* address, unsigned bytes, std::uint64_t value) override;
  void before_rmw(void* address, unsigned bytes) override;
  void fence() override;

 private:
  static constexpr unsigned kNobody = ~0U;  // setup, verify(): accesses are plain
  struct Stop {};                           // thrown into a fiber that will not go on

  enum class Life : std::uint8_t { kReady, kSleeping, kEnded, kAbandoned };
  struct Runner {
    Fiber fiber;
    StoreBuffer buffer;
    Life life = Life::kReady;
    bool started = false;
    std::uint64_t last_foreign_load = 0;  // step of its last load of what others write
    std::function<bool()> ready;
  };
  struct Undo {
    void* address;
    unsigned bytes;
    std::uint64_t value;
  };

  Runner& self() { return *runners_[current_]; }
  std::uint8_t bit() const { return bit_of(current_); }
  std::uint8_t bit_of(unsigned fiber) const {
    return static_cast<std::uint8_t>(1U << program_.process_of(fiber));
  }

  void start_fibers();
  void body(unsigned number);
  void unwind_fibers();
  void finish(std::optional<std::string> failure);

  void branch();
  void abandon_branch();
  void branch_before_drain();
  void carry_out(const Action& action);
  const Action& ask();
  void next_after_end(bool may_keep);
  void enter(unsigned number);
  bool runnable(unsigned number);

  void add(Action::Kind kind, unsigned fiber, std::size_t count, unsigned cost);
  void add_switches(unsigned cost, bool may_keep);
  void add_drains();
  void add_abandons();
  bool keeping_shows(std::size_t kept);

  void drain(unsigned number, std::size_t left);
  void drain_everybody();
  void write(void* address, unsigned bytes, std::uint64_t value);
  void remember(void* address, unsigned bytes);
  void restore_memory();
  void note(const char* what, const void* address, std::uint64_t value);
  void note(const Action& action);

  Program& program_;
  std::vector<std::unique_ptr<Runner>> runners_;
  SharedAddresses addresses_;
  Chooser* chooser_ = nullptr;
  ucontext_t main_{};
  unsigned current_ = kNobody;
  bool stopping_ = false;
  bool everywhere_ = false;
  unsigned abandoned_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t branches_ = 0;
  std::optional<std::string> failure_;
  std::vector<Action> options_;
  Schedule taken_;
  std::vector<Undo> undo_;
  std::vector<std::string>* trace_ = nullptr;
};

}  // namespace orlop::interleaving
