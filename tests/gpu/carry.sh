#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/carry.sh BUILD_FOLDER [TARGET_FOLDER [PROGRAM...]]
# Adds built programs (default: the node, the end-to-end program, the GPU benches and tests) without
# debug information into a folder, with every library beside the C library that they need, so that
# they run on another machine with the same or a newer C library (Debian 12, Ubuntu 24.04) and
# nothing else installed. Set LD_LIBRARY_PATH to its lib/. Fails if a library is not found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?build folder}
target=${2:-build/gpu-carry}
shift $(($# < 2 ? $# : 2))
programs=("$@")
if ((${#programs[@]} == 0)); then
  programs=(orlopd orlop gpu_end_to_end gpu_bench gpu_cuda_conformance_test)
fi

mkdir -p "$target/lib"
for program in "${programs[@]}"; do
  if [[ ! -x $build/bin/$program ]]; then
    echo "carry.sh: $build/bin/$program is not built" >&2
    exit 1
  fi
  strip -o "$target/$program" "$build/bin/$program"
done

# "libfmt.so.9 => /lib/.../libfmt.so.9 (0x...)"; those of the C library come with every system and
# must be that system's.
for program in "${programs[@]}"; do
  ldd "$target/$program"
done | awk '/=>/ { print $1, $3 }' | sort -u | while read -r name path; do
  case $name in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux*) continue ;;
  esac
  if [[ ! -f $path ]]; then
    echo "carry.sh: $name is not found" >&2
    exit 1
  fi
  strip -o "$target/lib/$name" "$path"
done

# The proof: nothing outside the folder but the C library.
for program in "${programs[@]}"; do
  outside=$(LD_LIBRARY_PATH=$target/lib ldd "$target/$program" | awk '/=>/ { print $3 }' |
    grep -vE "^$target/lib/|/lib(c|m|dl|rt|pthread)\.so\." || true)
  if [[ -n $outside ]]; then
    echo "carry.sh: $program would still take $outside" >&2
    exit 1
  fi
done
du -sh "$target"
