//! Where other attributes go, and what a generic handler becomes.
use axum::extract::State;
use axum::response::IntoResponse;
use idem_ui::{Account, App};
use sqlx::PgConnection;
use tracing::instrument;
/// Creates a payment.
#[cfg_attr(test, must_use)]
async fn create_payment<const N: usize>(
    arg0: Account,
    arg2: ::idem_runtime::__private::Idempotent<State<App>, PgConnection>,
) -> ::idem_runtime::__private::Response {
    #[instrument(skip_all)]
    async fn create_payment<const N: usize>(
        account: Account,
        tx: &mut PgConnection,
        State(app): State<App>,
    ) -> impl IntoResponse {
        let _ = (&account,);
        let _ = (account, tx, app);
        [0; N]
    }
    {
        let _ = ::idem_runtime::__private::extractor::<Account, App>;
        let _ = ::idem_runtime::__private::last_extractor::<State<App>, App, _>;
        let _ = ::idem_runtime::__private::state_with_handle::<App, PgConnection>;
    }
    let (call, arg2) = arg2.split();
    let request = {
        let account = &arg0;
        let _ = (account,);
        call.options(const {
                &::idem_runtime::__private::Policy::new("payments.create")
            })
            .tenant(::idem_runtime::__private::TenantId::tenant_id(&(account.id)))
    };
    request
        .run_atomic::<
            PgConnection,
            _,
        >(move |tx, _| {
            ::idem_runtime::__private::respond(
                ::idem_runtime::__private::pin(create_payment::<N>(arg0, tx, arg2)),
                ::idem_runtime::__private::IntoResponse::into_response,
            )
        })
        .await
}
