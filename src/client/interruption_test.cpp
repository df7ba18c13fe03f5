// SPDX-License-Identifier: Apache-2.0
#include "client/interruption.h"

#include <gtest/gtest.h>

#include "client/client_fixture.h"

namespace orlop::client::testing {
namespace {

int asked = 0;

class InterruptionTest : public ClientTest {
 protected:
  // Long: whoever returns early was interrupted.
  InterruptionTest() : ClientTest({}, {.call_budget = kLong}) { asked = 0; }
};

TEST_F(InterruptionTest, Call_checkSaysStop_endsBeforeItsBudget) {
  node.stop_server();
  const WaitInterruption mine(+[] { return ++asked == 2; });
  const MonoNs start = monotonic_ns();
  const auto answered = client.ping();
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error().code, ErrorCode::kNoNode);
  EXPECT_EQ(asked, 2);
  EXPECT_LT(monotonic_ns() - start, 10 * kNsPerSecond);
}

TEST_F(InterruptionTest, WaitReady_checkSaysStop_endsBeforeItsTime) {
  node.stop_server();
  ASSERT_TRUE(eventually([&] { return !client.ready(); }));
  const WaitInterruption mine(+[] { return ++asked == 2; });
  EXPECT_FALSE(client.wait_ready(Milliseconds::max()));
  EXPECT_EQ(asked, 2);
}

TEST_F(InterruptionTest, Call_checkSaysGoOn_isAnswered) {
  const WaitInterruption mine(+[] {
    ++asked;
    return false;
  });
  EXPECT_TRUE(client.ping());
}

TEST_F(InterruptionTest, Call_afterTheCheckEnded_doesNotAsk) {
  {
    const WaitInterruption mine(+[] { return ++asked > 0; });
  }
  EXPECT_TRUE(client.ping());
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace orlop::client::testing
