// SPDX-License-Identifier: Apache-2.0
// Builds metric families in the order they are written down. Used by metrics*.cpp only.
#pragma once

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "segment/report_counters.h"

namespace orlop::node {

inline double metric_seconds(MonoNs ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

// Families in the order of the page docs/operations/metrics.md.
class MetricFamilies {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void begin(prometheus::MetricType type, const char* name, const char* help) {
    families_.push_back({name, help, type, {}});
  }
  template <class Number>
  void add(Labels labels, Number value) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == prometheus::MetricType::Counter) {
      metric.counter.value = static_cast<double>(value);
    } else {
      metric.gauge.value = static_cast<double>(value);
    }
    families_.back().metric.push_back(std::move(metric));
  }
  template <class Number>
  void counter(const char* name, const char* help, Number value) {
    begin(prometheus::MetricType::Counter, name, help);
    add({}, value);
  }
  template <class Number>
  void gauge(const char* name, const char* help, Number value) {
    begin(prometheus::MetricType::Gauge, name, help);
    add({}, value);
  }
  // Cumulative buckets with bounds in powers of two from 128 ns.
  void histogram(const char* name, const char* help, const segment::LatencyCounts& latency) {
    begin(prometheus::MetricType::Histogram, name, help);
    prometheus::ClientMetric metric;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < latency.counts.size(); ++i) {
      below = segment::saturated_sum(below, latency.counts[i]);
      const MonoNs bound = segment::latency_bound(i);
      metric.histogram.bucket.push_back({below, bound == kNever
                                                    ? std::numeric_limits<double>::infinity()
                                                    : metric_seconds(bound)});
    }
    metric.histogram.sample_count = below;
    metric.histogram.sample_sum = metric_seconds(latency.sum_ns);
    families_.back().metric.push_back(std::move(metric));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace orlop::node
