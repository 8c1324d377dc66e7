//! Key and ttl are expressions over the arguments.
use std::time::Duration;
use axum::Json;
use idem_tests::ui::Payment;
use sqlx::SqliteConnection;
async fn on_paid(
    arg1: ::idem_runtime::__private::Call<Json<Payment>, SqliteConnection>,
) -> ::idem_runtime::__private::Response {
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
            .tenant(&(payment.currency))
            .key(&(payment.amount))
            .ttl(Duration::from_mins(1))
    };
    request
        .run_atomic::<
            SqliteConnection,
            _,
        >(move |tx, _| { ::idem_runtime::__private::respond(on_paid(tx, arg1)) })
        .await
}
