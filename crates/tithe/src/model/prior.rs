//! Priors of single coefficients: log-density with derivatives, and their text form such as `normal:2`.

use std::f64::consts::{LN_2, PI};
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::base::error::{Error, Result, Setting, nearest_name};
use crate::base::math::{exp, hypot, ln, ln_1p};

/// The prior of one coefficient, centred at 0.
///
/// As text: `flat`, `normal:SCALE`, `cauchy:SCALE`, `student:DEGREES:SCALE`, `laplace:SCALE`,
/// `spike-slab:SPIKE:SLAB:INCLUSION`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Prior {
    /// Constant density; improper, so the data must determine the coefficient.
    Flat,
    /// Normal with standard deviation `scale`.
    Normal {
        /// Standard deviation.
        scale: f64,
    },
    /// Cauchy (Gelman et al. 2008: scale 2.5, and 10 for the intercept).
    Cauchy {
        /// Half the distance between the quartiles.
        scale: f64,
    },
    /// Student's t.
    StudentT {
        /// Degrees of freedom.
        degrees: f64,
        /// Scale.
        scale: f64,
    },
    /// Double exponential.
    Laplace {
        /// Mean of the absolute value.
        scale: f64,
    },
    /// A mixture of a narrow and a wide normal (George and McCulloch 1993), marginalised over the indicator.
    SpikeSlab {
        /// Standard deviation of the spike.
        spike: f64,
        /// Standard deviation of the slab.
        slab: f64,
        /// Prior probability of the slab.
        inclusion: f64,
    },
}

/// Log-density, its derivative and its second derivative at one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Local {
    /// `ln p(θ)`, constants included (for the flat prior, 0).
    pub value: f64,
    /// `d ln p / dθ`.
    pub slope: f64,
    /// `d² ln p / dθ²`; positive where the density is not log-concave.
    pub bend: f64,
}

impl Prior {
    /// The precision of a normal prior of similar width: where gradient and Hessian are matched, a prior has to be near, not
    /// exact, and a normal one leaves the posterior a mode. A flat prior is represented by a very wide one.
    fn normal_precision(&self) -> f64 {
        const WIDE: f64 = 1e4;
        let scale = match *self {
            Prior::Flat => WIDE,
            Prior::Normal { scale } | Prior::Cauchy { scale } | Prior::StudentT { scale, .. } => scale,
            Prior::Laplace { scale } => scale * std::f64::consts::SQRT_2,
            Prior::SpikeSlab { slab, .. } => slab,
        };
        scale.powi(-2)
    }

    #[doc(hidden)]
    /// Log-density, slope and second derivative at `x`. At the kink of the Laplace prior, `x = 0`, the slope is 0.
    pub fn local(&self, x: f64) -> Local {
        self.prepared().local(x)
    }

    #[doc(hidden)]
    /// The prior with its normalising constants computed, for repeated evaluation.
    pub fn prepared(&self) -> Prepared {
        match *self {
            Prior::Flat => Prepared::Flat,
            Prior::Normal { scale } => Prepared::Normal(PreparedNormal::new(scale, 0.0)),
            Prior::Cauchy { scale } => Prepared::student(1.0, scale),
            Prior::StudentT { degrees, scale } => Prepared::student(degrees, scale),
            Prior::Laplace { scale } => Prepared::Laplace { rate: 1.0 / scale, constant: -ln(2.0 * scale) },
            Prior::SpikeSlab { spike, slab, inclusion } => Prepared::Mixture {
                narrow: PreparedNormal::new(spike, ln(1.0 - inclusion)),
                wide: PreparedNormal::new(slab, ln(inclusion)),
            },
        }
    }

    /// Like [`Prior::local`], but with the kink of the Laplace prior smoothed (`−√(x² + δ²)/scale`, `δ = scale/10`), so that
    /// a mode and a curvature exist. Other priors are unchanged.
    pub(crate) fn smooth_local(&self, x: f64) -> Local {
        match *self {
            Prior::Laplace { scale } => {
                let radius = hypot(x, 0.1 * scale);
                let fraction = 0.1 * scale / radius;
                Local {
                    value: -radius / scale - ln(2.0 * scale),
                    slope: -x / (radius * scale),
                    bend: -fraction * fraction / (radius * scale),
                }
            }
            Prior::Flat
            | Prior::Normal { .. }
            | Prior::Cauchy { .. }
            | Prior::StudentT { .. }
            | Prior::SpikeSlab { .. } => self.local(x),
        }
    }

    /// The probability that a coefficient with value `x` belongs to the slab; `None` for priors without a slab.
    pub fn inclusion_probability(&self, x: f64) -> Option<f64> {
        match self.prepared() {
            Prepared::Mixture { narrow, wide } => Some(logistic(wide.local(x).value - narrow.local(x).value)),
            _ => None,
        }
    }

    /// The scale of the prior's widest part; infinite if it is flat.
    fn width(&self) -> f64 {
        match *self {
            Prior::Flat => f64::INFINITY,
            Prior::Normal { scale }
            | Prior::Cauchy { scale }
            | Prior::StudentT { scale, .. }
            | Prior::Laplace { scale } => scale,
            Prior::SpikeSlab { slab, .. } => slab,
        }
    }

    /// True if the density does not integrate to a finite value.
    pub fn is_improper(&self) -> bool {
        matches!(self, Prior::Flat)
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<()> {
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(wrong(self, format!("the {name} must be a positive number, not {value}")))
            }
        };
        match *self {
            Prior::Flat => Ok(()),
            Prior::Normal { scale } | Prior::Cauchy { scale } | Prior::Laplace { scale } => {
                positive("scale", scale)
            }
            Prior::StudentT { degrees, scale } => {
                positive("number of degrees of freedom", degrees)?;
                positive("scale", scale)
            }
            Prior::SpikeSlab { spike, slab, inclusion } => {
                positive("spike's standard deviation", spike)?;
                positive("slab's standard deviation", slab)?;
                if spike >= slab {
                    return Err(wrong(
                        self,
                        format!("the spike ({spike}) must be narrower than the slab ({slab})"),
                    ));
                }
                if !(inclusion > 0.0 && inclusion < 1.0) {
                    return Err(wrong(
                        self,
                        format!("the probability of inclusion must lie between 0 and 1, not {inclusion}"),
                    ));
                }
                Ok(())
            }
        }
    }
}

fn counted(numbers: usize) -> String {
    match numbers {
        0 => "no number".to_string(),
        1 => "1 number".to_string(),
        _ => format!("{numbers} numbers"),
    }
}

fn wrong(prior: impl fmt::Display, what: String) -> Error {
    Error::setting(Setting::Prior, format!("'{prior}': {what}"))
}

/// `1/(1+e^{−x})`.
fn logistic(x: f64) -> f64 {
    if x < 0.0 { exp(x) / (1.0 + exp(x)) } else { 1.0 / (1.0 + exp(-x)) }
}

/// A prior ready for fast evaluation; see [`Prior::prepared`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prepared {
    /// The flat prior.
    Flat,
    /// The normal prior.
    Normal(PreparedNormal),
    /// Student's t, including Cauchy.
    Student {
        /// Degrees of freedom.
        degrees: f64,
        /// `1/(degrees·scale²)`.
        precision: f64,
        /// Logarithm of the density at 0.
        constant: f64,
    },
    /// The double exponential.
    Laplace {
        /// `1/scale`.
        rate: f64,
        /// Logarithm of the density at 0.
        constant: f64,
    },
    /// Spike and slab.
    Mixture {
        /// The spike.
        narrow: PreparedNormal,
        /// The slab.
        wide: PreparedNormal,
    },
}

/// A normal density, possibly multiplied by a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreparedNormal {
    precision: f64,
    constant: f64,
}

impl PreparedNormal {
    fn new(scale: f64, log_probability: f64) -> PreparedNormal {
        PreparedNormal {
            precision: 1.0 / (scale * scale),
            constant: log_probability - ln(scale) - 0.5 * ln(2.0 * PI),
        }
    }

    fn local(&self, x: f64) -> Local {
        let slope = -x * self.precision;
        Local { value: 0.5 * x * slope + self.constant, slope, bend: -self.precision }
    }
}

impl Prepared {
    fn student(degrees: f64, scale: f64) -> Prepared {
        let constant =
            ln_gamma(0.5 * (degrees + 1.0)) - ln_gamma(0.5 * degrees) - 0.5 * ln(degrees * PI) - ln(scale);
        Prepared::Student { degrees, precision: 1.0 / (degrees * scale * scale), constant }
    }

    /// Log-density, slope and second derivative at `x`.
    pub fn local(&self, x: f64) -> Local {
        match *self {
            Prepared::Flat => Local { value: 0.0, slope: 0.0, bend: 0.0 },
            Prepared::Normal(normal) => normal.local(x),
            Prepared::Student { degrees, precision, constant } => {
                let u = x * x * precision;
                let factor = (degrees + 1.0) * precision / (1.0 + u);
                Local {
                    value: constant - 0.5 * (degrees + 1.0) * ln_1p(u),
                    slope: -factor * x,
                    bend: -factor * (1.0 - u) / (1.0 + u),
                }
            }
            Prepared::Laplace { rate, constant } => Local {
                value: constant - x.abs() * rate,
                slope: if x == 0.0 { 0.0 } else { -rate * x.signum() },
                bend: 0.0,
            },
            Prepared::Mixture { narrow, wide } => {
                let (narrow, wide) = (narrow.local(x), wide.local(x));
                let p = logistic(wide.value - narrow.value);
                let difference = wide.slope - narrow.slope;
                Local {
                    value: narrow.value.max(wide.value) + ln_1p(exp(-(wide.value - narrow.value).abs())),
                    slope: (1.0 - p) * narrow.slope + p * wide.slope,
                    // The mean of the second derivatives plus the variance of the slopes.
                    bend: (1.0 - p) * narrow.bend + p * wide.bend + p * (1.0 - p) * difference * difference,
                }
            }
        }
    }
}

/// `ln Γ(x)` for `x > 0`, by Stirling's series after shifting `x` to where it is accurate to 1e-15.
fn ln_gamma(x: f64) -> f64 {
    if x == 0.5 {
        return 0.5 * ln(PI);
    }
    let (mut x, mut product) = (x, 1.0);
    while x < 16.0 {
        product *= x;
        x += 1.0;
    }
    let i = 1.0 / (x * x);
    let series = (1.0 / 12.0 - i * (1.0 / 360.0 - i * (1.0 / 1260.0 - i * (1.0 / 1680.0 - i / 1188.0)))) / x;
    (x - 0.5) * ln(x) - x + 0.5 * (ln(PI) + LN_2) + series - ln(product)
}

impl fmt::Display for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prior::Flat => write!(f, "flat"),
            Prior::Normal { scale } => write!(f, "normal:{scale}"),
            Prior::Cauchy { scale } => write!(f, "cauchy:{scale}"),
            Prior::StudentT { degrees, scale } => write!(f, "student:{degrees}:{scale}"),
            Prior::Laplace { scale } => write!(f, "laplace:{scale}"),
            Prior::SpikeSlab { spike, slab, inclusion } => write!(f, "spike-slab:{spike}:{slab}:{inclusion}"),
        }
    }
}

/// How the numbers in a prior's text become the prior: one kind of constructor per count of numbers.
enum Constructor {
    Constant(Prior),
    One(fn(f64) -> Prior),
    Two(fn(f64, f64) -> Prior),
    Three(fn(f64, f64, f64) -> Prior),
}

impl Constructor {
    /// Number of numbers in the text.
    fn count(&self) -> usize {
        match self {
            Constructor::Constant(_) => 0,
            Constructor::One(_) => 1,
            Constructor::Two(_) => 2,
            Constructor::Three(_) => 3,
        }
    }

    /// The prior with these numbers; `None` if there are too many or too few.
    fn prior(&self, numbers: &[f64]) -> Option<Prior> {
        match (self, numbers) {
            (Constructor::Constant(prior), []) => Some(*prior),
            (Constructor::One(prior), &[a]) => Some(prior(a)),
            (Constructor::Two(prior), &[a, b]) => Some(prior(a, b)),
            (Constructor::Three(prior), &[a, b, c]) => Some(prior(a, b, c)),
            (
                Constructor::Constant(_) | Constructor::One(_) | Constructor::Two(_) | Constructor::Three(_),
                _,
            ) => None,
        }
    }
}

/// Every prior that can be parsed: its name, its form as shown in help texts, and its constructor. A name without an
/// implementation cannot parse.
const FORMS: [(&str, &str, Constructor); 6] = [
    ("flat", "flat", Constructor::Constant(Prior::Flat)),
    ("normal", "normal:SCALE", Constructor::One(|scale| Prior::Normal { scale })),
    ("cauchy", "cauchy:SCALE", Constructor::One(|scale| Prior::Cauchy { scale })),
    (
        "student",
        "student:DEGREES:SCALE",
        Constructor::Two(|degrees, scale| Prior::StudentT { degrees, scale }),
    ),
    ("laplace", "laplace:SCALE", Constructor::One(|scale| Prior::Laplace { scale })),
    (
        "spike-slab",
        "spike-slab:SPIKE:SLAB:INCLUSION",
        Constructor::Three(|spike, slab, inclusion| Prior::SpikeSlab { spike, slab, inclusion }),
    ),
];

impl FromStr for Prior {
    type Err = Error;

    fn from_str(text: &str) -> Result<Prior> {
        let mut parts = text.trim().split(':');
        let name = parts.next().unwrap_or_default();
        let Some((_, form, constructor)) = FORMS.iter().find(|(known, ..)| *known == name) else {
            let forms: Vec<&str> = FORMS.iter().map(|(_, form, _)| *form).collect();
            return Err(wrong(text, format!("unknown prior; the priors are {}", forms.join(", "))));
        };
        let numbers = parts
            .map(|part| {
                part.trim()
                    .parse::<f64>()
                    .map_err(|_| wrong(text, format!("'{part}' is not a number; the form is {form}")))
            })
            .collect::<Result<Vec<f64>>>()?;
        let Some(prior) = constructor.prior(&numbers) else {
            let count = constructor.count();
            return Err(wrong(
                text,
                format!("expected {}, found {}; the form is {form}", counted(count), numbers.len()),
            ));
        };
        prior.check()?;
        Ok(prior)
    }
}

impl TryFrom<String> for Prior {
    type Error = Error;

    fn try_from(text: String) -> Result<Prior> {
        text.parse()
    }
}

impl From<Prior> for String {
    fn from(prior: Prior) -> String {
        prior.to_string()
    }
}

/// Independent priors, one per coefficient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Priors {
    /// The prior of each coefficient, in order.
    pub coefficients: Vec<Prior>,
}

impl Priors {
    /// The same prior for each of `dim` coefficients.
    pub fn same(prior: Prior, dim: usize) -> Priors {
        Priors { coefficients: vec![prior; dim] }
    }

    /// Number of coefficients.
    pub fn dim(&self) -> usize {
        self.coefficients.len()
    }

    /// The precision of a normal prior of similar width for each coefficient.
    pub(crate) fn normal_precisions(&self) -> Vec<f64> {
        self.coefficients.iter().map(Prior::normal_precision).collect()
    }

    /// `Σ ln p(θ_i)`.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        self.coefficients.iter().zip(theta).map(|(prior, &x)| prior.local(x).value).sum()
    }
}

/// The user's choice of priors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PriorChoice {
    /// The prior of every coefficient without its own.
    pub general: Prior,
    /// The prior of the intercept; `None` is a normal with scale 10, or the general prior if that is wider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intercept: Option<Prior>,
    /// Priors of single coefficients, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<(String, Prior)>,
}

impl Default for PriorChoice {
    /// N(0, 2²) for every coefficient, and N(0, 10²) for the intercept.
    ///
    /// On the model's scale a coefficient is the change of the log-odds per standard deviation of a number, or between 0 and 1. A change by 5,
    /// from odds of 1 : 12 to 12 : 1, is rare (Gelman, Jakulin, Pittau and Su 2008), and this prior gives it a probability of 1 %. The paper
    /// has the same scale. Like Gelman et al. we let the intercept go further: if one row in 2,000 is positive, it is near −7.6.
    fn default() -> PriorChoice {
        PriorChoice { general: Prior::Normal { scale: 2.0 }, intercept: None, named: Vec::new() }
    }
}

/// As text: `normal:2`, or `normal:2, intercept cauchy:10, age normal:1`.
impl fmt::Display for PriorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.general)?;
        if self.of_intercept() != self.general {
            write!(f, ", intercept {}", self.of_intercept())?;
        }
        self.named.iter().try_for_each(|(name, prior)| write!(f, ", {name} {prior}"))
    }
}

/// The scale of the intercept's prior, unless it is given (Gelman, Jakulin, Pittau and Su 2008).
const INTERCEPT_SCALE: f64 = 10.0;

impl PriorChoice {
    /// The same prior for every coefficient, the intercept included.
    pub fn same(prior: Prior) -> PriorChoice {
        PriorChoice { general: prior, intercept: Some(prior), named: Vec::new() }
    }

    /// The prior of the intercept.
    fn of_intercept(&self) -> Prior {
        let usual = Prior::Normal { scale: INTERCEPT_SCALE };
        self.intercept.unwrap_or(if self.general.width() > INTERCEPT_SCALE { self.general } else { usual })
    }

    /// Checks that the priors make sense.
    pub fn check(&self) -> Result<()> {
        let named = self.named.iter().map(|(_, prior)| prior);
        [&self.general].into_iter().chain(&self.intercept).chain(named).try_for_each(Prior::check)
    }

    #[doc(hidden)]
    /// The priors of the coefficients with these names; the first is the intercept if there is one.
    pub fn priors(&self, names: &[String], has_intercept: bool) -> Result<Priors> {
        let mut priors = Priors::same(self.general, names.len());
        if let (Some(first), true) = (priors.coefficients.first_mut(), has_intercept) {
            *first = self.of_intercept();
        }
        for (name, prior) in &self.named {
            let position = names.iter().position(|known| known == name).ok_or_else(|| {
                let nearest = nearest_name(name, names).map(|name| format!(" (did you mean '{name}'?)"));
                let shown: Vec<&str> = names.iter().take(20).map(String::as_str).collect();
                let more = if names.len() > shown.len() { ", …" } else { "" };
                Error::setting(
                    Setting::PriorFor,
                    format!(
                        "names a coefficient '{name}' that does not exist{}; the coefficients are {}{more}",
                        nearest.unwrap_or_default(),
                        shown.join(", ")
                    ),
                )
            })?;
            priors.coefficients[position] = *prior;
        }
        for prior in &priors.coefficients {
            prior.check()?;
        }
        Ok(priors)
    }
}

/// Reads a choice of priors; files of earlier versions have the scale of a normal prior instead.
pub(crate) fn choice_or_scale<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<PriorChoice, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Scale(f64),
        Choice(PriorChoice),
    }
    match Stored::deserialize(from)? {
        Stored::Scale(scale) => {
            let prior = Prior::Normal { scale };
            prior.check().map_err(D::Error::custom)?;
            Ok(PriorChoice::same(prior))
        }
        Stored::Choice(choice) => Ok(choice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_prior() -> impl Strategy<Value = Prior> {
        let scale = || 0.05f64..20.0;
        prop_oneof![
            Just(Prior::Flat),
            scale().prop_map(|scale| Prior::Normal { scale }),
            scale().prop_map(|scale| Prior::Cauchy { scale }),
            (0.3f64..30.0, scale()).prop_map(|(degrees, scale)| Prior::StudentT { degrees, scale }),
            scale().prop_map(|scale| Prior::Laplace { scale }),
            (0.05f64..1.0, 1.5f64..20.0, 0.01f64..0.99).prop_map(|(spike, wider, inclusion)| {
                Prior::SpikeSlab { spike, slab: spike * wider, inclusion }
            }),
        ]
    }

    proptest! {
        #[test]
        fn slope_and_bend_are_those_of_the_value(prior in any_prior(), u in -4.0f64..4.0) {
            // Away from the kink of the Laplace prior, with steps much smaller than every scale that can occur.
            prop_assume!(u.abs() > 0.01);
            for at in [Prior::local, Prior::smooth_local] {
                let (here, step) = (at(&prior, u), 1e-5);
                let (before, after) = (at(&prior, u - step), at(&prior, u + step));
                let slope = (after.value - before.value) / (2.0 * step);
                let bend = (after.slope - before.slope) / (2.0 * step);
                prop_assert!((slope - here.slope).abs() < 1e-6 * (1.0 + here.slope.abs() + here.value.abs()), "{slope} {here:?}");
                prop_assert!((bend - here.bend).abs() < 1e-4 * (1.0 + here.slope.powi(2)), "{bend} {here:?}");
            }
        }

        #[test]
        fn the_words_come_back(prior in any_prior()) {
            prop_assert_eq!(prior.to_string().parse::<Prior>().unwrap(), prior);
            let json = serde_json::to_string(&prior).unwrap();
            prop_assert_eq!(serde_json::from_str::<Prior>(&json).unwrap(), prior);
        }
    }

    #[test]
    fn proper_priors_have_mass_one() {
        // Midpoint rule under x = tan(u), which reaches both tails.
        for text in
            ["normal:2", "cauchy:2.5", "student:4:2.5", "student:0.7:1", "laplace:1", "spike-slab:0.1:10:0.5"]
        {
            let prior: Prior = text.parse().unwrap();
            let n = 2_000_000;
            let mass: f64 = (0..n)
                .map(|i| {
                    let u = PI * ((f64::from(i) + 0.5) / f64::from(n) - 0.5);
                    prior.local(u.tan()).value.exp() / u.cos().powi(2)
                })
                .sum::<f64>()
                * PI
                / f64::from(n);
            // The tail of the t with 0.7 degrees lowers the order of the rule; all others reach 1e-9.
            let tolerance = if text.starts_with("student:0.7") { 1e-3 } else { 1e-8 };
            assert!((mass - 1.0).abs() < tolerance, "{text}: {mass}");
        }
    }

    #[test]
    fn known_densities() {
        let at = |text: &str, x: f64| text.parse::<Prior>().unwrap().local(x).value;
        assert!((at("cauchy:2.5", 2.5) - (1.0 / (PI * 2.5 * 2.0)).ln()).abs() < 1e-14);
        // t with 2 degrees: p(x) = 1/(2+x²)^{3/2}.
        assert!((at("student:2:1", 1.3) + 1.5 * (2.0f64 + 1.69).ln()).abs() < 1e-14);
        assert!((ln_gamma(10.0) - 362_880f64.ln()).abs() < 1e-14);
        assert!((ln_gamma(1e-3) - 6.907_178_885_383_854).abs() < 1e-12);
    }

    #[test]
    fn the_intercept_has_a_wide_prior_unless_another_is_given() {
        let names = ["intercept", "x"].map(String::from);
        let of = |choice: PriorChoice, has_intercept: bool| {
            let priors = choice.priors(&names, has_intercept).unwrap();
            priors.coefficients.iter().map(Prior::to_string).collect::<Vec<_>>().join(" ")
        };
        let general = |text: &str| PriorChoice { general: text.parse().unwrap(), ..PriorChoice::default() };
        assert_eq!(of(PriorChoice::default(), true), "normal:10 normal:2");
        assert_eq!(of(PriorChoice::default(), false), "normal:2 normal:2");
        assert_eq!(of(general("cauchy:2.5"), true), "normal:10 cauchy:2.5");
        for wide in ["flat", "normal:100", "student:3:20", "spike-slab:0.1:30:0.5"] {
            assert_eq!(of(general(wide), true), format!("{wide} {wide}"));
        }
        let given = PriorChoice { intercept: Some("laplace:1".parse().unwrap()), ..general("flat") };
        assert_eq!(of(given, true), "laplace:1 flat");
        assert_eq!(of(PriorChoice::same("normal:2".parse().unwrap()), true), "normal:2 normal:2");
    }

    #[test]
    fn large_values_belong_to_the_slab() {
        let prior: Prior = "spike-slab:0.1:10:0.5".parse().unwrap();
        assert!(prior.inclusion_probability(0.0).unwrap() < 0.02);
        assert!(prior.inclusion_probability(1.0).unwrap() > 0.99);
        assert!(prior.inclusion_probability(1e6).unwrap() == 1.0);
        assert!(prior.local(1e6).value.is_finite());
        assert_eq!("normal:1".parse::<Prior>().unwrap().inclusion_probability(1.0), None);
    }

    /// The position of a prior in `FORMS`. A new variant does not compile until it is added here.
    fn position(prior: &Prior) -> usize {
        match prior {
            Prior::Flat => 0,
            Prior::Normal { .. } => 1,
            Prior::Cauchy { .. } => 2,
            Prior::StudentT { .. } => 3,
            Prior::Laplace { .. } => 4,
            Prior::SpikeSlab { .. } => 5,
        }
    }

    #[test]
    fn every_form_parses_as_its_own_variant_and_is_written_under_its_name() {
        for (index, (name, form, constructor)) in FORMS.iter().enumerate() {
            // Valid for every form: the spike is narrower than the slab, and the inclusion is below 1.
            let numbers = [0.25, 0.75, 0.5];
            assert_eq!(form.split(':').count() - 1, constructor.count(), "{form}");
            let text = [name.to_string()].into_iter();
            let text = text.chain(numbers.iter().take(constructor.count()).map(f64::to_string));
            let text = text.collect::<Vec<_>>().join(":");
            let prior: Prior = text.parse().expect("a valid prior");
            assert_eq!(position(&prior), index, "{form}");
            assert_eq!(prior.to_string(), text);
            assert_eq!(prior == Prior::Flat, *name == "flat", "{form}");
        }
    }

    #[test]
    fn invalid_priors_are_explained() {
        let message = |text: &str| text.parse::<Prior>().unwrap_err().to_string();
        assert_eq!(message("normal:0"), "prior 'normal:0': the scale must be a positive number, not 0");
        assert_eq!(message("cauchy:-2"), "prior 'cauchy:-2': the scale must be a positive number, not -2");
        assert!(message("normal:nan").contains("must be a positive number"));
        assert!(message("laplace:inf").contains("must be a positive number"));
        assert!(message("normal:x").contains("'x' is not a number; the form is normal:SCALE"));
        assert!(
            message("student:4").contains("expected 2 numbers, found 1; the form is student:DEGREES:SCALE")
        );
        assert!(message("flat:1").contains("expected no number, found 1"));
        assert!(message("normal").contains("expected 1 number, found 0"));
        assert!(message("gaussian:1").contains("unknown prior; the priors are flat, normal:SCALE"));
        assert!(message("").contains("unknown prior"));
        assert!(message("student:-1:2").contains("degrees of freedom"));
        assert!(message("spike-slab:1:0.1:0.5").contains("narrower"));
        assert!(message("spike-slab:0.1:1:1").contains("between 0 and 1"));
    }
}
