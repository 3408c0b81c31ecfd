//! Which categorical factors of a term leave out their reference level, so that the columns of the model matrix are independent.

use std::collections::HashSet;

/// A product of factors, by their numbers, each with whether its reference level is left out.
pub(super) type Product = Vec<(usize, bool)>;

/// Splits each term into products of factors that together span what the term adds to the terms before it, as patsy and formulaic do.
///
/// With `f⁻` for a factor without its reference level, a categorical factor spans `1 + f⁻`. A term spans the products of these; those of
/// earlier terms are left out, and `p + p:f⁻` is written as `p:f`.
pub(super) fn products(
    intercept: bool,
    terms: &[Vec<usize>],
    is_categorical: impl Fn(usize) -> bool,
) -> Vec<Vec<Product>> {
    let mut spanned: HashSet<Product> = HashSet::new();
    if intercept {
        spanned.insert(Product::new());
    }
    let new_products = |term: &Vec<usize>| {
        let mut span = vec![Product::new()];
        for &factor in term {
            let with = |product: &Product| {
                let longer = [&product[..], &[(factor, is_categorical(factor))]].concat();
                if is_categorical(factor) { vec![longer, product.clone()] } else { vec![longer] }
            };
            span = span.iter().flat_map(with).collect();
        }
        span.retain(|product| !spanned.contains(&key(product)));
        spanned.extend(span.iter().map(key));
        simplified(span)
    };
    terms.iter().map(new_products).collect()
}

/// A product without the order of its factors.
fn key(product: &Product) -> Product {
    let mut key = product.clone();
    key.sort_unstable();
    key
}

/// Applies the rule `p + p:f⁻ = p:f` as often as possible.
fn simplified(mut products: Vec<Product>) -> Vec<Product> {
    products.sort_by_key(Vec::len);
    let mut terms: Vec<Product> = Vec::new();
    for product in products {
        let joined = terms.iter().enumerate().find_map(|(at, shorter)| {
            let mut others = product.iter().filter(|factor| !shorter.contains(factor));
            match (others.next(), others.next()) {
                (Some(&(factor, true)), None) if shorter.len() + 1 == product.len() => Some((at, factor)),
                _ => None,
            }
        });
        match joined {
            Some((at, factor)) => {
                terms.remove(at);
                terms.push(product.iter().map(|&(f, reduced)| (f, reduced && f != factor)).collect());
                terms = simplified(terms);
            }
            None => terms.push(product),
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors 0, 1 and 2 are categorical, 7 to 9 are numbers.
    fn spanned(intercept: bool, terms: &[&[usize]]) -> String {
        let terms: Vec<Vec<usize>> = terms.iter().map(|term| term.to_vec()).collect();
        let show = |product: &Product| {
            let factors =
                product.iter().map(|(f, reduced)| format!("{f}{}", if *reduced { "-" } else { "" }));
            factors.collect::<Vec<_>>().join(":")
        };
        let of_term = |term: &Vec<Product>| term.iter().map(show).collect::<Vec<_>>().join("+");
        products(intercept, &terms, |factor| factor < 3).iter().map(of_term).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reference_levels_are_left_out_where_other_terms_span_them() {
        assert_eq!(spanned(true, &[&[0]]), "0-");
        assert_eq!(spanned(false, &[&[0]]), "0");
        assert_eq!(spanned(false, &[&[0], &[1]]), "0 1-");
        assert_eq!(spanned(true, &[&[0], &[1], &[0, 1]]), "0- 1- 0-:1-");
        assert_eq!(spanned(true, &[&[0], &[0, 1]]), "0- 0:1-");
        assert_eq!(spanned(true, &[&[0, 1]]), "1-+0-:1");
        assert_eq!(spanned(false, &[&[0, 1]]), "0:1");
        assert_eq!(spanned(true, &[&[7], &[0, 7]]), "7 0-:7");
        assert_eq!(spanned(true, &[&[0, 7]]), "0:7");
        assert_eq!(spanned(true, &[&[0], &[0, 7], &[1, 7]]), "0- 0:7 1-:7");
        assert_eq!(spanned(true, &[&[7, 8], &[0, 7, 8]]), "7:8 0-:7:8");
    }
}
