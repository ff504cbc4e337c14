//! The service with memories on the host.

use foxhunt_eval::EvalService;
use foxhunt_eval::health::Grade;
use foxhunt_strategy::prelude::{Experience, Memory};
use ml_dqn::replay_buffer::ReplayBufferConfig;
use ml_dqn::{PrioritizedReplayConfig, hindsight_replay as her};

fn serve(memory: Memory) -> EvalService {
    let service = EvalService::start(memory);
    let experience =
        Experience { state: vec![0.0; 2], action: 0, reward: 0.0, next_state: vec![1.0; 2], done: false };
    let mut relabeller = her::HindsightReplayBuffer::new(her::HindsightReplayConfig::default());
    relabeller.push(experience.clone());
    service.push(vec![experience; 30]).unwrap();
    service.push(relabeller.finish_episode()).unwrap();
    service
}

#[test]
fn counts_and_grades_host_memories() {
    let config = ReplayBufferConfig { capacity: 100, ..Default::default() };
    for memory in [Memory::uniform(config), Memory::prioritized(PrioritizedReplayConfig::default())] {
        let service = serve(memory);
        assert_eq!(service.draw(10).unwrap().n_rows, 10);
        assert_eq!(service.draw(5).unwrap().n_batches, 2);
        let health = service.health().unwrap();
        assert!(health.grade != Grade::Good && health.place == "host" && health.len == 34);
        assert!(!service.on_device());
        assert_eq!(service.stop().unwrap(), 5);
    }
}

#[test]
fn an_empty_memory_is_no_end() {
    let service = EvalService::start(Memory::uniform(ReplayBufferConfig::default()));
    assert!(service.draw(1).is_err());
    assert!(service.health().is_ok_and(|health| health.grade == Grade::Empty));
}
