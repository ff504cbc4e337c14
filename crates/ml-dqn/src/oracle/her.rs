//! Hindsight as the paper writes it, over a log of all rows ever pushed.

use super::per::Step;

/// Rows of the episode that row `start` belongs to, from `start` on, up to the end of the log.
pub fn rest_of_episode(log: &[Step], start: usize) -> Vec<usize> {
    let mut rows = Vec::new();
    for (row, step) in log.iter().enumerate().skip(start) {
        if step.env_id != log[start].env_id {
            continue;
        }
        rows.push(row);
        if step.terminated || step.truncated {
            break;
        }
    }
    rows
}

/// Reward and end of a step that reached `achieved` under the goal `goal`.
pub fn judge(
    achieved: &[f32],
    goal: &[f32],
    tolerance: f32,
    success_reward: f32,
    step_reward: f32,
) -> (f32, bool) {
    let squared: f64 = achieved
        .iter()
        .zip(goal)
        .map(|(&a, &g)| (f64::from(a) - f64::from(g)).powi(2))
        .sum();
    if squared <= f64::from(tolerance).powi(2) {
        (success_reward, true)
    } else {
        (step_reward, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_ends_where_it_ends() {
        let step = |env_id, terminated| Step {
            env_id,
            reward: 0.0,
            terminated,
            truncated: false,
        };
        let log = [
            step(0, false),
            step(1, false),
            step(0, true),
            step(0, false),
            step(1, false),
        ];
        assert_eq!(rest_of_episode(&log, 0), [0, 2]);
        assert_eq!(rest_of_episode(&log, 1), [1, 4]);
        assert_eq!(rest_of_episode(&log, 3), [3]);
    }

    #[test]
    fn a_goal_is_reached_within_the_tolerance() {
        assert_eq!(judge(&[1.0, 2.0], &[1.0, 2.0], 0.0, 0.0, -1.0), (0.0, true));
        assert_eq!(judge(&[1.0, 2.0], &[1.0, 2.5], 0.5, 0.0, -1.0), (0.0, true));
        assert_eq!(
            judge(&[1.0, 2.0], &[1.0, 2.6], 0.5, 0.0, -1.0),
            (-1.0, false)
        );
    }
}
