//! The settings of a handle.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sqlx::Pool;

use crate::error::ConfigError;
use crate::handle::Idempotency;
use crate::policy::{LEASE_RANGE, Overrides, TTL_RANGE, is_scope};
use crate::seal::Seal;
use crate::store::{Backend, Tables};

/// Builds an [`Idempotency`] handle; every setting has a default.
#[must_use]
pub struct Builder<DB: Backend> {
    pool: Pool<DB>,
    settings: Settings,
}

/// How a client's key is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKeys {
    /// As the client sent it, so that an operator can look for it.
    #[default]
    Raw,
    /// As SHA-256 over tenant, scope, and key, in hexadecimal.
    Digest,
}

#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) tables: Tables,
    pub(crate) store_keys: StoreKeys,
    pub(crate) seal: Option<Arc<dyn Seal>>,
    pub(crate) overrides: HashMap<String, Overrides>,
    #[cfg(feature = "axum")]
    pub(crate) renderer: Option<crate::http::Renderer>,
}

impl<DB: Backend> Builder<DB> {
    pub(crate) fn new(pool: Pool<DB>) -> Self {
        Self {
            pool,
            settings: Settings::default(),
        }
    }

    /// Names the table of the keys; the default is `idempotency_keys`. 1 to 48 letters, digits,
    /// and `_`, not beginning with a digit.
    pub fn keys_table(mut self, name: &str) -> Self {
        self.settings.tables.keys = name.into();
        self
    }

    /// Names the table of the leased steps; the default is `idempotency_steps`.
    pub fn steps_table(mut self, name: &str) -> Self {
        self.settings.tables.steps = name.into();
        self
    }

    /// Names the table of the outbox; the default is `outbox`. Messages for it are written with
    /// [`Outbox::publish`](crate::outbox::Outbox::publish) of the handle.
    pub fn outbox_table(mut self, name: &str) -> Self {
        self.settings.tables.outbox = name.into();
        self
    }

    /// Says how keys are stored; the default is [`StoreKeys::Raw`]. Keys stored one way are not
    /// found the other way: after a change, a retry of an earlier request runs again.
    pub fn store_keys(mut self, how: StoreKeys) -> Self {
        self.settings.store_keys = how;
        self
    }

    /// Encrypts stored responses; the default is to store them as they are. The hook is also asked to
    /// open what was stored before it was set, and under earlier keys: what it refuses is answered
    /// with 503 until it expires.
    pub fn seal(mut self, seal: impl Seal) -> Self {
        self.settings.seal = Some(Arc::new(seal));
        self
    }

    /// Overrides for one scope what its attribute says.
    pub fn scope(mut self, scope: &str, overrides: Overrides) -> Self {
        self.settings.overrides.insert(scope.to_owned(), overrides);
        self
    }

    /// Replaces how refusals are rendered; the default is `application/problem+json`.
    ///
    /// The status and a `Retry-After` header stay as they are unless the renderer sets them (and a
    /// refusal is never a 2xx):
    /// start from [`Problem::into_response`](axum::response::IntoResponse::into_response), or build
    /// another body.
    #[cfg(feature = "axum")]
    pub fn render_problem(
        mut self,
        render: impl Fn(&crate::Problem) -> axum::response::Response + Send + Sync + 'static,
    ) -> Self {
        self.settings.renderer = Some(crate::http::Renderer::new(render));
        self
    }

    /// Makes the handle.
    ///
    /// # Errors
    /// [`ConfigError`] for the first setting that cannot work.
    pub fn build(self) -> Result<Idempotency<DB>, ConfigError> {
        check_tables(&self.settings.tables)?;
        for (scope, overrides) in &self.settings.overrides {
            check_overrides(scope, overrides)?;
        }
        Ok(Idempotency::with_settings(self.pool, self.settings))
    }
}

fn check_tables(tables: &Tables) -> Result<(), ConfigError> {
    let Tables {
        keys,
        steps,
        outbox,
    } = tables;
    for name in [keys, steps, outbox] {
        check_table(name)?;
    }
    for (name, other) in [(keys, steps), (keys, outbox), (steps, outbox)] {
        if name.eq_ignore_ascii_case(other) {
            return Err(ConfigError::TableNameTwice(other.to_string()));
        }
    }
    Ok(())
}

fn check_table(name: &str) -> Result<(), ConfigError> {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let digit_first = name.starts_with(|first: char| first.is_ascii_digit());
    // PostgreSQL cuts identifiers at 63 bytes, and the index adds a suffix.
    if !plain || digit_first || name.is_empty() || name.len() > 48 {
        return Err(ConfigError::TableName(name.to_owned()));
    }
    Ok(())
}

fn check_overrides(scope: &str, overrides: &Overrides) -> Result<(), ConfigError> {
    if !is_scope(scope) {
        return Err(ConfigError::Scope(scope.to_owned()));
    }
    if let Some(ttl) = overrides.ttl
        && !TTL_RANGE.contains(&ttl)
    {
        return Err(ConfigError::Ttl {
            scope: scope.to_owned(),
            ttl,
        });
    }
    if overrides.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(ConfigError::Timeout(scope.to_owned()));
    }
    if let Some(lease) = overrides.lease
        && !LEASE_RANGE.contains(&lease)
    {
        return Err(ConfigError::Lease {
            scope: scope.to_owned(),
            lease,
        });
    }
    Ok(())
}

impl<DB: Backend> fmt::Debug for Builder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("keys_table", &self.settings.tables.keys)
            .field("store_keys", &self.settings.store_keys)
            .field("overrides", &self.settings.overrides)
            .finish_non_exhaustive()
    }
}
