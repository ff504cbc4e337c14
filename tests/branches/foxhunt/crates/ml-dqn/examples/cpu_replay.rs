//! Fills both CPU buffers with a random walk and draws from them.

use ml_dqn::hindsight_replay::{HindsightReplayBuffer, HindsightReplayConfig};
use ml_dqn::{Experience, PrioritizedReplayConfig, ReplayBufferConfig, ReplayBufferType};

fn walk(n: usize) -> Vec<Experience> {
    let mut at = 0.0f32;
    (0..n)
        .map(|step| {
            let here = at;
            at += if step % 3 == 0 { -1.0 } else { 1.0 };
            Experience {
                state: vec![here, 5.0],
                action: (step % 3) as u32,
                reward: -(at - 5.0).abs(),
                next_state: vec![at, 5.0],
                done: step + 1 == n,
            }
        })
        .collect()
}

fn main() -> Result<(), ml_dqn::DqnError> {
    let mut her = HindsightReplayBuffer::new(HindsightReplayConfig { goal_dim: 1, ..Default::default() });
    let episode = walk(20);
    episode.iter().cloned().for_each(|experience| her.push(experience));
    let relabelled = her.finish_episode();

    let kinds = [
        ("uniform", ReplayBufferType::uniform(ReplayBufferConfig::default())),
        ("tree", ReplayBufferType::prioritized(PrioritizedReplayConfig::default())),
    ];
    for (name, mut memory) in kinds {
        memory.push_batch(&episode)?;
        memory.push_batch(&relabelled)?;
        let batch = memory.sample(8)?;
        let mean =
            batch.experiences.iter().map(|experience| experience.reward).sum::<f32>() / batch.len() as f32;
        println!("{name}: {} transitions, mean reward of 8 is {mean:.2}", memory.len());
    }
    Ok(())
}
