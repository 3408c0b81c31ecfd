//! What is done to each column before it enters the model, in words.

use tithe::encoding::{Coding, Encoding, Feature, MISSING_LEVEL, Substitute};

use crate::show::{counted, number};

/// Each column with its treatment, in the order of the model.
pub fn treatments(encoding: &Encoding) -> Vec<(String, String)> {
    encoding.features.iter().map(|feature| (feature.column.clone(), treatment(feature))).collect()
}

/// What is done to a column.
fn treatment(feature: &Feature) -> String {
    let missing = feature.substitutes.missing.as_ref().map(|substitute| match substitute {
        Substitute::Number { value, indicator: Some(_) } => {
            format!("; missing values are read as {} and have a coefficient", number(*value))
        }
        Substitute::Number { value, indicator: None } => {
            format!("; missing values are read as {}", number(*value))
        }
        Substitute::Level(level) if level == MISSING_LEVEL => "; missing values are a level".to_string(),
        Substitute::Level(level) => format!("; missing values are read as '{level}'"),
    });
    let rare = feature.substitutes.other.as_ref();
    let rare = rare.map(|other| format!("; rare and new levels are read as '{other}'"));
    format!("{}{}{}", coding(&feature.coding), missing.unwrap_or_default(), rare.unwrap_or_default())
}

fn coding(coding: &Coding) -> String {
    match coding {
        Coding::Number { center, scale } if (*center, *scale) == (0.0, 1.0) => "not standardised".to_string(),
        Coding::Number { center, scale } if *center == 0.0 => {
            format!("divided by its sd {}", number(*scale))
        }
        Coding::Number { center, scale } => {
            format!("standardised (mean {}, sd {})", number(*center), number(*scale))
        }
        Coding::Indicator { center } if *center != 0.0 => {
            format!("0 or 1, centred (mean {})", number(*center))
        }
        Coding::Indicator { .. } | Coding::Boolean => "0 or 1".to_string(),
        Coding::Groups { levels } => counted(levels.len() as u64, "group"),
        Coding::Levels { reference, levels, centers } => format!(
            "{} and reference level '{reference}', one-hot{}",
            counted(levels.len() as u64, "level"),
            if centers.is_empty() { "" } else { " and centred" }
        ),
    }
}
