//! Axes: from values to places, and which values get a tick.

/// How values are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms; what is not positive has no place.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is measured, and in what unit.
    pub label: String,
    /// How values are spaced.
    pub scale: Scale,
    /// The ends; none where the values decide.
    pub range: Option<(f64, f64)>,
    /// The names of the values 1, 2, 3, …, where they stand for things.
    pub names: Vec<String>,
}

/// A tick: its value, and what is written at it.
pub(crate) struct Tick {
    pub value: f64,
    pub label: Option<String>,
}

impl Axis {
    /// An axis whose values decide where it ends.
    pub fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), scale, range: None, names: Vec::new() }
    }

    /// An axis of things: the first at 1, the second at 2.
    pub fn of_things(label: impl Into<String>, names: Vec<String>) -> Axis {
        let range = Some((0.5, names.len() as f64 + 0.5));
        Axis { label: label.into(), scale: Scale::Linear, range, names }
    }

    /// The same between two ends.
    pub fn between(self, low: f64, high: f64) -> Axis {
        Axis { range: Some((low, high)), ..self }
    }

    /// True if a value has a place.
    pub(crate) fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The ends, for values that are to be seen with a little room around them.
    pub(crate) fn ends(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some(range) = self.range {
            return range;
        }
        let (low, high) = values
            .filter(|value| self.can_show(*value))
            .map(|value| self.spaced(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
        let (low, high) = match (low, high) {
            (low, high) if low > high => (0.0, 1.0),
            (low, high) if high - low < 1e-9 * high.abs().max(1e-9) => {
                let room = 0.05 * high.abs().max(1.0);
                (low - room, high + room)
            }
            ends => ends,
        };
        // Less than a decade hardly has ticks, and makes much of little.
        let lacking = if self.scale == Scale::Log { 0.5 * (1.0 - (high - low)).max(0.0) } else { 0.0 };
        let (low, high) = (low - lacking, high + lacking);
        let room = 0.06 * (high - low);
        (self.value(low - room), self.value(high + room))
    }

    /// A value's place, as far as the scale goes.
    fn spaced(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }

    fn value(&self, spaced: f64) -> f64 {
        match self.scale {
            Scale::Linear => spaced,
            Scale::Log => 10f64.powf(spaced),
        }
    }

    /// A value's place between the ends: 0 at the low one, 1 at the high one.
    pub(crate) fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        (self.spaced(value) - self.spaced(low)) / (self.spaced(high) - self.spaced(low))
    }

    /// The ticks between the ends.
    pub(crate) fn ticks(&self, ends: (f64, f64)) -> Vec<Tick> {
        match self.scale {
            _ if !self.names.is_empty() => name_ticks(&self.names),
            Scale::Linear => linear_ticks(ends),
            Scale::Log => log_ticks(ends),
        }
    }
}

/// The names where there is room for all, or else some of their numbers.
fn name_ticks(names: &[String]) -> Vec<Tick> {
    /// Letters that stand beside each other on an axis.
    const ROOM: usize = 80;
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let has_room = names.len() * (longest + 1) <= ROOM;
    let every = names.len().div_ceil(12);
    let numbered = names.iter().zip(1usize..).filter(|(_, number)| has_room || number.is_multiple_of(every));
    let label = |name: &str, number: usize| if has_room { name.to_string() } else { number.to_string() };
    numbered.map(|(name, number)| Tick { value: number as f64, label: Some(label(name, number)) }).collect()
}

/// Four to seven round numbers.
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

/// Powers of ten, and within few of them their multiples without labels (with labels where there is hardly a power).
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

fn plain(value: f64) -> String {
    if (1e-3..1e4).contains(&value) { format!("{value}") } else { format!("{value:.0e}") }
}

/// Small powers as numbers, others as 10 with an exponent.
fn power_of_ten(power: i32) -> String {
    match power {
        -2 => "0.01".to_string(),
        -1 => "0.1".to_string(),
        0 => "1".to_string(),
        1 => "10".to_string(),
        2 => "100".to_string(),
        _ => {
            let raised = |digit: char| match digit {
                '-' => '⁻',
                '1' => '¹',
                '2' => '²',
                '3' => '³',
                digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(' '),
            };
            format!("10{}", power.to_string().chars().map(raised).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, ends: (f64, f64)) -> Vec<String> {
        axis.ticks(ends).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        let linear = Axis::new("", Scale::Linear);
        assert_eq!(labels(&linear, (0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear, (-12.0, 12.0)), ["−10", "−5", "0", "5", "10"]);
        let log = Axis::new("", Scale::Log);
        assert_eq!(labels(&log, (0.5, 2e3)), ["1", "10", "100", "10³"]);
        assert_eq!(labels(&log, (1e-9, 1e3)), ["10⁻⁸", "10⁻⁶", "10⁻⁴", "0.01", "1", "100"]);
        assert_eq!(labels(&log, (1.5, 7.0)), ["2", "5"]);
    }

    #[test]
    fn things_have_their_names_where_there_is_room() {
        let names = |count: usize, word: &str| (1..=count).map(|i| format!("{word}{i}")).collect::<Vec<_>>();
        assert_eq!(labels(&Axis::of_things("", names(3, "x")), (0.5, 3.5)), ["x1", "x2", "x3"]);
        assert_eq!(labels(&Axis::of_things("", names(9, "wilderness")), (0.5, 9.5))[..2], ["1", "2"]);
        let many = labels(&Axis::of_things("", names(55, "x")), (0.5, 55.5));
        assert_eq!((many.len(), &many[0][..]), (11, "5"));
    }

    #[test]
    fn places_run_from_0_to_1() {
        let log = Axis::new("", Scale::Log);
        assert!((log.place(10.0, (1.0, 100.0)) - 0.5).abs() < 1e-12);
        assert!(!log.can_show(0.0) && !log.can_show(f64::NAN));
        // No values at all still make an axis.
        assert!(log.ends([].into_iter()).0 > 0.0);
    }
}
