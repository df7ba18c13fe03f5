// SPDX-License-Identifier: Apache-2.0
#include "plan_memory.h"

#include <algorithm>
#include <utility>

#include "gil.h"

namespace orlop::python {

namespace {

bool is_released(PyObject* view) {
  return (reinterpret_cast<PyMemoryViewObject*>(view)->flags & _Py_MEMORYVIEW_RELEASED) != 0;
}

}  // namespace

PlanMemory::Turn PlanMemory::turn() const {
  box_->check_process();
  Turn lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    // Its thread is parked when it comes out of the copy, and keeps the turn for ever.
    if (interpreter_ends()) raise(ErrorCode::kClosed, "plan: in use by a thread that has ended");
    const GilRelease others;
    lock.lock();
  }
  return lock;
}

void PlanMemory::raise_closed() {
  raise(ErrorCode::kClosed, "plan: its client was closed");
}

PlanMemory::Turn PlanMemory::open_turn() const {
  Turn lock = turn();
  if (ended_) [[unlikely]]
    raise(ErrorCode::kWrongState, over());
  if (box_->closed) [[unlikely]]
    raise_closed();
  return lock;
}

nb::object PlanMemory::make_view(std::span<std::byte> bytes, std::size_t place, Shown shown) {
  if (pages_.empty()) {
    copy_ = value_or_raise(register_copy());
    box_->viewed.insert(this);
  }
  // On failure the Page's end takes it all back.
  const nb::object page =
      nb::cast(new Page(shared_from_this(), bytes, place, shown), nb::rv_policy::take_ownership);
  return nb::steal(PyMemoryView_FromObject(page.ptr()));
}

PyObject* PlanMemory::view(std::span<std::byte> bytes, std::size_t place, Shown shown) {
  if (views_.size() <= place) views_.resize(place + 1, nullptr);
  if (PyObject* const known = views_[place]; known != nullptr && !is_released(known))
    return Py_NewRef(known);
  nb::object made = make_view(bytes, place, shown);
  if (!made.is_valid()) throw nb::python_error();
  Py_XDECREF(std::exchange(views_[place], Py_NewRef(made.ptr())));
  return made.release().ptr();
}

PyObject* PlanMemory::pinned_view(std::span<std::byte> bytes, std::size_t place, Shown shown) {
  nb::object made = make_view(bytes, place, shown);
  if (!made.is_valid()) throw nb::python_error();
  return made.release().ptr();
}

void PlanMemory::invalidate_views() {
  const std::shared_ptr<PlanMemory> alive = shared_from_this();
  for (PyObject* const view : std::exchange(views_, {})) {
    if (view == nullptr) continue;
    // Refused while somebody holds a buffer of it; then its Page stays, and that is what counts.
    PyObject* const done = PyObject_CallMethod(view, "release", nullptr);
    if (done == nullptr) PyErr_Clear();
    Py_XDECREF(done);
    Py_DECREF(view);
  }
}

void PlanMemory::let_go_of_views() {
  for (PyObject* const view : std::exchange(views_, {})) Py_XDECREF(view);
}

std::string PlanMemory::pages_in_words() const {
  constexpr std::size_t kNamed = 8;
  std::vector<std::size_t> places;
  for (const Page* const page : pages_) places.push_back(page->place());
  std::ranges::sort(places);
  std::string text = std::to_string(places.size()) +
                     (places.size() == 1 ? " view or array" : " views or arrays") + " (of page";
  for (std::size_t i = 0; i < std::min(places.size(), kNamed); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(places[i]);
  return text + (places.size() > kNamed ? ", ...)" : ")");
}

bool PlanMemory::end_or_wait() {
  invalidate_views();
  ended_ = true;
  if (has_pages()) return false;
  end_now();
  return true;
}

void PlanMemory::page_gone(Page* page) {
  pages_[page->index_] = pages_.back();
  pages_[page->index_]->index_ = page->index_;
  pages_.pop_back();
  if (!pages_.empty() || box_->guard.in_forked_child()) return;
  box_->viewed.erase(this);
  // Fails only when the copy is not registered, which is what is wanted.
  static_cast<void>(box_->client.copy_done(std::exchange(copy_, 0), true));
  if (ended_) end_now();
}

Page::Page(std::shared_ptr<PlanMemory> plan, std::span<std::byte> bytes, std::size_t place,
           Shown shown)
    : plan_(std::move(plan)), bytes_(bytes), place_(place), shown_(shown) {
  index_ = plan_->pages_.size();
  plan_->pages_.push_back(this);
}

Page::~Page() {
  plan_->page_gone(this);
}

int Page::fill(PyObject* self, Py_buffer* view, int flags) const {
  view->obj = nullptr;
  if (plan_->ended() || plan_->box().guard.in_forked_child()) {
    PyErr_SetString(PyExc_BufferError, "the plan of this page is over");
    return -1;
  }
  const int failed =
      PyBuffer_FillInfo(view, self, bytes_.data(), static_cast<Py_ssize_t>(bytes_.size()),
                        shown_ == Shown::kWritableBytes ? 0 : 1, flags);
  if (failed != 0 || shown_ != Shown::kReadOnlyWords || (flags & PyBUF_FORMAT) == 0) return failed;
  // Lives as long as the Page, which the Py_buffer references.
  view->format = const_cast<char*>("Q");
  view->itemsize = sizeof(std::uint64_t);
  if (view->shape != nullptr) {
    word_count_ = view->len / view->itemsize;
    view->shape = &word_count_;
  }
  return 0;
}

nb::object array_over(nb::object view, nb::handle dtype, nb::handle shape) {
  const nb::handle numpy = imported("numpy");
  const nb::object flat = numpy.attr("frombuffer")(
      view, dtype.is_none() ? nb::object(numpy.attr("uint8")) : nb::borrow(dtype));
  return shape.is_none() ? flat : nb::object(flat.attr("reshape")(shape));
}

void bind_page(nb::module_& module) {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* view, int flags) {
         return nb::inst_ptr<Page>(self)->fill(self, view, flags);
       })},
      {0, nullptr}};
  nb::class_<Page>(module, "Page", nb::type_slots(slots),
                   "Memory of one page of a plan: what a view of it exports. Not made by callers.");
}

}  // namespace orlop::python
