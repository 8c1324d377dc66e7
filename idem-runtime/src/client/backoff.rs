//! How long to wait before a retry: exponential backoff with full jitter.
//!
//! Full jitter spreads the retries of many clients evenly over the whole interval, which costs the
//! server the least work of the usual variants (M. Brooker, "Exponential Backoff And Jitter",
//! AWS Architecture Blog, 2015).

use std::time::Duration;

use uuid::Uuid;

use super::policy::RetryPolicy;

/// The longest wait after this many attempts: `base_delay` doubled for each after the first, up to
/// `max_delay`.
pub(crate) fn ceiling(policy: &RetryPolicy, attempts: u32) -> Duration {
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    policy
        .base_delay
        .saturating_mul(factor)
        .min(policy.max_delay)
}

/// A part of the ceiling: none for 0, all for `u32::MAX`.
pub(crate) fn jittered(ceiling: Duration, random: u32) -> Duration {
    let part = f64::from(random) / f64::from(u32::MAX);
    // Of the longest durations a float may round up to one more than there is.
    Duration::try_from_secs_f64(ceiling.as_secs_f64() * part)
        .unwrap_or(ceiling)
        .min(ceiling)
}

/// An even random number: the lowest bits of a version 4 UUID are all random (RFC 9562
/// section 5.4), and the crate that makes the keys is here anyway.
pub(crate) fn random() -> u32 {
    let [.., a, b, c, d] = Uuid::new_v4().into_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            4 => (0..100_000_u64).prop_map(Duration::from_millis),
            1 => (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
            1 => Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn a_wait_is_within_its_bounds(
            base in duration(), max in duration(), attempts: u32, random: u32,
        ) {
            let policy = RetryPolicy::new().base_delay(base).max_delay(max);
            let ceiling = ceiling(&policy, attempts);
            prop_assert!(ceiling <= max);
            prop_assert!(ceiling >= base.min(max));
            prop_assert!(jittered(ceiling, random) <= ceiling);
        }

        #[test]
        fn the_ceiling_doubles_until_it_is_reached(
            base in 0..1_000_000_u64, max in 0..1_000_000_000_u64, attempts in 1..=40_u32,
        ) {
            let policy = RetryPolicy::new()
                .base_delay(Duration::from_nanos(base))
                .max_delay(Duration::from_nanos(max));
            let expected = (u128::from(base) << (attempts - 1)).min(u128::from(max));
            // 2^32 is more than the factor can hold; then it is long enough.
            let expected = if attempts > 32 { ceiling(&policy, 33).as_nanos() } else { expected };
            prop_assert_eq!(ceiling(&policy, attempts).as_nanos(), expected);
        }

        #[test]
        fn jitter_grows_with_the_random_number(ceiling in 0..1_000_000_u64, random: u32) {
            let ceiling = Duration::from_micros(ceiling);
            let wait = jittered(ceiling, random);
            let exact = ceiling.as_nanos() * u128::from(random) / u128::from(u32::MAX);
            prop_assert!(wait.as_nanos().abs_diff(exact) <= 1, "{:?}, not {} ns", wait, exact);
        }
    }

    #[test]
    fn the_ends_of_the_interval_are_reached() {
        let ceiling = Duration::from_secs(20);
        assert_eq!(jittered(ceiling, 0), Duration::ZERO);
        assert_eq!(jittered(ceiling, u32::MAX), ceiling);
    }

    #[test]
    fn random_numbers_are_spread_evenly() {
        let mut quarters = [0; 4];
        for _ in 0..4000 {
            quarters[random() as usize >> 30] += 1;
        }
        // Six standard deviations (27) around 1000.
        assert!(
            quarters.iter().all(|count| (836..=1164).contains(count)),
            "{quarters:?}"
        );
    }
}
