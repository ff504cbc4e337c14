//! Floors: the bytes that must move and the operations that must be done, over the rates of the same run.
//!
//! Sizes are those of the reference network (80 → 384 → 384 → {192 → 1, 192 → 45}) and of states of 80 f32.
//!
//! | phase | what must be done |
//! |---|---|
//! | per_scan | read each touched tile of 128 f32 |
//! | per_sample | read each drawn tile; read and write two states a row |
//! | per_update | a row: 8 bytes of index, 4 of error, a sector of 32 bytes read and written |
//! | per_rebuild | read every priority |
//! | upload | read two states a row |
//! | fwd_bwd | three forward passes, the weights' gradients, the inputs' gradients but the first layer's |
//! | adam | a parameter: the gradient twice (its norm comes first), parameter, two moments and target read; four of these written |
//! | per, learn, step | the sums of theirs, without the upload: a batch could be drawn straight into the step's inputs |
//!
//! Touched tiles are reckoned as if all priorities were equal. A small buffer lies in the L2 cache, which is faster than
//! the copy that was measured: there a floor can be passed.

use std::collections::BTreeMap;

const STATE_DIM: f64 = 80.0;
/// Inputs, outputs of each layer; the two heads side by side.
const LAYERS: &[(f64, f64)] = &[
    (STATE_DIM, 384.0),
    (384.0, 384.0),
    (384.0, 192.0),
    (192.0, 1.0),
    (384.0, 192.0),
    (192.0, 45.0),
];
const F32: f64 = 4.0;
/// Priorities of a tile.
const TILE: f64 = 128.0;

/// The largest rates that the run has measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// Bytes read and written, GB/s.
    copy: Option<f64>,
    /// TFLOP/s by precision.
    products: BTreeMap<String, f64>,
}

impl Rates {
    pub fn saw_copy(&mut self, gigabytes: f64) {
        self.copy = Some(self.copy.map_or(gigabytes, |seen| seen.max(gigabytes)));
    }

    pub fn saw_product(&mut self, precision: &str, teraflops: f64) {
        let seen = self.products.entry(precision.to_owned()).or_default();
        *seen = seen.max(teraflops);
    }

    pub fn sentence(&self) -> String {
        let copy = self.copy.map(|rate| format!("a copy at {rate:.0} GB/s"));
        let products = self
            .products
            .iter()
            .map(|(precision, rate)| format!("a {precision} product at {rate:.0} TFLOP/s"));
        let all: Vec<String> = copy.into_iter().chain(products).collect();
        if all.is_empty() {
            return "No floors: their rates were not measured in this run.\n".into();
        }
        format!(
            "Floors are reckoned from rates of the same run: {}.\n",
            all.join(", ")
        )
    }
}

/// Microseconds below which a phase cannot come; None for one that is not known, or where a size or a rate is missing.
pub fn floor(
    phase: &str,
    slots: Option<u64>,
    batch: Option<u64>,
    precision: Option<&str>,
    rates: &Rates,
) -> Option<f64> {
    let gigabytes = rates.copy?;
    let moved = |bytes: f64| bytes / (gigabytes * 1e3);
    let rows = || batch.map(|batch| batch as f64);
    let tiles = || Some(touched_tiles(slots? as f64, rows()?) * TILE * F32);
    let states = || Some(2.0 * rows()? * STATE_DIM * F32);
    let scan = || tiles().map(moved);
    let sample = || Some(moved(tiles()? + 2.0 * states()?));
    let update = || Some(moved(rows()? * (8.0 + F32 + 2.0 * 32.0)));
    let pass = || {
        let teraflops = rates.products.get(precision?)?;
        Some(operations(rows()?) / (teraflops * 1e6))
    };
    let adam = || moved(10.0 * F32 * parameters());
    match phase {
        "per_scan" | "per_scan_in_step" => scan(),
        "per_sample" | "per_sample_in_step" => sample(),
        "per_update" | "per_update_in_step" => update(),
        "per_rebuild" => Some(moved(slots? as f64 * F32)),
        "per" => Some(scan()? + sample()? + update()?),
        "per_without_update" => Some(scan()? + sample()?),
        "upload" => states().map(moved),
        "fwd_bwd" => pass(),
        "adam" => Some(adam()),
        "learn" => Some(pass()? + adam()),
        "step" | "step_by_parts" => Some(scan()? + sample()? + update()? + pass()? + adam()),
        _ => None,
    }
}

/// Tiles that so many draws are expected to meet, each priority alike.
fn touched_tiles(slots: f64, draws: f64) -> f64 {
    let tiles = (slots / TILE).ceil().max(1.0);
    tiles * (1.0 - (1.0 - 1.0 / tiles).powf(draws))
}

fn weights() -> f64 {
    LAYERS
        .iter()
        .map(|(inputs, outputs)| inputs * outputs)
        .sum()
}

fn parameters() -> f64 {
    weights() + LAYERS.iter().map(|(_, outputs)| outputs).sum::<f64>()
}

/// Of forward and backward pass, two for each product of a weight: online and target network on the next states and the
/// online network on the states, then the gradients.
fn operations(rows: f64) -> f64 {
    let (inputs, outputs) = LAYERS[0];
    2.0 * rows * (5.0 * weights() - inputs * outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        let mut rates = Rates::default();
        rates.saw_copy(4000.0);
        rates.saw_product("bf16", 800.0);
        rates
    }

    /// The figures by which the design was reckoned: 336K parameters, 55 GFLOP, 1.2 MB for an update.
    #[test]
    fn the_sums_are_those_of_the_reference_network() {
        assert_eq!(parameters(), 335_662.0);
        assert!((operations(16_384.0) / 1e9 - 55.0).abs() < 2.0);
        let floor = |phase| {
            floor(
                phase,
                Some(24_700_000),
                Some(16_384),
                Some("bf16"),
                &rates(),
            )
            .unwrap()
        };
        assert!((floor("per_update") - 0.31).abs() < 0.01);
        assert!((floor("fwd_bwd") - 67.2).abs() < 0.1);
        assert!((floor("adam") - 3.36).abs() < 0.01);
        assert!((floor("per_scan") - 2.01).abs() < 0.05);
        assert!((floor("per_sample") - 7.25).abs() < 0.05);
    }

    #[test]
    fn more_draws_than_tiles_touch_each_tile_once() {
        assert!((touched_tiles(128_000.0, 1e6) - 1000.0).abs() < 1e-6);
        assert!((touched_tiles(128e9, 10.0) - 10.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_not_known_has_no_floor() {
        let of = |phase, precision| floor(phase, Some(1), Some(1), precision, &rates());
        assert_eq!(of("first_step_cold", None), None);
        assert_eq!(of("fwd_bwd", Some("tf32")), None);
        assert_eq!(floor("adam", None, None, None, &Rates::default()), None);
        assert_eq!(floor("per_scan", None, Some(1), None, &rates()), None);
    }
}
