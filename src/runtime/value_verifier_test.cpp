// SPDX-License-Identifier: Apache-2.0
#include "runtime/value_verifier.h"

#include <gtest/gtest.h>

#include "copy/checksum.h"

namespace orlop::runtime {
namespace {

TEST(ValueVerifier, Tells_right_from_wrong_bytes) {
  const auto geometry = segment::make_geometry(4 * kMiB, 64 * kKiB).value();
  std::vector<std::byte> values(geometry.value_bytes(), std::byte{1});
  const EventFd wake = EventFd::create().value();
  ValueVerifier verifier(values, geometry, wake);
  const SlotId slot{3};
  const KeyId key{5, 6};
  const auto value = std::span(values).subspan(geometry.value_offset(slot, 5000), 5000);
  protocol::VerifyValue question{
      ClientId{1}, slot, Generation{9}, 5000, key, 77, checksum(value, {key, 77})};
  verifier.ask(question);
  question.expected += 1;
  verifier.ask(question);
  question.value_len = 0xffffffff;  // out of bounds: never read
  verifier.ask(question);
  std::vector<protocol::event::ValueVerified> answers;
  while (answers.size() < 3) {
    ASSERT_TRUE(wake.wait(kNever).value());
    wake.drain();
    verifier.take(answers);
  }
  EXPECT_TRUE(answers[0].matches);
  EXPECT_EQ(answers[0].generation, Generation{9});
  EXPECT_FALSE(answers[1].matches);
  EXPECT_FALSE(answers[2].matches);
}

}  // namespace
}  // namespace orlop::runtime
