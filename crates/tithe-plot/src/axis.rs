//! Axes: the position of a value on an axis, the range that is shown, and the ticks.

/// The spacing of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Values are evenly spaced.
    Linear,
    /// Logarithms of values are evenly spaced. Values that are not positive are not shown.
    Log,
}

/// An axis of a panel.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// The spacing of values.
    pub scale: Scale,
    /// The smallest and the largest value shown; `None` chooses them from the data. A range that the scale cannot show
    /// (empty, reversed, not finite, or not positive on a logarithmic axis) is ignored.
    pub range: Option<(f64, f64)>,
    /// Names of the values 1, 2, 3, … of a categorical axis; empty for numbers.
    pub names: Vec<String>,
}

/// A tick mark; ticks without a label are drawn shorter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: Option<String>,
}

/// The largest absolute value shown, so that differences of two values cannot overflow.
const LARGEST: f64 = 1e300;
/// The largest absolute power of ten on a logarithmic axis.
const LARGEST_POWER: f64 = 300.0;

impl Axis {
    /// An axis whose range is chosen from the data.
    pub fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), scale, range: None, names: Vec::new() }
    }

    /// An axis with one position per name: the first name at 1, the second at 2.
    pub fn categories(label: impl Into<String>, names: Vec<String>) -> Axis {
        let range = Some((0.5, names.len() as f64 + 0.5));
        Axis { label: label.into(), scale: Scale::Linear, range, names }
    }

    /// This axis with a fixed range.
    pub fn between(self, low: f64, high: f64) -> Axis {
        Axis { range: Some((low, high)), ..self }
    }

    /// True if the value has a position on this axis.
    pub(crate) fn can_show(&self, value: f64) -> bool {
        value.abs() <= LARGEST && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The range to show: the fixed one if it is valid, or else the range of `values` with a margin of 6 %.
    pub(crate) fn range_of(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some((low, high)) = self.range
            && self.can_show(low)
            && self.can_show(high)
            && self.scaled(low) < self.scaled(high)
        {
            return (low, high);
        }
        let (low, high) = values
            .filter(|value| self.can_show(*value))
            .map(|value| self.scaled(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
        let (low, high) = match (low, high) {
            (low, high) if low > high => (0.0, 1.0),
            (low, high) if high - low < 1e-9 * high.abs().max(1e-9) => {
                let margin = 0.05 * high.abs().max(1.0);
                (low - margin, high + margin)
            }
            range => range,
        };
        // Less than a decade has few ticks and exaggerates small differences, so a logarithmic axis shows at least one.
        let missing = if self.scale == Scale::Log { 0.5 * (1.0 - (high - low)).max(0.0) } else { 0.0 };
        let (low, high) = (low - missing, high + missing);
        let margin = 0.06 * (high - low);
        (self.unscaled(low - margin), self.unscaled(high + margin))
    }

    /// The value itself, or its logarithm.
    fn scaled(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10().clamp(-LARGEST_POWER, LARGEST_POWER),
        }
    }

    /// The inverse of [`Axis::scaled`].
    fn unscaled(&self, scaled: f64) -> f64 {
        match self.scale {
            Scale::Linear => scaled,
            Scale::Log => 10f64.powf(scaled.clamp(-LARGEST_POWER, LARGEST_POWER)),
        }
    }

    /// The position of a value within a range: 0 at its lower end, 1 at its upper end.
    pub(crate) fn position(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        (self.scaled(value) - self.scaled(low)) / (self.scaled(high) - self.scaled(low))
    }

    /// The ticks within a range.
    pub(crate) fn ticks(&self, range: (f64, f64)) -> Vec<Tick> {
        match self.scale {
            _ if !self.names.is_empty() => name_ticks(&self.names),
            Scale::Linear => linear_ticks(range),
            Scale::Log => log_ticks(range),
        }
    }
}

/// One tick per name if all names fit, otherwise at most 12 ticks with the numbers of the names.
fn name_ticks(names: &[String]) -> Vec<Tick> {
    /// Number of letters that fit along an axis.
    const LETTERS: usize = 80;
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let fits = names.len() * (longest + 1) <= LETTERS;
    let every = names.len().div_ceil(12);
    let numbered = names.iter().zip(1usize..).filter(|(_, number)| fits || number.is_multiple_of(every));
    let label = |name: &str, number: usize| if fits { name.to_string() } else { number.to_string() };
    numbered.map(|(name, number)| Tick { value: number as f64, label: Some(label(name, number)) }).collect()
}

/// Two to six multiples of 1, 2, 2.5 or 5 times a power of ten: the smallest such step that is at least a fifth of the range.
fn linear_ticks((low, high): (f64, f64)) -> Vec<Tick> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let quarter = (step / power - 2.5).abs() < 1e-9;
    let digits = (-(power.log10().round()) as i32 + i32::from(quarter)).max(0) as usize;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|i| {
            let value = i as f64 * step;
            Tick { value, label: Some(format!("{value:.digits$}").replace('-', "−")) }
        })
        .collect()
}

/// Powers of ten, of which at most about six have labels. Over at most five decades their multiples are unlabelled ticks;
/// over little more than one decade, the multiples 2 and 5 have labels too.
fn log_ticks((low, high): (f64, f64)) -> Vec<Tick> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = high.log10() - low.log10();
    let every = ((decades / 6.0).ceil() as i32).max(1);
    let mut ticks = Vec::new();
    for power in first..=last {
        for multiple in 1..10 {
            let value = f64::from(multiple) * 10f64.powi(power);
            if value < low * (1.0 - 1e-9) || value > high * (1.0 + 1e-9) {
                continue;
            }
            let label = if multiple == 1 && power.rem_euclid(every) == 0 {
                Some(power_of_ten(power))
            } else if decades < 1.3 && (multiple == 2 || multiple == 5) {
                Some(plain(value))
            } else {
                None
            };
            if label.is_some() || multiple == 1 || decades <= 5.0 {
                ticks.push(Tick { value, label });
            }
        }
    }
    ticks
}

/// A number in decimal notation where that is short, otherwise in scientific notation.
fn plain(value: f64) -> String {
    if (1e-3..1e4).contains(&value) { format!("{value}") } else { format!("{value:.0e}") }
}

/// A power of ten: decimal from 0.01 to 100, otherwise 10 with a superscript exponent.
fn power_of_ten(power: i32) -> String {
    match power {
        -2 => "0.01".to_string(),
        -1 => "0.1".to_string(),
        0 => "1".to_string(),
        1 => "10".to_string(),
        2 => "100".to_string(),
        _ => {
            let superscript = |digit: char| match digit {
                '-' => '⁻',
                '1' => '¹',
                '2' => '²',
                '3' => '³',
                digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(' '),
            };
            format!("10{}", power.to_string().chars().map(superscript).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear() -> Axis {
        Axis::new("", Scale::Linear)
    }

    fn log() -> Axis {
        Axis::new("", Scale::Log)
    }

    fn labels(axis: &Axis, range: (f64, f64)) -> Vec<String> {
        axis.ticks(range).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&linear(), (0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear(), (-12.0, 12.0)), ["−10", "−5", "0", "5", "10"]);
        assert_eq!(labels(&linear(), (0.0, 1.25)), ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25"]);
        assert_eq!(labels(&log(), (0.5, 2e3)), ["1", "10", "100", "10³"]);
        assert_eq!(labels(&log(), (1e-9, 1e3)), ["10⁻⁸", "10⁻⁶", "10⁻⁴", "0.01", "1", "100"]);
        assert_eq!(labels(&log(), (1.5, 7.0)), ["2", "5"]);
        assert_eq!(labels(&log(), (1.5e-5, 7e-5)), ["2e-5", "5e-5"]);
    }

    #[test]
    fn every_range_has_a_few_distinct_ticks_inside_it() {
        // Widths over 24 decades, with centres at 0 and far from it.
        for exponent in -12..=12 {
            for mantissa in [1.0, 1.7, 2.3, 4.9, 5.1, 9.9] {
                for offset in [0.0, -0.3, 100.0] {
                    let width = mantissa * 10f64.powi(exponent);
                    let (low, high) = (offset * width, (offset + 1.0) * width);
                    let ticks = linear().ticks((low, high));
                    assert!((2..=6).contains(&ticks.len()), "{} ticks from {low} to {high}", ticks.len());
                    let slack = 1e-6 * width;
                    assert!(ticks.iter().all(|t| (low - slack..=high + slack).contains(&t.value)));
                    let mut labels = labels(&linear(), (low, high));
                    let count = labels.len();
                    labels.dedup();
                    assert_eq!(labels.len(), count, "equal labels from {low} to {high}: {labels:?}");
                    // A label is the value of its tick.
                    for tick in ticks {
                        let label = tick.label.unwrap_or_default().replace('−', "-");
                        let read: f64 = label.parse().expect("a number");
                        assert!((read - tick.value).abs() < slack, "{label} at {}", tick.value);
                    }
                }
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_labels_at_most_seven_powers() {
        for decades in 1..=250 {
            let high = 10f64.powi(decades - 125);
            let ticks = log().ticks((1e-125, high));
            let labelled = ticks.iter().filter(|tick| tick.label.is_some()).count();
            assert!((1..=7).contains(&labelled), "{labelled} labels over {decades} decades");
            assert!(ticks.len() < 260, "{} ticks over {decades} decades", ticks.len());
        }
        // Over a few decades there are the multiples between the powers: 2 to 9, 20 to 90.
        let between = log().ticks((1.0, 100.0)).iter().filter(|tick| tick.label.is_none()).count();
        assert_eq!(between, 16);
    }

    #[test]
    fn categories_show_names_that_fit() {
        let names = |count: usize, word: &str| (1..=count).map(|i| format!("{word}{i}")).collect::<Vec<_>>();
        assert_eq!(labels(&Axis::categories("", names(3, "x")), (0.5, 3.5)), ["x1", "x2", "x3"]);
        assert_eq!(labels(&Axis::categories("", names(9, "wilderness")), (0.5, 9.5))[..2], ["1", "2"]);
        let many = labels(&Axis::categories("", names(55, "x")), (0.5, 55.5));
        assert_eq!((many.len(), &many[0][..]), (11, "5"));
        let axis = Axis::categories("", names(3, "x"));
        assert_eq!(axis.range_of([100.0].into_iter()), (0.5, 3.5));
    }

    #[test]
    fn positions_run_from_0_to_1() {
        assert!((log().position(10.0, (1.0, 100.0)) - 0.5).abs() < 1e-12);
        assert!((linear().position(3.0, (2.0, 6.0)) - 0.25).abs() < 1e-12);
        for axis in [linear(), log()] {
            assert_eq!(axis.position(0.2, (0.2, 70.0)), 0.0);
            assert_eq!(axis.position(70.0, (0.2, 70.0)), 1.0);
            assert!(axis.position(0.1, (0.2, 70.0)) < 0.0, "values outside the range stay outside");
        }
        assert!(!log().can_show(0.0) && !log().can_show(-1.0) && linear().can_show(-1.0));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!log().can_show(value) && !linear().can_show(value));
        }
    }

    #[test]
    fn the_range_contains_the_values_with_a_margin() {
        assert_eq!(linear().range_of([1.0, 5.0, 3.0].into_iter()), (1.0 - 0.24, 5.0 + 0.24));
        let (low, high) = log().range_of([1.0, 100.0].into_iter());
        assert!((low.log10() + 0.12).abs() < 1e-12 && (high.log10() - 2.12).abs() < 1e-12);
        // At least one decade, with the values in the middle.
        let (low, high) = log().range_of([2.0, 3.0].into_iter());
        assert!((high.log10() - low.log10() - 1.12).abs() < 1e-12);
        assert!((low * high - 6.0).abs() < 1e-9);
        // Values that cannot be shown do not count.
        let all = [f64::NAN, 2.0, f64::INFINITY, -7.0, 0.0, 50.0];
        assert_eq!(log().range_of(all.into_iter()), log().range_of([2.0, 50.0].into_iter()));
    }

    #[test]
    fn degenerate_values_still_give_a_range_with_ticks() {
        let values: [&[f64]; 9] = [
            &[],
            &[f64::NAN],
            &[0.0],
            &[3.0, 3.0],
            &[-1e9, -1e9],
            &[5e-324],
            &[1e300],
            &[f64::MAX, f64::MIN],
            &[1e-300, 1e300],
        ];
        for axis in [linear(), log()] {
            for values in values {
                let range = axis.range_of(values.iter().copied());
                assert!(
                    range.0.is_finite() && range.1.is_finite() && range.0 < range.1,
                    "{values:?}: {range:?}"
                );
                assert!(axis.position(range.0, range) == 0.0 && axis.position(range.1, range) == 1.0);
                let ticks = axis.ticks(range);
                assert!((1..1000).contains(&ticks.len()), "{values:?}: {} ticks", ticks.len());
                assert!(ticks.iter().all(|tick| tick.value.is_finite()));
            }
        }
    }

    #[test]
    fn a_fixed_range_is_used_only_if_the_scale_can_show_it() {
        let values = || [2.0, 8.0].into_iter();
        assert_eq!(linear().between(-5.0, 1.0).range_of(values()), (-5.0, 1.0));
        assert_eq!(log().between(0.1, 1.0).range_of(values()), (0.1, 1.0));
        let invalid = [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)];
        for (low, high) in invalid {
            assert_eq!(linear().between(low, high).range_of(values()), linear().range_of(values()));
        }
        for (low, high) in [(0.0, 1.0), (-1.0, 10.0), (1.0, f64::NAN)] {
            assert_eq!(log().between(low, high).range_of(values()), log().range_of(values()));
        }
    }
}
