//! Nothing is taken from the request.
use sqlx::PgConnection;
async fn close_reports(
    call: ::idem_runtime::__private::Idempotent<(), PgConnection>,
) -> ::idem_runtime::__private::Response {
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
        .await
}
