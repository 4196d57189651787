// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures to accept clients. Usually the process has no free descriptor, and that lasts for a while.

use std::{
    io,
    time::{Duration, Instant},
};

/// The first pause after a failure.
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest pause. It doubles up to here while nothing is accepted.
const LONGEST: Duration = Duration::from_secs(1);

/// An outage is over when there was no failure for this long. While a server has just enough
/// descriptors, clients that are accepted and clients that are not alternate.
const QUIET: Duration = Duration::from_secs(60);

/// What a listener knows about its failures to accept clients.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// The system's number of the last error, and its time.
    last: Option<(Option<i32>, Instant)>,
    /// The number of failures since the last client was accepted.
    failures: u32,
}

impl Outage {
    /// Records that a client was accepted.
    pub(crate) fn accepted(&mut self) {
        self.failures = 0;
    }

    /// Records a failure at `now`. Returns how long to wait before the next attempt, and whether this
    /// failure begins an outage, so is to be reported.
    pub(crate) fn failed(&mut self, error: &io::Error, now: Instant) -> (Duration, bool) {
        let number = error.raw_os_error();
        let goes_on = self
            .last
            .is_some_and(|(last, at)| last == number && now.saturating_duration_since(at) < QUIET);
        self.last = Some((number, now));
        let pause = SHORTEST
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        (pause, !goes_on)
    }
}

#[cfg(test)]
mod tests {
    use nix::libc::{ECONNABORTED, EMFILE};

    use super::*;

    #[test]
    fn an_outage_is_reported_once_and_the_pauses_grow() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let full = io::Error::from_raw_os_error(EMFILE);
        let mut outage = Outage::default();
        assert_eq!(outage.failed(&full, begun), (SHORTEST, true));
        assert_eq!(outage.failed(&full, begun), (2 * SHORTEST, false));
        for second in 0..100 {
            let (pause, is_new) = outage.failed(&full, at(second));
            assert!(pause <= LONGEST && !is_new);
        }
        assert_eq!(outage.failed(&full, at(100)).0, LONGEST);
        // A client that was accepted in between does not end it.
        outage.accepted();
        assert_eq!(outage.failed(&full, at(101)), (SHORTEST, false));
        assert!(outage.failed(&full, at(161)).1);
        let other = io::Error::from_raw_os_error(ECONNABORTED);
        assert!(outage.failed(&other, at(161)).1);
    }
}
