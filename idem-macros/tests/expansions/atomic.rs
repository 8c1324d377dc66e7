//! The example of the README.
use axum::Json;
use axum::http::StatusCode;
use idem_ui::{Account, ApiError, Payment};
use sqlx::PgConnection;
fn create_payment(
    arg0: Account,
    arg2: ::idem_runtime::__private::Idempotent<
        Json<Payment>,
        ::idem_runtime::__private::Postgres,
    >,
) -> impl ::idem_runtime::__private::Run {
    async fn create_payment(
        account: Account,
        tx: &mut PgConnection,
        Json(payment): Json<Payment>,
    ) -> Result<(StatusCode, Json<Payment>), ApiError> {
        let _ = (&account,);
        sqlx::query("insert into payments (account, amount) values ($1, $2)")
            .bind(account.id)
            .bind(payment.amount)
            .execute(tx)
            .await?;
        Ok((StatusCode::CREATED, Json(payment)))
    }
    let (call, arg2) = arg2.split();
    let request = {
        let account = &arg0;
        let _ = (account,);
        call.options(const {
                &::idem_runtime::__private::Policy::new("payments.create")
                    .ttl(::idem_runtime::__private::duration(86400, 0))
            })
            .tenant(::idem_runtime::__private::TenantId::tenant_id(&(account.id)))
    };
    request
        .run_atomic::<
            PgConnection,
            _,
        >(move |tx, _| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(create_payment(arg0, tx, arg2)),
                ::idem_runtime::__private::IntoResponse::into_response,
            )
        })
}
