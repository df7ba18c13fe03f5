// SPDX-License-Identifier: Apache-2.0
// The rule for memory of a plan in Python's hands: nobody ever sees bytes of a slot that is not
// pinned any more.
//
// Every memoryview and array over a plan's memory stands on a Page, an object that exports the
// buffer and that whatever is made of the view (slices, arrays, other memoryviews) keeps alive. The
// memory stays with the plan until its last Page is gone:
//   * ending a plan releases the memoryviews that it handed out (their use raises ValueError);
//   * if Pages are left then, the end is put off until the last one goes, and the call that wanted
//     to end the plan raises BufferError, which names them;
//   * while Pages live, a copy is registered with the library, so that Client.close() leaves the
//     pins alone too;
//   * a plan object that is collected while its views live: the memory follows the last view.
//
// Thread: everything here needs the GIL; a turn makes calls on one plan wait for each other.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "client_box.h"

namespace orlop::python {

class Page;

enum class Shown : std::uint8_t { kReadOnlyBytes, kWritableBytes, kReadOnlyWords };

class PlanMemory : public std::enable_shared_from_this<PlanMemory> {
 public:
  explicit PlanMemory(std::shared_ptr<ClientBox> box) : box_(std::move(box)) {}
  virtual ~PlanMemory() = default;
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  ClientBox& box() const { return *box_; }
  const std::shared_ptr<ClientBox>& client() const { return box_; }
  bool ended() const { return ended_; }
  // For the length of one call; recursive, because letting go of a view may run Python code. Other
  // threads wait for their turn without the GIL, so no turn is waited for with it. At the end of
  // the interpreter nothing is waited for: throws Closed.
  using Turn = std::unique_lock<std::recursive_mutex>;
  [[nodiscard]] Turn turn() const;
  // The same, of a plan that is not over. Throws ForkedChild, WrongState or Closed.
  [[nodiscard]] Turn open_turn() const;

  // A memoryview over bytes; the same one again as long as it is not released. place: < places.
  PyObject* view(std::span<std::byte> bytes, std::size_t place, Shown shown);
  // A fresh memoryview that ending the plan does not release: for arrays, which cannot be told.
  PyObject* pinned_view(std::span<std::byte> bytes, std::size_t place, Shown shown);

  // Releases the memoryviews handed out and forgets them.
  void invalidate_views();
  bool has_pages() const { return !pages_.empty(); }
  std::string pages_in_words() const;  // "2 views (of pages 0, 7)"
  // Marks it over and ends it now or with its last Page. False: put off.
  bool end_or_wait();
  // The plan's Python object is gone; its views keep what they need.
  void let_go_of_views();

 protected:
  [[noreturn]] static void raise_closed();
  virtual Result<std::uint64_t> register_copy() = 0;
  virtual void end_now() = 0;  // release or abort; errors are of a client that is closed
  virtual const char* over() const = 0;
  bool ended_ = false;

 private:
  friend class Page;
  nb::object make_view(std::span<std::byte> bytes, std::size_t place, Shown shown);
  void page_gone(Page* page);

  std::shared_ptr<ClientBox> box_;
  mutable std::recursive_mutex mutex_;
  std::vector<Page*> pages_;      // alive
  std::vector<PyObject*> views_;  // memoryviews handed out, by place; owned
  std::uint64_t copy_ = 0;        // registered while pages_ is not empty
};

// What a Python plan object has: when it is collected, its views keep what they need.
template <class Plan>
class PlanObject {
 public:
  explicit PlanObject(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}
  ~PlanObject() {
    if (plan_ != nullptr) plan_->let_go_of_views();
  }
  PlanObject(PlanObject&&) noexcept = default;
  PlanObject& operator=(PlanObject&&) = delete;
  Plan* operator->() const { return plan_.get(); }

 private:
  std::shared_ptr<Plan> plan_;
};

// The exporter. Thread: GIL.
class Page {
 public:
  Page(std::shared_ptr<PlanMemory> plan, std::span<std::byte> bytes, std::size_t place,
       Shown shown);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  std::size_t place() const { return place_; }
  int fill(PyObject* self, Py_buffer* view, int flags) const;

 private:
  friend class PlanMemory;
  std::shared_ptr<PlanMemory> plan_;
  std::span<std::byte> bytes_;
  std::size_t place_;
  std::size_t index_ = 0;  // in plan_->pages_
  Shown shown_;
  mutable Py_ssize_t word_count_ = 0;  // the shape of what is shown as words
};

// numpy.ndarray of `dtype` and `shape` (None: 1-D) over a view.
nb::object array_over(nb::object view, nb::handle dtype, nb::handle shape);

void bind_page(nb::module_& module);

}  // namespace orlop::python
