//! Trading a price that returns to its mean, with costs, and the best policy to compare with.
//!
//! The deviation of the price from its mean is an Ornstein-Uhlenbeck process (Uhlenbeck and Ornstein 1930), seen
//! at regular times, where it is exactly the autoregression `x' = ρ x + sqrt(1 - ρ²) ξ` with normal `ξ`, scaled to
//! a stationary deviation of 1. With costs in proportion to what is traded the best policy keeps what it holds
//! within a band, and trades outside of it (Davis and Norman 1990 for a related problem).

use super::{Environment, EpisodeRandom, Step};

/// Positions that an action takes: short, none, long.
const POSITIONS: [f64; 3] = [-1.0, 0.0, 1.0];

/// State: the deviation, then 1 at the place of the position held: short, none, long. Action 0, 1, 2 takes one of them.
///
/// Reward: position times the change of the price, less `cost` for each unit traded. Never terminates, is truncated
/// after `limit` steps. The first deviation is drawn from the stationary distribution, and nothing is held.
#[derive(Debug, Clone)]
pub struct MeanReverting {
    reversion: f64,
    cost: f64,
    limit: u32,
    deviation: f64,
    held: usize,
    steps: u32,
    random: EpisodeRandom,
}

impl Default for MeanReverting {
    /// ρ = 0.85, a cost of 0.2 a unit, episodes of 200 steps. Betting on the return whatever it costs gains 58 % of
    /// what the best policy does.
    fn default() -> Self {
        Self::new(0.85, 0.2, 200)
    }
}

impl MeanReverting {
    /// `reversion` is ρ, the share of a deviation that is left after a step.
    ///
    /// # Panics
    /// Where ρ is not within (0, 1), the cost is negative or not finite, or `limit` is 0.
    pub fn new(reversion: f64, cost: f64, limit: u32) -> Self {
        assert!(
            reversion > 0.0 && reversion < 1.0,
            "`reversion` is {reversion}, and must be between 0 and 1"
        );
        assert!(cost >= 0.0 && cost.is_finite(), "`cost` is {cost}");
        assert!(limit > 0, "an episode has at least one step");
        Self {
            reversion,
            cost,
            limit,
            deviation: 0.0,
            held: 1,
            steps: 0,
            random: EpisodeRandom::new(0),
        }
    }

    /// The policy with the largest discounted value, by value iteration.
    ///
    /// # Panics
    /// Where `gamma` is not within [0, 1).
    pub fn best_policy(&self, gamma: f64) -> BestTrader {
        BestTrader::new(self, gamma)
    }

    /// The action of a [`BestTrader`] in the present state.
    pub fn best_action(&self, best: &BestTrader) -> u32 {
        best.action(self.deviation, self.held as u32)
    }
}

impl Environment for MeanReverting {
    fn state_dim(&self) -> usize {
        4
    }

    fn num_actions(&self) -> usize {
        POSITIONS.len()
    }

    fn reset(&mut self, seed: u64) {
        self.random = EpisodeRandom::new(seed);
        self.deviation = self.random.normal();
        self.held = 1;
        self.steps = 0;
    }

    fn step(&mut self, action: u32) -> Step {
        let action = action as usize;
        let traded = (POSITIONS[action] - POSITIONS[self.held]).abs();
        let noise = (1.0 - self.reversion * self.reversion).sqrt();
        let next = self.reversion * self.deviation + noise * self.random.normal();
        let reward = POSITIONS[action] * (next - self.deviation) - self.cost * traded;
        self.deviation = next;
        self.held = action;
        self.steps += 1;
        Step {
            reward: reward as f32,
            terminated: false,
            truncated: self.steps >= self.limit,
        }
    }

    fn observe(&self, state: &mut [f32]) {
        state.fill(0.0);
        state[0] = self.deviation as f32;
        state[1 + self.held] = 1.0;
    }
}

/// Points of the grid over deviations, and how far it reaches to each side.
const GRID: usize = 401;
const REACH: f64 = 6.0;
/// Points to each side of the next deviation's mean, and how many there are in a standard deviation.
const SIDE: i32 = 20;
const FINENESS: f64 = 5.0;

/// What to do at each deviation and position: the solution of [`MeanReverting`].
///
/// Exact up to the grid of 401 deviations, between which values are interpolated, and an expectation over 41 points of
/// the normal distribution.
#[derive(Debug, Clone)]
pub struct BestTrader {
    /// Best action at each point of the grid, for each position held.
    actions: [Vec<u8>; 3],
}

impl BestTrader {
    fn new(problem: &MeanReverting, gamma: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&gamma),
            "`gamma` is {gamma}, and must be from 0 to less than 1"
        );
        let noise = (1.0 - problem.reversion * problem.reversion).sqrt();
        let at = |point: usize| REACH * (2.0 * point as f64 / (GRID - 1) as f64 - 1.0);
        let weights: Vec<(f64, f64)> = (-SIDE..=SIDE)
            .map(|place| {
                let normal = f64::from(place) / FINENESS;
                (noise * normal, (-0.5 * normal * normal).exp())
            })
            .collect();
        let mass: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut values = [(); 3].map(|()| vec![0.0; GRID]);
        let mut actions = [(); 3].map(|()| vec![1u8; GRID]);
        loop {
            // What a position is worth that is held over the next change of the price.
            let onward: Vec<Vec<f64>> = values
                .iter()
                .map(|values| {
                    let expected = |point: usize| {
                        let mean = problem.reversion * at(point);
                        let sum: f64 = weights
                            .iter()
                            .map(|(noise, weight)| weight * between(values, mean + noise))
                            .sum();
                        sum / mass
                    };
                    (0..GRID).map(expected).collect()
                })
                .collect();
            let mut moved: f64 = 0.0;
            for (held, (values, actions)) in values.iter_mut().zip(&mut actions).enumerate() {
                for point in 0..GRID {
                    let worth = |action: usize| {
                        let drift = POSITIONS[action] * (problem.reversion - 1.0) * at(point);
                        let traded = (POSITIONS[action] - POSITIONS[held]).abs();
                        drift - problem.cost * traded + gamma * onward[action][point]
                    };
                    // What is held stays where nothing is better.
                    let best = (0..3).fold(held, |best, action| {
                        if worth(action) > worth(best) + 1e-12 {
                            action
                        } else {
                            best
                        }
                    });
                    moved = moved.max((worth(best) - values[point]).abs());
                    values[point] = worth(best);
                    actions[point] = best as u8;
                }
            }
            if moved < 1e-9 {
                return Self { actions };
            }
        }
    }

    /// Best action at a deviation while `held` (0 short, 1 nothing, 2 long) is held.
    ///
    /// # Panics
    /// Where `held` is none of them.
    pub fn action(&self, deviation: f64, held: u32) -> u32 {
        let (point, share) = place(deviation);
        let nearest = point + usize::from(share >= 0.5);
        self.actions[held as usize][nearest].into()
    }
}

/// Grid point to the left of a deviation, and the share of the way to the next.
fn place(deviation: f64) -> (usize, f64) {
    let along = (deviation / REACH + 1.0) * 0.5 * (GRID - 1) as f64;
    let along = along.clamp(0.0, (GRID - 1) as f64);
    let point = (along as usize).min(GRID - 2);
    (point, along - point as f64)
}

fn between(values: &[f64], deviation: f64) -> f64 {
    let (point, share) = place(deviation);
    values[point] + share * (values[point + 1] - values[point])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_reverts_as_fast_as_it_says() {
        let mut market = MeanReverting::new(0.85, 0.0, u32::MAX);
        market.reset(3);
        let path: Vec<f64> = (0..200_000)
            .map(|_| {
                market.step(1);
                market.deviation
            })
            .collect();
        let count = path.len() as f64;
        let mean = path.iter().sum::<f64>() / count;
        let square = path.iter().map(|x| x * x).sum::<f64>() / count;
        let lagged = path.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / count;
        // Four standard errors of a sample of about 200,000 · (1 - ρ) / (1 + ρ) free values.
        assert!(mean.abs() < 0.032, "{mean}");
        assert!((square - 1.0).abs() < 0.04, "{square}");
        assert!((lagged / square - 0.85).abs() < 0.006, "{lagged}");
    }

    #[test]
    fn rewards_are_gains_less_costs() {
        let mut market = MeanReverting::new(0.5, 0.1, 3);
        market.reset(1);
        let before = market.deviation;
        // From nothing to long: one unit.
        let step = market.step(2);
        let gain = market.deviation - before;
        assert!((f64::from(step.reward) - (gain - 0.1)).abs() < 1e-6);
        let before = market.deviation;
        // From long to short: two.
        let step = market.step(0);
        let gain = before - market.deviation;
        assert!((f64::from(step.reward) - (gain - 0.2)).abs() < 1e-6);
        let mut state = [9.0; 4];
        market.observe(&mut state);
        assert_eq!(state[1..], [1.0, 0.0, 0.0]);
        assert!(!step.truncated);
        let step = market.step(1);
        assert!((f64::from(step.reward) + 0.1).abs() < 1e-6);
        assert!(step.truncated && !step.terminated);
    }

    #[test]
    fn without_costs_it_is_best_to_bet_on_the_return() {
        let best = MeanReverting::new(0.85, 0.0, 200).best_policy(0.9);
        for held in 0..3 {
            for deviation in [-3.0, -0.5, -0.1] {
                assert_eq!(best.action(deviation, held), 2);
                assert_eq!(best.action(-deviation, held), 0);
            }
        }
    }

    #[test]
    fn costs_open_a_band_in_which_nothing_is_traded() {
        let best = MeanReverting::default().best_policy(0.97);
        let symmetric = |held: u32| 2 - held;
        for point in 0..200 {
            let deviation = 0.031 * f64::from(point);
            for held in 0..3 {
                let mirrored = best.action(-deviation, symmetric(held));
                assert_eq!(best.action(deviation, held), symmetric(mirrored));
            }
        }
        for held in 0..3 {
            assert_eq!(best.action(0.0, held), held, "at the mean it keeps");
            assert_eq!(best.action(2.0, held), 0, "far above it sells");
            assert_eq!(best.action(-2.0, held), 2, "far below it buys");
        }
    }

    /// Mean return of 2,000 episodes.
    fn mean_return(act: impl Fn(&MeanReverting) -> u32) -> f64 {
        let mut total = 0.0;
        for seed in 0..2000 {
            let mut market = MeanReverting::default();
            market.reset(seed);
            loop {
                let action = act(&market);
                let step = market.step(action);
                total += f64::from(step.reward);
                if step.truncated {
                    break;
                }
            }
        }
        total / 2000.0
    }

    #[test]
    fn the_best_policy_beats_the_simple_ones() {
        let best = MeanReverting::default().best_policy(0.97);
        let best = mean_return(|market| market.best_action(&best));
        let eager = mean_return(|market| if market.deviation < 0.0 { 2 } else { 0 });
        let lazy = mean_return(|_| 2);
        let none = mean_return(|_| 1);
        assert_eq!(none, 0.0);
        assert!(
            best > 1.5 * eager && eager > lazy.abs() && best > 15.0,
            "best {best}, eager {eager}, lazy {lazy}"
        );
    }
}
