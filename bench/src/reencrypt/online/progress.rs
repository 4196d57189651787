// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks at a re-encryption from outside, so that nothing waits for a lock.

use std::{fs::File, os::unix::fs::FileExt, path::Path, time::Instant};

use serde_json::Value;

/// The length of the first copy of the metadata. Its JSON follows the binary header.
const METADATA: usize = 16 << 10;
const BINARY_HEADER: usize = 4096;

/// Returns how many bytes of the data have the new key. `None` if no re-encryption is under way, or if the
/// metadata are being written in this moment.
pub(super) fn done(volume: &Path) -> Option<u64> {
    let mut metadata = vec![0; METADATA];
    let file = File::open(volume).ok()?;
    file.read_exact_at(&mut metadata, 0).ok()?;
    done_in(metadata.get(BINARY_HEADER..)?)
}

fn done_in(json: &[u8]) -> Option<u64> {
    let json = json.split(|&byte| byte == 0).next()?;
    let json: Value = serde_json::from_slice(json).ok()?;
    let requirements = json["config"]["requirements"]["mandatory"].as_array()?;
    let mut names = requirements.iter().filter_map(Value::as_str);
    if !names.any(|name| name.starts_with("online-reencrypt")) {
        return None;
    }
    // It goes from the beginning to the end, and the last segment has no length.
    let first = &json["segments"]["0"];
    let is_zone = !first["flags"].is_null();
    let len = first["size"].as_str().filter(|_| !is_zone);
    Some(len.and_then(|len| len.parse().ok()).unwrap_or(0))
}

/// A moment while clients work.
pub(super) struct Sample {
    at: Instant,
    done: Option<u64>,
    /// How many clients have come so far, and how many of them have gone.
    came: usize,
    gone: usize,
}

impl Sample {
    /// Looks at the volume, and at the server's log.
    pub(super) fn now(volume: &Path, log: &str) -> Self {
        Self {
            at: Instant::now(),
            done: done(volume),
            came: log.matches("client connected").count(),
            gone: log.matches("client disconnected").count(),
        }
    }
}

/// Returns how many bytes a second have got the new key while the last client was there. `fio` connects once
/// before, to ask for the length.
pub(super) fn rate(samples: &[Sample]) -> Option<f64> {
    let last = samples.last()?.came;
    let mut there = samples.iter().filter_map(|sample| {
        let is_there = sample.came == last && sample.gone + 1 == last;
        Some((sample.at, sample.done.filter(|_| is_there)?))
    });
    let (begin, before) = there.next()?;
    let (end, after) = there.next_back()?;
    let seconds = (end - begin).as_secs_f64();
    (seconds > 0.0).then(|| after.saturating_sub(before) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_new_part_is_read_from_the_metadata() {
        let metadata = |required: &str, first: &str| {
            let json = format!(
                r#"{{"segments":{{"0":{{"offset":"16777216",{first}}},"1":{{"size":"dynamic"}}}},
                    "config":{{"requirements":{{"mandatory":["{required}"]}}}}}}"#
            );
            done_in(&[json.as_bytes(), &[0; 9]].concat())
        };
        let v2 = "online-reencrypt-v2";
        assert_eq!(metadata(v2, r#""size":"dynamic""#), Some(0));
        assert_eq!(metadata(v2, r#""size":"8192""#), Some(8192));
        let zone = r#""size":"8192","flags":["in-reencryption"]"#;
        assert_eq!(metadata(v2, zone), Some(0));
        assert_eq!(metadata("other", r#""size":"8192""#), None);
        assert_eq!(done_in(b"{}\0"), None);
        assert_eq!(done_in(b"{\"seg"), None);
    }

    #[test]
    fn the_rate_is_that_of_the_last_client() {
        let begin = Instant::now();
        let sample = |(seconds, done, came, gone): (u64, Option<u64>, usize, usize)| Sample {
            at: begin + Duration::from_secs(seconds),
            done,
            came,
            gone,
        };
        let samples = [
            (0, Some(0), 1, 0),
            (1, Some(100), 1, 1),
            (2, Some(200), 2, 1),
            (3, None, 2, 1),
            (6, Some(240), 2, 1),
            (7, None, 2, 1),
            (8, Some(999), 2, 2),
        ];
        assert_eq!(rate(&samples.map(sample)), Some(10.0));
        assert_eq!(rate(&[]), None);
    }
}
