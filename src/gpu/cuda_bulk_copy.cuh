// SPDX-License-Identifier: Apache-2.0
// Internal to the kernels of room gpu: bulk copies between global and shared memory, in the words
// of PTX (compute capability 9.0). One thread starts one; addresses and sizes are multiples of 16.
#pragma once

#include <cstdint>

namespace orlop::gpu {
namespace {

__device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// Tells when loads have arrived. One thread expects their bytes, any may wait.
class BulkBarrier {
 public:
  __device__ void init() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&word_)) : "memory");
  }
  // After init() of all, before the first use.
  __device__ static void fence_init() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __device__ void expect(std::uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&word_)),
        "r"(bytes)
        : "memory");
  }
  // parity: how many times it was waited for before, modulo 2.
  __device__ void wait(std::uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred arrived;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
        "@!arrived bra again;\n"
        "}\n" ::"r"(shared_address(&word_)),
        "r"(parity)
        : "memory");
  }
  __device__ std::uint32_t address() const { return shared_address(&word_); }

 private:
  std::uint64_t word_;
};

// For bytes that are read or written once: they leave the cache first.
__device__ std::uint64_t once() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ void bulk_load(void* to, std::uint64_t from, std::uint32_t bytes,
                          const BulkBarrier& barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(barrier.address()), "l"(policy)
      : "memory");
}

__device__ void bulk_store(std::uint64_t to, const void* from, std::uint32_t bytes,
                           std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes), "l"(policy)
      : "memory");
}
// What this thread stored since the last one is a group.
__device__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All groups but the last have been read from shared memory.
__device__ void wait_for_reads_but_last() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
// All are written, for this thread to see.
__device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace
}  // namespace orlop::gpu
