//! The tenant: who the caller is. It is part of a key's identity, so that no
//! request ever sees what another caller stored.

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

use crate::key::impl_text_value;

/// A value that identifies the caller, for `tenant = account.id`.
///
/// It must stay the same when the caller's credentials are renewed: use the principal,
/// not the token. Implemented for strings, integers, and [`Uuid`]; for a newtype,
/// return what its inner value returns:
///
/// ```
/// # use std::borrow::Cow;
/// # use idem_runtime::TenantId;
/// struct AccountId(u64);
///
/// impl TenantId for AccountId {
///     fn tenant_id(&self) -> Cow<'_, str> { self.0.tenant_id() }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not identify a tenant",
    label = "expected a string, an integer, a `Uuid`, or a type that implements `TenantId`",
    note = "name the field that identifies the caller, such as `tenant = account.id`",
    note = "where `{Self}` is a newtype of yours, write `impl idem_runtime::TenantId for {Self} {{ fn tenant_id(&self) -> std::borrow::Cow<'_, str> {{ idem_runtime::TenantId::tenant_id(&self.0) }} }}`",
    note = "where it is another crate's, give its text, such as `tenant = address.to_string()`, or wrap it in a newtype"
)]
pub trait TenantId {
    /// Returns the identifier: 1 to 255 bytes of text without control characters.
    fn tenant_id(&self) -> Cow<'_, str>;
}

impl_text_value!(TenantId::tenant_id);

const MAX_LENGTH: usize = 255;

/// A checked tenant; the empty one is `tenant = shared`, which no
/// [`TenantId`] can spell.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tenant(String);

impl Tenant {
    pub(crate) fn new(id: &(impl TenantId + ?Sized)) -> Result<Self, InvalidTenant> {
        let id = id.tenant_id();
        if id.is_empty() {
            return Err(InvalidTenant::Empty);
        }
        if id.len() > MAX_LENGTH {
            return Err(InvalidTenant::TooLong);
        }
        // PostgreSQL stores no NUL in text, and a control character in an
        // identifier is a mistake somewhere before us.
        if id.chars().any(char::is_control) {
            return Err(InvalidTenant::Character);
        }
        Ok(Self(id.into_owned()))
    }

    pub(crate) const fn shared() -> Self {
        Self(String::new())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tenant(..)")
    }
}

/// Says why a value identifies no tenant; never repeats the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTenant {
    /// The identifier has no characters, as when a caller is not known.
    #[error("the tenant is empty; a caller without an identity has no keys")]
    Empty,
    /// The identifier has more than 255 bytes.
    #[error("the tenant is longer than 255 bytes")]
    TooLong,
    /// The identifier has a control character.
    #[error("the tenant has a control character")]
    Character,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tenant_says_why() {
        let long = "t".repeat(256);
        for (id, why) in [
            ("", InvalidTenant::Empty),
            (long.as_str(), InvalidTenant::TooLong),
            ("a\0b", InvalidTenant::Character),
        ] {
            assert_eq!(Tenant::new(id), Err(why), "{id:?}");
        }
    }

    #[test]
    fn no_identifier_is_the_shared_tenant() {
        let named = Tenant::new("shared");
        assert!(named.is_ok_and(|tenant| tenant != Tenant::shared()));
    }

    #[test]
    fn identifiers_of_every_kind_are_tenants() {
        assert!(Tenant::new(&7_u64).is_ok_and(|tenant| tenant.as_str() == "7"));
        assert!(Tenant::new(&&Uuid::nil()).is_ok());
        assert!(Tenant::new(&String::from("a:b")).is_ok());
    }
}
