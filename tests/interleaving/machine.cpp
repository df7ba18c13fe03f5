// SPDX-License-Identifier: Apache-2.0
// Fibers, memory and store buffers. The branches are in machine_branches.cpp.
#include "machine.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace orlop::interleaving {
namespace {

Machine* g_machine = nullptr;

// A failed CHECK ends the process: say by which schedule.
void print_schedule_on_abort(int) {
  if (g_machine != nullptr)
    std::fprintf(stderr, "in schedule: %s\n", to_string(g_machine->taken()).c_str());
  std::signal(SIGABRT, SIG_DFL);
}

template <class T>
std::uint64_t read_as(const void* address) {
  return reinterpret_cast<const std::atomic<T>*>(address)->load(std::memory_order_relaxed);
}
template <class T>
void write_as(void* address, std::uint64_t value) {
  reinterpret_cast<std::atomic<T>*>(address)->store(static_cast<T>(value),
                                                    std::memory_order_relaxed);
}

std::uint64_t read_memory(const void* address, unsigned bytes) {
  switch (bytes) {
    case 1:
      return read_as<std::uint8_t>(address);
    case 2:
      return read_as<std::uint16_t>(address);
    case 4:
      return read_as<std::uint32_t>(address);
    default:
      return read_as<std::uint64_t>(address);
  }
}

void write_memory(void* address, unsigned bytes, std::uint64_t value) {
  switch (bytes) {
    case 1:
      return write_as<std::uint8_t>(address, value);
    case 2:
      return write_as<std::uint16_t>(address, value);
    case 4:
      return write_as<std::uint32_t>(address, value);
    default:
      return write_as<std::uint64_t>(address, value);
  }
}

}  // namespace

void sleep_until(std::function<bool()> ready) {
  g_machine->sleep_until(std::move(ready));
}
bool somebody_was_abandoned() {
  return g_machine->somebody_was_abandoned();
}

Machine::Machine(Program& program) : program_(program) {
  CHECK(program.fibers() >= 1 && program.fibers() <= 8);
  for (unsigned i = 0; i < program.fibers(); ++i) runners_.push_back(std::make_unique<Runner>());
}

Machine::~Machine() {
  CHECK(g_machine != this, "a run never leaves by an exception");
}

// ---- a run ----

std::optional<std::string> Machine::run(Chooser& chooser) {
  chooser_ = &chooser;
  step_ = branches_ = 0;
  abandoned_ = 0;
  taken_.clear();
  failure_.reset();
  g_machine = this;
  segment::g_atomic_hooks = this;
  program_.reset();
  const auto old_handler = std::signal(SIGABRT, print_schedule_on_abort);

  start_fibers();
  next_after_end(false);  // the first fiber is a free choice; comes back when none can run
  unwind_fibers();
  drain_everybody();
  if (!failure_) {
    try {
      program_.verify();
    } catch (const Violation& violation) {
      failure_ = violation.what + " (at the end)";
    }
  }
  restore_memory();
  std::signal(SIGABRT, old_handler);
  segment::g_atomic_hooks = nullptr;
  g_machine = nullptr;
  return failure_;
}

void Machine::start_fibers() {
  for (unsigned i = 0; i < runners_.size(); ++i) {
    Runner& runner = *runners_[i];
    runner.buffer.clear();
    runner.life = Life::kReady;
    runner.started = false;
    runner.last_foreign_load = 0;
    runner.fiber.start([this, i] { body(i); });
  }
}

void Machine::body(unsigned number) {
  try {
    program_.run(number);
    runners_[number]->life = Life::kEnded;
  } catch (const Violation& violation) {
    failure_ = violation.what + " (fiber " + std::to_string(number) + ")";
  } catch (const Stop&) {
  }
  runners_[number]->started = false;  // nothing of it is left on its stack
  if (stopping_ || failure_) switch_context(self().fiber.context(), main_);
  ++step_;
  next_after_end(true);
  CHECK(false, "an ended fiber is never entered");
}

// Lets what lives on the stacks of unfinished fibers be destroyed.
void Machine::unwind_fibers() {
  stopping_ = true;
  for (unsigned i = 0; i < runners_.size(); ++i) {
    if (!runners_[i]->started) continue;
    current_ = i;
    switch_context(main_, runners_[i]->fiber.context());
  }
  stopping_ = false;
  current_ = kNobody;
}

void Machine::finish(std::optional<std::string> failure) {
  if (failure) failure_ = std::move(failure);
  if (current_ == kNobody) return;
  switch_context(self().fiber.context(), main_);
  throw Stop{};  // unwind_fibers() came back to us
}

// Leaves the running fiber, or the main context, for another.
void Machine::enter(unsigned number) {
  ucontext_t& from = current_ == kNobody ? main_ : self().fiber.context();
  const unsigned left = current_;
  current_ = number;
  self().started = true;
  self().life = Life::kReady;
  switch_context(from, self().fiber.context());
  if (left == kNobody) return;
  if (stopping_) throw Stop{};
}

bool Machine::runnable(unsigned number) {
  Runner& runner = *runners_[number];
  if (runner.life == Life::kReady) return true;
  if (runner.life != Life::kSleeping) return false;
  // The question reads atomics like everybody; asked by the kernel it is no access of a fiber.
  const unsigned asking = current_;
  current_ = kNobody;
  const bool ready = runner.ready();
  current_ = asking;
  return ready;
}

void Machine::sleep_until(std::function<bool()> ready) {
  ++step_;
  branch();
  drain(current_, 0);  // the kernel's scheduler is full of barriers
  self().ready = std::move(ready);
  self().life = Life::kSleeping;
  if (runnable(current_)) {
    self().life = Life::kReady;
    return;
  }
  next_after_end(false);
}

// ---- accesses ----

std::uint64_t Machine::load(const void* address, unsigned bytes) {
  if (current_ == kNobody || stopping_) return read_memory(address, bytes);
  ++step_;
  const SharedAddresses::Entry& entry = addresses_.note_read(address, bit());
  const bool foreign = SharedAddresses::written_by_others(entry, bit());
  if (foreign || everywhere_) {
    branch();
    self().last_foreign_load = step_;
  }
  const auto own = self().buffer.find(address, bytes);
  const std::uint64_t value = own ? *own : read_memory(address, bytes);
  if (trace_ != nullptr) note("load ", address, value);
  return value;
}

void Machine::store(void* address, unsigned bytes, std::uint64_t value) {
  if (current_ == kNobody || stopping_) return write(address, bytes, value);
  ++step_;
  const bool shared = SharedAddresses::used_by_others(addresses_.note_write(address, bit()), bit());
  if (shared || everywhere_) {
    branch();
  } else if (program_.may_be_abandoned(current_)) {
    abandon_branch();
  }
  if (self().buffer.full()) drain(current_, StoreBuffer::kEntries - 1);
  self().buffer.push({address, bytes, value, step_});
  if (trace_ != nullptr) note("store", address, value);
  if (!program_.branches_after_stores()) return;
  ++step_;
  if (shared || everywhere_) branch();
}

void Machine::before_rmw(void* address, unsigned bytes) {
  if (current_ == kNobody || stopping_) return remember(address, bytes);
  ++step_;
  addresses_.note_read(address, bit());
  const SharedAddresses::Entry& entry = addresses_.note_write(address, bit());
  if (SharedAddresses::used_by_others(entry, bit()) || everywhere_) {
    branch();
    self().last_foreign_load = step_;
  } else {
    branch_before_drain();
  }
  drain(current_, 0);
  remember(address, bytes);
  if (trace_ != nullptr) note("rmw  ", address, read_memory(address, bytes));
}

void Machine::fence() {
  if (current_ == kNobody || stopping_) return;
  ++step_;
  branch_before_drain();
  drain(current_, 0);
  if (trace_ != nullptr) note("fence", nullptr, 0);
}

// ---- memory ----

// Makes the oldest stores of a buffer visible until `left` are left.
void Machine::drain(unsigned number, std::size_t left) {
  StoreBuffer& buffer = runners_[number]->buffer;
  while (buffer.size() > left) {
    const BufferedStore store = buffer.pop_oldest();
    write(store.address, store.bytes, store.value);
  }
}

void Machine::drain_everybody() {
  for (unsigned i = 0; i < runners_.size(); ++i) drain(i, 0);
}

void Machine::write(void* address, unsigned bytes, std::uint64_t value) {
  remember(address, bytes);
  write_memory(address, bytes, value);
}

void Machine::remember(void* address, unsigned bytes) {
  undo_.push_back({address, bytes, read_memory(address, bytes)});
}

void Machine::restore_memory() {
  for (std::size_t i = undo_.size(); i-- > 0;)
    write_memory(undo_[i].address, undo_[i].bytes, undo_[i].value);
  undo_.clear();
}

// ---- traces ----

void Machine::note(const char* what, const void* address, std::uint64_t value) {
  char line[160];
  const std::string name = address == nullptr ? "" : program_.name_of(address);
  if (name.empty() && address != nullptr) {
    std::snprintf(line, sizeof(line), "%5llu  fiber %u  %s %p = %llx",
                  static_cast<unsigned long long>(step_), current_, what, address,
                  static_cast<unsigned long long>(value));
  } else {
    std::snprintf(line, sizeof(line), "%5llu  fiber %u  %s %s = %llx",
                  static_cast<unsigned long long>(step_), current_, what, name.c_str(),
                  static_cast<unsigned long long>(value));
  }
  trace_->push_back(line);
}

void Machine::note(const Action& action) {
  trace_->push_back("       -- " + to_string(Schedule{action}));
}

}  // namespace orlop::interleaving
