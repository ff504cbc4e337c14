use ml_dqn::GpuReplayBuffer;

fn watch(memory: &GpuReplayBuffer) {
    let gpu = memory;
    println!("{}/{}", gpu.len(), gpu.capacity());
}

fn main() {
    let watcher: fn(&GpuReplayBuffer) = watch;
    println!("{watcher:p}");
}
