//! Every option of atomic mode, with constants and expressions.
use axum::Json;
use axum::extract::State;
use idem_ui::{Account, App, Payment};
use sqlx::{Postgres, Transaction};
const SCOPE: &str = "payments.create";
fn create_payment(
    arg0: Account,
    arg1: State<App>,
    arg3: ::idem_runtime::__private::Idempotent<Json<Payment>, ()>,
) -> impl ::idem_runtime::__private::Run {
    async fn create_payment(
        account: Account,
        State(app): State<App>,
        tx: &mut Transaction<'_, Postgres>,
        Json(payment): Json<Payment>,
    ) {
        let _ = (&account, &app, &payment);
        let _ = (app, tx, payment);
    }
    let (call, arg3) = arg3.split();
    let request = {
        let account = &arg0;
        let State(app) = &arg1;
        let Json(payment) = &arg3;
        let _ = (account, app, payment);
        let handle: &::idem_runtime::__private::Idempotency<Postgres> = &(app
            .idempotency);
        call.options({
                const __SCOPE: ::idem_runtime::__private::Text = {
                    let scope: ::idem_runtime::__private::Text = SCOPE;
                    scope
                };
                const _: () = ::idem_runtime::__private::check_scope(__SCOPE);
                const {
                    &::idem_runtime::__private::Policy::new(__SCOPE)
                        .ttl(::idem_runtime::__private::duration(5400, 0))
                        .key_header("webhook-id")
                        .required(false)
                        .wait(::idem_runtime::__private::duration(0, 500000000))
                        .timeout(::idem_runtime::__private::duration(20, 0))
                        .record(::idem_runtime::__private::Record::Success)
                        .max_response(16384)
                }
            })
            .store(handle)
            .tenant(::idem_runtime::__private::TenantId::tenant_id(&(account.id)))
            .fingerprint(|writer: ::idem_runtime::__private::JsonWriter<'_, '_>| ::idem_runtime::__private::Fingerprinted::write(
                &(&(payment.amount), &(payment.currency)),
                writer,
            ))
    };
    request
        .run_atomic::<
            Transaction<'static, Postgres>,
            _,
        >(move |tx, _| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(create_payment(arg0, arg1, tx, arg3)),
                <() as ::idem_runtime::__private::IntoResponse>::into_response,
            )
        })
}
