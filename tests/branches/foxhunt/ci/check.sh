#!/bin/sh
# What runs before every merge.
set -eu
cargo check --workspace --all-targets
cargo test --workspace
# The CPU buffers have to keep up.
cargo bench -p ml-dqn --bench segment_tree
cargo run -p ml-dqn --example cpu_replay
