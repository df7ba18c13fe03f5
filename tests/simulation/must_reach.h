// SPDX-License-Identifier: Apache-2.0
// Rare states that a batch of seeds must reach, else it proves less than it seems to.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orlop::simulation {

// Each of the states below is reached by one seed in fifty or more; so a batch of this many that
// misses one is not bad luck.
inline constexpr std::uint64_t kSeedsThatReachAll = 500;

inline constexpr auto kMustBeReached = std::to_array<std::string_view>({
    "a commit finds its key stored by another",
    "a commit is repeated",
    "a pinned group is given back",
    "a pinned group is restored",
    "a removed slot waits for its readers",
    "a slab is taken from another class",
    "a stopped writer's key is taken over",
    "attach: client left while the keeper was asked",
    "kept_commits_posted_again",
    "late_put_start_aborted",
    "plan_waits_for_its_copies",
    "recovery drops a group with a missing member",
    "recovery meets a reclaimed channel",
    "recovery meets a torn row",
    "sim: a busy client is preempted",
    "sim: a changing part of the header is damaged",
    "sim: a client attached again without its channel",
    "sim: a client of another version is refused",
    "sim: a client sleeps until an answer comes",
    "sim: a commit is sent again",
    "sim: a damaged segment is given up",
    "sim: a doorbell wakes a client",
    "sim: a doorbell wakes the node",
    "sim: a forked child outlived its parent",
    "sim: a later writer committed first",
    "sim: a new keeper takes over the memory",
    "sim: a put outlived its segment",
    "sim: a read is rounded down to whole groups",
    "sim: a read plan outlived its segment",
    "sim: a read plan outlived the server",
    "sim: a restart doomed half a group",
    "sim: a restart kept Prepared slots",
    "sim: a restart restored a retiring group",
    "sim: a slot is evicted",
    "sim: a stranger ends a put",
    "sim: an abort is sent again",
    "sim: commit after a flush",
    "sim: group split",
    "sim: ledger full",
    "sim: no room for a request",
    "sim: no space",
    "sim: not admitted",
    "sim: over quota",
    "sim: pin budget",
    "sim: the memory is lost with its keeper",
    "sim: the node sleeps",
    "sim: the rings are full",
    "sim: three steps inside each other",
    "the index grows during traffic",
});

}  // namespace orlop::simulation
