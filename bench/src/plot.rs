// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws plots as SVG, in the colours of the surrounding page or picture.

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::stats::{Summary, UNSTEADY};

/// The kind of contestant that a row or a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Luxor,
    Rival,
    /// A number as a paper printed it.
    Paper,
    /// A number that is inferred or computed here from what a paper prints.
    Derived,
    /// The limit of this machine.
    Limit,
}

impl Whose {
    /// Returns `Rival` or `Luxor`.
    pub(crate) fn rival_if(rival: bool) -> Self {
        if rival { Self::Rival } else { Self::Luxor }
    }

    /// Returns the CSS class of a row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Luxor => "luxor",
            Self::Rival => "rival",
            Self::Paper => "paper",
            Self::Derived => "derived",
            Self::Limit => "limit",
        }
    }
}

/// A plot to be drawn.
#[derive(Clone)]
pub(crate) struct Plot {
    pub(crate) caption: String,
    /// A sentence below the caption.
    pub(crate) remark: Option<String>,
    shape: Shape,
}

#[derive(Clone)]
enum Shape {
    /// Horizontal bars, one below the other, with their values to the right.
    Bars { unit: &'static str, bars: Vec<Bar> },
    /// Dots in place of bars, on a logarithmic axis: a bar would vanish beside one that is a hundred
    /// times as long.
    Dots { unit: &'static str, bars: Vec<Bar> },
    /// Lines over lengths on a logarithmic axis, with a legend above. Names at the ends of the
    /// lines would overlap where lines meet.
    Lines {
        across: &'static str,
        up: &'static str,
        lines: Vec<Line>,
    },
}

impl Plot {
    pub(crate) fn bars(
        caption: impl Into<String>,
        unit: &'static str,
        bars: impl IntoIterator<Item = Bar>,
    ) -> Self {
        let bars = bars.into_iter().collect();
        Self::new(caption, Shape::Bars { unit, bars })
    }

    pub(crate) fn dots(
        caption: impl Into<String>,
        unit: &'static str,
        bars: impl IntoIterator<Item = Bar>,
    ) -> Self {
        let bars = bars.into_iter().collect();
        Self::new(caption, Shape::Dots { unit, bars })
    }

    pub(crate) fn lines(
        caption: impl Into<String>,
        [across, up]: [&'static str; 2],
        lines: impl IntoIterator<Item = Line>,
    ) -> Self {
        let lines = lines.into_iter().collect();
        Self::new(caption, Shape::Lines { across, up, lines })
    }

    fn new(caption: impl Into<String>, shape: Shape) -> Self {
        let (caption, remark) = (caption.into(), None);
        Self {
            caption,
            remark,
            shape,
        }
    }

    pub(crate) fn with_remark(self, remark: impl Into<String>) -> Self {
        let remark = Some(remark.into());
        Self { remark, ..self }
    }

    /// Returns whether anything in the plot is from another program or from a paper.
    pub(crate) fn has_rival(&self) -> bool {
        let is_rival = |whose| !matches!(whose, Whose::Luxor | Whose::Limit);
        match &self.shape {
            Shape::Bars { bars, .. } | Shape::Dots { bars, .. } => {
                bars.iter().any(|bar| is_rival(bar.whose))
            }
            Shape::Lines { lines, .. } => lines.iter().any(|line| is_rival(line.whose)),
        }
    }

    /// Describes the plot in words, as its text alternative.
    pub(crate) fn description(&self) -> String {
        let caption = &self.caption;
        match &self.shape {
            Shape::Bars { unit, bars } | Shape::Dots { unit, bars } => {
                let said = bars.iter();
                let said = said.map(|bar| format!("{}: {} {unit}", bar.name, value(bar.value)));
                format!("{caption}. {}.", said.collect::<Vec<_>>().join("; "))
            }
            Shape::Lines { across, up, lines } => {
                let said = lines.iter().map(|line| {
                    let points = line.points.iter();
                    let points = points.map(|(x, y)| format!("{} at {}", value(*y), tick(*x)));
                    format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
                });
                let said = said.collect::<Vec<_>>().join("; ");
                format!("{caption}, {up} over {across}. {said}.")
            }
        }
    }

    /// Draws the plot for a page, with the page's colours.
    pub(crate) fn svg(&self) -> Result<String, String> {
        match &self.shape {
            Shape::Bars { unit, bars } => draw_bars(unit, bars),
            Shape::Dots { unit, bars } => draw_dots(unit, bars),
            Shape::Lines { across, up, lines } => {
                draw_lines(across, up, lines).map_err(|e| format!("{}: {e}", self.caption))
            }
        }
    }

    /// Draws the plot as a separate picture, readable on light and dark backgrounds.
    pub(crate) fn picture(&self) -> Result<String, String> {
        let svg = self.svg()?;
        let Some((head, body)) = svg.split_once('>') else {
            return Ok(svg);
        };
        let said = self.description();
        let said = said.replace('&', "&amp;").replace('<', "&lt;");
        Ok(format!(
            "{head} role=\"img\">\n<title>{said}</title>\n<style>{PICTURE}</style>{body}"
        ))
    }
}

/// Strong enough for white and for black backgrounds.
const PICTURE: &str = "\
    :root { color: #1b1f24; font-weight: 500 } \
    @media (prefers-color-scheme: dark) { :root { color: #e6e9ed; --grid: #3c4550; \
    --luxor: #5cadff; --rival: #d9b44a; --paper: #9aa5b1; --limit: #c49bf0 } }";

/// A bar: its name, its kind and its length.
#[derive(Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) value: Summary,
}

impl Bar {
    /// Creates a bar.
    pub(crate) fn new(name: impl Into<String>, whose: Whose, value: impl Into<Summary>) -> Self {
        Self {
            name: name.into(),
            whose,
            value: value.into(),
        }
    }
}

/// A line: its name, its kind, and its points from left to right.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) points: Vec<(f64, Summary)>,
}

impl Line {
    /// Returns the unsteady points, which have rings.
    fn ringed(&self) -> impl Iterator<Item = (f64, f64)> {
        let points = self.points.iter().filter(|(_, y)| y.is_unsteady());
        points.map(|(x, y)| (*x, y.median))
    }
}

/// The size of a plot. Its texts stay readable when a phone shows it at two thirds of this size.
const WIDTH: u32 = 520;
const TEXT: u32 = 19;
/// The approximate width of a digit.
const DIGIT: f64 = 11.0;
/// Space beside the plot: for values on the left, for half of the last value on the right.
const LEFT: u32 = 80;
const SIDE: u32 = 34;
/// The height of an entry in the legend.
const KEY: i32 = 26;
/// The height of a bar with its name and the space above it.
const SLOT: i32 = 52;
/// Where the bar begins and ends in its slot, and where its name stands, from below.
const BAR: [i32; 2] = [6, 24];
const NAME: i32 = 29;
/// The height below the bars, for the axis.
const AXIS: u32 = 44;
const MARGIN: u32 = 6;

/// Placeholder colours that [`themed`] replaces.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(1, 1, 2);
const LUXOR: RGBColor = RGBColor(1, 1, 3);
const RIVAL: RGBColor = RGBColor(1, 1, 4);
const PAPER: RGBColor = RGBColor(1, 1, 5);
const LIMIT: RGBColor = RGBColor(1, 1, 6);
const DERIVED: RGBColor = RGBColor(1, 1, 7);

const THEME: [(RGBColor, &str); 7] = [
    (INK, "currentColor"),
    (GRID, "var(--grid, #b8bec6)"),
    (LUXOR, "var(--luxor, #0b6bcb)"),
    (RIVAL, "var(--rival, #8a6d00)"),
    (PAPER, "var(--paper, #6b7480)"),
    (LIMIT, "var(--limit, #8a4fbf)"),
    (DERIVED, "var(--paper, #6b7480)"),
];

/// What [`DERIVED`] becomes in shapes and in lines: they have the colour of the paper, but shapes are
/// hollow and lines are dashed.
const HOLLOW: [[&str; 2]; 2] = [
    [
        "fill=\"#010107\" stroke=\"none\"",
        "fill=\"none\" stroke=\"#010105\" style=\"stroke-width: 2\"",
    ],
    [
        "stroke=\"#010107\"",
        "stroke=\"#010105\" stroke-dasharray=\"9 6\"",
    ],
];

fn colour(whose: Whose) -> RGBColor {
    match whose {
        Whose::Luxor => LUXOR,
        Whose::Rival => RIVAL,
        Whose::Paper => PAPER,
        Whose::Derived => DERIVED,
        Whose::Limit => LIMIT,
    }
}

fn draw_bars(unit: &str, bars: &[Bar]) -> Result<String, String> {
    let most = bars.iter().map(|bar| bar.value.median);
    let most = most.fold(0.0, f64::max);
    // Leave room for the value beside the longest bar.
    let room = most / (1.0 - room_for_values(bars));
    draw_slots(unit, bars, 0.0..room, false)
}

fn draw_dots(unit: &str, bars: &[Bar]) -> Result<String, String> {
    let values = || bars.iter().map(|bar| bar.value.median);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    if least <= 0.0 || bars.is_empty() {
        return Err("a logarithmic axis needs numbers above 0".to_owned());
    }
    // The first dot is not on the edge, and the last one has room for its value.
    let least = least / (most / least).powf(0.05).max(1.2);
    let share = room_for_values(bars);
    let room = most * (most / least).powf(share / (1.0 - share));
    let mut ticks = ticks(least, room);
    ticks.retain(|&x| {
        // Its text must not reach beyond the picture.
        let share = (x / least).ln() / (room / least).ln();
        let width = f64::from(WIDTH - MARGIN - SIDE);
        let half = DIGIT * (tick(x).len() + 1) as f64 / 2.0;
        let at = share * width;
        at + f64::from(MARGIN) >= half && width - at + f64::from(SIDE) >= half
    });
    let across = (least..room).log_scale().with_key_points(ticks);
    draw_slots(unit, bars, across, true)
}

/// Returns the share of the width that the longest value takes.
fn room_for_values(bars: &[Bar]) -> f64 {
    let longest = bars.iter().map(|bar| value(bar.value).len()).max();
    let width = f64::from(WIDTH - MARGIN - SIDE);
    (longest.unwrap_or(0) as f64 * DIGIT + 26.0) / width
}

/// Draws the bars from above to below, each with its name above it and its value beside it.
fn draw_slots<X>(unit: &str, bars: &[Bar], across: X, dots: bool) -> Result<String, String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let count = i32::try_from(bars.len()).map_err(|e| e.to_string())?;
    let slots = SLOT * count;
    let draw = |area: &Area<'_>| {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(SIDE)
            .set_label_area_size(LabelAreaPosition::Bottom, AXIS)
            .build_cartesian_2d(across, 0..slots)?;
        let ends = chart.x_range();
        mesh(&mut chart, unit, "")?;
        for (place, bar) in (0..).zip(bars.iter().rev()) {
            let base = SLOT * place;
            let middle = base + i32::midpoint(BAR[0], BAR[1]);
            let end = bar.value.median;
            if dots {
                let track = [(ends.start, middle), (end, middle)];
                chart.draw_series([PathElement::new(track, GRID.stroke_width(1))])?;
                let dot = Circle::new((end, middle), 8, colour(bar.whose).filled());
                chart.draw_series([dot])?;
            } else {
                let corners = [(ends.start, base + BAR[0]), (end, base + BAR[1])];
                chart.draw_series([Rectangle::new(corners, colour(bar.whose).filled())])?;
            }
            let name = text(HPos::Left, VPos::Bottom);
            let name = Text::new(bar.name.clone(), (ends.start, base + NAME), name);
            chart.draw_series([name])?;
            let beside = EmptyElement::at((end, middle))
                + Text::new(value(bar.value), (14, 0), text(HPos::Left, VPos::Center));
            chart.draw_series([beside])?;
        }
        Ok(())
    };
    picture(2 * MARGIN + AXIS + slots.unsigned_abs(), draw)
}

fn draw_lines(across: &str, up: &str, lines: &[Line]) -> Result<String, String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.1.median).fold(0.0, f64::max);
    let least_x = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most_x = points().map(|point| point.0).fold(0.0, f64::max);
    if least_x <= 0.0 || least_x >= most_x {
        return Err("a line plot needs two different lengths".to_owned());
    }
    let is_ringed = lines.iter().any(|line| line.ringed().next().is_some());
    let keys = lines.len() + usize::from(is_ringed);
    let key = KEY * i32::try_from(keys).map_err(|e| e.to_string())?;
    let draw = |area: &Area<'_>| {
        let (above, below) = area.split_vertically(key);
        for (place, line) in lines.iter().enumerate() {
            let y = KEY * i32::try_from(place)? + KEY / 2;
            let style = colour(line.whose);
            above.draw(&PathElement::new([(60, y), (96, y)], style.stroke_width(2)))?;
            above.draw(&mark(place, (78, y), style))?;
            let name = text(HPos::Left, VPos::Center);
            above.draw(&Text::new(line.name.clone(), (106, y), name))?;
        }
        if is_ringed {
            let y = key - KEY / 2;
            above.draw(&ring((78, y), INK))?;
            let name = text(HPos::Left, VPos::Center);
            above.draw(&Text::new(UNSTEADY, (106, y), name))?;
        }
        let x = (least_x..most_x)
            .log_scale()
            .with_key_points(ticks(least_x, most_x));
        let mut chart = ChartBuilder::on(&below)
            .margin(6)
            .margin_right(SIDE)
            .set_label_area_size(LabelAreaPosition::Left, LEFT)
            .set_label_area_size(LabelAreaPosition::Bottom, 44)
            .build_cartesian_2d(x, 0.0..most * 1.05)?;
        mesh(&mut chart, across, up)?;
        for (place, line) in lines.iter().enumerate() {
            let style = colour(line.whose);
            let points = line.points.iter().map(|(x, y)| (*x, y.median));
            chart.draw_series(LineSeries::new(points.clone(), style.stroke_width(2)))?;
            chart.draw_series(points.map(|at| mark(place, at, style)))?;
            chart.draw_series(line.ringed().map(|at| ring(at, style)))?;
        }
        Ok(())
    };
    picture(300 + key.unsigned_abs(), draw)
}

/// Draws a point of line number `place`. The shapes differ, so that lines of one colour can be told
/// apart.
fn mark<'a, C: Clone + 'static>(
    place: usize,
    at: C,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, C> {
    match place % 4 {
        0 => Circle::new(at, 4, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 6, colour.filled()).into_dyn(),
        2 => Cross::new(at, 5, colour.stroke_width(2)).into_dyn(),
        _ => Circle::new(at, 5, colour.stroke_width(2)).into_dyn(),
    }
}

/// Draws what surrounds an unsteady point.
fn ring<C>(at: C, colour: RGBColor) -> Circle<C, i32> {
    Circle::new(at, 10, colour.stroke_width(1))
}

/// Returns round numbers for a logarithmic axis, as many as fit, or else the two ends.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let room = f64::from(WIDTH - LEFT - SIDE) / (most / least).ln();
    let decades = || (-12..15).map(|decade| 10_f64.powi(decade));
    let all: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    for series in all {
        let ticks = decades().flat_map(|decade| series.iter().map(move |part| part * decade));
        let ticks: Vec<f64> = ticks.filter(|x| (least..=most).contains(x)).collect();
        let fit = |pair: &[f64]| {
            let wide = (tick(pair[0]).len() + tick(pair[1]).len()) as f64 / 2.0;
            (pair[1] / pair[0]).ln() * room > DIGIT * (wide + 1.0)
        };
        if ticks.len() > 1 && ticks.windows(2).all(fit) {
            return ticks;
        }
    }
    vec![least, most]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = Box<dyn std::error::Error>;

fn picture(
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let drawn = draw(&area).and_then(|()| Ok(area.present()?));
        drawn.map_err(|e| e.to_string())?;
    }
    Ok(themed(&svg))
}

fn mesh<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    across: &str,
    up: &str,
) -> Result<(), Failure>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged,
    Y::ValueType: Into<f64> + Copy,
    Y: ValueFormatter<Y::ValueType>,
{
    let labels = text(HPos::Center, VPos::Top);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(1))
        .axis_style(GRID.stroke_width(1))
        .label_style(labels.clone())
        .axis_desc_style(labels)
        .x_desc(across)
        .x_labels(6)
        .x_label_formatter(&|x| tick(*x))
        .y_label_formatter(&|y| tick((*y).into()));
    if up.is_empty() {
        // Every bar has its value beside it.
        mesh.disable_mesh().disable_y_axis();
    } else {
        mesh.y_desc(up).y_labels(6);
    }
    Ok(mesh.draw()?)
}

fn text(across: HPos, up: VPos) -> TextStyle<'static> {
    ("sans-serif", TEXT)
        .into_text_style(&(WIDTH, TEXT))
        .color(&INK)
        .pos(Pos::new(across, up))
}

/// Formats a number with as many digits as are useful, and says if its rounds disagree.
pub(crate) fn value(value: impl Into<Summary>) -> String {
    value.into().shown(digits)
}

fn digits(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.4}")
    } else {
        format!("{value:.6}")
    }
}

/// As [`value`], with at least two decimals and three digits.
pub(crate) fn precise(value: impl Into<Summary>) -> String {
    value.into().shown(|value| {
        if value.abs() >= 10.0 {
            format!("{value:.2}")
        } else {
            digits(value)
        }
    })
}

/// Formats a number for an axis, with all its digits but without rounding noise.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0 to 12"
)]
fn tick(value: f64) -> String {
    let digits = (5.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Inserts the page's colours and removes the fixed size.
fn themed(svg: &str) -> String {
    let mut themed = svg.to_owned();
    for [solid, hollow] in HOLLOW {
        themed = themed.replace(solid, hollow);
    }
    for (RGBColor(r, g, b), css) in THEME {
        themed = themed.replace(
            &format!("\"#{r:02X}{g:02X}{b:02X}\""),
            &format!("\"{css}\""),
        );
    }
    themed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts of an SVG with their positions.
    pub(crate) fn texts(svg: &str) -> Vec<(f64, f64, String)> {
        let number = |element: &str, name: &str| {
            let value = element.split(&format!(" {name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        svg.split("<text")
            .skip(1)
            .map(|element| {
                let (attributes, rest) = element.split_once('>').unwrap();
                let said = rest.split('<').next().unwrap().trim().to_owned();
                (number(attributes, "x"), number(attributes, "y"), said)
            })
            .collect()
    }

    fn line(name: &str, whose: Whose, points: &[(f64, f64)]) -> Line {
        Line {
            name: name.to_owned(),
            whose,
            points: points.iter().map(|&(x, y)| (x, y.into())).collect(),
        }
    }

    /// The lines meet at both ends.
    #[test]
    fn the_names_of_lines_do_not_overlap() {
        let names = ["one thread", "a thread each", "serial", "the paper"];
        let points = [(8000.0, 70.0), (512_000.0, 20.0)];
        let all = names.map(|name| line(name, Whose::Luxor, &points));
        let plot = Plot::lines("met", ["bytes", "ms"], all);
        let svg = plot.svg().unwrap();
        let texts = texts(&svg);
        let mut heights: Vec<f64> = names
            .iter()
            .map(|name| texts.iter().find(|text| text.2 == *name).unwrap().1)
            .collect();
        heights.sort_by(f64::total_cmp);
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= f64::from(TEXT)),
            "{heights:?}"
        );
        assert!(names.iter().all(|name| plot.description().contains(name)));
        // Each line has its own marks: two filled circles on the line and one in the legend.
        assert_eq!(svg.matches("<circle").count(), 2 * 3);
        assert_eq!(svg.matches("<polygon").count(), 3);
    }

    #[test]
    fn axes_have_as_few_digits_as_they_need() {
        for (value, said) in [
            (0.0, "0"),
            (20.0, "20"),
            (2.5, "2.5"),
            (0.1 + 0.2, "0.3"),
            (0.000_02, "0.00002"),
            (512_000.0, "512000"),
            (-4.0, "-4"),
        ] {
            assert_eq!(tick(value), said);
        }
        let all = [line(
            "one",
            Whose::Rival,
            &[(8000.0, 71.3), (512_000.0, 20.0)],
        )];
        let said = texts(&Plot::lines("", ["", "ms"], all).svg().unwrap());
        let said = |what: &str| said.iter().any(|text| text.2 == what);
        assert!(said("20") && said("40") && !said("20.0"));
        assert!(said("10000") && said("300000"));
    }

    #[test]
    fn numbers_along_an_axis_are_round_and_apart() {
        assert_eq!(ticks(8e3, 512e3), [1e4, 3e4, 1e5, 3e5]);
        assert_eq!(ticks(512.0, 8192.0), [1e3, 2e3, 5e3]);
        assert_eq!(ticks(512.0, 8.4e6), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(ticks(600.0, 700.0), [600.0, 700.0]);
    }

    #[test]
    fn an_empty_plot_is_an_error_and_a_plot_of_zeros_is_not() {
        let one = [line("one", Whose::Paper, &[(8000.0, 1.0)])];
        assert!(Plot::lines("", ["", ""], one).svg().is_err());
        assert!(Plot::lines("", ["", ""], []).svg().is_err());
        let flat = [line("flat", Whose::Limit, &[(1.0, 0.0), (2.0, 0.0)])];
        let zero = [Bar::new("none", Whose::Luxor, 0.0)];
        for plot in [
            Plot::lines("", ["bytes", "ms"], flat),
            Plot::bars("", "ms", zero),
        ] {
            let svg = plot.svg().unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn unsteady_numbers_are_marked_in_every_shape() {
        let unsteady = Summary::from_samples(vec![1.0, 2.0, 9.0]).unwrap();
        let bars = || [("one", unsteady), ("two", 3.0.into())];
        let bars = || bars().map(|(name, value)| Bar::new(name, Whose::Luxor, value));
        for plot in [Plot::bars("", "s", bars()), Plot::dots("", "s", bars())] {
            let said = texts(&plot.svg().unwrap());
            let marked = said.iter().filter(|text| text.2.contains(UNSTEADY));
            let marked: Vec<_> = marked.map(|text| text.2.as_str()).collect();
            assert_eq!(marked, ["2.00 (unsteady)"]);
            assert!(
                plot.description()
                    .contains("one: 2.00 (unsteady) s; two: 3.00 s")
            );
        }
        let mut line = line("one", Whose::Luxor, &[(1.0, 1.0), (2.0, 1.0)]);
        let plot = |line: &Line| Plot::lines("", ["", "s"], [line.clone()]);
        let steady = plot(&line).svg().unwrap();
        assert!(!steady.contains(UNSTEADY));
        line.points[1].1 = unsteady;
        let svg = plot(&line).svg().unwrap();
        // The ring of the point, and that of the legend, which says what it means.
        let rings = svg.matches("<circle").count() - steady.matches("<circle").count();
        assert_eq!(rings, 2, "{svg}");
        assert_eq!(
            texts(&svg).iter().filter(|text| text.2 == UNSTEADY).count(),
            1
        );
    }

    /// The axis ends just behind 1000.
    #[test]
    fn the_last_number_of_an_axis_is_whole() {
        let svg = Plot::bars("", "ms", [Bar::new("one", Whose::Rival, 886.0)]);
        let texts = texts(&svg.svg().unwrap());
        let last = texts.iter().find(|text| text.2 == "1000").unwrap();
        assert!(last.0 > 460.0, "{last:?}");
        let end = last.0 + DIGIT * 4.0 / 2.0;
        assert!(end <= f64::from(WIDTH), "{last:?}");
    }

    /// On a linear axis of this width, the first would be less than a pixel from the edge.
    #[test]
    fn dots_far_apart_are_both_seen() {
        let both = |values: [f64; 2]| values.map(|value| Bar::new("one", Whose::Luxor, value));
        let svg = Plot::dots("", "s", both([0.014, 9.09])).svg().unwrap();
        let circles = svg.split("<circle cx=\"").skip(1);
        let across = circles.map(|rest| rest.split('"').next().unwrap().parse().unwrap());
        let across: Vec<f64> = across.collect();
        assert!(
            across[0] - across[1] > 200.0 || across[1] - across[0] > 200.0,
            "{across:?}"
        );
        assert!(across.iter().all(|x| *x > 16.0 && *x < 440.0), "{across:?}");
        // 0.01 would be at the left edge.
        let svg = Plot::dots("", "s", both([0.0119, 9.09])).svg().unwrap();
        assert!(
            svg.contains("\n0.1\n") && !svg.contains("\n0.01\n"),
            "{svg}"
        );
        assert!(Plot::dots("", "s", both([0.0, 1.0])).svg().is_err());
        assert!(Plot::dots("", "s", both([2.0, 2.0])).svg().is_ok());
        assert!(Plot::dots("", "s", []).svg().is_err());
    }

    #[test]
    fn names_stand_clear_of_the_bars() {
        let bars = ["upper", "lower"].map(|name| Bar::new(name, Whose::Luxor, 3.0));
        let svg = Plot::bars("", "s", bars).svg().unwrap();
        let tops: Vec<f64> = svg
            .split("<rect")
            .filter(|element| element.contains("--luxor"))
            .map(|element| element.split(" y=\"").nth(1).unwrap())
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(tops.len(), 2, "{svg}");
        for name in ["upper", "lower"] {
            let (_, y, _) = texts(&svg).into_iter().find(|text| text.2 == name).unwrap();
            assert!(
                tops.iter().any(|top| (4.0..8.0).contains(&(top - y))),
                "{y}: {tops:?}"
            );
        }
    }

    #[test]
    fn derived_numbers_are_hollow_or_dashed() {
        let both = [Whose::Paper, Whose::Derived];
        let bars = || both.map(|whose| Bar::new(whose.name(), whose, 1.0));
        for plot in [Plot::bars("", "s", bars()), Plot::dots("", "s", bars())] {
            let svg = plot.svg().unwrap();
            assert_eq!(svg.matches("fill=\"var(--paper, ").count(), 1, "{svg}");
            let hollow = "fill=\"none\" stroke=\"var(--paper, ";
            assert_eq!(svg.matches(hollow).count(), 1, "{svg}");
        }
        let lines = both.map(|whose| line(whose.name(), whose, &[(1.0, 1.0), (2.0, 2.0)]));
        let svg = Plot::lines("", ["", ""], lines).svg().unwrap();
        // In the legend and in the plot.
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "{svg}");
        assert!(!svg.contains("#01010"), "{svg}");
    }

    #[test]
    fn colours_are_those_of_the_page() {
        let whose = [Whose::Luxor, Whose::Rival, Whose::Paper, Whose::Limit];
        let all = whose.map(|whose| Bar::new(whose.name(), whose, 1.0));
        let svg = Plot::bars("", "GB/s", all).svg().unwrap();
        for whose in whose {
            assert!(svg.contains(&format!("var(--{}, ", whose.name())));
        }
        assert!(!svg.contains("#01010"), "{svg}");
    }
}
