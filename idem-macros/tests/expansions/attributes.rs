//! Where other attributes go, and what a generic handler becomes.
use axum::extract::State;
use axum::response::IntoResponse;
use idem_ui::{Account, App};
use sqlx::PgConnection;
use tracing::instrument;
/// Creates a payment.
fn create_payment<R: Default + ::idem_runtime::__private::Owned, const N: usize>(
    arg0: Account,
    arg2: ::idem_runtime::__private::Idempotent<
        State<App>,
        ::idem_runtime::__private::Postgres,
    >,
) -> impl ::idem_runtime::__private::Run {
    #[instrument(skip_all)]
    #[cfg_attr(test, must_use)]
    async fn create_payment<R: Default, const N: usize>(
        account: Account,
        tx: &mut PgConnection,
        State(app): State<App>,
    ) -> impl IntoResponse {
        let _ = (&account,);
        let _ = (account, tx, app, R::default());
        [0; N]
    }
    {
        let _ = <Account as ::idem_runtime::__private::Extractor<App>>::is_extractor;
        let _ = <State<
            App,
        > as ::idem_runtime::__private::LastExtractor<App, _>>::is_extractor;
        let _ = <::idem_runtime::__private::Idempotency<
            ::idem_runtime::__private::Postgres,
        > as ::idem_runtime::__private::HandleSource<App>>::from_state;
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
                ::idem_runtime::__private::pin(create_payment::<R, N>(arg0, tx, arg2)),
                ::idem_runtime::__private::IntoResponse::into_response,
            )
        })
}
