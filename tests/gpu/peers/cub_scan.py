#!/usr/bin/env python3
"""Builds `cub_scan.cu` for the GPU at hand and runs it: CUB's inclusive sum of all priorities."""

import os
import shutil
import subprocess
import sys
import tempfile

from common import skip

# The project's kernels need no toolkit, and this is the one program that does.
TOOLKIT = os.environ.get("CUDA_HOME", "/usr/local/cuda")


def architecture():
    """`sm_90`; what the compiler finds by itself where nvidia-smi does not say."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        return "sm_" + answer.split()[0].replace(".", "")
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "native"


def main():
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path=os.path.join(TOOLKIT, "bin"))
    if compiler is None:
        skip("nvcc is not installed")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cub_scan.cu")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "cub_scan")
        build = [compiler, "-O3", "-std=c++17", f"-arch={architecture()}", "-o", program, source]
        built = subprocess.run(build, capture_output=True, text=True)
        if built.returncode != 0:
            print(built.stderr)
            skip("nvcc does not build it")
        sys.exit(subprocess.run([program]).returncode)


if __name__ == "__main__":
    main()
