// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "base/units.h"
#include "cli/status_fields.h"

namespace orlop::cli {
namespace {

using namespace status_fields;

constexpr std::size_t kBarColumns = 30;
// Below 70 columns there is room for two figures only beside a name of 24.
constexpr std::size_t kWideColumns = 70, kWideNameColumns = 24, kNarrowNameColumns = 14;
constexpr std::size_t kMostNameColumns = 48;
// Title and heading of a list, and one row.
constexpr std::size_t kLeastListRows = 3;

std::string per_second(const std::optional<double>& rate) {
  if (!rate) return "-";
  return format_count(static_cast<std::uint64_t>(std::llround(*rate))) + "/s";
}
std::string gigabytes(const std::optional<double>& rate) {
  if (!rate) return "-";
  char out[32];
  std::snprintf(out, sizeof out, "%.2f GB/s", *rate / 1e9);
  return out;
}
std::string share(const std::optional<double>& part) {
  if (!part) return "-";
  char out[32];
  std::snprintf(out, sizeof out, "%.1f %%", 100 * *part);
  return out;
}
std::string microseconds(const Json& latency, const char* field) {
  const Json& value = at(latency, field);
  if (!value.is_number() || number(latency, "count") == 0) return "-";
  return duration_text(value.get<double>() / 1e6);
}

// One mark for each part of the whole: "[####==++....]", readable, pinned among it, being written.
std::string state_bar(const Json& memory, std::uint64_t pinned, std::size_t width) {
  const std::uint64_t whole = number(memory, "value_bytes");
  const auto marks = [&](std::uint64_t bytes) {
    return static_cast<std::size_t>(
        std::lround(std::clamp(ratio(bytes, whole), 0.0, 1.0) * static_cast<double>(width)));
  };
  const std::size_t readable = marks(number(memory, "readable_bytes"));
  const std::size_t held = std::min(marks(pinned), readable);
  const std::size_t written = std::min(marks(number(memory, "prepared_bytes")), width - readable);
  return "[" + std::string(held, '=') + std::string(readable - held, '#') +
         std::string(written, '+') + std::string(width - readable - written, '.') + "]";
}

std::uint64_t pinned_bytes(const Json& status) {
  if (const auto told = known_number(status, "pinned_bytes")) return *told;
  std::uint64_t sum = 0;
  for (const Json& client : array_at(status, "clients")) sum += number(client, "pinned_bytes");
  return sum;
}

std::string restarts_text(const TopHistory& history) {
  return count(history.status(), "restarts") + " restarts (" +
         format_count(history.restarts_seen()) + " seen)";
}

std::vector<std::string> head(const TopHistory& history, ScreenSize size, const Painter& paint) {
  std::vector<std::string> lines;
  if (!history.node()) {
    lines.push_back(paint(Ink::kBold, "orlop top") + "  " + paint(Ink::kBad, "no node, retrying"));
    lines.push_back(masked(history.socket()));
    lines.push_back(masked(history.why()));
    lines.push_back(format_count(history.restarts_seen()) + " restarts seen");
    return lines;
  }
  const Json& status = history.status();
  const Json& memory = at(status, "memory");
  const TopRates& rates = history.rates();
  const std::string state = text(status, "state");
  const std::uint64_t pinned = pinned_bytes(status);
  const std::size_t bar_columns =
      std::min(kBarColumns, size.columns > 20 ? size.columns - 20 : std::size_t{4});
  lines.push_back(paint(Ink::kBold, "orlop top") + "  " +
                  paint(state == "ready" ? Ink::kGood : Ink::kWarning, state) + "  up " +
                  duration(status, "uptime_seconds") + ", " + restarts_text(history) + "  " +
                  masked(history.socket()));
  lines.push_back("memory   " + state_bar(memory, pinned, bar_columns) + " " +
                  bytes(memory, "value_bytes"));
  lines.push_back("  # readable " + bytes(memory, "readable_bytes") + "  = pinned " +
                  format_bytes(pinned) + "  + writing " + bytes(memory, "prepared_bytes"));
  lines.push_back("hits     " + share(rates.hit_rate()) + "  asked " +
                  per_second(rates.keys_asked) + "  read " + gigabytes(rates.bytes_read));
  lines.push_back("stored   " + per_second(rates.keys_stored) + "  written " +
                  gigabytes(rates.bytes_written) + "  evicted " + per_second(rates.slots_evicted));
  const Json& step = at(status, "step_latency");
  lines.push_back("server   p50 " + microseconds(step, "p50_us") + "  p95 " +
                  microseconds(step, "p95_us") + "  p99 " + microseconds(step, "p99_us") +
                  "  waiting puts " + count(status, "waiting_puts"));
  lines.push_back("oldest   read plan " + duration(status, "oldest_read_plan_seconds") + "  put " +
                  duration(status, "oldest_put_seconds"));
  return lines;
}

// A list: a column of names that takes what room there is, then as many of the others as fit.
struct Column {
  const char* title;
  std::size_t width;
  std::function<std::string(const Json&)> value;
};

std::string row_text(const std::string& name, std::size_t name_columns,
                     const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line = shortened(name, name_columns);
  line.append(name_columns - visible_width(line), ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = shortened(cells[i], columns[i].width);
    line += "  " + std::string(columns[i].width - visible_width(cell), ' ') + cell;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::vector<std::string> list_lines(const std::string& title, const std::vector<const Json*>& items,
                                    const std::function<std::string(const Json&)>& name,
                                    std::vector<Column> columns, ScreenSize room,
                                    const Painter& paint) {
  const std::size_t least = room.columns < kWideColumns ? kNarrowNameColumns : kWideNameColumns;
  std::size_t used = least, fitting = 0;
  while (fitting < columns.size() && used + 2 + columns[fitting].width <= room.columns) {
    used += 2 + columns[fitting++].width;
  }
  columns.resize(fitting);
  const std::size_t name_columns =
      std::min(kMostNameColumns, least + (room.columns > used ? room.columns - used : 0));
  const std::size_t rows = room.rows > 1 ? room.rows - 1 : 0;  // without the heading
  const bool cut = items.size() > rows;
  const std::size_t shown = cut ? (rows > 1 ? rows - 1 : 0) : items.size();
  std::vector<std::string> lines, titles;
  for (const Column& column : columns) titles.emplace_back(column.title);
  lines.push_back(paint(Ink::kBold, row_text(title + "  " + format_count(items.size()),
                                             name_columns, titles, columns)));
  for (std::size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.value(*items[i]));
    lines.push_back(row_text(name(*items[i]), name_columns, cells, columns));
  }
  if (cut) lines.push_back("and " + format_count(items.size() - shown) + " more");
  return lines;
}

std::vector<const Json*> sorted_by(const Json& list,
                                   const std::function<std::uint64_t(const Json&)>& size) {
  std::vector<const Json*> items;
  for (const Json& one : list) items.push_back(&one);
  // Among equals in the node's order.
  std::ranges::sort(items, [&](const Json* a, const Json* b) {
    const std::uint64_t of_a = size(*a), of_b = size(*b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  return items;
}

std::string tenant_name(const Json& ns) {
  const Json& descriptor = at(ns, "descriptor");
  return text(descriptor, "engine") + " " + text(descriptor, "model") + " " +
         text(descriptor, "dtype") + " tp" + count(descriptor, "tp_rank") + "/" +
         count(descriptor, "tp_size");
}

// Readable bytes of a namespace, where the node does not tell them: pages of its value size.
std::uint64_t tenant_bytes(const Json& ns) {
  if (const auto told = known_number(ns, "readable_bytes")) return *told;
  return number(ns, "slots") * number(ns, "value_len");
}

std::vector<std::string> tenants(const Json& status, ScreenSize room, const Painter& paint) {
  const std::uint64_t whole = number(at(status, "memory"), "value_bytes");
  const auto refused = [](const Json& ns) {
    const Json& outcomes = at(ns, "outcomes");
    if (!outcomes.is_object()) return std::string("-");
    return format_count(number(outcomes, "no_space") + number(outcomes, "over_quota") +
                        number(outcomes, "not_admitted"));
  };
  return list_lines(
      "tenants", sorted_by(array_at(status, "namespaces"), tenant_bytes), tenant_name,
      {{"bytes", 9, [](const Json& ns) { return format_bytes(tenant_bytes(ns)); }},
       {"share", 12, [&](const Json& ns) { return bar(ratio(tenant_bytes(ns), whole), 10); }},
       {"hit", 10, [](const Json& ns) { return count(ns, "touches"); }},
       {"stored", 10, [](const Json& ns) { return count(ns, "keys_stored"); }},
       {"evicted", 9, [](const Json& ns) { return count(ns, "evicted_slots"); }},
       {"refused", 8, refused},
       {"last hit", 9, [](const Json& ns) { return duration(ns, "seconds_since_hit"); }},
       {"last put", 9, [](const Json& ns) { return duration(ns, "seconds_since_put"); }}},
      room, paint);
}

std::vector<std::string> clients(const Json& status, ScreenSize room, const Painter& paint) {
  const auto held = [](const Json& client) {
    return number(client, "pinned_bytes") + number(client, "prepared_bytes");
  };
  const auto hit_rate = [](const Json& client) {
    return percent(number(client, "keys_hit"), number(client, "keys_asked"));
  };
  const auto oldest = [](const Json& client) {
    return duration_text(std::max(seconds(client, "oldest_read_plan_seconds"),
                                  seconds(client, "oldest_put_seconds")));
  };
  return list_lines(
      "clients", sorted_by(array_at(status, "clients"), held),
      [](const Json& client) {
        return count(client, "client") + " " + text(client, "name") +
               (text(client, "state") == "attached" ? "" : " (" + text(client, "state") + ")");
      },
      {{"pinned", 9, [](const Json& client) { return bytes(client, "pinned_bytes"); }},
       {"hits", 7, hit_rate},
       {"oldest", 9, oldest},
       {"writing", 9, [](const Json& client) { return bytes(client, "prepared_bytes"); }},
       {"get p50", 8,
        [](const Json& client) { return microseconds(at(client, "get_latency"), "p50_us"); }},
       {"get p99", 8,
        [](const Json& client) { return microseconds(at(client, "get_latency"), "p99_us"); }},
       {"put p50", 8,
        [](const Json& client) { return microseconds(at(client, "put_latency"), "p50_us"); }},
       {"put p99", 8,
        [](const Json& client) { return microseconds(at(client, "put_latency"), "p99_us"); }},
       {"pid", 8, [](const Json& client) { return std::to_string(number(client, "pid")); }}},
      room, paint);
}

}  // namespace

std::string shortened(const std::string& text, std::size_t width) {
  if (visible_width(text) <= width) return text;
  std::string out;
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins && ++columns >= width) break;
    out += text[i];
  }
  return width == 0 ? "" : out + "\u2026";
}

std::string clipped(const std::string& line, std::size_t width) {
  if (visible_width(line) <= width) return line;
  std::string out;
  std::size_t columns = 0;
  bool painted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte == 0x1b) {
      painted = true;
      const std::size_t end = std::min(line.find('m', i), line.size() - 1);
      out.append(line, i, end + 1 - i);
      i = end;
      continue;
    }
    if ((byte & 0xc0) != 0x80 && ++columns > width) break;
    out += line[i];
  }
  return painted ? out + "\033[0m" : out;
}

std::string top_view(const TopHistory& history, ScreenSize size, const Painter& paint) {
  std::vector<std::string> lines = head(history, size, paint);
  const auto append = [&](std::vector<std::string> more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  const std::size_t left = size.rows > lines.size() ? size.rows - lines.size() : 0;
  if (history.node() && left > 0) {
    // Tenants take what they need, but leave half to the clients if these need it.
    const Json& status = history.status();
    const std::size_t tenant_rows = array_at(status, "namespaces").size() + 1;
    const std::size_t client_rows = array_at(status, "clients").size() + 1;
    const std::size_t half = std::max(left / 2, std::min(kLeastListRows, left));
    const std::size_t for_clients = std::min(client_rows, left > half ? left - half : 0);
    const std::size_t for_tenants = std::min(tenant_rows, left - for_clients);
    append(tenants(status, {size.columns, for_tenants}, paint));
    if (left > for_tenants) append(clients(status, {size.columns, left - for_tenants}, paint));
  }
  std::string out;
  for (std::size_t i = 0; i < lines.size() && i < size.rows; ++i) {
    out += clipped(lines[i], size.columns) + "\n";
  }
  return out;
}

}  // namespace orlop::cli
