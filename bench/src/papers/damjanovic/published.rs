// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of the paper's Tables B1 to B4, as printed.

/// A table of the paper: milliseconds for a file of 128 MB, and the speed-up of the second row over
/// the first, as a ratio and in per cent. Each row has one number per length of the input array,
/// separated by spaces.
pub(super) struct Published {
    pub(super) name: &'static str,
    pub(super) machine: &'static str,
    pub(super) rows: [(&'static str, &'static str); 7],
}

const I7_4700: &str = "i7-4700MQ, Java 1.8.0_25";
const I7_2630: &str = "i7-2630QM, Java 1.8.0_25";

pub(super) const XEX: [Published; 2] = [
    Published {
        name: "B1",
        machine: I7_4700,
        rows: [
            ("1x 256 OFB", "1653.2 2380 3093.6 3274.2 3421.83 3530 4441"),
            (
                "2x 128 XEX",
                "1552.6 2160.8 2972.8 3250.0 3408.2 3665.0 4715.2",
            ),
            ("speed-up", "1.065 1.101 1.041 1.007 1.004 0.963 0.942"),
            ("%", "6.48 10.14 4.06 0.74 0.40 -3.68 -5.82"),
            (
                "1x 128 XEX",
                "1290.6 1948.4 2603.9 2667.7 2846 3141.2 3804.3",
            ),
            (
                "1x 256 XEX",
                "1611.1 2341.4 3047.5 3325.5 3472.5 3673.3 4747",
            ),
            (
                "2x 256 CTR",
                "858.2 1274.2 1730.2 1919 2074.1 2183.6 2677.4",
            ),
        ],
    },
    Published {
        name: "B2",
        machine: I7_2630,
        rows: [
            (
                "1x 256 OFB",
                "4128.4 4715.8 5510.3 5726.8 5797 5835.5 6439.5",
            ),
            (
                "2x 128 XEX",
                "4219.0 4895.0 6445.4 6794.0 7077.8 7275.0 8367.0",
            ),
            ("speed-up", "0.979 0.963 0.855 0.843 0.819 0.802 0.770"),
            ("%", "-2.15 -3.66 -14.51 -15.71 -18.10 -19.79 -23.04"),
            (
                "1x 128 XEX",
                "3159.2 3741.4 4611.7 4811.9 4826.8 4980 5699.8",
            ),
            ("1x 256 XEX", "4041.2 4749.9 5685 5908.2 5997.8 6193.8 6699"),
            (
                "2x 256 CTR",
                "967.2 1512.2 1976.5 2281.3 2397.8 2646.6 3360.6",
            ),
        ],
    },
];

/// The first and last rows repeat those of Tables B1 and B2.
pub(super) const XE: [Published; 2] = [
    Published {
        name: "B3",
        machine: I7_4700,
        rows: [
            ("1x 256 OFB", "1653.2 2380 3093.6 3274.2 3421.83 3530 4441"),
            (
                "2x 128 XE",
                "1458 1994.2 2850.8 3141.6 3347.2 3673.8 4667.8",
            ),
            ("speed-up", "1.134 1.193 1.085 1.042 1.022 0.961 0.951"),
            ("%", "13.39 19.35 8.52 4.22 2.23 -3.91 -4.86"),
            (
                "1x 128 XE",
                "1268.6 1951.8 2480.3 2778.7 2840.6 3068.7 3856.8",
            ),
            (
                "1x 256 XE",
                "1872.1 2345.9 3083.6 3213.2 3440.4 3683.5 4678.6",
            ),
            (
                "2x 256 CTR",
                "858.2 1274.2 1730.2 1919 2074.1 2183.6 2677.4",
            ),
        ],
    },
    Published {
        name: "B4",
        machine: I7_2630,
        rows: [
            (
                "1x 256 OFB",
                "4128.4 4715.8 5510.33 5726.8 5797 5835.5 6439.5",
            ),
            ("2x 128 XE", "3654.2 4290 5632 5960.4 6198.8 6537.6 7520.4"),
            ("speed-up", "1.130 1.099 0.978 0.961 0.935 0.893 0.856"),
            ("%", "12.98 9.93 -2.16 -3.92 -6.48 -10.74 -14.37"),
            (
                "1x 128 XE",
                "3107.6 3787.6 4745.2 4881.2 4958.3 5120.6 5672.4",
            ),
            ("1x 256 XE", "4058.5 4771.8 5644.1 6033 6047.1 6115.5 6691"),
            (
                "2x 256 CTR",
                "967.2 1512.2 1976.5 2281.3 2397.8 2646.6 3360.6",
            ),
        ],
    },
];

impl Published {
    /// Returns the names and numbers of its rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let rows = self.rows.iter();
        rows.map(|(what, figures)| (*what, figures.split(' ').collect()))
    }

    /// Returns the speed-up of two chains over serial OFB, for a length by its index.
    pub(super) fn speed_up(&self, place: usize) -> Option<&'static str> {
        let (_, figures) = self.rows[2];
        figures.split(' ').nth(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that was copied wrongly would not fit the others.
    #[test]
    fn speed_ups_are_those_of_the_times() {
        for table in XEX.iter().chain(&XE) {
            let rows: Vec<Vec<f64>> = table
                .rows()
                .map(|(_, figures)| {
                    figures
                        .iter()
                        .map(|figure| figure.parse().unwrap())
                        .collect()
                })
                .collect();
            assert!(rows.iter().all(|row| row.len() == 7));
            let [serial, two, times, percent, ..] = rows.as_slice() else {
                panic!("{} rows", rows.len());
            };
            for at in 0..7 {
                let ratio = serial[at] / two[at];
                let place = format!("{}, column {at}: {ratio}", table.name);
                assert!((ratio - times[at]).abs() < 0.0006, "{place}");
                assert!(
                    ((ratio - 1.0) * 100.0 - percent[at]).abs() < 0.02,
                    "{place}"
                );
            }
        }
    }

    #[test]
    fn tables_share_rows() {
        for (xex, xe) in XEX.iter().zip(&XE) {
            assert_eq!(xex.rows[6], xe.rows[6]);
        }
        assert_eq!(XEX[0].rows[0], XE[0].rows[0]);
    }
}
