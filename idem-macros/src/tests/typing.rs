//! An attribute while it is typed, token by token.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::quote;

use super::{BOTH, mistakes, tokens};

/// What an editor hands over while it is typed: it closes each parenthesis at once.
fn prefixes(tokens: &TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let mut all = Vec::new();
    for end in 0..=tokens.len() {
        let typed = tokens[..end].iter().cloned().collect::<TokenStream>();
        if let Some(TokenTree::Group(group)) = tokens.get(end) {
            all.extend(prefixes(&group.stream()).into_iter().map(|inside| {
                let group = TokenTree::from(Group::new(group.delimiter(), inside));
                quote!(#typed #group)
            }));
        }
        all.push(typed);
    }
    all
}

#[test]
fn what_is_typed_of_an_attribute_has_one_mistake() {
    let http = "async fn pay(account: Account, State(app): State<App>, tx: &mut PgConnection, Json(payment): Json<Payment>) {}";
    let leased = "async fn pay(account: Account, lease: &Lease<Postgres>) {}";
    let message = "async fn pay(event: Paid, tx: &mut PgConnection) -> Result<(), E> {}";
    for (options, item) in [
        (
            r#"scope = "a", tenant = account.id, ttl = "24h", key = header("x-key"), required = false"#,
            http,
        ),
        (
            r#"scope = "a", tenant = shared, fingerprint = (payment.amount, [payment.currency, "x"]), wait = "5s""#,
            http,
        ),
        (
            r#"scope = scopes::PAY, tenant = &account.id, store = app.idempotency.clone(), timeout = "30s", record = "all""#,
            http,
        ),
        (
            r#"scope = self::PAY, tenant = format!("{}/{}", account.org, account.id), ttl = Duration::from_secs(60 * 5)"#,
            http,
        ),
        (
            r#"scope = "a", tenant = find(&account).await, max_response = "1MiB", crate = ::framework::idem_runtime"#,
            http,
        ),
        (
            r#"scope = "a", tenant = if account.id > 0 { account.id } else { 5 }, key = payment.id.to_string()"#,
            http,
        ),
        (
            r#"scope = "a", tenant = account.id, lease = "10s", on_takeover = "reconcile""#,
            leased,
        ),
        (
            r#"message, scope = "a", tenant = "orders", key = event.id, ttl = "14d""#,
            message,
        ),
    ] {
        let whole = tokens(options);
        assert_eq!(mistakes(options, item, BOTH), [""; 0], "{options}");
        for typed in prefixes(&whole) {
            let typed = typed.to_string();
            let mut found = mistakes(&typed, item, BOTH);
            // What is not there yet is another.
            found.retain(|what| !what.starts_with("missing `"));
            assert!(found.len() <= 1, "{typed}: {found:#?}");
        }
    }
}
