// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handles: the C++ object and, before it, which kind it is.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "orlop/client.h"
#include "orlop/gpu.h"
#include "orlop/orlop.h"

namespace orlop::c_api {

// Not small numbers: a pointer to anything else should not pass for a handle. Nor does a freed one
// as a rule, because the allocator writes over its first bytes; what finds those for certain is a
// run under AddressSanitizer.
enum class Kind : std::uint64_t {
  kClient = 0x4f52'4c4f'5001'0001,
  kNamespace = 0x4f52'4c4f'5001'0002,
  kPutPlan = 0x4f52'4c4f'5001'0003,
  kFuture = 0x4f52'4c4f'5001'0004,
  kGetHandle = 0x4f52'4c4f'5001'0005,
  kReadPlan = 0x4f52'4c4f'5001'0006,
  kPageCache = 0x4f52'4c4f'5001'0007,
  kBackup = 0x4f52'4c4f'5001'0008,
  kRestore = 0x4f52'4c4f'5001'0009,
};
std::string_view to_string(Kind kind);

template <class Object, Kind kKind>
struct Handle {
  static constexpr Kind kOwnKind = kKind;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Kind kind = kKind;
  std::optional<Object> object;  // set by whoever makes the handle, before anybody sees it
};

}  // namespace orlop::c_api

struct orlop_client : orlop::c_api::Handle<orlop::Client, orlop::c_api::Kind::kClient> {};
struct orlop_namespace : orlop::c_api::Handle<orlop::Namespace, orlop::c_api::Kind::kNamespace> {};
struct orlop_put_plan : orlop::c_api::Handle<orlop::PutPlan, orlop::c_api::Kind::kPutPlan> {};
struct orlop_get_handle : orlop::c_api::Handle<orlop::GetHandle, orlop::c_api::Kind::kGetHandle> {};
struct orlop_read_plan : orlop::c_api::Handle<orlop::ReadPlan, orlop::c_api::Kind::kReadPlan> {};
struct orlop_future : orlop::c_api::Handle<orlop::Future, orlop::c_api::Kind::kFuture> {
  std::size_t size = 0;  // keys of the put
};

struct orlop_page_cache : orlop::c_api::Handle<orlop::PageCache, orlop::c_api::Kind::kPageCache> {};
struct orlop_backup : orlop::c_api::Handle<orlop::Backup, orlop::c_api::Kind::kBackup> {
  std::size_t size = 0;  // keys of all its puts
};
struct orlop_restore : orlop::c_api::Handle<orlop::Restore, orlop::c_api::Kind::kRestore> {
  std::size_t size = 0;  // items
};

namespace orlop::c_api {

// The kind without trusting the pointer's type: a caller may have cast.
template <class HandleType>
Kind kind_of(const HandleType* handle) {
  static_assert(std::is_standard_layout_v<Handle<int, Kind::kClient>>);  // kind comes first
  Kind kind{};
  std::memcpy(&kind, static_cast<const void*>(handle), sizeof kind);
  return kind;
}

// Also for const handles. Errors: NULL, another kind.
template <class HandleType>
Result<void> check_handle(std::string_view argument, const HandleType* handle) {
  if (handle == nullptr)
    return fail(ErrorCode::kInvalidArgument, std::string(argument) + ": is NULL; give a " +
                                                 std::string(to_string(HandleType::kOwnKind)));
  if (const Kind kind = kind_of(handle); kind != HandleType::kOwnKind)
    return fail(ErrorCode::kWrongState, std::string(argument) + ": is a " +
                                            std::string(to_string(kind)) + ", give a " +
                                            std::string(to_string(HandleType::kOwnKind)));
  return {};
}
template <class HandleType>
bool usable(const HandleType* handle) {
  return handle != nullptr && kind_of(handle) == HandleType::kOwnKind;
}

// The client of a call and what the call is about.
template <class HandleType>
Result<void> check_both(const orlop_client* client, std::string_view argument,
                        const HandleType* handle) {
  if (auto checked = check_handle("client", client); !checked) return checked;
  return check_handle(argument, handle);
}

Result<void> check_place(std::string_view argument, bool given);
template <class Value>
Result<void> check_out(std::string_view argument, const Value* out) {
  return check_place(argument, out != nullptr);
}

// The answer of a call that gives a number, wanted or not.
Result<void> give_number(const Result<std::uint64_t>& answered, std::uint64_t* out);

// What every _free does. A handle of another kind stays: it would be torn down as what it is not.
template <class HandleType>
void free_handle(HandleType* handle) noexcept {
  if (usable(handle)) delete handle;
}

}  // namespace orlop::c_api
