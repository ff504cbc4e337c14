//! Kernels that a step with f32 states does not reach.

use crate::Test;
use crate::cuda_on_cpu::Driver;
use crate::problem::{Random, close, equal};

pub const TESTS: &[Test] = &[
    ("bf16_states_are_padded_and_widened", bf16_states),
    ("q_values_are_dueling", q_values),
    ("weights_lie_as_wgmma_takes_them", fragments),
];

fn bf16_states(driver: &Driver) -> Result<(), String> {
    // Rows of a multiple of four are read four at a time, others one by one; rows that need no padding, eight at a time.
    for (dim, width) in [(4, 8), (5, 8), (12, 16), (1, 8), (8, 8), (24, 24)] {
        let (capacity, rows) = (6, 4);
        let mut random = Random(dim as u64 + 1);
        let halves = |random: &mut Random| -> Vec<u16> {
            (0..rows * dim)
                .map(|_| (random.signed().to_bits() >> 16) as u16)
                .collect()
        };
        let (states, next_states) = (halves(&mut random), halves(&mut random));
        let input: Vec<u8> = states
            .iter()
            .chain(&next_states)
            .flat_map(|half| half.to_ne_bytes())
            .collect();
        let sizes = [capacity, rows, dim, width].map(|size| size.to_string());
        let mut arguments = vec!["inputs"];
        arguments.extend(sizes.iter().map(String::as_str));
        let output = driver.run(&arguments, &input)?;
        let expected: Vec<u16> = [&states, &next_states]
            .into_iter()
            .flat_map(|states| {
                (0..capacity * width).map(move |at| {
                    let (row, column) = (at / width, at % width);
                    if row < rows && column < dim {
                        states[row * dim + column]
                    } else {
                        0
                    }
                })
            })
            .collect();
        let wide: Vec<u8> = expected
            .iter()
            .flat_map(|half| (u32::from(*half) << 16).to_ne_bytes())
            .collect();
        let narrow: Vec<u8> = expected
            .iter()
            .flat_map(|half| half.to_ne_bytes())
            .collect();
        let mut rest = &output[..];
        for (what, expected) in [
            ("x as f32, from bf16", &wide[..]),
            ("x as bf16, from bf16", &narrow[..]),
            ("x as f32, from f32", &wide[..]),
            ("x as bf16, from f32", &narrow[..]),
            ("padded as f32", &wide[..4 * rows * width]),
            ("padded as bf16", &narrow[..2 * rows * width]),
        ] {
            let (got, behind) = rest.split_at(expected.len());
            equal(
                &format!("{what}, {dim} of {width} columns"),
                got == expected,
                true,
            )?;
            rest = behind;
        }
        // One step each where no counts are given: gamma itself, and nothing behind the rows.
        let discounts: Vec<u8> = [0.5f32, 0.5, 0.5, 0.5, 0.0, 0.0]
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        equal("discounts", rest == discounts, true)?;
    }
    Ok(())
}

fn q_values(driver: &Driver) -> Result<(), String> {
    for (rows, actions, width) in [(1, 1, 8), (9, 45, 48), (17, 7, 8), (8, 70, 72)] {
        let mut random = Random(3);
        let outputs: Vec<f32> = (0..rows * width).map(|_| random.signed()).collect();
        let expected: Vec<f64> = outputs
            .chunks_exact(width)
            .flat_map(|row| {
                let advantages: Vec<f64> = row[1..=actions]
                    .iter()
                    .map(|value| f64::from(*value))
                    .collect();
                let mean = advantages.iter().sum::<f64>() / actions as f64;
                let value = f64::from(row[0]);
                advantages
                    .into_iter()
                    .map(move |advantage| value + advantage - mean)
            })
            .collect();
        let sizes = [rows, actions, width].map(|size| size.to_string());
        let mut arguments = vec!["q"];
        arguments.extend(sizes.iter().map(String::as_str));
        let output = driver.run(&arguments, &bytes(&outputs))?;
        let got: Vec<f32> = output
            .chunks_exact(4)
            .map(|word| f32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        close("q values", &got, &expected, 1e-6)?;
    }
    Ok(())
}

/// Each element of A is where the fragment layout of wgmma's operand in registers (PTX ISA, `.m64nNk8`) has it: in its
/// own lane and register, once; units are pairs of rows g and g + 8.
fn fragments(driver: &Driver) -> Result<(), String> {
    for (units, k, side) in [(96usize, 80, 3), (48, 24, 3), (48, 16, 1), (40, 8, 1)] {
        let mut random = Random(units as u64);
        let mut matrix: Vec<f32> = (0..units * k).map(|_| random.signed()).collect();
        matrix[0] = f32::NAN;
        matrix[1] = f32::INFINITY;
        // Halfway between two values of 10 bits: to the even one.
        matrix[2] = f32::from_bits(0x3f80_1000);
        matrix[3] = f32::from_bits(0x3f80_3000);
        let steps = k / 8;
        let blocks = units.div_ceil(16 * side) * side;
        let mut expected = vec![0f32; blocks * steps * 128];
        for unit in 0..units {
            for column in 0..k {
                let (block, step) = (unit / 16, column / 8);
                let fragment = (block / side * steps + step) * side + block % side;
                let lane = unit % 16 / 2 * 4 + column % 4;
                let register = column % 8 / 4 * 2 + unit % 2;
                expected[(fragment * 32 + lane) * 4 + register] =
                    rounded_to_tf32(matrix[unit * k + column]);
            }
        }
        let expected = bytes(&expected);
        let sizes = [units, k, side].map(|size| size.to_string());
        let mut arguments = vec!["fragments"];
        arguments.extend(sizes.iter().map(String::as_str));
        let output = driver.run(&arguments, &bytes(&matrix))?;
        let (of_rows, of_columns) = output.split_at(output.len() / 2);
        let label = |what: &str| format!("{what}, {units} x {k}, {side} side by side");
        equal(&label("from rows"), of_rows == expected, true)?;
        equal(&label("from columns"), of_columns == expected, true)?;
    }
    Ok(())
}

fn bytes(values: &[f32]) -> Vec<u8> {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes());
    bytes.collect()
}

/// To the nearest of the neighbours with 10 bits of mantissa; of two as near, to the even one.
fn rounded_to_tf32(value: f32) -> f32 {
    if !value.is_finite() {
        return value;
    }
    let below = f32::from_bits(value.to_bits() & !0x1fff);
    let above = f32::from_bits((value.to_bits() & !0x1fff) + 0x2000);
    let (down, up) = ((value - below).abs(), (above - value).abs());
    let is_even = value.to_bits() & 0x2000 == 0;
    if down < up || (down == up && is_even) {
        below
    } else {
        above
    }
}
