// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as SVG, in the colours of whatever page or picture they are in.

use plotters::{
    coord::{Shift, ranged1d::ValueFormatter},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::Whose;

/// A plot, and the same in words.
pub(crate) struct Figure {
    pub(crate) caption: String,
    /// For who does not see it.
    pub(crate) description: String,
    pub(crate) svg: String,
}

/// A bar: its name, whose it is, how long.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) value: f64,
}

impl Bar {
    /// One of these.
    pub(crate) fn new(name: impl Into<String>, whose: Whose, value: f64) -> Self {
        Self {
            name: name.into(),
            whose,
            value,
        }
    }
}

/// A line: its name, whose it is, its points from left to right.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) whose: Whose,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Texts stay readable when a telephone shows it at two thirds of this.
const WIDTH: u32 = 520;
const TEXT: u32 = 19;

/// Colours that stand for others: [`themed`].
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(1, 1, 2);
const LUXOR: RGBColor = RGBColor(1, 1, 3);
const RIVAL: RGBColor = RGBColor(1, 1, 4);
const PAPER: RGBColor = RGBColor(1, 1, 5);

const THEME: [(RGBColor, &str); 5] = [
    (INK, "currentColor"),
    (GRID, "var(--grid, #b8bec6)"),
    (LUXOR, "var(--luxor, #0b6bcb)"),
    (RIVAL, "var(--rival, #8a6d00)"),
    (PAPER, "var(--paper, #6b7480)"),
];

fn colour(whose: Whose) -> RGBColor {
    match whose {
        Whose::Luxor => LUXOR,
        Whose::Rival => RIVAL,
        Whose::Paper => PAPER,
    }
}

/// Bars from the left, one below the other, with their values behind them.
///
/// # Errors
/// When they cannot be drawn.
pub(crate) fn bars(caption: &str, unit: &str, bars: &[Bar]) -> Result<Figure, String> {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let height = 60 + 44 * u32::try_from(bars.len()).map_err(|e| e.to_string())?;
    let draw = |area: &Area<'_>| {
        let longest = bars.iter().map(|bar| value(bar.value).len()).max();
        // Where the longest bar's value has room.
        let room = most * (1.12 + 0.02 * longest.unwrap_or(0) as f64);
        let count = i32::try_from(bars.len())?;
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Bottom, 44)
            .build_cartesian_2d(0.0..room, 0..count * 2)?;
        mesh(&mut chart, unit, "")?;
        for (place, bar) in (0..).zip(bars.iter().rev()) {
            let base = 2 * place;
            let corners = [(0.0, base), (bar.value, base + 1)];
            let shape = Rectangle::new(corners, colour(bar.whose).filled());
            chart.draw_series([shape])?;
            let left = text(HPos::Left, VPos::Bottom);
            let name = Text::new(bar.name.clone(), (0.0, base + 1), left);
            chart.draw_series([name])?;
            let behind = (bar.value + most * 0.01, base + 1);
            let middle = Text::new(
                format!(" {}", value(bar.value)),
                behind,
                text(HPos::Left, VPos::Top),
            );
            chart.draw_series([middle])?;
        }
        Ok(())
    };
    let said = bars
        .iter()
        .map(|bar| format!("{}: {} {unit}", bar.name, value(bar.value)));
    Ok(Figure {
        caption: caption.to_owned(),
        description: format!("{caption}. {}.", said.collect::<Vec<_>>().join("; ")),
        svg: picture(height, draw)?,
    })
}

/// Lines over lengths, which are powers of two and a logarithmic axis.
///
/// # Errors
/// When they cannot be drawn.
pub(crate) fn lines(
    caption: &str,
    [across, up]: [&str; 2],
    lines: &[Line],
) -> Result<Figure, String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let least_x = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most_x = points().map(|point| point.0).fold(0.0, f64::max);
    let draw = |area: &Area<'_>| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Left, 56)
            .set_label_area_size(LabelAreaPosition::Bottom, 44)
            .build_cartesian_2d((least_x..most_x).log_scale(), 0.0..most * 1.15)?;
        mesh(&mut chart, across, up)?;
        for line in lines {
            let style = colour(line.whose).stroke_width(2);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let dots = line.points.iter();
            chart.draw_series(dots.map(|&at| Circle::new(at, 3, style.filled())))?;
            if let Some(&(x, y)) = line.points.last() {
                let name = Text::new(line.name.clone(), (x, y), text(HPos::Right, VPos::Bottom));
                chart.draw_series([name])?;
            }
        }
        Ok(())
    };
    let said = lines.iter().map(|line| {
        let points = line.points.iter();
        let points = points.map(|(x, y)| format!("{} at {}", value(*y), value(*x)));
        format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
    });
    Ok(Figure {
        caption: caption.to_owned(),
        description: format!(
            "{caption}, {up} over {across}. {}.",
            said.collect::<Vec<_>>().join("; ")
        ),
        svg: picture(320, draw)?,
    })
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
    Y::ValueType: Into<f64> + Clone,
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
        .x_label_formatter(&|x| value(*x));
    if up.is_empty() {
        mesh.disable_y_mesh().disable_y_axis();
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

/// A number with as many digits as one wants to read.
pub(crate) fn value(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// With the page's colours, and no size of its own.
fn themed(svg: &str) -> String {
    let mut themed = svg.to_owned();
    for (RGBColor(r, g, b), css) in THEME {
        themed = themed.replace(
            &format!("\"#{r:02X}{g:02X}{b:02X}\""),
            &format!("\"{css}\""),
        );
    }
    themed
}
