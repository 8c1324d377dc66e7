//! Nothing is taken from the request.
use sqlx::PgConnection;
fn close_reports(
    call: ::idem_runtime::__private::Idempotent<(), ::idem_runtime::__private::Postgres>,
) -> impl ::idem_runtime::__private::Run {
    async fn close_reports(_tx: &mut PgConnection) {}
    let request = {
        call.options(const { &::idem_runtime::__private::Policy::new("reports.close") })
            .shared_tenant()
    };
    request
        .run_atomic::<
            PgConnection,
            _,
        >(move |tx, _| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(close_reports(tx)),
                <() as ::idem_runtime::__private::IntoResponse>::into_response,
            )
        })
}
