//! How the value of an option is handed to the runtime: lent, so that the handler still has it, and
//! so that rustc explains a wrong type at the value and nowhere else.

use proc_macro2::{Delimiter, Group, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{Expr, Ident, Type};

use crate::expand::{ends, standing_at};

pub(crate) struct Lender<'a> {
    /// The arguments in scope. Each is a reference already.
    pub(crate) names: &'a [Ident],
    pub(crate) runtime: &'a TokenStream,
}

impl Lender<'_> {
    /// `&(account.id)`; `account` as it is.
    fn value(&self, value: &Expr) -> TokenStream {
        match value {
            Expr::Paren(paren) => self.value(&paren.expr),
            Expr::Path(path) if self.names.iter().any(|name| path.path.is_ident(name)) => {
                value.to_token_stream()
            }
            _ => borrowed(value, Delimiter::Parenthesis, value.to_token_stream()),
        }
    }

    /// `(payment.amount, account)` becomes `&(&(payment.amount), account)`: a literal of fields
    /// would move them out of the arguments.
    pub(crate) fn elements(&self, value: &Expr) -> TokenStream {
        let elems = match value {
            Expr::Tuple(tuple) => &tuple.elems,
            Expr::Array(array) => &array.elems,
            Expr::Paren(paren) => return self.elements(&paren.expr),
            _ => return self.value(value),
        };
        let elems = elems.iter().map(|elem| self.elements(elem));
        match value {
            Expr::Array(_) => borrowed(value, Delimiter::Bracket, quote!(#(#elems),*)),
            _ => borrowed(value, Delimiter::Parenthesis, quote!(#(#elems,)*)),
        }
    }

    /// `TenantId::tenant_id(&(account.id))`: a bound of a trait's own method is met or not at the
    /// value. A bound of a setter would have rustc add where that is declared.
    pub(crate) fn asked(&self, bound: &str, method: &str, value: &Expr) -> TokenStream {
        let (bound, method) = (format_ident!("{bound}"), format_ident!("{method}"));
        let (runtime, (first, last)) = (self.runtime, ends(value));
        let ask = standing_at(quote!(#runtime::#bound::#method), first, last);
        let value = in_parentheses(self.value(value), last);
        quote!(#ask #value)
    }

    /// `|writer| <OrderPaid as Fingerprinted>::write(&arg1, writer)`: the message as a whole.
    pub(crate) fn message(&self, ty: &Type, name: &Ident) -> TokenStream {
        let runtime = self.runtime;
        let writer = Ident::new("writer", Span::mixed_site());
        quote! {
            |#writer: #runtime::JsonWriter<'_, '_>| {
                <#ty as #runtime::Fingerprinted>::write(&#name, #writer)
            }
        }
    }

    /// `|writer| Fingerprinted::write(&payment, writer)`, for the same reason.
    pub(crate) fn written(&self, place: &Expr, value: &TokenStream) -> TokenStream {
        let (runtime, (first, last)) = (self.runtime, ends(place));
        let write = standing_at(quote!(#runtime::Fingerprinted::write), first, last);
        let writer = Ident::new("writer", Span::mixed_site());
        let arguments = in_parentheses(quote!(#value, #writer), last);
        quote!(|#writer: #runtime::JsonWriter<'_, '_>| #write #arguments)
    }

    /// `{ let ttl: Duration = TTL; ttl }`: types are compared at the value, as an argument's are
    /// with the method.
    pub(crate) fn duration(&self, value: &Expr) -> TokenStream {
        let (runtime, (first, last)) = (self.runtime, ends(value));
        let ty = standing_at(quote!(#runtime::Duration), first, last);
        let ttl = Ident::new("ttl", Span::mixed_site());
        quote!({
            let #ttl: #ty = #value;
            #ttl
        })
    }

    /// `let handle: &Idempotency<Postgres> = &(app.idempotency);`, a statement of its own, so that
    /// a clone lives as long as what asks for it.
    pub(crate) fn handle(&self, value: &Expr, database: &TokenStream) -> (Ident, TokenStream) {
        let (runtime, (first, last)) = (self.runtime, ends(value));
        let open = standing_at(quote!(&#runtime::Idempotency<), first, first);
        let close = standing_at(quote!(>), last, last);
        let value = self.value(value);
        let handle = Ident::new("handle", Span::mixed_site());
        let statement = quote!(let #handle: #open #database #close = #value;);
        (handle, statement)
    }
}

/// Borrows `inside`, and stands on all of `value`: a span joins the first token with the last.
fn borrowed(value: &Expr, delimiter: Delimiter, inside: TokenStream) -> TokenStream {
    let (first, last) = ends(value);
    let mut and = Punct::new('&', Spacing::Alone);
    and.set_span(first);
    let mut group = Group::new(delimiter, inside);
    group.set_span(last);
    TokenStream::from_iter([TokenTree::from(and), TokenTree::from(group)])
}

fn in_parentheses(inside: TokenStream, span: Span) -> Group {
    let mut group = Group::new(Delimiter::Parenthesis, inside);
    group.set_span(span);
    group
}
