//! Key and ttl are expressions over the arguments.
use std::time::Duration;
use axum::Json;
use idem_ui::Payment;
use sqlx::SqliteConnection;
fn on_paid(
    arg1: ::idem_runtime::__private::Idempotent<
        Json<Payment>,
        ::idem_runtime::__private::Sqlite,
    >,
) -> impl ::idem_runtime::__private::Run {
    async fn on_paid(tx: &mut SqliteConnection, Json(payment): Json<Payment>) {
        let _ = (&payment,);
        let _ = (tx, payment);
    }
    let (call, arg1) = arg1.split();
    let request = {
        let Json(payment) = &arg1;
        let _ = (payment,);
        call.options(const {
                &::idem_runtime::__private::Policy::new("webhooks.paid")
                    .key_from_arguments()
            })
            .tenant(::idem_runtime::__private::TenantId::tenant_id(&(payment.currency)))
            .key(::idem_runtime::__private::KeyValue::key_value(&(payment.amount)))
            .ttl({
                let ttl: ::idem_runtime::__private::Duration = Duration::from_mins(1);
                ttl
            })
    };
    request
        .run_atomic::<
            SqliteConnection,
            _,
        >(move |tx, _| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(on_paid(tx, arg1)),
                <() as ::idem_runtime::__private::IntoResponse>::into_response,
            )
        })
}
