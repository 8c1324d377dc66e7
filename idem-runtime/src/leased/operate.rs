//! For operators: look at a key, and settle one that a run could not.

use std::time::{Duration, SystemTime};

use crate::claim::{Identity, State, Timestamp};
use crate::engine::STORE_LIMIT;
use crate::error::{InvalidRequest, StoreError};
use crate::handle::Idempotency;
use crate::key::Key;
use crate::observe;
use crate::policy::{TTL_RANGE, is_scope};
use crate::record::Kept;
use crate::store::{Backend, KeyColumns, Limits, ResponseColumns, lease, store_error};
use crate::tenant::{Tenant, TenantId};

/// One key, without its response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyStatus {
    /// How far the key is.
    pub state: KeyState,
    /// The attempt that holds the key or finished it; 1 for atomic mode.
    pub attempt: u32,
    /// When the key was claimed first.
    pub created_at: SystemTime,
    /// When it was finished.
    pub completed_at: Option<SystemTime>,
    /// From when on it counts as new; a key that needs reconciliation never does.
    pub expires_at: SystemTime,
    /// Leased mode: until when its owner holds it.
    pub locked_until: Option<SystemTime>,
    /// Leased mode: its steps, by name.
    pub steps: Vec<StepStatus>,
}

/// How far a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// A leased run holds the key.
    InProgress,
    /// A leased run ended without an outcome, or its owner died; a retry resumes.
    Released,
    /// The response is stored.
    Finished,
    /// The run is over, but its response was not kept.
    ResponseNotKept,
    /// An operator has to find out what happened.
    NeedsReconciliation,
    /// Past its ttl; counts as new.
    Expired,
}

/// One step of a leased run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepStatus {
    /// Its name in the handler.
    pub name: String,
    /// Whether its result is recorded; otherwise it was begun and may have happened.
    pub finished: bool,
}

/// Who settles a key, and why; both go into the log.
#[derive(Clone, Debug)]
#[must_use]
pub struct Settlement {
    who: String,
    why: String,
    ttl: Option<Duration>,
}

impl Settlement {
    /// Names the operator and the reason.
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            why: why.into(),
            ttl: None,
        }
    }

    /// Sets how long the settled key is kept from now on: 1 second to 400 days. By default it is 24
    /// hours, and no less than the key would have been kept without the operator's word: 400 days
    /// where its owner died inside a step under `on_takeover = "reconcile"` and no retry has come yet.
    ///
    /// # Errors
    /// [`InvalidRequest::Ttl`] when it is out of range.
    pub fn ttl(mut self, ttl: Duration) -> Result<Self, InvalidRequest> {
        if !TTL_RANGE.contains(&ttl) {
            return Err(InvalidRequest::Ttl(ttl));
        }
        self.ttl = Some(ttl);
        Ok(self)
    }
}

/// Why a key could not be looked at or settled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// Scope, tenant, or key break their rules.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is no such key.
    #[error("there is no such key")]
    NotFound,
    /// A run holds the key right now.
    #[error("a run holds the key right now")]
    InProgress,
    /// The key is finished; its outcome is never replaced.
    #[error("the key is finished")]
    Finished,
    /// The response is a stream, or failed.
    #[error("the response cannot be stored")]
    Response,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<DB: Backend> Idempotency<DB> {
    /// Shows one key: its state, attempt, times, and steps, without its response. An empty tenant
    /// is that of `tenant = shared`.
    ///
    /// # Errors
    /// [`SettleError::Invalid`] or [`SettleError::Store`].
    pub async fn find(
        &self,
        scope: &str,
        tenant: &(impl TenantId + ?Sized),
        key: &str,
    ) -> Result<Option<KeyStatus>, SettleError> {
        let identity = identity(scope, tenant, key)?;
        let handle = self.clone();
        let inspecting = async move { handle.inspect(&identity).await };
        let Some((row, steps)) = self.in_time(STORE_LIMIT, inspecting).await? else {
            return Ok(None);
        };
        let step = |step: lease::StepRow| StepStatus {
            finished: step.result.is_some(),
            name: step.name,
        };
        let leased = row.locked_until.is_some_and(|until| row.now < until);
        let state = match row.state {
            State::Parked => KeyState::NeedsReconciliation,
            State::InProgress if leased => KeyState::InProgress,
            _ if row.expires_at <= row.now => KeyState::Expired,
            State::InProgress => KeyState::Released,
            State::Finished => KeyState::Finished,
            State::Tombstone => KeyState::ResponseNotKept,
        };
        Ok(Some(KeyStatus {
            state,
            attempt: row.attempt,
            created_at: system_time(row.created_at),
            completed_at: row.completed_at.map(system_time),
            expires_at: system_time(row.expires_at),
            locked_until: row.locked_until.map(system_time),
            steps: steps.into_iter().map(step).collect(),
        }))
    }

    /// Finishes a key that needs reconciliation, or whose owner is gone, with the response that
    /// its retries get from now on.
    ///
    /// # Errors
    /// [`SettleError`]; a key in a run's hands, or finished, stays as it is.
    #[cfg(feature = "axum")]
    pub async fn complete(
        &self,
        scope: &str,
        tenant: &(impl TenantId + ?Sized),
        key: &str,
        response: impl axum::response::IntoResponse,
        settlement: Settlement,
    ) -> Result<(), SettleError> {
        let identity = identity(scope, tenant, key)?;
        let kept = crate::http::kept(response.into_response())
            .await
            .ok_or(SettleError::Response)?;
        self.settle_key(identity, Some(&kept), settlement).await
    }

    /// Frees a key that needs reconciliation, or whose owner is gone: the next retry resumes after
    /// the finished steps, and runs those again that were begun and not finished.
    ///
    /// # Errors
    /// [`SettleError`]; a key in a run's hands, or finished, stays as it is.
    pub async fn release(
        &self,
        scope: &str,
        tenant: &(impl TenantId + ?Sized),
        key: &str,
        settlement: Settlement,
    ) -> Result<(), SettleError> {
        let identity = identity(scope, tenant, key)?;
        self.settle_key(identity, None, settlement).await
    }

    async fn settle_key(
        &self,
        identity: Identity,
        kept: Option<&Kept>,
        settlement: Settlement,
    ) -> Result<(), SettleError> {
        let columns = self.columns(&identity);
        let outcome = kept.map(|kept| self.seal(&identity, kept)).transpose()?;
        let Settlement { who, why, ttl } = settlement;
        let handle = self.clone();
        let settling = async move { handle.settle_row(&columns, outcome.as_ref(), ttl).await };
        match self.detached_in_time(settling).await? {
            Settled::Done => {}
            Settled::Not(None) => return Err(SettleError::NotFound),
            Settled::Not(Some(State::Finished | State::Tombstone)) => {
                return Err(SettleError::Finished);
            }
            Settled::Not(Some(State::InProgress | State::Parked)) => {
                return Err(SettleError::InProgress);
            }
        }
        let span = observe::span(&identity);
        let _entered = span.enter();
        let action = if kept.is_some() {
            "completed"
        } else {
            "released"
        };
        tracing::warn!(who, why, action, "an operator settled a key");
        Ok(())
    }

    async fn inspect(
        &self,
        identity: &Identity,
    ) -> Result<Option<(lease::Inspected, Vec<lease::StepRow>)>, StoreError> {
        let columns = self.columns(identity);
        let sql = &self.statements().lease;
        let mut conn = self.acquire().await?;
        let found = lease::inspect::<DB>(&mut conn, sql, &columns)
            .await
            .map_err(store_error::<DB>)?;
        let Some(row) = found else { return Ok(None) };
        let steps = lease::steps::<DB>(&mut conn, sql, &columns)
            .await
            .map_err(store_error::<DB>)?;
        Ok(Some((row, steps)))
    }

    async fn settle_row(
        &self,
        key: &KeyColumns,
        outcome: Option<&ResponseColumns>,
        ttl: Option<Duration>,
    ) -> Result<Settled, StoreError> {
        let sql = &self.statements().lease;
        let mut writing = self.begin(Limits::for_ours(SETTLE_LIMIT)).await?;
        let settled = lease::settle(&mut writing.tx, sql, key, outcome, ttl)
            .await
            .map_err(store_error::<DB>)?;
        if settled {
            writing.commit().await?;
            return Ok(Settled::Done);
        }
        let found = lease::inspect::<DB>(&mut writing.tx, sql, key)
            .await
            .map_err(store_error::<DB>)?;
        writing.give_back().await;
        Ok(Settled::Not(found.map(|row| row.state)))
    }
}

/// Whether a key was an operator's to settle, or how far it is instead.
enum Settled {
    Done,
    Not(Option<State>),
}

/// How long the database gives an operator's word.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

fn identity(
    scope: &str,
    tenant: &(impl TenantId + ?Sized),
    key: &str,
) -> Result<Identity, InvalidRequest> {
    if !is_scope(scope) {
        return Err(InvalidRequest::Scope);
    }
    let tenant = if tenant.tenant_id().is_empty() {
        Tenant::shared()
    } else {
        Tenant::new(tenant)?
    };
    Ok(Identity {
        tenant,
        scope: scope.to_owned().into(),
        key: Key::new(key)?,
    })
}

fn system_time(timestamp: Timestamp) -> SystemTime {
    let since = Duration::from_millis(timestamp.unsigned_abs());
    if timestamp < 0 {
        SystemTime::UNIX_EPOCH - since
    } else {
        SystemTime::UNIX_EPOCH + since
    }
}
