// SPDX-License-Identifier: Apache-2.0
// Attach and resume over the node's socket, from the client's side. Blocking with a deadline; ends
// early when `stop` rings. Called by the housekeeping thread only.
//
// A node that has the frame may have made or given a channel by then, which it could only take back
// when this process ends. So `stop` then leaves `last_wait` for the answer: whoever gets it
// detaches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "client/attachment.h"
#include "orlop/error.h"
#include "platform/event_fd.h"
#include "platform/file_descriptor.h"

namespace orlop::client {

struct Attached {
  FileDescriptor socket;  // stays open: its hang-up says that the server is gone
  Incarnation incarnation;
  std::unique_ptr<Attachment> attachment;
};
// Errors: kNoNode (nobody listens; the usual one), kAbiMismatch, kRefused, kLimit, kDeadline,
// kCorrupt, kSystem ...: of the refusal, the network or the mapping. kDeadline, kClosed: `stop`
// rang. A node that has the frame may be giving us a channel, which it could take back only when
// this process ends. So `stop` then leaves `last_wait` for the answer; whoever gets it detaches.
Result<Attached> attach(const std::string& path, std::uint64_t nonce, const std::string& name,
                        const segment::ChannelSizes& sizes, const EventFd& stop, MonoNs last_wait);

struct Resumed {
  FileDescriptor socket;
  Incarnation incarnation;
};
// snapshot: called once the connection stands, right before its result is sent (the reset of the
// rings happens inside it). Errors as attach(); from the node kClosed with `gone` set means that
// this segment or client is not known there any more.
struct ResumeFailure {
  Error error;
  bool gone = false;
  FileDescriptor socket;  // open if the server may have got the frame: wait for its hang-up
};
std::expected<Resumed, ResumeFailure> resume(
    const std::string& path, const Attachment& attachment,
    const std::function<protocol::ResumeSnapshot()>& snapshot, const EventFd& stop);

}  // namespace orlop::client
