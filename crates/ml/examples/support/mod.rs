//! What the examples share: arguments, learning curves as SVG and JSON.

// Each example uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;

/// One line of a picture: where it is from, and its points.
#[derive(Debug)]
pub struct Curve {
    pub name: String,
    /// Environment steps, and a mean over the episodes that ended since the point before.
    pub points: Vec<(usize, f64)>,
}

/// `--name value` pairs, each of them one of `known`.
pub fn arguments(known: &[&str]) -> Result<HashMap<String, String>, Box<dyn Error>> {
    let mut found = HashMap::new();
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        if !known.contains(&name.as_str()) {
            return Err(format!("`{name}` is none of {}", known.join(", ")).into());
        }
        let value = given
            .next()
            .ok_or_else(|| format!("`{name}` needs a value"))?;
        found.insert(name, value);
    }
    Ok(found)
}

/// The points of a curve as JSON.
pub fn json_points(curve: &Curve) -> String {
    let points = curve
        .points
        .iter()
        .map(|(steps, mean)| format!("[{steps}, {mean:.3}]"));
    format!("[{}]", points.collect::<Vec<_>>().join(", "))
}

/// Environment steps to the right, means upwards from 0 to `highest`; `bar` is what is to be reached. What lies
/// outside is drawn at the edge.
pub fn svg(title: &str, curves: &[Curve], highest: f64, bar: f64) -> String {
    let (width, height, left, bottom) = (720.0, 380.0, 50.0, 330.0);
    let ends = curves.iter().flat_map(|curve| curve.points.last());
    let longest = ends.map(|(steps, _)| *steps as f64).fold(1.0, f64::max);
    let x = |steps: f64| left + (width - left - 150.0) * steps / longest;
    let y = |mean: f64| bottom - (bottom - 20.0) * mean.clamp(0.0, highest) / highest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let lines = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| share * highest);
    for mean in lines.into_iter().chain([bar]) {
        let colour = if mean == bar { "#d55e00" } else { "#ddd" };
        let (at, right) = (y(mean), width - 150.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\"/>\n\
             <text x=\"8\" y=\"{:.1}\">{mean}</text>",
            at + 4.0
        );
    }
    let colours = ["#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7"];
    for (at, (curve, colour)) in curves.iter().zip(colours.iter().cycle()).enumerate() {
        let points = curve.points.iter();
        let points = points.map(|(steps, mean)| format!("{:.1},{:.1}", x(*steps as f64), y(*mean)));
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            points.collect::<Vec<_>>().join(" "),
            width - 140.0,
            30 + 16 * at,
            curve.name
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\">{title}, over {longest:.0} environment steps</text>",
        height - 12.0
    );
    svg.push_str("</svg>\n");
    svg
}
