//! The f64 oracle against PyTorch's numbers for the reference network; the GPU's step is tested against the oracle.
//!
//! `fixtures/pytorch_step.py` makes the numbers.

#[path = "shared/problem.rs"]
mod problem;

use ml::NetworkShape;
use problem::{Batch, Networks};

#[test]
fn the_oracle_computes_what_pytorch_does() {
    let text = include_str!("fixtures/pytorch_step.json");
    let fixture: serde_json::Value = serde_json::from_str(text).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    // Both sum in f64, in other orders.
    let near = |what: &str, got: f64, expected: f64| {
        let allowed = 1e-10 * expected.abs().max(1e-3);
        assert!(
            (got - expected).abs() <= allowed,
            "{what}: {got} and not {expected}"
        );
    };

    let shape = NetworkShape::reference(80, 45).unwrap();
    let networks = Networks::of(&shape, 1);
    let batch = Batch::random(&shape, 16, 7).on_host(0.97);
    let found = networks
        .oracle
        .gradients(&networks.target_oracle, &batch, 1.0, true);

    near("loss", found.loss, number(&fixture["loss"]));
    let expected = fixture["td_errors"].as_array().unwrap();
    assert_eq!(found.td_errors.len(), expected.len());
    for (got, expected) in found.td_errors.iter().zip(expected) {
        near("td error", *got, number(expected));
    }
    let named = shape.named_places();
    assert_eq!(named.len(), fixture["gradients"].as_object().unwrap().len());
    for (name, places) in named {
        let expected = &fixture["gradients"][&name];
        let values: Vec<f64> = places.iter().map(|place| found.flat[*place]).collect();
        let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        near(&name, norm, number(&expected["norm"]));
        for (got, expected) in values.iter().zip(expected["first"].as_array().unwrap()) {
            near(&name, *got, number(expected));
        }
        near(&name, values[values.len() - 1], number(&expected["last"]));
    }
}
