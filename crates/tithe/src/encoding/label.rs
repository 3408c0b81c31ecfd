//! The label: its two classes, and which of them is positive.

use super::answers::are_answers;
use super::found::{ColumnFound, NUMBERS_KEPT, Seen};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Field, Kind};
use crate::encoding::{EncodingSettings, Label, LabelValue};

/// Finds the two classes of the label and which of them is positive.
pub(super) fn label(
    field: &Field,
    found: &ColumnFound,
    settings: &EncodingSettings,
    row_name: &dyn Fn(u64) -> String,
) -> Result<Label> {
    let seen = label_values(field, found)?;
    let refuse = |what: String, help: Help| -> Result<Label> {
        Err(ErrorKind::Column { column: field.name.clone(), what, help: Some(help) }.into())
    };
    let listed =
        seen.iter().take(NUMBERS_KEPT).map(|(value, _)| format!("'{value}'")).collect::<Vec<_>>().join(", ");
    let [(first, _), (second, _)] = &seen[..] else {
        return match &seen[..] {
            [] => refuse(
                "the label has no value".to_string(),
                Remedy::using("name another column", Setting::Label).into(),
            ),
            [_] => refuse(
                format!("the label has only the value {listed}; a model needs both classes"),
                [Remedy::using("name another column", Setting::Label), "use data with both classes".into()]
                    .into(),
            ),
            more => refuse(too_many_classes(&listed, more, row_name), KEEP_TWO_CLASSES.into()),
        };
    };
    if found.levels.too_many {
        return refuse(too_many_classes(&listed, &seen, row_name), KEEP_TWO_CLASSES.into());
    }
    let positive_is_second = match &settings.positive {
        Some(wanted) if first.is_named(wanted) => false,
        Some(wanted) if second.is_named(wanted) => true,
        Some(wanted) => {
            return refuse(
                format!("the label's values are {listed}; none is '{wanted}'"),
                Remedy::example("name one of them", Setting::Positive, second.to_string()).into(),
            );
        }
        None if field.kind == Kind::Text => match larger(first, second) {
            Some(larger) => larger == 1,
            None => {
                return refuse(
                    format!("the label's values are {listed}, and it is not clear which one is positive"),
                    Remedy::example("name it", Setting::Positive, second.to_string()).into(),
                );
            }
        },
        None => true,
    };
    let (negative, positive) = if positive_is_second { (first, second) } else { (second, first) };
    Ok(Label { column: field.name.clone(), negative: negative.clone(), positive: positive.clone() })
}

/// The values of the label, sorted; at most [`NUMBERS_KEPT`].
pub(super) fn label_values(field: &Field, found: &ColumnFound) -> Result<Vec<(LabelValue, Seen)>> {
    let numbers = found.numbers.0.iter();
    let levels = found.levels.seen.iter();
    let mut values: Vec<_> = match field.kind {
        Kind::Boolean => numbers.map(|(v, seen)| (LabelValue::Boolean(*v != 0.0), *seen)).collect(),
        Kind::Number => numbers.map(|(v, seen)| (LabelValue::Number(*v), *seen)).collect(),
        Kind::Text => levels.map(|(level, seen)| (LabelValue::Text(level.clone()), *seen)).collect(),
        Kind::Time | Kind::Unsupported => return Err(unsupported(field)),
    };
    values.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    Ok(values)
}

const KEEP_TWO_CLASSES: &str =
    "a label has two classes: keep the rows of two, or make a column that is true for one of them";

/// Describes a label with more than two values. If there are three, the rarest is often a typing error, so its first row
/// is named.
fn too_many_classes(listed: &str, seen: &[(LabelValue, Seen)], row_name: &dyn Fn(u64) -> String) -> String {
    let rarest = match seen {
        [_, _, _] => seen.iter().min_by(|a, b| a.1.mass.total_cmp(&b.1.mass)),
        _ => None,
    };
    let more = match rarest {
        Some((value, seen)) => format!("; the rarest, '{value}', first appears in {}", row_name(seen.first)),
        None => ", …".to_string(),
    };
    format!("the label has more than two values: {listed}{more}")
}

/// The index of the positive one of two labels, if they are answers such as "no" and "yes" or text that represents numbers.
fn larger(first: &LabelValue, second: &LabelValue) -> Option<usize> {
    let (first, second) = (first.to_string(), second.to_string());
    if are_answers(&first, &second) || are_answers(&second, &first) {
        return Some(usize::from(are_answers(&first, &second)));
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (first, second) = (number(&first)?, number(&second)?);
    (first != second).then_some(usize::from(second > first))
}

pub(super) fn unsupported(field: &Field) -> Error {
    let what = format!("holds {}, which cannot be used", field.data_type);
    ErrorKind::Column { column: field.name.clone(), what, help: None }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_represent_numbers_are_ordered() {
        let larger = |first: &str, second: &str| {
            larger(&LabelValue::Text(first.to_string()), &LabelValue::Text(second.to_string()))
        };
        assert_eq!(
            [larger("0", "1"), larger("-1", "1"), larger("10", "9"), larger("false", "true")],
            [Some(1), Some(1), Some(0), Some(1)]
        );
        let answers = [larger("No", "yes"), larger("ja", "nein"), larger("N", "Y"), larger("no", "Sí")];
        assert_eq!(answers, [Some(1), Some(0), Some(1), Some(1)]);
        for (first, second) in [("no", "maybe"), ("1", "nan"), ("1", "1.0"), ("1", "true"), ("inf", "1")] {
            assert_eq!(larger(first, second), None, "{first} {second}");
        }
    }
}
