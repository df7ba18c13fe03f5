#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/carry.sh BUILD_FOLDER [TARGET_FOLDER [PROGRAM...]]
# Adds built programs (default: the node, the end-to-end program, the GPU benches and tests) without
# debug information into a folder, with every library beside the C library that they need, so that
# they run on another machine with the same or a newer C library (Debian 12, Ubuntu 24.04) and
# nothing else installed. Set LD_LIBRARY_PATH to its lib/. Fails if a library is not found.
#
# The program `python` is the Python package, with `orlop` and `orlopd`: set PYTHONPATH to TARGET/python, and
# LD_LIBRARY_PATH not at all, because the libraries of an engine in the same process want its system's
# C++ library. The package starts the node by a script that sets it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?build folder}
target=${2:-build/gpu-carry}
shift $(($# < 2 ? $# : 2))
programs=("$@")
if ((${#programs[@]} == 0)); then
  programs=(orlopd orlop gpu_end_to_end gpu_bench gpu_cuda_conformance_test)
fi

package=no
if [[ " ${programs[*]} " == *" python "* ]]; then
  package=yes
  mapfile -t programs < <(printf '%s\n' "${programs[@]}" orlop orlopd | grep -vx python | sort -u)
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

if [[ $package == yes ]]; then
  rm -rf "$target/python"  # sources that are gone meanwhile
  mkdir -p "$target/python"
  # From the source tree: the build tree has links to it, also to sources that are gone.
  cp -r python/orlop "$target/python/orlop"
  find "$target/python" -name __pycache__ -prune -exec rm -rf {} +
  for module in "$build"/python/orlop/_native*.so; do
    strip -o "$target/python/orlop/${module##*/}" "$module"
    outside=$(ldd "$module" | awk '/=>/ { print $1 }' | grep -vE '^lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.' || true)
    if [[ -n $outside ]]; then
      echo "carry.sh: $module would take $outside" >&2
      exit 1
    fi
  done
  mkdir "$target/python/orlop/bin"
  for program in orlop orlopd; do
    # shellcheck disable=SC2016  # for the script itself
    printf '#!/bin/sh\nhere=$(cd "$(dirname "$0")/../../.." && pwd)\nLD_LIBRARY_PATH=$here/lib exec "$here/%s" "$@"\n' \
      "$program" > "$target/python/orlop/bin/$program"
    chmod +x "$target/python/orlop/bin/$program"
  done
fi
du -sh "$target"
