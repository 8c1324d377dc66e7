//! What the expansion of `#[idempotent(message, …)]` calls: each message's effect once.

use std::marker::PhantomData;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Transaction;

use crate::atomic::Work;
use crate::claim::Claim;
use crate::connection::AtomicConnection;
use crate::engine::Done;
use crate::given::Options;
use crate::handle::Idempotency;
use crate::observe;
use crate::once::{Once, done};
use crate::outcome::{OnceError, Outcome};
use crate::policy::Policy;

/// What a function for messages returns: a `Result`, since a failure must not be acknowledged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether the message was consumed, and with what",
    label = "expected `Result<T, E>`, where `T` is `Serialize` and `DeserializeOwned`",
    note = "an error rolls back and leaves the message to be delivered again; `Ok(())` is kept and acknowledged"
)]
pub trait Consumption: Send + 'static {
    /// What is kept for a repeated delivery.
    type Value: Serialize + DeserializeOwned + Send + 'static;
    /// Why the message was not consumed.
    type Error: Send + 'static;

    /// Says that this is a `Result`.
    ///
    /// # Errors
    /// The function's own.
    fn into_result(self) -> Result<Self::Value, Self::Error>;

    /// Consumes the message once for its key, in the transaction that also holds the key.
    ///
    /// Asked of the trait, so that rustc underlines what the user's function returns.
    fn consume<C, F>(
        options: MessageOptions,
        handle: &Idempotency<C::Database>,
        consumer: F,
    ) -> BoxFuture<'static, Consumed<Self>>
    where
        Self: Sized,
        C: AtomicConnection,
        F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, Self> + Send + 'static,
    {
        options.consume(handle, consumer)
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> Consumption for Result<T, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Send + 'static,
{
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// What the generated function returns in the place of `R`.
pub type Consumed<R> =
    Result<Outcome<<R as Consumption>::Value>, OnceError<<R as Consumption>::Error>>;

/// The values of an attribute's options for one message.
pub type MessageOptions = Options<()>;

impl Options<()> {
    /// Begins to collect the options.
    pub const fn new(policy: &Policy) -> Self {
        Self::of((), policy)
    }

    /// Boxed for the reason that `Options::run_atomic` gives.
    fn consume<C, R, F>(
        self,
        handle: &Idempotency<C::Database>,
        consumer: F,
    ) -> BoxFuture<'static, Consumed<R>>
    where
        C: AtomicConnection,
        R: Consumption,
        F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, R> + Send + 'static,
    {
        let handle = handle.clone();
        let scope = self.given.policy.scope;
        async move {
            let what = Once::from_given(self.given).map_err(|invalid| {
                observe::count(scope, "invalid_key");
                OnceError::InvalidRequest(invalid)
            })?;
            let work = move |max_response| Consumer {
                run: consumer,
                max_response,
                types: PhantomData::<fn() -> (C, R)>,
            };
            handle.run_once(what, work).await
        }
        .boxed()
    }
}

struct Consumer<F, C, R> {
    run: F,
    max_response: usize,
    types: PhantomData<fn() -> (C, R)>,
}

impl<F, C, R> Work<C::Database> for Consumer<F, C, R>
where
    C: AtomicConnection,
    R: Consumption,
    F: for<'t> FnOnce(&'t mut C, &'t Claim) -> BoxFuture<'t, R> + Send + 'static,
{
    type Value = Result<R::Value, OnceError<R::Error>>;

    fn run<'t>(
        self,
        tx: &'t mut Transaction<'static, C::Database>,
        claim: &'t Claim,
    ) -> BoxFuture<'t, Done<Self::Value>> {
        let Self {
            run, max_response, ..
        } = self;
        async move { done(run(C::of(tx), claim).await.into_result(), max_response) }.boxed()
    }
}
