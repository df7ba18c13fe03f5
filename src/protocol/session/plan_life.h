// SPDX-License-Identifier: Apache-2.0
// The end of a plan: a plan ends only after its copies (design 20 section 1). Used for put plans
// (inside Session) and for read plans (by their owner), by library and simulator alike. Pure.
//
//   state \ call | register_copy | copy_done(ok)                | copy_done(failed) | end
//   -------------+---------------+------------------------------+-------------------+-----------------
//   open         | open, +1      | open, -1                     | open, stuck       | no copies:
//   ended
//                |               |                              |                   | else ending
//   ending       | refused       | -1; last one, not stuck:     | ending, stuck     | ending
//                |               | ended                        |                   |
//   ended        | refused       | refused                      | refused           | ended (again:
//   no)
//
// stuck: a copy failed, so nobody knows whether the device still touches the memory: the plan never
// ends; the memory comes back with the proof of this process's death.
// Thread: the owner's mutex.
#pragma once

#include <cstdint>

namespace orlop::protocol {

class PlanLife {
 public:
  enum class State : std::uint8_t { kOpen, kEnding, kEnded };

  // False unless the plan is open.
  bool register_copy();
  // success: false if there is no such copy to be taken off.
  struct Done {
    bool accepted = false;
    bool ended = false;  // the plan ended by this call: give its memory back now
  };
  Done copy_done(bool success);
  // True if the plan ended by this call; false: it was over, or it is `ending` now.
  bool end();

  State state() const { return state_; }
  bool open() const { return state_ == State::kOpen; }
  std::uint32_t copies() const { return copies_; }  // registered and not reported
  bool stuck() const { return stuck_; }

 private:
  State state_ = State::kOpen;
  bool stuck_ = false;
  std::uint32_t copies_ = 0;
};

}  // namespace orlop::protocol
