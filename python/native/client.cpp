// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <limits>
#include <string>
#include <utility>

#include "buffers.h"
#include "future.h"
#include "gil.h"
#include "keys.h"
#include "seconds.h"

namespace orlop::python {

namespace {

constexpr std::size_t kBatchWithoutGil = 64;  // keys; below, giving it up costs more than they do

// `seconds` as the library's time. None: nothing.
std::optional<Milliseconds> milliseconds(nb::handle seconds, const char* argument) {
  if (!seconds.is_valid() || seconds.is_none()) return std::nullopt;
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise_type(std::string(argument) + ": is of type " + Py_TYPE(seconds.ptr())->tp_name +
               "; give seconds as a number");
  }
  return milliseconds_of(value, argument);
}

std::vector<std::uint32_t> group_lens_of(nb::handle lens) {
  std::vector<std::uint32_t> result;
  if (!lens.is_valid() || lens.is_none()) return result;
  const nb::object iterator = nb::steal(PyObject_GetIter(lens.ptr()));
  if (!iterator.is_valid()) throw nb::python_error();
  while (true) {
    const nb::object item = nb::steal(PyIter_Next(iterator.ptr()));
    if (!item.is_valid()) break;
    const std::string place = "atomic_group_lens[" + std::to_string(result.size()) + "]";
    const nb::object number = nb::steal(PyNumber_Index(item.ptr()));
    if (!number.is_valid()) {
      PyErr_Clear();
      raise_type(place + ": is of type " + Py_TYPE(item.ptr())->tp_name + "; give integers");
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0 || value < 0 || value > std::numeric_limits<std::uint32_t>::max())
      raise(ErrorCode::kInvalidArgument, place +
                                             ": is out of range; every group has at least one "
                                             "key and at most all of the call");
    result.push_back(static_cast<std::uint32_t>(value));
    if (result.size() > 65'536) break;  // more than any call has keys: the library says so
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return result;
}

// The parent key is held by `held`.
PutOptions put_options(const PutArguments& arguments, std::optional<HeldBuffer>& held) {
  PutOptions options;
  options.atomic_group_lens = group_lens_of(arguments.group_lens);
  options.deadline = milliseconds(arguments.deadline, "deadline");
  if (arguments.parent.is_valid() && !arguments.parent.is_none()) {
    held.emplace(arguments.parent.ptr(), Use::kRead, "parent");
    const auto bytes = held->bytes();
    options.parent = Key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return options;
}

GetOptions get_options(nb::handle group_lens) {
  return {.atomic_group_lens = group_lens_of(group_lens)};
}

bool is_none(nb::handle argument) {
  return !argument.is_valid() || argument.is_none();
}

Key key_of(nb::handle bytes) {
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

}  // namespace

NamespaceBox ClientObject::open_namespace(const std::string& json) const {
  Client& client = usable();
  const auto descriptor = value_or_raise(parse_descriptor(json));
  Result<Namespace> opened;
  {
    const GilRelease others;
    opened = client.open_namespace(descriptor);
  }
  Namespace ns = value_or_raise(std::move(opened));
  const std::uint32_t value_len = ns.value_len();
  return {box_, std::move(ns), value_len};
}

std::shared_ptr<PutPlanBox> ClientObject::put_start(const NamespaceBox& ns, nb::handle keys,
                                                    const PutArguments& arguments) const {
  Client& client = usable();
  const KeyList list(keys);
  std::optional<HeldBuffer> parent;
  const PutOptions options = put_options(arguments, parent);
  std::optional<Result<PutPlan>> plan;
  {
    const GilRelease others;
    plan.emplace(client.put_start(ns.ns, list.keys(), options));
  }
  return std::make_shared<PutPlanBox>(box_, value_or_raise(std::move(*plan)), ns.value_len);
}

nb::object ClientObject::put_one(const NamespaceBox& ns, nb::handle key, nb::handle buffer) const {
  const Key one = key_of(key);
  const HeldBuffer held(buffer.ptr(), Use::kRead, "buffers");
  const std::span<const std::byte> bytes = held.bytes();
  Result<std::vector<Outcome>> outcomes;
  {
    const GilRelease others;
    outcomes = box_->client.put(ns.ns, {&one, 1}, {&bytes, 1});
  }
  return outcome_list(value_or_raise(std::move(outcomes)));
}

nb::object ClientObject::put(const NamespaceBox& ns, nb::handle keys, nb::handle buffers,
                             const PutArguments& arguments) const {
  Client& client = usable();
  const bool plain =
      is_none(arguments.group_lens) && is_none(arguments.parent) && is_none(arguments.deadline);
  if (plain && PyBytes_CheckExact(keys.ptr()) && PyObject_CheckBuffer(buffers.ptr()) != 0)
    return put_one(ns, keys, buffers);
  const KeyList list(keys);
  std::optional<HeldBuffer> parent;
  const PutOptions options = put_options(arguments, parent);
  const BufferList sources(buffers.ptr(), Use::kRead, list.size(), ns.value_len);
  const auto readable = sources.readable();
  Result<std::vector<Outcome>> outcomes;
  {
    const GilRelease others;
    outcomes = client.put(ns.ns, list.keys(), readable, options);
  }
  return outcome_list(value_or_raise(std::move(outcomes)));
}

std::uint32_t ClientObject::get_one(const NamespaceBox& ns, nb::handle key,
                                    nb::handle buffer) const {
  const Key one = key_of(key);
  const HeldBuffer held(buffer.ptr(), Use::kWrite, "buffers");
  const std::span<std::byte> bytes = held.bytes();
  if (bytes.size() < kCopyWithoutGil)
    return value_or_raise(box_->client.get(ns.ns, {&one, 1}, {&bytes, 1}));
  Result<std::uint32_t> copied;
  {
    const GilRelease others;
    copied = box_->client.get(ns.ns, {&one, 1}, {&bytes, 1});
  }
  return value_or_raise(std::move(copied));
}

std::uint32_t ClientObject::get(const NamespaceBox& ns, nb::handle keys, nb::handle buffers,
                                nb::handle group_lens) const {
  Client& client = usable();
  if (is_none(group_lens) && PyBytes_CheckExact(keys.ptr()) &&
      PyObject_CheckBuffer(buffers.ptr()) != 0)
    return get_one(ns, keys, buffers);
  const KeyList list(keys);
  const GetOptions options = get_options(group_lens);
  const BufferList targets(buffers.ptr(), Use::kWrite, list.size(), ns.value_len);
  Result<std::uint32_t> copied;
  {
    const GilRelease others;
    copied = client.get(ns.ns, list.keys(), targets.writable(), options);
  }
  return value_or_raise(std::move(copied));
}

nb::object ClientObject::get_bytes(const NamespaceBox& ns, nb::handle keys) const {
  Client& client = usable();
  const KeyList list(keys);
  auto handle = value_or_raise(client.get_start(ns.ns, list.keys()));
  auto plan = value_or_raise(client.get_transfer(handle));
  nb::list values;
  std::vector<std::span<std::byte>> targets;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const nb::object value = nb::steal(PyBytes_FromStringAndSize(nullptr, ns.value_len));
    if (!value.is_valid()) throw nb::python_error();
    // Nobody else has the object yet, so its bytes may still be written.
    targets.emplace_back(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(value.ptr())),
                         ns.value_len);
    values.append(value);
  }
  std::size_t valid = 0;
  {
    const GilRelease others;
    for (; valid < targets.size(); ++valid) {
      const auto matched = plan.copy_out(valid, targets[valid]);
      if (!matched || !*matched) break;
    }
    static_cast<void>(client.release_views(plan));
  }
  if (PyList_SetSlice(values.ptr(), static_cast<Py_ssize_t>(valid), PY_SSIZE_T_MAX, nullptr) != 0)
    throw nb::python_error();
  return values;
}

HandleBox ClientObject::get_start(const NamespaceBox& ns, nb::handle keys,
                                  nb::handle group_lens) const {
  Client& client = usable();
  const KeyList list(keys);
  const GetOptions options = get_options(group_lens);
  if (list.size() < kBatchWithoutGil)
    return {box_, value_or_raise(client.get_start(ns.ns, list.keys(), options))};
  std::optional<Result<GetHandle>> handle;
  {
    const GilRelease others;
    handle.emplace(client.get_start(ns.ns, list.keys(), options));
  }
  return {box_, value_or_raise(std::move(*handle))};
}

HandleBox ClientObject::get_start_cohort(nb::handle namespaces, nb::handle keys,
                                         nb::handle group_lens) const {
  Client& client = usable();
  std::vector<Namespace> ranks;
  for (const nb::handle item : nb::iter(namespaces)) {
    if (!nb::isinstance<NamespaceBox>(item))
      raise_type("namespaces[" + std::to_string(ranks.size()) + "]: is of type " +
                 Py_TYPE(item.ptr())->tp_name + "; give what open_namespace returned");
    ranks.push_back(nb::cast<const NamespaceBox&>(item).ns);
  }
  const KeyList list(keys);
  const GetOptions options = get_options(group_lens);
  std::optional<Result<GetHandle>> handle;
  {
    const GilRelease others;
    handle.emplace(client.get_start_cohort(ranks, list.keys(), options));
  }
  return {box_, value_or_raise(std::move(*handle))};
}

std::shared_ptr<ReadPlanBox> ClientObject::get_transfer(HandleBox& handle,
                                                        std::optional<std::uint32_t> prefix) const {
  Client& client = usable();
  auto plan = value_or_raise(client.get_transfer(handle.handle, prefix));
  return std::make_shared<ReadPlanBox>(box_, std::move(plan), handle.handle.result());
}

void ClientObject::cancel_get(HandleBox& handle) const {
  value_or_raise(usable().cancel_get(handle.handle));
}

std::shared_ptr<ReadPlanBox> ClientObject::read(const NamespaceBox& ns, nb::handle keys,
                                                nb::handle group_lens) const {
  HandleBox handle = get_start(ns, keys, group_lens);
  return get_transfer(handle, std::nullopt);
}

ExistsResult ClientObject::exists(const NamespaceBox& ns, nb::handle keys) const {
  Client& client = usable();
  const KeyList list(keys);
  if (list.size() < kBatchWithoutGil) return value_or_raise(client.exists(ns.ns, list.keys()));
  Result<ExistsResult> result;
  {
    const GilRelease others;
    result = client.exists(ns.ns, list.keys());
  }
  return value_or_raise(std::move(result));
}

std::uint64_t ClientObject::remove(const NamespaceBox& ns, nb::handle keys) const {
  Client& client = usable();
  const KeyList list(keys);
  Result<std::uint64_t> doomed;
  {
    const GilRelease others;
    doomed = client.remove(ns.ns, list.keys());
  }
  return value_or_raise(std::move(doomed));
}

std::uint64_t ClientObject::flush(const NamespaceBox& ns, bool family) const {
  Client& client = usable();
  Result<std::uint64_t> doomed;
  {
    const GilRelease others;
    doomed = family ? client.flush_family(ns.ns) : client.flush(ns.ns);
  }
  return value_or_raise(std::move(doomed));
}

bool ClientObject::wait_ready(std::optional<double> timeout_s) const {
  Client& client = usable();
  const auto answer = wait_in_slices(timeout_s, [&](Milliseconds time) -> std::optional<bool> {
    if (client.wait_ready(time)) return true;
    return box_->closed ? std::optional(false) : std::nullopt;
  });
  return answer.value_or(false);
}

}  // namespace orlop::python
