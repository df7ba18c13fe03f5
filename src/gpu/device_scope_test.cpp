// SPDX-License-Identifier: Apache-2.0
// Scopes on contexts of the test's own; with two devices cuda_devices_test.cpp sees the driver's.
#include "gpu/device_scope.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace orlop::gpu {
namespace {

// Devices 0 to 2, of which none has a context yet; one thread.
class FakeContexts final : public Contexts {
 public:
  Context current() override { return stack.empty() ? Context{} : stack.back(); }
  Result<Context> primary(int device) override {
    if (device < 0 || device >= 3) return fail(ErrorCode::kSystem, "no such device");
    made.at(static_cast<std::size_t>(device)) = true;
    return of(device);
  }
  bool is_made(int device) override { return made.at(static_cast<std::size_t>(device)); }
  Result<void> push(Context context) override {
    if (refuse_push) return fail(ErrorCode::kSystem, "refused");
    stack.push_back(context);
    return {};
  }
  void pop() override { stack.pop_back(); }
  int exchange_capture_mode(int mode) override { return std::exchange(capture_mode, mode); }
  Context of(int device) { return {&handles.at(static_cast<std::size_t>(device))}; }

  std::array<int, 3> handles{};
  std::array<bool, 3> made{};
  std::vector<Context> stack;
  bool refuse_push = false;
  int capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

TEST(DeviceScope, Leaves_a_thread_that_chose_no_device_without_one) {
  FakeContexts contexts;
  {
    const DeviceScope scope(1, contexts);
    EXPECT_TRUE(scope.entered().has_value());
    EXPECT_EQ(contexts.current(), contexts.of(1));
  }
  EXPECT_TRUE(contexts.stack.empty());
  EXPECT_FALSE(contexts.is_made(0)) << "a context on a device that nobody uses";
}

TEST(DeviceScope, Puts_back_what_was_current_also_a_context_of_the_callers_own) {
  FakeContexts contexts;
  int own = 0;
  for (const Context before : {contexts.of(0), Context{&own}}) {
    contexts.stack = {before};
    {
      const DeviceScope scope(1, contexts);
      EXPECT_EQ(contexts.current(), contexts.of(1));
      {
        const DeviceScope inner(2, contexts);
        EXPECT_EQ(contexts.current(), contexts.of(2));
      }
      EXPECT_EQ(contexts.current(), contexts.of(1));
    }
    EXPECT_EQ(contexts.stack, std::vector{before});
  }
}

TEST(DeviceScope, Another_threads_capture_forbids_nothing_in_it_and_what_it_did_after_it) {
  FakeContexts contexts;
  for (const int before : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    contexts.capture_mode = before;
    {
      const DeviceScope scope(1, contexts);
      EXPECT_EQ(contexts.capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
      {
        const DeviceScope nothing(Context{}, contexts);
        const AnyContextScope any(3, contexts);
      }
      EXPECT_EQ(contexts.capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    }
    EXPECT_EQ(contexts.capture_mode, before);
    {
      const AnyContextScope any(3, contexts);
    }
    EXPECT_EQ(contexts.capture_mode, before);
  }
}

TEST(DeviceScope, Of_the_device_that_is_current_does_nothing) {
  FakeContexts contexts;
  contexts.stack = {contexts.of(1)};
  const DeviceScope scope(1, contexts);
  EXPECT_TRUE(scope.entered().has_value());
  EXPECT_EQ(contexts.stack.size(), 1u);
}

TEST(DeviceScope, That_was_not_entered_says_why_and_takes_nothing_away) {
  FakeContexts contexts;
  contexts.stack = {contexts.of(0)};
  {
    const DeviceScope no_device(7, contexts);
    ASSERT_FALSE(no_device.entered().has_value());
    EXPECT_EQ(no_device.entered().error().message, "no such device");
    contexts.refuse_push = true;
    const DeviceScope refused(1, contexts);
    ASSERT_FALSE(refused.entered().has_value());
    EXPECT_EQ(refused.entered().error().message, "refused");
  }
  EXPECT_EQ(contexts.stack, std::vector{contexts.of(0)});
}

TEST(DeviceScope, Of_a_context_enters_it_and_of_none_does_nothing) {
  FakeContexts contexts;
  {
    const DeviceScope none(Context{}, contexts);
    EXPECT_TRUE(contexts.stack.empty());
    const DeviceScope some(contexts.of(2), contexts);
    EXPECT_EQ(contexts.current(), contexts.of(2));
  }
  EXPECT_TRUE(contexts.stack.empty());
}

TEST(AnyContextScope, Takes_what_is_there_and_makes_nothing) {
  FakeContexts contexts;
  {
    const AnyContextScope none(3, contexts);
    EXPECT_FALSE(none);
  }
  EXPECT_EQ(contexts.made, (std::array<bool, 3>{}));
  contexts.made[2] = true;
  {
    const AnyContextScope second(3, contexts);
    EXPECT_TRUE(second);
    EXPECT_EQ(contexts.current(), contexts.of(2));
  }
  EXPECT_TRUE(contexts.stack.empty());
  EXPECT_EQ(contexts.made, (std::array<bool, 3>{false, false, true}));
  contexts.stack = {contexts.of(1)};
  const AnyContextScope own(3, contexts);
  EXPECT_TRUE(own);
  EXPECT_EQ(contexts.stack, std::vector{contexts.of(1)});
}

TEST(DriverContexts, Without_a_driver_are_none_and_an_error_says_so) {
  Contexts& contexts = driver_contexts();
  if (contexts.primary(0)) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(contexts.current(), Context{});
  EXPECT_FALSE(contexts.is_made(0));
  const DeviceScope scope(0);
  ASSERT_FALSE(scope.entered().has_value());
  EXPECT_EQ(scope.entered().error().code, ErrorCode::kSystem);
}

}  // namespace
}  // namespace orlop::gpu
