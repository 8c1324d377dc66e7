//! The user's argument patterns, seen from the option expressions.

use syn::{FieldPat, Ident, Pat, PatType};

/// The names that a pattern binds, in order. `None` when a macro hides them.
pub(crate) fn bindings(pat: &Pat) -> Option<Vec<Ident>> {
    let mut names = Vec::new();
    collect(pat, &mut names).then_some(names)
}

fn collect(pat: &Pat, names: &mut Vec<Ident>) -> bool {
    match pat {
        Pat::Ident(ident) => {
            let below = ident.subpat.as_ref();
            names.push(ident.ident.clone());
            below.is_none_or(|(_, pat)| collect(pat, names))
        }
        Pat::Or(or) => or.cases.first().is_none_or(|case| collect(case, names)),
        Pat::Paren(paren) => collect(&paren.pat, names),
        Pat::Reference(reference) => collect(&reference.pat, names),
        Pat::Slice(slice) => slice.elems.iter().all(|pat| collect(pat, names)),
        Pat::Struct(fields) => fields.fields.iter().all(|field| collect(&field.pat, names)),
        Pat::Tuple(tuple) => tuple.elems.iter().all(|pat| collect(pat, names)),
        Pat::TupleStruct(tuple) => tuple.elems.iter().all(|pat| collect(pat, names)),
        Pat::Type(typed) => collect(&typed.pat, names),
        Pat::Macro(_) | Pat::Verbatim(_) => false,
        _ => true,
    }
}

/// The pattern for matching a reference to the argument: without `mut` and
/// `ref`, which edition 2024 refuses there. `None` when it dereferences.
pub(crate) fn by_reference(pat: &Pat) -> Option<Pat> {
    let mut pat = pat.clone();
    strip(&mut pat).then_some(pat)
}

fn strip(pat: &mut Pat) -> bool {
    match pat {
        Pat::Ident(ident) => {
            ident.mutability = None;
            ident.by_ref = None;
            let below = ident.subpat.as_mut();
            below.is_none_or(|(_, pat)| strip(pat))
        }
        Pat::Or(or) => or.cases.iter_mut().all(strip),
        Pat::Paren(paren) => strip(&mut paren.pat),
        Pat::Slice(slice) => slice.elems.iter_mut().all(strip),
        Pat::Struct(fields) => fields.fields.iter_mut().all(strip_field),
        Pat::Tuple(tuple) => tuple.elems.iter_mut().all(strip),
        Pat::TupleStruct(tuple) => tuple.elems.iter_mut().all(strip),
        Pat::Type(PatType { pat, .. }) => strip(pat),
        Pat::Reference(_) | Pat::Macro(_) | Pat::Verbatim(_) => false,
        _ => true,
    }
}

fn strip_field(field: &mut FieldPat) -> bool {
    strip(&mut field.pat)
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens, quote};
    use syn::parse::Parser;

    use super::*;

    fn pat(tokens: proc_macro2::TokenStream) -> Pat {
        Pat::parse_single.parse2(tokens).expect("a pattern")
    }

    #[test]
    fn names_are_found_at_any_depth() {
        for (tokens, names) in [
            (quote!(account), "account"),
            (quote!(Json(mut payment)), "payment"),
            (quote!(Path((id, ref name))), "id name"),
            (
                quote!(Query(Page {
                    from,
                    size: count,
                    ..
                })),
                "from count",
            ),
            (quote!(all @ Json([first, ..])), "all first"),
            (quote!(_), ""),
        ] {
            let found = bindings(&pat(tokens)).expect("no macro");
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), names);
        }
        assert!(bindings(&pat(quote!(Json(hidden!())))).is_none());
    }

    #[test]
    fn matching_a_reference_needs_no_mut_and_no_ref() {
        let strip =
            |tokens| by_reference(&pat(tokens)).map(|pat| pat.into_token_stream().to_string());
        assert_eq!(
            strip(quote!(Json(mut a))),
            Some(quote!(Json(a)).to_string())
        );
        assert_eq!(
            strip(quote!(Page { mut from, ref to, .. })),
            Some(quote!(Page { from, to, .. }).to_string())
        );
        assert_eq!(strip(quote!(Json(&a))), None);
    }
}
