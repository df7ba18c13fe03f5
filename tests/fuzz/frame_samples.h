// SPDX-License-Identifier: Apache-2.0
// Real frames of every kind, for seeds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "protocol/attach/frames.h"

namespace orlop::fuzz {

protocol::AttachFrame sample_attach();
protocol::ResumeFrame sample_resume();
protocol::LedgerFrame sample_ledger();
// Name of the kind, and the frame as it goes over the socket.
std::vector<std::pair<std::string, protocol::Bytes>> sample_frames();

}  // namespace orlop::fuzz
