//! A handler whose effect is outside the database.
use axum::Json;
use idem_runtime::{Claim, Lease};
use idem_ui::{Account, Payment};
use sqlx::Postgres;
fn create_charge(
    arg0: Account,
    arg3: ::idem_runtime::__private::Idempotent<Json<Payment>, Postgres>,
) -> impl ::idem_runtime::__private::Run {
    async fn create_charge(
        account: Account,
        lease: &Lease<Postgres>,
        claim: &Claim,
        Json(payment): Json<Payment>,
    ) -> String {
        let _ = (&account,);
        let _ = (lease, payment.amount);
        claim.derive_key("psp.charge").to_string()
    }
    let (call, arg3) = arg3.split();
    let request = {
        let account = &arg0;
        let _ = (account,);
        call.options(const {
                &::idem_runtime::__private::Policy::new("charges.create")
                    .lease(::idem_runtime::__private::duration(10, 0))
                    .on_takeover(::idem_runtime::__private::OnTakeover::Reconcile)
            })
            .tenant(::idem_runtime::__private::TenantId::tenant_id(&(account.id)))
    };
    request
        .run_leased(move |tx, claim| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(create_charge(arg0, tx, claim, arg3)),
                ::idem_runtime::__private::IntoResponse::into_response,
            )
        })
}
