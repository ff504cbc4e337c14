//! The CPU buffers through their public face.

use ml_dqn::{
    BatchSample, DqnAgent, DqnConfig, Experience, GoalStrategy, HindsightReplayBuffer, HindsightReplayConfig,
    PrioritizedReplayBuffer, PrioritizedReplayConfig, ReplayBufferConfig, ReplayBufferType, StalenessConfig,
    StalenessTracker,
};

fn numbered(at: usize) -> Experience {
    Experience {
        state: vec![at as f32; 4],
        action: at as u32,
        reward: at as f32,
        next_state: vec![at as f32 + 1.0; 4],
        done: at % 10 == 9,
    }
}

#[test]
fn agent_draws_from_either_kind() {
    let uniform = ReplayBufferType::uniform(ReplayBufferConfig { capacity: 32, seed: 4 });
    let tree = ReplayBufferType::prioritized(PrioritizedReplayConfig { capacity: 32, ..Default::default() });
    for memory in [uniform, tree] {
        let mut agent = DqnAgent::new(DqnConfig::default(), memory).unwrap();
        let experiences: Vec<_> = (0..40).map(numbered).collect();
        agent.memory_mut().push_batch(&experiences).unwrap();
        let batch = agent.sample(16).unwrap();
        assert_eq!((batch.experiences.len(), batch.indices.len()), (16, 16));
        assert!(batch.experiences.iter().all(|experience| experience.reward >= 8.0), "the first 8 are gone");
    }
}

#[test]
fn priorities_follow_the_errors() {
    let memory = {
        let mut memory = PrioritizedReplayBuffer::new(PrioritizedReplayConfig {
            capacity: 16,
            alpha: 1.0,
            ..PrioritizedReplayConfig::default()
        });
        (0..16).for_each(|at| memory.push(numbered(at)));
        memory
    };
    let indices: Vec<usize> = (0..16).collect();
    let errors: Vec<f32> = indices.iter().map(|&index| if index == 7 { 100.0 } else { 0.0 }).collect();
    memory.update_priorities(&indices, &errors).unwrap();
    let (experiences, weights, _) = memory.sample(16).unwrap();
    let n_seventh = experiences.iter().filter(|experience| experience.action == 7).count();
    assert!(n_seventh >= 15, "{n_seventh} of 16");
    assert!(weights.iter().all(|weight| weight.is_finite()));
}

#[test]
fn episodes_are_relabelled_into_the_buffer() {
    let mut her = HindsightReplayBuffer::new(HindsightReplayConfig {
        strategy: GoalStrategy::Episode,
        k: 2,
        goal_dim: 1,
    });
    (0..10).map(numbered).for_each(|experience| her.push(experience));
    let mut memory = ReplayBufferType::uniform(ReplayBufferConfig::default());
    memory.push_batch(&her.finish_episode()).unwrap();
    assert_eq!(memory.len(), 20);
    let BatchSample { experiences, gpu_batch, .. } = memory.sample(20).unwrap();
    assert!(gpu_batch.is_none());
    assert!(experiences.iter().any(|experience| experience.reward == 0.0 || experience.reward == -1.0));
}

#[test]
fn staleness_counts_updates() {
    let mut tracker = StalenessTracker::new(StalenessConfig { max_age: 2 }, 1);
    (0..3).for_each(|_| tracker.advance());
    assert!(tracker.is_stale(0));
}
