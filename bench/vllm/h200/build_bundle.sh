#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/vllm/h200/build_bundle.sh [TARGET_FOLDER]      (default: build/vllm-h200)
# vLLM 0.26.0 and what it needs, in pieces that fit into the calls of README.md: TARGET/first/vllm.part.aa, then
# TARGET/second/vllm.part.ab and TARGET/second/site.tar.xz. For x86-64 with Python 3.12, torch 2.11 for CUDA 13.
# Fetches 330 MB from PyPI; five minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
readonly VLLM=0.26.0
readonly PIECE=56M # with the working tree (6 MiB) less than the 64 MiB that a call may carry
target=${1:-build/vllm-h200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$target/first" "$target/second" "$work/vllm" "$work/site" "$work/wheels"

say() { printf '== %s\n' "$*" >&2; }

say "fetching vLLM $VLLM"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --python-version 3.12 --platform manylinux_2_28_x86_64 --dest "$work" "vllm==$VLLM"

# Binaries that a dense model in bf16 on a Hopper chip never calls are left out: FlashAttention 2 (3 is used),
# mixtures of experts, FlashMLA, DeepGEMM, the Rust front end. Their Python stays, because it is imported.
say "taking it apart"
python3 - "$work" <<'PYTHON'
import sys
import zipfile
from pathlib import Path

work = Path(sys.argv[1])
unused = ("_vllm_fa2_C", "_moe_C", "vllm-rs", "deep_gemm", "fmha_sm100", "_flashmla", "_qutlass", "swagger")
with zipfile.ZipFile(next(work.glob("vllm-*.whl"))) as wheel:
    for name in wheel.namelist():
        if name.endswith(".py") or not any(part in name for part in unused):
            wheel.extract(name, work / "vllm")
PYTHON

# pip matches the platform's number exactly.
platforms=()
for number in {39..24} 17 12 5; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
say "fetching what it needs"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 \
  --implementation cp --abi cp312 --abi abi3 --abi none "${platforms[@]}" \
  --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform any \
  --dest "$work/wheels" --requirement bench/vllm/h200/requirements.lock
for wheel in "$work"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/site/"; done

say "packing"
rm -f "$target"/first/* "$target"/second/*
tar c -C "$work/vllm" . | xz -T0 -3 | split -b "$PIECE" - "$target/vllm.part."
mv "$target/vllm.part.aa" "$target/first/"
mv "$target/vllm.part.ab" "$target/second/"
if [[ -e $target/vllm.part.ac ]]; then
  echo "build_bundle.sh: vLLM does not fit into two pieces" >&2
  exit 1
fi
tar c -C "$work/site" . | xz -T0 -3 > "$target/second/site.tar.xz"
ls -l "$target"/first "$target"/second
