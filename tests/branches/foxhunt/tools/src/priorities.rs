//! Priorities from a file: `index<TAB>TD error`, one transition a line.

use std::error::Error;

use dqn::ReplayBufferType;

pub fn write(memory: &ReplayBufferType, text: &str) -> Result<usize, Box<dyn Error>> {
	let (indices, td_errors) = parse(text)?;
	memory.update_priorities(&indices, &td_errors)?;
	Ok(indices.len())
}

fn parse(text: &str) -> Result<(Vec<usize>, Vec<f32>), Box<dyn Error>> {
	let (mut indices, mut td_errors) = (Vec::new(), Vec::new());
	for (at, line) in text.lines().enumerate() {
		let (index, td_error) = line
			.split_once('\t')
			.ok_or_else(|| format!("line {}: `{line}` has no tab", at + 1))?;
		indices.push(index.trim().parse()?);
		td_errors.push(td_error.trim().parse()?);
	}
	Ok((indices, td_errors))
}

#[cfg(test)]
mod tests {
	use super::*;
	use dqn::{Experience, PrioritizedReplayConfig};

	#[test]
	fn parses() {
		assert_eq!(
			parse("3\t0.5\n7\t-1").unwrap(),
			(vec![3, 7], vec![0.5, -1.0])
		);
		assert!(parse("3 0.5").unwrap_err().to_string().contains("line 1"));
	}

	#[test]
	fn writes_to_a_tree() {
		let mut memory = ReplayBufferType::prioritized(PrioritizedReplayConfig {
			capacity: 4,
			..Default::default()
		});
		let (state, next_state) = (vec![0.0], vec![0.0]);
		memory
			.push(&Experience {
				state,
				action: 0,
				reward: 0.0,
				next_state,
				done: true,
			})
			.unwrap();
		assert_eq!(write(&memory, "0\t2.5").unwrap(), 1);
		assert!(write(&memory, "1\t2.5").is_err());
	}
}
