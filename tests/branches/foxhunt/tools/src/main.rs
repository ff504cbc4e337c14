//! `foxhunt inspect | draw N | reprioritize FILE`

mod device;
mod priorities;

use std::error::Error;

use device::{open, Place};
use dqn as d;
use dqn::replay_buffer_type::ReplayBufferType::{self, GpuPrioritized};

fn main() -> Result<(), Box<dyn Error>> {
	let arguments: Vec<String> = std::env::args().skip(1).collect();
	let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
	match words[..] {
		["inspect"] => {
			let Place { memory, name } = open(1 << 10)?;
			println!("{name}: {}", inspect(&memory));
		}
		["draw", n] => draw(n.parse()?)?,
		["reprioritize", file] => {
			let place = open(1 << 10)?;
			let n_written = priorities::write(&place.memory, &std::fs::read_to_string(file)?)?;
			println!("{n_written} priorities");
		}
		_ => println!("foxhunt inspect | draw N | reprioritize FILE"),
	}
	Ok(())
}

/// What a memory is, in a few words.
fn inspect(memory: &::dqn::ReplayBufferType) -> String {
	if let ReplayBufferType::Prioritized(tree) = memory {
		return format!("segment tree, {} stale", tree.stale_share());
	}
	match memory {
		GpuPrioritized(gpu) => format!("{} of {} on the device", gpu.len(), gpu.capacity()),
		_ => "uniform".to_string(),
	}
}

/// Draws `n` rows of nothing in particular and says what came.
fn draw(n: usize) -> Result<(), Box<dyn Error>> {
	let mut place = open(n.max(1))?;
	for at in 0..n {
		let state = vec![at as f32; device::STATE_DIM];
		let next_state = state.clone();
		place.memory.push(&d::Experience {
			state,
			action: 0,
			reward: 1.0,
			next_state,
			done: true,
		})?;
	}
	let batch: d::BatchSample = place.memory.sample(n)?;
	assert!(
		batch.is_gpu() || batch.experiences.len() == n,
		"{n} rows were asked for"
	);
	println!(
		"{} rows, {batch:?}",
		batch.gpu_batch.as_ref().unwrap().len()
	);
	Ok(())
}

#[cfg(test)]
mod tests {
	use super::*;

	#[test]
	fn inspects_trees() {
		let config = d::prioritized_replay::PrioritizedReplayConfig::default();
		let memory = ReplayBufferType::prioritized(config);
		assert_eq!(inspect(&memory), "segment tree, 0 stale");
	}
}
