#!/usr/bin/env bash
# All that a machine with a GPU is asked, in one command and less than eight minutes; results in $OUT if that is set.
#   tools/gpu_bundle.py build/gpu && python bench/gpu_ours.py --fill build/gpu/cache     first, where LLVM is
#   bench/gpu_all.sh [build/gpu]                                                           then, where the GPU is
set -uo pipefail
cd "$(dirname "$0")/.."
bundle=${1:-build/gpu}
python=${PYTHON:-python3}
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
out=${OUT:-$PWD/bench/results}
mkdir -p "$out"
status=0

step() {
    printf '\n=== %s (%d s)\n' "$1" "$SECONDS"
    shift
    "$@" || { status=1; echo "=== failed: $*"; }
}

# kernels are taken from a folder that nobody else may write to
if [ -d "$bundle/cache" ]; then
    cp -r "$bundle/cache" "$here/cache" && chmod -R go-rwx "$here/cache"
    export TINYPHYSICS_CACHE="$here/cache"
fi
step "bits: the driver and Python alone"       timeout 100 "$python" "$bundle/launch.py" --json "$out/launch.json"
step "bits: backend=\"cuda\" as users run it"  timeout 80 "$python" tools/gpu_bundle.py "$bundle" --check
step "speed"                                   timeout 290 "$python" bench/gpu.py
printf '\n=== done (%d s)\n' "$SECONDS"
exit $status
