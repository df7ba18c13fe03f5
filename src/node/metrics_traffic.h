// SPDX-License-Identifier: Apache-2.0
// The metrics about hits and misses: of all clients, by client, by namespace. Pure.
#pragma once

#include "node/metrics_families.h"
#include "runtime/snapshot.h"

namespace orlop::node {

void add_traffic(MetricFamilies& families, const runtime::NodeSnapshot& snapshot);
void add_client_traffic(MetricFamilies& families, const runtime::NodeSnapshot& snapshot);
void add_namespaces(MetricFamilies& families, const runtime::NodeSnapshot& snapshot);

}  // namespace orlop::node
