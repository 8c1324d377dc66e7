//! Encryption at rest: what leaves for the store, and what comes back.

use std::error::Error;
use std::panic::{self, AssertUnwindSafe};

use bytes::Bytes;

use crate::claim::Identity;
use crate::record::{Kept, StoredResponse, length_prefixed};
use crate::store::ResponseColumns;

/// Encrypts what is stored at rest: headers, body, and the results of leased steps, each as one
/// value.
///
/// ```
/// # use idem_runtime::Seal;
/// # type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// # #[derive(Debug)] struct Vault;
/// # impl Vault {
/// #     fn encrypt(&self, _: &[u8], p: &[u8]) -> Result<Vec<u8>, BoxError> { Ok(p.to_vec()) }
/// #     fn decrypt(&self, _: &[u8], s: &[u8]) -> Result<Vec<u8>, BoxError> { Ok(s.to_vec()) }
/// # }
/// impl Seal for Vault {
///     fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, BoxError> {
///         self.encrypt(context, plain)
///     }
///
///     fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, BoxError> {
///         self.decrypt(context, sealed)
///     }
/// }
/// ```
pub trait Seal: Send + Sync + 'static {
    /// Encrypts a value. `context` is different for each tenant, scope, key, and column: bind it
    /// as associated data, so that a value moved to another row does not open.
    ///
    /// # Errors
    /// Whatever keeps it from encrypting; the client gets 503, and the run is rolled back. In leased mode
    /// its finished steps stay, and a retry resumes after them once the lease is over.
    fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

    /// Decrypts what [`seal`](Self::seal) returned for the same `context`.
    ///
    /// # Errors
    /// Whatever keeps it from decrypting; the client gets 503 and the handler does not run.
    fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;
}

/// The stored value and its hook do not fit together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("the encryption hook failed")]
    Hook(#[source] Box<dyn Error + Send + Sync>),
    #[error("the encryption hook panicked")]
    Panicked,
    #[error("the stored response is not in this library's format")]
    Format,
}

/// Encrypts a value on its way into a column, if there is a hook.
pub(crate) fn close(
    seal: Option<&dyn Seal>,
    identity: &Identity,
    column: &str,
    plain: Vec<u8>,
) -> Result<Vec<u8>, SealError> {
    match seal {
        Some(seal) => call(|| seal.seal(&context(identity, column), &plain)),
        None => Ok(plain),
    }
}

/// Decrypts a value from a column, if there is a hook.
pub(crate) fn open(
    seal: Option<&dyn Seal>,
    identity: &Identity,
    column: &str,
    sealed: Vec<u8>,
) -> Result<Vec<u8>, SealError> {
    match seal {
        Some(seal) => call(|| seal.open(&context(identity, column), &sealed)),
        None => Ok(sealed),
    }
}

/// Calls the hook. A panic of its own must not end the task that has the key in hand.
fn call(
    hook: impl FnOnce() -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>,
) -> Result<Vec<u8>, SealError> {
    match panic::catch_unwind(AssertUnwindSafe(hook)) {
        Ok(called) => called.map_err(SealError::Hook),
        Err(_) => Err(SealError::Panicked),
    }
}

/// Turns an outcome into columns.
pub(crate) fn to_columns(
    seal: Option<&dyn Seal>,
    identity: &Identity,
    kept: &Kept,
) -> Result<ResponseColumns, SealError> {
    let Kept::Response(response) = kept else {
        return Ok(ResponseColumns::default());
    };
    Ok(ResponseColumns {
        status: Some(i16::try_from(response.status).map_err(|_| SealError::Format)?),
        headers: Some(close(seal, identity, "headers", response.encode_headers())?),
        body: Some(close(seal, identity, "body", response.body.to_vec())?),
    })
}

/// Turns columns into an outcome.
pub(crate) fn from_columns(
    seal: Option<&dyn Seal>,
    identity: &Identity,
    columns: ResponseColumns,
) -> Result<Kept, SealError> {
    let (status, headers, body) = match columns {
        ResponseColumns { status: None, .. } => return Ok(Kept::Tombstone),
        ResponseColumns {
            status: Some(status),
            headers: Some(headers),
            body: Some(body),
        } => (status, headers, body),
        _ => return Err(SealError::Format),
    };
    Ok(Kept::Response(StoredResponse {
        status: u16::try_from(status).map_err(|_| SealError::Format)?,
        headers: StoredResponse::decode_headers(open(seal, identity, "headers", headers)?)
            .ok_or(SealError::Format)?,
        body: Bytes::from(open(seal, identity, "body", body)?),
    }))
}

fn context(identity: &Identity, column: &str) -> Vec<u8> {
    length_prefixed([&identity.to_bytes()[..], column.as_bytes()])
}
