// SPDX-License-Identifier: MIT OR Apache-2.0
//! The summary of all benches in at most five lines: Luxor's own speed, and the verdict on the papers.

use crate::{plot, section::Section};

/// The lines of Luxor's own speed: a name, and the benches.
const LINES: [(&str, &[&str]); 4] = [
    ("Kernels", &["cpu"]),
    ("Files", &["file", "unlock", "reencrypt"]),
    ("Disks", &["block"]),
    ("GPU", &["gpu"]),
];

/// Returns the lines for the benches that ran, each with its name.
pub(crate) fn lines(sections: &[(&str, Section)]) -> Vec<(&'static str, String)> {
    let own = LINES.iter().filter_map(|(name, benches)| {
        let sections = sections.iter().filter(|(bench, _)| benches.contains(bench));
        let briefs: Vec<_> = sections
            .filter_map(|(_, section)| section.brief.clone())
            .collect();
        (!briefs.is_empty()).then(|| (*name, briefs.join("; ")))
    });
    own.chain(papers(sections).map(|line| ("Papers", line)))
        .collect()
}

/// Returns the verdict on each paper: in how many figures Luxor is ahead, in which behind, and why.
pub(crate) fn of_papers(sections: &[(&'static str, Section)]) -> Vec<PaperVerdict> {
    let papers = sections.iter().filter_map(|(bench, section)| {
        let paper = section.paper.as_ref()?;
        let all = &section.verdicts;
        let ahead = all.iter().filter(|one| one.is_ahead()).count();
        let mut text = format!("ahead in {ahead} of {} figures", all.len());
        if section.is_disturbed {
            text += " (disturbed)";
        }
        let mut behind = all.iter().filter(|one| !one.is_ahead()).peekable();
        while let Some(verdict) = behind.next() {
            text += &format!(
                "; behind in {}, {} times",
                verdict.figure,
                plot::value(verdict.times)
            );
            // Figures with the same reason share it.
            let next = behind.peek().map(|next| &next.why);
            if let Some(why) = verdict.why.as_ref().filter(|_| next != Some(&verdict.why)) {
                text += &format!(": {why}");
            }
        }
        (!all.is_empty()).then(|| PaperVerdict {
            bench,
            paper: paper.name,
            text: text + ".",
        })
    });
    papers.collect()
}

/// The verdict on a paper, for the page.
pub(crate) struct PaperVerdict {
    pub(crate) bench: &'static str,
    pub(crate) paper: &'static str,
    pub(crate) text: String,
}

/// Counts the figures of the papers in which Luxor is ahead, and names the papers in which it is behind.
fn papers(sections: &[(&str, Section)]) -> Option<String> {
    let verdicts = || sections.iter().flat_map(|(_, section)| &section.verdicts);
    let (all, ahead) = (
        verdicts().count(),
        verdicts().filter(|one| one.is_ahead()).count(),
    );
    let behind = sections.iter().filter_map(|(_, section)| {
        let behind = section
            .verdicts
            .iter()
            .filter(|one| !one.is_ahead())
            .count();
        let paper = section.paper.as_ref().filter(|_| behind > 0)?;
        Some(format!("{behind} of {}", paper.name))
    });
    let behind: Vec<_> = behind.collect();
    let mut behind = match behind.as_slice() {
        [] => String::new(),
        behind => format!("; behind in {}", behind.join(" and ")),
    };
    let disturbed = sections.iter();
    let disturbed =
        disturbed.filter(|(_, section)| section.is_disturbed && section.paper.is_some());
    let disturbed = disturbed.count();
    if disturbed > 0 {
        let papers = if disturbed == 1 { "paper" } else { "papers" };
        behind += &format!("; {disturbed} {papers} disturbed");
    }
    (all > 0).then(|| format!("ahead in {ahead} of {all} figures{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{benches, committed};

    #[test]
    fn the_summary_has_a_line_for_each_kind_and_counts_the_verdicts() {
        let record = committed::h200();
        let sections = benches::ALL.iter().filter_map(|bench| {
            let outcome = match (bench.committed)() {
                Some(outcome) => outcome.unwrap(),
                None => bench.read(record).unwrap()?,
            };
            Some((bench.name, outcome.section))
        });
        let sections: Vec<_> = sections.collect();
        let lines = lines(&sections);
        assert_eq!(lines[0].0, "GPU");
        assert!(
            lines[0]
                .1
                .starts_with("723 GB/s with data on NVIDIA H200 (cuda)"),
            "{lines:?}"
        );
        let (name, papers) = &lines[1];
        let behind = "behind in 2 of Elmoghany et al., 2011";
        assert!(*name == "Papers" && papers.ends_with(behind), "{papers}");
        assert!(lines.len() <= 5, "{lines:?}");
        let papers = of_papers(&sections);
        let mut papers = papers.iter();
        let elmoghany = papers
            .find(|verdict| verdict.bench == "elmoghany-2011")
            .unwrap();
        assert!(
            elmoghany
                .text
                .starts_with("ahead in 3 of 5 figures; behind in Slices"),
            "{}",
            elmoghany.text
        );
        assert_eq!(
            elmoghany.text.matches("ciphertext stealing").count(),
            1,
            "{}",
            elmoghany.text
        );
    }
}
