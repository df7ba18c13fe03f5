// SPDX-License-Identifier: Apache-2.0
// Four pages into a node's memory and out again.
#include <orlop/client.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  orlop::Client client({.socket = argc > 1 ? argv[1] : "", .name = "example"});
  if (!client.wait_ready(orlop::Milliseconds{10'000}))
    return std::fprintf(stderr, "%s\n", client.last_attach_error().message.c_str()), 1;
  const auto ns = client.open_namespace({.engine = "example",
                                         .layout = "example-1/flat",
                                         .model = "tiny",
                                         .revision = "r1",
                                         .dtype = "u8",
                                         .page_tokens = 16,
                                         .value_len = 4096});
  if (!ns) return std::fprintf(stderr, "%s\n", ns.error().message.c_str()), 1;

  const orlop::Key keys[] = {"page0", "page1", "page2", "page3"};
  std::vector<std::vector<std::byte>> pages;  // filled with the number of their key
  for (int i = 0; i < 4; ++i) pages.emplace_back(4096, static_cast<std::byte>('0' + i));
  const std::vector<std::span<const std::byte>> buffers(pages.begin(), pages.end());
  const auto outcomes = client.put(*ns, keys, buffers);
  if (!outcomes) return std::fprintf(stderr, "%s\n", outcomes.error().message.c_str()), 1;
  for (const auto outcome : *outcomes) std::printf("put  %s\n", to_string(outcome).data());

  auto handle = client.get_start(*ns, keys);
  auto views = client.get_transfer(*handle);
  for (std::size_t i = 0; i < views->size(); ++i)
    if (!std::ranges::equal(views->view(i), pages[i])) return 1;
  std::printf("get  %zu of 4 pages\n", views->size());
  return views->size() == 4 ? 0 : 1;
}
