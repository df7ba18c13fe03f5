// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_device.h"

#include <cuda_runtime_api.h>

#include <filesystem>

#include "gpu/cuda_call.h"
#include "gpu/device_scope.h"

namespace orlop::gpu {
namespace {

std::string hex(const char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

// -1: CPU memory.
Result<int> place_of(std::uint64_t address) {
  cudaPointerAttributes attributes{};
  ORLOP_CUDA(cudaPointerGetAttributes, &attributes, reinterpret_cast<const void*>(address));
  const bool on_device =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return on_device ? attributes.device : -1;
}

}  // namespace

Result<EngineTableKey> device_key(int device) {
  cudaDeviceProp properties{};
  ORLOP_CUDA(cudaGetDeviceProperties, &properties, device);
  int driver = 0;
  ORLOP_CUDA(cudaDriverGetVersion, &driver);
  return EngineTableKey{
      .device = properties.name,
      .uuid = hex(properties.uuid.bytes, sizeof properties.uuid.bytes),
      .driver = std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10)};
}

Result<std::optional<int>> device_of(const CompiledLayout& layout) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  const AnyContextScope scope(devices);
  if (!scope) return std::nullopt;
  std::optional<int> found;
  for (std::size_t i = 0; i < layout.parts().size(); ++i) {
    const Result<int> place = place_of(layout.parts()[i].base);
    if (!place) return std::unexpected(place.error());
    if (found && *found != *place) {
      const auto text = [](int at) {
        return at < 0 ? std::string("CPU memory") : "device " + std::to_string(at);
      };
      return fail(ErrorCode::kInvalidArgument, "layout: part " + std::to_string(i) + " is in " +
                                                   text(*place) + ", part 0 in " + text(*found) +
                                                   "; one PageCache serves one device");
    }
    found = *place;
  }
  if (!found || *found < 0) return std::nullopt;
  return found;
}

EngineTable machine_engine_table(int device, std::string* note) {
  *note = "engines by the built-in table";
  const Result<EngineTableKey> key = device_key(device);
  if (!key) return default_engine_table();
  const std::optional<std::filesystem::path> path = engine_table_path(*key);
  if (!path) return default_engine_table();
  Result<std::optional<EngineTable>> table = load_engine_table(*path, *key);
  if (!table) {
    *note += " (" + table.error().message + ")";
    return default_engine_table();
  }
  if (!*table) return default_engine_table();
  *note = "engines by " + path->string();
  return std::move(**table);
}

}  // namespace orlop::gpu
