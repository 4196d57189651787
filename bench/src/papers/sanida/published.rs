// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's numbers, as printed.

/// The lengths of the paper's files, in bytes.
pub(super) const FILES: [usize; 9] = [
    512,
    1 << 10,
    2 << 10,
    8 << 10,
    32 << 10,
    128 << 10,
    512 << 10,
    2 << 20,
    8 << 20,
];

/// Milliseconds of the kernel per file: encryption with 128, 192 and 256 bits, then decryption.
pub(super) type Table = [[&'static str; 6]; 9];

/// Table IV.
pub(super) const CTR: Table = [
    ["0.09", "0.12", "0.16", "0.11", "0.14", "0.16"],
    ["0.14", "0.17", "0.20", "0.16", "0.19", "0.22"],
    ["0.29", "0.33", "0.36", "0.28", "0.30", "0.33"],
    ["0.72", "0.73", "0.77", "0.72", "0.76", "0.80"],
    ["1.90", "2.18", "2.34", "1.81", "2.10", "2.26"],
    ["6.34", "8.13", "10.44", "6.98", "8.99", "10.91"],
    ["26.37", "30.37", "34.41", "28.21", "30.32", "36.41"],
    ["116.01", "119.84", "124.34", "117.04", "120.47", "124.87"],
    ["768.99", "777.06", "782.42", "773.47", "782.14", "787.14"],
];

/// Table V.
pub(super) const XTS: Table = [
    ["0.12", "0.15", "0.18", "0.15", "0.16", "0.18"],
    ["0.17", "0.20", "0.22", "0.18", "0.21", "0.25"],
    ["0.31", "0.33", "0.36", "0.32", "0.34", "0.37"],
    ["0.76", "0.77", "0.80", "0.77", "0.80", "0.82"],
    ["2.11", "2.39", "2.51", "2.20", "2.47", "2.41"],
    ["8.74", "10.89", "12.04", "9.73", "11.74", "13.14"],
    ["30.75", "33.17", "36.94", "33.73", "35.02", "37.90"],
    ["124.99", "126.07", "128.11", "125.88", "127.36", "129.22"],
    ["780.14", "783.74", "786.14", "782.03", "785.93", "788.41"],
];

/// Table VI, Gbps: work, device, language, mode, throughput.
pub(super) const THROUGHPUT: [[&str; 5]; 7] = [
    ["2014 [11]", "ATI HD 7670M", "OpenCL", "CTR", "5.04"],
    ["2011 [12]", "Nvidia GTX 285", "OpenCL", "XTS", "8.59"],
    ["2011 [12]", "Nvidia GTX 285", "CUDA", "XTS", "9.74"],
    ["2017 [13]", "Nvidia GT 555M", "OpenCL", "CTR", "10.00"],
    ["2009 [14]", "Nvidia GT 8800", "CUDA", "CTR", "12.50"],
    ["the paper", "Nvidia GTX 1060", "OpenCL", "XTS", "12.53"],
    ["the paper", "Nvidia GTX 1060", "OpenCL", "CTR", "14.71"],
];

/// The abstract's gains of CTR over XTS in per cent, in the order of a table's columns.
const GAINS: [&str; 6] = ["10.15", "10.09", "10.05", "10.11", "10.05", "10.02"];

/// The conclusion's gains over other implementations in per cent, by mode.
const OVER_OTHERS: [(&str, &str); 2] = [("XTS", "12.86"), ("CTR", "14.71")];

/// Returns the milliseconds of a file, by its index, in a column.
pub(super) fn milliseconds(table: &Table, file: usize, column: usize) -> f64 {
    table[file][column].parse().unwrap_or(f64::NAN)
}

/// Returns the speed-up of CTR over XTS.
pub(super) fn gain(file: usize, column: usize) -> f64 {
    milliseconds(&XTS, file, column) / milliseconds(&CTR, file, column)
}

/// Returns Table VI's throughputs of the paper and of the best other work in a mode, as printed.
fn throughputs(mode: &str) -> Option<[&'static str; 2]> {
    let rows = || THROUGHPUT.into_iter().filter(move |row| row[3] == mode);
    let number = |text: &str| text.parse().unwrap_or(f64::NAN);
    let others = rows().filter(|row| row[0] != "the paper");
    let best = others.max_by(|a, b| number(a[4]).total_cmp(&number(b[4])))?;
    let paper = rows().find(|row| row[0] == "the paper")?;
    Some([paper[4], best[4]])
}

/// Returns Table VI's throughput of the paper in a mode, as printed.
pub(super) fn throughput(mode: &str) -> Option<&'static str> {
    Some(throughputs(&mode.to_uppercase())?[0])
}

/// Derives the conclusion's gains from Table VI.
pub(super) fn gains_over_others() -> String {
    let ratios = OVER_OTHERS.into_iter().filter_map(|(mode, _)| {
        let [paper, other] = throughputs(mode)?;
        let ratio: f64 = paper.parse::<f64>().ok()? / other.parse::<f64>().ok()?;
        let percent = ratio * 100.0 - 100.0;
        Some(format!(
            "{paper} / {other} = {ratio:.4} in {mode}, a gain of {percent:.2} %"
        ))
    });
    let ratios: Vec<_> = ratios.collect();
    let printed = OVER_OTHERS.map(|(mode, percent)| format!("{percent} % in {mode}"));
    format!(
        "The conclusion says that throughput is better than that of others by at least {}. By Table \
         VI it is {}. So the gain in XTS is again a ratio with the decimal point shifted, and that \
         in CTR is the paper's own throughput in Gbps.",
        printed.join(" and "),
        ratios.join(", and "),
    )
}

/// Derives the abstract's gains from the tables.
pub(super) fn gains() -> String {
    let last = FILES.len() - 1;
    let ratios = (0..3).map(|column| {
        let [xts, ctr] = [XTS, CTR].map(|table| table[last][column]);
        format!("{xts} / {ctr} = {:.4}", gain(last, column))
    });
    let ratios: Vec<_> = ratios.collect();
    let all = (0..6).map(|column| format!("{:.2}", gain(last, column) * 100.0 - 100.0));
    let all: Vec<_> = all.collect();
    format!(
        "The abstract says that CTR is faster than XTS by \"over\" {} % in encryption with 128, 192 \
         and 256 bits, and by {} % in decryption. These are the ratios of the times for 8 MB in \
         Tables V and IV, with the decimal point shifted: in encryption {}. The gains by these \
         tables are {} %. The text and the tables do not give the values of Figures 2 and 3; the \
         dashed lines here are computed from Tables IV and V.",
        GAINS[..3].join(", "),
        GAINS[3..].join(", "),
        ratios.join(", "),
        all.join(", "),
    )
}

/// Remarks on the numbers.
pub(super) const REMARK: &str = "\
The paper's machine: Intel Core i7 8750H, NVIDIA GeForce GTX 1060; 16 bytes per work-item, copies
not counted. Its printed Table VI does not follow from Tables IV and V: their best rate, 128
KiB in 6.34 ms, is 0.1654 Gbps.
";

#[cfg(test)]
mod tests {
    use super::*;

    /// The first ratio is 1.014 499, printed as if it were 1.0145.
    #[test]
    fn the_gains_are_the_ratios_with_the_point_shifted() {
        for (column, printed) in GAINS.into_iter().enumerate() {
            let shifted = gain(8, column) * 10.0;
            let printed: f64 = printed.parse().unwrap();
            assert!((shifted - printed).abs() < 0.0051, "{shifted} {printed}");
        }
        let said = gains();
        for part in [
            "1.0145",
            "1.0086",
            "1.0048",
            "1.45, 0.86, 0.48, 1.11, 0.48, 0.16 %",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn the_conclusions_gains_are_a_shifted_ratio_and_a_throughput() {
        let [(_, xts), (_, ctr)] = OVER_OTHERS;
        let [paper, other] = throughputs("XTS")
            .unwrap()
            .map(|text| text.parse::<f64>().unwrap());
        assert_eq!(format!("{:.2}", paper / other * 10.0), xts);
        assert_eq!(throughputs("CTR").unwrap()[0], ctr);
        let said = gains_over_others();
        for part in [
            "12.86 % in XTS and 14.71 % in CTR",
            "12.53 / 9.74 = 1.2864 in XTS, a gain of 28.64 %",
            "14.71 / 12.50 = 1.1768 in CTR, a gain of 17.68 %",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn the_remark_names_the_best_rate() {
        let (mut best, mut file, mut best_ms) = (0.0, 0, "");
        for table in [CTR, XTS] {
            for (bytes, row) in FILES.into_iter().zip(table) {
                for ms in row {
                    let gbps = bytes as f64 * 8e-6 / ms.parse::<f64>().unwrap();
                    if gbps > best {
                        (best, file, best_ms) = (gbps, bytes, ms);
                    }
                }
            }
        }
        let best = format!("{}\nKiB in {best_ms} ms, is {best:.4} Gbps", file >> 10);
        assert!(REMARK.contains(&best), "{best}");
    }
}
