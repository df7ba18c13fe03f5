// SPDX-License-Identifier: Apache-2.0
// The wall between C++ and C: no exception passes, every failure becomes a status and the calling
// thread's error text.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "orlop/error.h"
#include "orlop/orlop.h"

namespace orlop::c_api {

// Longest text of an error, its end mark included. The node cuts its own messages far below.
inline constexpr std::size_t kErrorTextBytes = 2048;

// Keeps the text for orlop_error_message() of this thread. Allocates nothing.
orlop_status failed(ErrorCode code, std::string_view text) noexcept;
const char* last_error_text() noexcept;

// Runs a call's body, which answers Result<void>.
template <class Body>
orlop_status guarded(Body&& body) noexcept {
  try {
    const Result<void> result = std::forward<Body>(body)();
    return result ? ORLOP_OK : failed(result.error().code, result.error().message);
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::kNoMemory, "this process has no memory left for the call");
  } catch (const std::length_error&) {
    return failed(ErrorCode::kNoMemory, "the call needs more memory than a process can have");
  } catch (const std::exception& error) {
    return failed(ErrorCode::kSystem, error.what());
  } catch (...) {
    return failed(ErrorCode::kSystem, "an unknown exception ended the call");
  }
}

// The same for calls that have a value and no status.
template <class Value, class Body>
Value guarded_value(Value otherwise, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace orlop::c_api
