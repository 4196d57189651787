// SPDX-License-Identifier: MIT OR Apache-2.0

use super::{
    super::{
        REQUESTS, ServedRate,
        access::AccessCosts,
        breakdown,
        cycles::{Counts, Cycles, Measured, UNITS, Ways},
        study::{Breakdown, DigestTimes, Parts, Served},
    },
    *,
};
use crate::{
    coprocessor::{CONFIGURATIONS, Linear},
    fio::Load,
    stats::Summary,
};

fn summary(median: f64) -> Summary {
    Summary::from_samples(vec![median]).unwrap()
}

fn load(access: Access) -> Load {
    Load {
        access,
        request_bytes: 64 << 10,
        depth: 16,
        connections: 1,
    }
}

/// The report of a build without the core, on a machine without `fio`.
fn software() -> Report {
    let parts = |whole: f64| breakdown::Parts {
        whole: summary(whole),
        numbers: summary(0.001),
        powers: summary(0.002),
        first_xor: summary(0.0005),
        cipher: summary(0.0015),
        second_xor: summary(0.0005),
        other: summary(whole - 0.0055),
        fused: summary(whole - 0.0025),
    };
    let rows = ["encrypt", "decrypt"].into_iter().flat_map(|direction| {
        REQUESTS.into_iter().map(move |requests| {
            let seconds = if requests.request_bytes == Some(512) {
                0.006
            } else {
                0.003
            };
            breakdown::SoftwareTimes {
                direction,
                requests,
                seconds: parts(seconds),
            }
        })
    });
    Report {
        engine: "portable",
        clock_nanoseconds: 50.0,
        breakdown_bytes: breakdown::BYTES,
        breakdown: rows.collect(),
        disk_bytes: 64 << 20,
        in_memory: true,
        fio: None,
        rounds: 1,
        turn_seconds: 0.2,
        served: Vec::new(),
        study: None,
        absent: vec!["the co-processor: no simulation".to_owned()],
    }
}

fn row(requests: super::super::Requests) -> ServedRate {
    ServedRate {
        requests,
        mib_per_s: summary(1000.0),
        times_best: summary(0.5),
        bytes_per_call: summary(4096.0),
        engine_gb_per_s: summary(5.0),
        engine_share: Some(summary(0.25)),
    }
}

fn breakdown(direction: &'static str, configuration: Configuration) -> Breakdown {
    let software = configuration.work == Work::Software;
    let seconds = match configuration.work {
        Work::Mixed => 1536.0,
        Work::Offloaded => 768.0,
        Work::Software => 128.0,
    };
    let total = seconds / configuration.request_bytes as f64;
    Breakdown {
        direction,
        configuration,
        total: summary(total),
        parts: (!software).then(|| Parts {
            tweaks: summary(0.0),
            numbers: Some(summary(0.0)),
            first_xor: summary(total * 0.1),
            second_xor: summary(total * 0.1),
            device: summary(total * 0.8),
            other: summary(0.0),
        }),
        late: 0.0,
    }
}

fn study() -> Study {
    let linear = Linear {
        first: 100.0,
        next: 32.0,
    };
    let ways = Ways {
        encrypt: linear,
        decrypt: linear,
    };
    let rows = |direction| CONFIGURATIONS.map(|configuration| breakdown(direction, configuration));
    // The driver's set-up makes requests of either length twice as fast, so it gains as much.
    let by_driver = |direction| {
        let rows = rows(direction).into_iter();
        let rows = rows.filter(|row| row.configuration.work != Work::Software);
        rows.map(|row| Breakdown {
            total: row.total.scaled(0.5),
            ..row
        })
    };
    let measured = [Waiting::Polling, Waiting::Interrupts]
        .into_iter()
        .flat_map(|waiting| {
            let kinds = [Kind::Numbers, Kind::Ecb, Kind::Xts].into_iter();
            kinds.flat_map(move |kind| UNITS.map(|units| (waiting, kind, units)))
        })
        .flat_map(|(waiting, kind, units)| {
            ["encrypt", "decrypt"].map(|direction| Measured {
                kind,
                direction,
                waiting,
                units,
                counts: Counts {
                    cycles: 100.0 + 32.0 * f64::from(units - 1),
                    reads: 2.0,
                    writes: 2.0,
                    packets: 1.0,
                    interrupts: f64::from(u8::from(waiting == Waiting::Interrupts)),
                },
            })
        });
    let digest = CONFIGURATIONS.map(|configuration| DigestTimes {
        configuration,
        total: summary(2.0),
        md5: summary(0.5),
        driver: summary(1.0),
        rest: summary(0.5),
    });
    let served = [Access::Write, Access::Read]
        .into_iter()
        .flat_map(|access| {
            CONFIGURATIONS.map(|configuration| Served {
                disk_bytes: 256 << 20,
                load: load(access),
                configuration,
                mib_per_s: summary(15.0),
            })
        });
    Study {
        cost: Cost {
            setup_encrypt: 30_000.0,
            setup_decrypt: 28_000.0,
            setup_numbers_encrypt: 11_000.0,
            setup_numbers_decrypt: 19_000.0,
            setup_is_the_papers: true,
            access: Some(AccessCosts {
                read: 200.0,
                write: 100.0,
                interrupt: 5000.0,
                accesses_are_recorded: true,
                interrupt_is_measured: true,
            }),
            clock_mhz: 200.0,
            clock_decrypt_mhz: None,
            clock_is_recorded: true,
            cycles: Cycles {
                numbers: ways,
                ecb: ways,
                xts: ways,
            },
            requests: measured.collect(),
        },
        compatible_pairs: 36,
        rounds: 1,
        served_rounds: Some(1),
        measured_bytes: breakdown::BYTES / 7,
        bytes: breakdown::BYTES,
        breakdown: rows("encrypt").into_iter().chain(rows("decrypt")).collect(),
        breakdown_by_driver: by_driver("encrypt").chain(by_driver("decrypt")).collect(),
        digest: digest.into(),
        served: served.collect(),
    }
}

/// The report with the core and `fio`.
fn whole() -> Report {
    let served = [Access::Read, Access::Write].map(|access| Case {
        load: load(access),
        rows: REQUESTS.map(row).into(),
    });
    Report {
        fio: Some("fio-3".to_owned()),
        served: served.into(),
        study: Some(study()),
        absent: Vec::new(),
        ..software()
    }
}

fn captions(section: &Section) -> Vec<&str> {
    let captions = section.tables.iter().map(|table| table.caption.as_str());
    captions.collect()
}

fn cells<'a>(section: &'a Section, caption: &str, what: &str) -> Vec<&'a str> {
    let mut tables = section.tables.iter();
    let table = tables.find(|table| table.caption.starts_with(caption));
    let mut rows = table.unwrap().rows.iter();
    let row = rows.find(|row| row.cells[0] == what).unwrap();
    row.cells[1..].iter().map(String::as_str).collect()
}

#[test]
fn demir_with_the_core_has_all_tables_and_figures() {
    let section = whole().section();
    section.assert_whole();
    let found = cells(&section, "Table 1", "Total time");
    let ours = ["3.00", "0.38"];
    let paper = ["9.09 (100.00 %)", "5.23 (100.00 %)"];
    assert_eq!(found, [ours, paper, ["1.50", "0.19"]].concat());
    let found = cells(&section, "Table 2", "DMA + decryption time");
    let ours = ["2.40 (80.00 %)", "0.30 (80.00 %)"];
    let paper = ["5.22 (56.12 %)", "2.81 (54.83 %)"];
    let xts = ["1.20 (80.00 %)", "0.15 (80.00 %)"];
    assert_eq!(found, [ours, paper, xts].concat());
    let none = crate::section::NOTHING;
    let totals = |what| cells(&section, "Seconds for 50 MB", what);
    let printed = ["9.09", "5.23", "1.74", "9.30", "5.13", "1.81"];
    assert_eq!(
        totals("the paper's mixed"),
        [&printed[..], &[none; 3]].concat()
    );
    let by_driver = ["1.50", "0.19", "8.00"];
    assert_eq!(
        totals("mixed, the driver's set-up"),
        [by_driver, by_driver, [none; 3]].concat()
    );
    let found = cells(&section, "Table 1, the driver's set-up", "Total time");
    assert_eq!(found[..2], ["1.50", "0.19"]);
    let software = ["0.25", "0.0312", "8.00"];
    let digest = ["2.00", "2.00", "1.00"];
    assert_eq!(totals("software"), [software, software, digest].concat());
    let found = cells(&section, "What a request", "XTS, 4 KiB, in all, \u{b5}s");
    // 30000 + (100 + 7 * 32) * 5 nanoseconds.
    assert_eq!(found[..2], ["31.6", "29.6"]);
    let what = "XTS, 4 KiB, in all, the driver's set-up, \u{b5}s";
    let found = cells(&section, "What a request", what);
    // 2 * 200 + (2 + 4) * 100 + 5000 nanoseconds, and the cycles.
    assert_eq!(found[..2], ["7.62", "7.62"]);
    let found = cells(&section, "What the driver", "ECB, 4 KiB, polling");
    assert_eq!(found, ["2", "2", "1", "0", "324.0", "1.00"]);
    let found = cells(
        &section,
        "Served in software",
        "512-byte sectors, not capped",
    );
    assert_eq!(found, ["1000 (0.50)"; 2]);
    assert_eq!(captions(&section).len(), 13, "{:?}", captions(&section));
    // Both directions, Figure 4, and Figure 5 in both directions.
    assert_eq!(section.plots.len(), 5);
    let said = section.conclusion.unwrap();
    let times = "50 MB in 0.38 s, 1.07 Gbps. This is 8.00 times as fast as with 512 bytes";
    assert!(said.contains(times), "{said}");
    for part in [
        "30.0 \u{b5}s to set up, from the paper's tables",
        "With the 6.0 \u{b5}s of the core's own driver it takes 0.19 s",
        "accesses counted in the simulation, at a Zynq UltraScale+'s register times, with this \
         machine's time to wake a thread",
        "Decryption is computed at the clock of the build for encryption",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let assumed = "\"tweak computation\" to include the encryption of the numbers";
    assert!(section.about.contains(assumed), "{}", section.about);
    assert!(section.about.contains("36 pairs"), "{}", section.about);
    let left = "Figure 5 with 512 MiB";
    let said = section.absent.iter().any(|text| text.starts_with(left));
    assert!(said, "{:?}", section.absent);
}

/// Its JSON has no accesses, and no request for the data unit numbers.
#[test]
fn demir_of_an_earlier_version_is_shown_without_the_driver() {
    let mut report = whole();
    let study = report.study.as_mut().unwrap();
    study.breakdown_by_driver.clear();
    study.cost.requests.clear();
    study.cost.access = None;
    let section = report.section();
    section.assert_whole();
    assert_eq!(captions(&section).len(), 10, "{:?}", captions(&section));
    let earlier = "the CPU encrypts the data unit numbers";
    assert!(section.about.contains(earlier), "{}", section.about);
}

#[test]
fn demir_without_the_core_has_its_software_and_says_why() {
    let section = software().section();
    section.assert_whole();
    let found = cells(&section, "Table 1", "Total time");
    assert_eq!(found, ["9.09 (100.00 %)", "5.23 (100.00 %)"]);
    let found = cells(&section, "Decrypting in software", "the whole");
    assert_eq!(found[..2], ["6.00", "3.00"]);
    assert_eq!(captions(&section).len(), 4, "{:?}", captions(&section));
    assert_eq!(section.plots.len(), 2);
    let described = section.plots[1].description();
    assert!(
        described.contains("software, 512 B: 0.0060 seconds"),
        "{described}"
    );
    let said = section.conclusion.unwrap();
    assert!(said.contains("133 Gbps, 2.00 times as fast"), "{said}");
    assert_eq!(section.absent[0], "the co-processor: no simulation");
}
