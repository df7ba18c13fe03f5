// SPDX-License-Identifier: Apache-2.0
// The Grafana dashboard asks only for what the node tells: names, labels and types of every query
// are held against the page of metrics, and that page against the code.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "node/metrics.h"

namespace orlop::node {
namespace {

using Json = nlohmann::json;

struct Metric {
  std::string type;
  std::set<std::string> labels;
};

std::string file_text(const std::string& path) {
  std::ifstream file(ORLOP_SOURCE_DIR "/" + path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Rows "| `name` | type | `label`, `label` | meaning |".
std::map<std::string, Metric> documented_metrics() {
  std::map<std::string, Metric> metrics;
  const std::string page = file_text("docs/operations/metrics.md");
  const std::regex row("\\| `(orlop_\\w+)` \\| (\\w+) \\| ([^|]*) \\|");
  const std::regex label("`(\\w+)`");
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at) {
    Metric& metric = metrics[(*at)[1]];
    metric.type = (*at)[2];
    const std::string labels = (*at)[3];
    for (std::sregex_iterator one(labels.begin(), labels.end(), label); one != end; ++one) {
      metric.labels.insert((*one)[1]);
    }
  }
  return metrics;
}

void collect_queries(const Json& node, std::vector<std::string>& out) {
  if (node.is_object() && node.contains("expr")) out.push_back(node["expr"]);
  if (node.is_object() && node.contains("definition")) out.push_back(node["definition"]);
  for (const Json& child : node) {
    if (child.is_structured()) collect_queries(child, out);
  }
}

// A histogram is asked for by its parts, anything else by its name.
std::string base_name(const std::string& name, const std::map<std::string, Metric>& known) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string base = name.substr(0, name.size() - suffix.size());
    const auto found = known.find(base);
    if (found != known.end() && found->second.type == "histogram") return base;
  }
  return name;
}

// Labels that a query selects or groups by; instance and le are Prometheus's own.
std::set<std::string> labels_of(const std::string& query) {
  std::set<std::string> labels;
  const std::regex grouped("by \\(([^)]*)\\)");
  const std::regex selected("(\\w+)\\s*(?:=~|!~|!=|=)\\s*\"");
  const std::regex word("\\w+");
  const std::sregex_iterator end;
  for (std::sregex_iterator at(query.begin(), query.end(), grouped); at != end; ++at) {
    const std::string list = (*at)[1];
    for (std::sregex_iterator one(list.begin(), list.end(), word); one != end; ++one) {
      labels.insert(one->str());
    }
  }
  for (std::sregex_iterator at(query.begin(), query.end(), selected); at != end; ++at) {
    labels.insert((*at)[1]);
  }
  labels.erase("instance");
  labels.erase("le");
  return labels;
}

void check_query(const std::string& query, const std::map<std::string, Metric>& known) {
  const std::regex name("orlop_\\w+");
  const std::sregex_iterator end;
  std::set<std::string> offered;
  std::size_t names = 0;
  for (std::sregex_iterator at(query.begin(), query.end(), name); at != end; ++at, ++names) {
    const auto found = known.find(base_name(at->str(), known));
    if (found == known.end()) {
      ADD_FAILURE() << "no such metric: " << at->str() << " in: " << query;
      continue;
    }
    offered.insert(found->second.labels.begin(), found->second.labels.end());
    const bool rated = query.find("rate(" + at->str()) != std::string::npos;
    EXPECT_FALSE(rated && found->second.type == "gauge") << "rate of a gauge: " << query;
    EXPECT_FALSE(found->second.type == "histogram" && found->first == at->str()) << query;
  }
  EXPECT_GT(names, 0u) << query;
  for (const std::string& label : labels_of(query)) {
    EXPECT_TRUE(offered.contains(label)) << "no such label: " << label << " in: " << query;
  }
}

TEST(Dashboard, Every_query_asks_for_a_metric_that_exists) {
  const auto known = documented_metrics();
  ASSERT_GT(known.size(), 50u);
  std::vector<std::string> queries;
  collect_queries(Json::parse(file_text("packaging/grafana/orlop.json")), queries);
  ASSERT_GT(queries.size(), 30u);
  for (const std::string& query : queries) check_query(query, known);
}

TEST(Dashboard, Panels_do_not_overlap) {
  const Json dashboard = Json::parse(file_text("packaging/grafana/orlop.json"));
  std::set<std::pair<int, int>> taken;
  for (const Json& panel : dashboard["panels"]) {
    const Json& at = panel["gridPos"];
    for (int x = at["x"]; x < at["x"].get<int>() + at["w"].get<int>(); ++x) {
      EXPECT_LT(x, 24) << panel["title"];
      for (int y = at["y"]; y < at["y"].get<int>() + at["h"].get<int>(); ++y) {
        EXPECT_TRUE(taken.emplace(x, y).second) << panel["title"];
      }
    }
  }
}

TEST(MetricsPage, Names_only_metrics_that_exist) {
  const std::string text = metrics_text({}, {});
  for (const auto& [name, metric] : documented_metrics()) {
    EXPECT_NE(text.find("# TYPE " + name + " " + metric.type + "\n"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace orlop::node
