//! Philox4x32-10, twin of `kernels/philox.cuh`: the same bits for the same (seed, lane, call, domain).

/// Draws of the replay buffer.
pub const DOMAIN_REPLAY: u32 = 0;
/// Hindsight relabelling.
pub const DOMAIN_HER: u32 = 1;
/// Acting.
pub const DOMAIN_ACT: u32 = 2;

/// Four words from a key and a counter (Salmon et al., SC 2011).
pub fn philox4x32_10(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let first = 0xD251_1F53 * u64::from(counter[0]);
        let second = 0xCD9E_8D57 * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    counter
}

/// Four words for one lane of one call in one domain.
pub fn philox4x32(seed: u64, lane: u32, call: u64, domain: u32) -> [u32; 4] {
    philox4x32_10(
        [seed as u32, (seed >> 32) as u32],
        [lane, call as u32, (call >> 32) as u32, domain],
    )
}

/// A number in [0, 1) from 38 bits, at most 1 - 2^-32.
pub fn unit(words: [u32; 4]) -> f64 {
    let mantissa = u64::from(words[0]) << 6 | u64::from(words[1] >> 26);
    (mantissa as f64 * 2f64.powi(-38)).min(1.0 - 2f64.powi(-32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their library, `kat_vectors`.
    #[test]
    fn the_authors_answers() {
        assert_eq!(
            philox4x32_10([0; 2], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_unit_number_never_reaches_the_next_integer() {
        let most = unit([u32::MAX; 4]);
        assert!(most < 1.0);
        for stratum in [0u32, 1, (1 << 20) - 1] {
            assert!((f64::from(stratum) + most) < f64::from(stratum) + 1.0);
        }
        assert_eq!(unit([0; 4]), 0.0);
    }
}
