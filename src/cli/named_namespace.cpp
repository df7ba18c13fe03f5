// SPDX-License-Identifier: Apache-2.0
#include "cli/named_namespace.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "cli/json_parts.h"
#include "cli/status_fields.h"
#include "segment/key_id.h"

namespace orlop::cli {
namespace {

using status_fields::Json;

std::string digest_text(const segment::Digest& digest) {
  char text[33];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, digest.hi, digest.lo);
  return text;
}

Result<NamedNamespace> read_one(const Json& facts) {
  NamedNamespace ns;
  ns.facts = facts;
  ns.row = NamespaceRow{static_cast<std::uint32_t>(status_fields::number(facts, "row"))};
  const Json& descriptor = status_fields::at(facts, "descriptor");
  const auto read = parse_descriptor(json_text(descriptor, -1));
  if (!read) {
    return fail(ErrorCode::kCorrupt,
                "descriptor of namespace " + std::to_string(ns.row.value) +
                    " cannot be read: " + status_fields::masked(read.error().message) +
                    "; use the node's own version of orlop");
  }
  ns.descriptor = *read;
  const auto text = canonical_text(*read);
  const auto family = family_text(*read);
  if (!text || !family) {
    return fail(ErrorCode::kCorrupt, "descriptor of namespace " + std::to_string(ns.row.value) +
                                         " is out of its limits");
  }
  ns.digest = digest_text(segment::digest_of(*text));
  ns.family_digest = digest_text(segment::digest_of(*family));
  return ns;
}

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

std::string listed(const std::vector<NamedNamespace>& all) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(all[i].row.value) + " = " +
            all[i].digest.substr(0, 12);
  }
  if (all.empty()) return "none is open";
  return "there are " + text + (all.size() > kShown ? ", ..." : "");
}

}  // namespace

KeyId NamedNamespace::id_of(std::string_view key) const {
  const auto family = family_text(descriptor);
  return segment::KeyHasher(segment::digest_of(family.value())).hash(key.data(), key.size());
}

std::string NamedNamespace::title() const {
  std::string text = "namespace " + std::to_string(row.value) + " (" + descriptor.engine +
                     ", model " + descriptor.model;
  if (descriptor.tp_size > 1) {
    text +=
        ", rank " + std::to_string(descriptor.tp_rank) + "/" + std::to_string(descriptor.tp_size);
  }
  if (descriptor.pp_size > 1) {
    text +=
        ", stage " + std::to_string(descriptor.pp_rank) + "/" + std::to_string(descriptor.pp_size);
  }
  return status_fields::masked(text + ")");
}

Result<std::vector<NamedNamespace>> list_namespaces(const Json& status) {
  std::vector<NamedNamespace> all;
  for (const Json& facts : status_fields::array_at(status, "namespaces")) {
    auto one = read_one(facts);
    if (!one) return std::unexpected(one.error());
    all.push_back(std::move(*one));
  }
  std::ranges::sort(all, {}, [](const NamedNamespace& ns) { return ns.row.value; });
  return all;
}

Result<NamedNamespace> find_namespace(const std::vector<NamedNamespace>& all,
                                      const std::string& name) {
  std::string wanted = name;
  std::ranges::transform(wanted, wanted.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? char(c - 'A' + 'a') : c; });
  const bool row = wanted.size() <= kMostRowDigits && all_of(wanted, "0123456789");
  const bool digest = wanted.size() >= kLeastDigestDigits && wanted.size() <= 32 &&
                      all_of(wanted, "0123456789abcdef");
  if (!row && !digest) {
    return fail(ErrorCode::kInvalidArgument,
                "namespace '" + status_fields::masked(name) +
                    "' is neither a row number nor 6 to 32 hex digits of a digest; " + listed(all));
  }
  std::vector<NamedNamespace> found;
  for (const NamedNamespace& ns : all) {
    if (row ? wanted == std::to_string(ns.row.value) : ns.digest.starts_with(wanted))
      found.push_back(ns);
  }
  if (found.size() == 1) return found.front();
  return fail(ErrorCode::kInvalidArgument,
              found.empty() ? "no namespace is called '" + name + "'; " + listed(all)
                            : "'" + name + "' names several namespaces: " + listed(found));
}

}  // namespace orlop::cli
