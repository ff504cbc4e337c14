#!/usr/bin/env bash
# Runs this bundle's tests, benches and training on the machine at hand.
#
#   ./run.sh tests | sanitize | bench | train | all   [--report DIR] [--only PROGRAM] [--filter TEST] [--tool SANITIZER]
#                                             [--limit SECONDS]
#
# Needs bash, the NVIDIA driver and the CUDA libraries (NVRTC and cuBLASLt, of a toolkit or of PyPI packages).
# Writes report.md, report.json and output.log into DIR (default: gpu-report).
# Exit codes: 0 all went well, 1 something failed, 3 nothing could be run.
set -euo pipefail
shopt -s nullglob

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

# The programs search the loader's path and toolkits by themselves; what they cannot know is which Python has the
# PyPI packages. Folders go behind what is set, and only those that hold one of the two libraries.
python_folders() {
    local prefix
    for prefix in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}" /opt/*/.venv /opt/* /usr/local /usr "$HOME/.local"; do
        [ -n "$prefix" ] || continue
        printf '%s\n' "$prefix"/lib/python3*/{site,dist}-packages/nvidia/*/lib
    done
    printf '%s\n' /usr/lib/python3/dist-packages/nvidia/*/lib
}
while IFS= read -r folder; do
    libraries=("$folder"/libnvrtc.so* "$folder"/libcublasLt.so*)
    if [ ${#libraries[@]} -gt 0 ]; then
        FOXHUNT_CUDA_LIBS="${FOXHUNT_CUDA_LIBS:+$FOXHUNT_CUDA_LIBS:}$folder"
    fi
done < <(python_folders)
export FOXHUNT_CUDA_LIBS="${FOXHUNT_CUDA_LIBS:-}"

# Some ways of copying a folder lose the permission to run.
chmod +x "$here"/bin/* 2>/dev/null || true

if [ $# -eq 0 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$here/run.sh"
    exit 3
fi
exec "$here/bin/xtask" gpu-run --bundle "$here" "$@"
