//! Checks an encoding that was read from a file, before anything relies on it.

use std::collections::HashSet;

use super::{Coding, Encoding, Feature, GroupFactor, LabelValue, Substitute};

impl Encoding {
    /// What is wrong with this encoding, as the rest of a sentence that begins with the file; `None` if nothing is.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut seen = HashSet::with_capacity(self.features.len() + 1);
        seen.insert(self.label.column.as_str());
        if let Some(feature) = self.features.iter().find(|feature| !seen.insert(feature.column.as_str())) {
            return Some(format!("uses its column '{}' twice", feature.column));
        }
        let (negative, positive) = (&self.label.negative, &self.label.positive);
        let finite = |value: &LabelValue| !matches!(value, LabelValue::Number(number) if !number.is_finite());
        let same_kind = std::mem::discriminant(negative) == std::mem::discriminant(positive);
        if !same_kind || negative == positive || !finite(negative) || !finite(positive) {
            return Some(format!(
                "has the label values '{negative}' and '{positive}', which are not two classes"
            ));
        }
        if self.features.is_empty() {
            return Some("has no features".to_string());
        }
        if (self.design.is_some() || !self.groups.is_empty()) && self.has_substitutes() {
            return Some("has substitutes for values that its formula uses as they are".to_string());
        }
        self.features
            .iter()
            .find_map(Feature::fault)
            .or_else(|| self.groups.iter().find_map(|f| self.fault_of(f)))
            .or_else(|| {
                let levels = self.features.iter().map(|feature| match &feature.coding {
                    Coding::Levels { .. } => Some(feature.coding.sorted_levels()),
                    Coding::Groups { .. } => Some(Vec::new()),
                    _ => None,
                });
                self.design.as_ref()?.fault(&levels.collect::<Vec<_>>())
            })
    }

    fn fault_of(&self, factor: &GroupFactor) -> Option<String> {
        let coding = |column: &String| {
            self.features.iter().find(|feature| feature.column == *column).map(|feature| &feature.coding)
        };
        let is_slope =
            |column: &String| coding(column).is_some_and(|coding| !matches!(coding, Coding::Groups { .. }));
        if !matches!(coding(&factor.column), Some(Coding::Groups { .. })) {
            return Some(format!("has no groups in its column '{}'", factor.column));
        }
        if let Some(slope) = factor.slopes.iter().find(|slope| !is_slope(slope)) {
            return Some(format!("has no feature '{slope}' whose slope could vary"));
        }
        (!factor.intercept && factor.slopes.is_empty())
            .then(|| format!("has no effect that varies by '{}'", factor.column))
    }
}

impl Feature {
    fn fault(&self) -> Option<String> {
        self.fault_of_coding().or_else(|| self.fault_of_substitutes())
    }

    /// Substitutes must be usable values of the column.
    fn fault_of_substitutes(&self) -> Option<String> {
        let is_level = |wanted: &String| match &self.coding {
            Coding::Levels { reference, levels, .. } => {
                wanted == reference || levels.binary_search(wanted).is_ok()
            }
            _ => false,
        };
        let is_number = !matches!(self.coding, Coding::Levels { .. });
        let missing = match &self.substitutes.missing {
            None => true,
            Some(Substitute::Level(level)) => is_level(level),
            Some(Substitute::Number { value, indicator }) => {
                is_number
                    && (value * value).is_finite()
                    && indicator.is_none_or(|at| (0.0..=1.0).contains(&at))
            }
        };
        let is_sound = missing && self.substitutes.other.as_ref().is_none_or(is_level);
        (!is_sound).then(|| format!("has impossible substitutes for values of its column '{}'", self.column))
    }

    fn fault_of_coding(&self) -> Option<String> {
        match &self.coding {
            Coding::Number { center, scale } => {
                let usable = (center * center).is_finite() && (scale * scale).is_finite() && *scale > 0.0;
                (!usable).then(|| {
                    format!("centres its column '{}' at {center} and divides it by {scale}", self.column)
                })
            }
            Coding::Indicator { center } => (!(center * center).is_finite())
                .then(|| format!("centres its column '{}' at {center}", self.column)),
            Coding::Boolean => None,
            Coding::Groups { levels } => {
                let sorted = levels.windows(2).all(|pair| pair[0] < pair[1]);
                (!sorted || levels.len() < 2).then(|| {
                    format!("lists the groups of its column '{}' twice, unsorted or too few", self.column)
                })
            }
            Coding::Levels { levels, centers, .. }
                if !(centers.is_empty() || centers.len() == levels.len())
                    || centers.iter().any(|center| !(center * center).is_finite()) =>
            {
                Some(format!("does not centre the levels of its column '{}' one by one", self.column))
            }
            Coding::Levels { reference, levels, .. } => {
                let sorted = levels.windows(2).all(|pair| pair[0] < pair[1]);
                let distinct = levels.binary_search(reference).is_err();
                (!sorted || !distinct)
                    .then(|| format!("lists the levels of its column '{}' twice or unsorted", self.column))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Label, Unseen};
    use super::*;

    fn encoding(features: Vec<Feature>) -> Encoding {
        let label = Label {
            column: "y".to_string(),
            negative: LabelValue::Number(0.0),
            positive: LabelValue::Number(1.0),
        };
        Encoding {
            label,
            weight: None,
            intercept: true,
            features,
            groups: Vec::new(),
            unseen: Unseen::Error,
            design: None,
        }
    }

    fn feature(column: &str, coding: Coding) -> Feature {
        Feature::new(column, coding)
    }

    #[test]
    fn each_fault_is_named() {
        let levels = |reference: &str, levels: &[&str]| Coding::Levels {
            reference: reference.to_string(),
            levels: levels.iter().map(|level| level.to_string()).collect(),
            centers: Vec::new(),
        };
        assert_eq!(encoding(vec![feature("a", levels("b", &["a", "c"]))]).fault(), None);
        for (features, fault) in [
            (vec![], "has no features"),
            (vec![feature("y", Coding::Boolean)], "uses its column 'y' twice"),
            (vec![feature("a", Coding::Boolean); 2], "uses its column 'a' twice"),
            (vec![feature("a", levels("b", &["b", "c"]))], "lists the levels of its column 'a' twice"),
            (vec![feature("a", levels("b", &["d", "c"]))], "lists the levels of its column 'a' twice"),
            (vec![feature("a", levels("b", &["c", "c"]))], "lists the levels of its column 'a' twice"),
            (
                vec![feature("a", Coding::Number { center: 0.0, scale: 0.0 })],
                "centres its column 'a' at 0 and divides it by 0",
            ),
            (
                vec![feature("a", Coding::Number { center: f64::NAN, scale: 1.0 })],
                "centres its column 'a' at NaN and divides it by 1",
            ),
        ] {
            let found = encoding(features).fault().expect(fault);
            assert!(found.starts_with(fault), "{found}");
        }
        let mut same = encoding(vec![feature("a", Coding::Boolean)]);
        same.label.positive = LabelValue::Number(0.0);
        assert!(same.fault().is_some_and(|fault| fault.contains("not two classes")));
        same.label.positive = LabelValue::Text("1".to_string());
        assert!(same.fault().is_some_and(|fault| fault.contains("not two classes")));
    }
}
