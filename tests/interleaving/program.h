// SPDX-License-Identifier: Apache-2.0
// A program to explore: a few fibers over shared memory made of segment::Atomic, and what must
// hold.
//
//   class Two : public Program {
//     unsigned fibers() const override { return 2; }
//     void run(unsigned fiber) override { ... real code of src/segment ...; require(ok, "why"); }
//   };
//
// Between two accesses to atomics a fiber's code runs undivided; plain memory that fibers share is
// therefore safe to use for counting, and proves nothing about itself.
#pragma once

#include <functional>
#include <string>

namespace orlop::interleaving {

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  virtual unsigned fibers() const = 0;  // 1..8
  // Before every schedule: private state as at the start. Shared memory is as the constructor left
  // it; what reset() stores through atomics is undone like all else.
  virtual void reset() = 0;
  virtual void run(unsigned fiber) = 0;
  // After every schedule, alone: all fibers have ended or were abandoned, all stores are visible.
  // It may use the atomics (recovery!); its stores are undone too.
  virtual void verify() {}
  // Fibers that never overlap (one begins after the other has ended or was abandoned) may share a
  // number: what only they touch is then not shared.
  virtual unsigned process_of(unsigned fiber) const { return fiber; }
  // Whether the fiber may stop for ever before any of its stores.
  virtual bool may_be_abandoned(unsigned /*fiber*/) const { return false; }
  // A branch also after each shared store: for code with plain accesses right behind a store.
  virtual bool branches_after_stores() const { return false; }
  virtual std::string name_of(const void* /*address*/) const { return {}; }  // for traces
};

// For run() and verify(): ends this schedule as a failure. Never caught by a program.
struct Violation {
  std::string what;
};
inline void require(bool condition, const char* what) {
  if (!condition) throw Violation{what};
}

// For run(): sleeps, as in the kernel, until `ready` holds. A schedule in which all fibers sleep is
// a failure ("lost wake-up"). `ready` must only read.
void sleep_until(std::function<bool()> ready);
// For run() and verify(): true if some fiber has been abandoned.
bool somebody_was_abandoned();

}  // namespace orlop::interleaving
