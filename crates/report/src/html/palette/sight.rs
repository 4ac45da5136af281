//! The style sheet's colours as people see them: contrasts, and distances for those who lack a kind
//! of cones.

type Rgb = [f64; 3];
type Matrix = [Rgb; 3];

const STYLE: &str = include_str!("../style.css");

/// Full deficiencies on linear RGB: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, "A
/// physiologically-based model for simulation of color vision deficiency", IEEE Transactions on
/// Visualization and Computer Graphics 15(6), 2009, table 1 (severity 1.0).
const SIGHTS: [(&str, Matrix); 4] = [
    ("full sight", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

/// A colour of the light theme, or of the dark one, in linear RGB.
fn colour(name: &str, dark: bool) -> Rgb {
    let theme = STYLE.split(":root {").nth(1 + usize::from(dark)).unwrap();
    let theme = theme.split('}').next().unwrap();
    let rest = theme.split(&format!("--{name}: #")).nth(1).unwrap();
    [0, 2, 4].map(|i| {
        let value = f64::from(u8::from_str_radix(&rest[i..i + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

/// Contrast ratio of WCAG 2.2, from 1 to 21.
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let light = |c: Rgb| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
    light(a).max(light(b)) / light(a).min(light(b))
}

fn times(matrix: &Matrix, v: Rgb) -> Rgb {
    [0, 1, 2].map(|i| (0..3).map(|j| matrix[i][j] * v[j]).sum())
}

/// Oklab (B. Ottosson, "A perceptual color space for image processing", 2020): distances in it are
/// about even. Black and white are 1 apart.
fn oklab(rgb: Rgb) -> Rgb {
    let cones = times(
        &[
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ],
        rgb.map(|v| v.clamp(0.0, 1.0)),
    );
    times(
        &[
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ],
        cones.map(f64::cbrt),
    )
}

/// The two of these colours that somebody can tell apart worst, how far apart they are, and to whom.
fn closest(names: &[&str], dark: bool) -> (f64, String) {
    let mut least = (f64::INFINITY, String::new());
    for (sight, matrix) in &SIGHTS {
        let of = |name| (name, oklab(times(matrix, colour(name, dark))));
        let seen: Vec<(&str, Rgb)> = names.iter().copied().map(of).collect();
        for (i, (a, at)) in seen.iter().enumerate() {
            for (b, to) in &seen[..i] {
                let square: f64 = (0..3).map(|k| (at[k] - to[k]).powi(2)).sum();
                if square.sqrt() < least.0 {
                    least = (square.sqrt(), format!("{a} and {b} under {sight}, dark: {dark}"));
                }
            }
        }
    }
    least
}

#[test]
fn everybody_can_tell_policies_apart() {
    for dark in [false, true] {
        let (distance, which) = closest(&["p0", "p1", "p2", "p3", "p4", "p5", "ref"], dark);
        assert!(distance > 0.11, "{distance}: {which}");
        // Most studies have no more than four.
        let (distance, which) = closest(&["p0", "p1", "p2", "p3"], dark);
        assert!(distance > 0.115, "{distance}: {which}");
    }
}

#[test]
fn everybody_can_tell_classes_apart() {
    for dark in [false, true] {
        let (distance, which) = closest(&["hot", "warm", "cold"], dark);
        assert!(distance > 0.18, "{distance}: {which}");
    }
}

#[test]
fn text_and_marks_stand_out() {
    for dark in [false, true] {
        for ground in ["bg", "card"] {
            let against = |name: &str| contrast(colour(name, dark), colour(ground, dark));
            for text in ["fg", "muted", "odd"] {
                assert!(against(text) >= 4.5, "{text} on {ground}: {}", against(text));
            }
            let marks = ["p0", "p1", "p2", "p3", "p4", "p5", "ref", "hot", "warm", "cold"];
            for mark in marks {
                assert!(against(mark) >= 3.0, "{mark} on {ground}: {}", against(mark));
            }
        }
    }
}

#[test]
fn the_measure_is_right() {
    let (black, white) = ([0.0; 3], [1.0; 3]);
    assert!((contrast(black, white) - 21.0).abs() < 1e-9);
    assert!((oklab(white)[0] - 1.0).abs() < 1e-6 && oklab(black)[0].abs() < 1e-6);
    for (sight, matrix) in &SIGHTS {
        // Nobody sees white as a colour.
        let seen = times(matrix, white);
        assert!(seen.iter().all(|v| (v - 1.0).abs() < 1e-5), "{sight}: {seen:?}");
    }
}
