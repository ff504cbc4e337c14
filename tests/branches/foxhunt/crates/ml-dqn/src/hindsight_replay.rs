//! Hindsight experience replay on the CPU (Andrychowicz et al. 2017).
//!
//! The last `goal_dim` values of a state are the goal. A finished episode is pushed a second time with goals
//! that it really reached.

use crate::experience::Experience;
use crate::replay_buffer::SplitMix;

/// Which reached state becomes the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStrategy {
    /// The last of the episode.
    Final,
    /// `k` later ones, drawn for each transition.
    Future,
    /// `k` of the whole episode.
    Episode,
}

#[derive(Debug, Clone)]
pub struct HindsightReplayConfig {
    pub strategy: GoalStrategy,
    pub k: usize,
    pub goal_dim: usize,
}

impl Default for HindsightReplayConfig {
    fn default() -> Self {
        Self { strategy: GoalStrategy::Future, k: 4, goal_dim: 2 }
    }
}

#[derive(Debug)]
pub struct HindsightReplayBuffer {
    config: HindsightReplayConfig,
    episode: Vec<Experience>,
    draws: SplitMix,
}

impl HindsightReplayBuffer {
    pub fn new(config: HindsightReplayConfig) -> Self {
        Self { config, episode: Vec::new(), draws: SplitMix::new(3) }
    }

    pub fn push(&mut self, experience: Experience) {
        self.episode.push(experience);
    }

    /// The episode's transitions with goals that it reached; empties the episode.
    pub fn finish_episode(&mut self) -> Vec<Experience> {
        let episode = std::mem::take(&mut self.episode);
        let mut relabelled = Vec::with_capacity(episode.len() * self.config.k.max(1));
        for (at, experience) in episode.iter().enumerate() {
            for source in self.sources(at, episode.len()) {
                relabelled.push(self.relabel(experience, &episode[source]));
            }
        }
        relabelled
    }

    fn sources(&self, at: usize, len: usize) -> Vec<usize> {
        match self.config.strategy {
            GoalStrategy::Final => vec![len - 1],
            GoalStrategy::Future => (0..self.config.k).map(|_| at + self.draws.below(len - at)).collect(),
            GoalStrategy::Episode => (0..self.config.k).map(|_| self.draws.below(len)).collect(),
        }
    }

    fn relabel(&self, experience: &Experience, source: &Experience) -> Experience {
        let goal = &source.next_state[..self.config.goal_dim];
        let mut copy = experience.clone();
        for state in [&mut copy.state, &mut copy.next_state] {
            let from = state.len() - goal.len();
            state[from..].copy_from_slice(goal);
        }
        let reached = copy.next_state[..goal.len()] == *goal;
        copy.reward = if reached { 0.0 } else { -1.0 };
        copy.done = reached;
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(her: &mut HindsightReplayBuffer, n: usize) {
        for at in 0..n {
            let (here, there) = (at as f32, at as f32 + 1.0);
            her.push(Experience {
                state: vec![here, 9.0],
                action: 0,
                reward: -1.0,
                next_state: vec![there, 9.0],
                done: false,
            });
        }
    }

    #[test]
    fn final_goal_is_reached_once() {
        let mut her = HindsightReplayBuffer::new(HindsightReplayConfig {
            strategy: GoalStrategy::Final,
            k: 1,
            goal_dim: 1,
        });
        walk(&mut her, 4);
        let relabelled = her.finish_episode();
        assert!(relabelled.iter().all(|experience| experience.state[1] == 4.0));
        assert_eq!(relabelled.iter().filter(|experience| experience.done).count(), 1);
        assert!(her.finish_episode().is_empty(), "the episode was taken");
    }

    #[test]
    fn future_goals_lie_ahead() {
        let mut her = HindsightReplayBuffer::new(HindsightReplayConfig { goal_dim: 1, ..Default::default() });
        walk(&mut her, 10);
        let relabelled = her.finish_episode();
        assert_eq!(relabelled.len(), 40);
        assert!(relabelled.iter().all(|experience| experience.state[1] > experience.state[0]));
    }
}
