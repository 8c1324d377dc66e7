//! The names of the options. The parser, the did-you-mean, and the list in
//! messages read this one table.

use std::fmt;

use crate::diag::nearest;

/// One option of the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: &'static str,
    /// The option with a value as a person would write it.
    pub(crate) example: &'static str,
    /// What other libraries call it, and what people type at first.
    aliases: &'static [&'static str],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

pub(crate) const SCOPE: Name = Name {
    text: "scope",
    example: r#"scope = "payments.create""#,
    aliases: &["name", "operation", "op", "namespace", "endpoint", "route"],
};

pub(crate) const TENANT: Name = Name {
    text: "tenant",
    example: "tenant = account.id",
    aliases: &[
        "account",
        "caller",
        "client",
        "customer",
        "merchant",
        "owner",
        "principal",
        "tenant_id",
        "user",
        "user_id",
    ],
};

pub(crate) const TTL: Name = Name {
    text: "ttl",
    example: r#"ttl = "24h""#,
    aliases: &[
        "duration",
        "expiration",
        "expire",
        "expires",
        "expires_in",
        "expiry",
        "keep_for",
        "lifetime",
        "max_age",
        "retention",
        "time_to_live",
    ],
};

pub(crate) const KEY: Name = Name {
    text: "key",
    example: r#"key = header("idempotency-key")"#,
    aliases: &[
        "header",
        "header_name",
        "idempotency_key",
        "idempotent_key",
        "key_header",
        "key_name",
    ],
};

pub(crate) const REQUIRED: Name = Name {
    text: "required",
    example: "required = false",
    aliases: &["mandatory", "optional", "require", "require_key"],
};

pub(crate) const FINGERPRINT: Name = Name {
    text: "fingerprint",
    example: "fingerprint = (payment.amount, payment.currency)",
    aliases: &[
        "body_hash",
        "checksum",
        "digest",
        "hash",
        "payload",
        "request_hash",
    ],
};

pub(crate) const WAIT: Name = Name {
    text: "wait",
    example: r#"wait = "5s""#,
    aliases: &["block", "wait_for", "wait_timeout"],
};

pub(crate) const TIMEOUT: Name = Name {
    text: "timeout",
    example: r#"timeout = "60s""#,
    aliases: &["deadline", "max_duration", "time_limit", "time_out"],
};

pub(crate) const LEASE: Name = Name {
    text: "lease",
    example: r#"lease = "30s""#,
    aliases: &[
        "lease_time",
        "lock",
        "lock_timeout",
        "lock_ttl",
        "locked_for",
    ],
};

pub(crate) const ON_TAKEOVER: Name = Name {
    text: "on_takeover",
    example: r#"on_takeover = "reconcile""#,
    aliases: &["on_take_over", "on_recovery", "recovery", "takeover"],
};

pub(crate) const RECORD: Name = Name {
    text: "record",
    example: r#"record = "success""#,
    aliases: &["cache", "cacheable", "keep", "save", "store_responses"],
};

pub(crate) const MAX_RESPONSE: Name = Name {
    text: "max_response",
    example: r#"max_response = "1MiB""#,
    aliases: &[
        "limit",
        "max_body",
        "max_response_size",
        "max_size",
        "size_limit",
    ],
};

pub(crate) const STORE: Name = Name {
    text: "store",
    example: "store = app.idempotency",
    aliases: &[
        "backend",
        "database",
        "db",
        "engine",
        "idempotency",
        "pool",
        "state",
        "storage",
    ],
};

pub(crate) const MESSAGE: Name = Name {
    text: "message",
    example: "message",
    aliases: &["consumer", "event", "inbox", "queue"],
};

pub(crate) const CRATE: Name = Name {
    text: "crate",
    example: "crate = ::my_framework::idem_runtime",
    aliases: &["krate", "crate_path", "runtime"],
};

/// Every option, in the order in which messages list them.
pub(crate) const ALL: [Name; 15] = [
    SCOPE,
    TENANT,
    TTL,
    KEY,
    REQUIRED,
    FINGERPRINT,
    WAIT,
    TIMEOUT,
    LEASE,
    ON_TAKEOVER,
    RECORD,
    MAX_RESPONSE,
    STORE,
    MESSAGE,
    CRATE,
];

/// Finds the option that is spelt exactly like `word`.
pub(crate) fn exact(word: &str) -> Option<Name> {
    ALL.into_iter().find(|name| name.text == word)
}

/// Guesses the option that an unknown `word` stands for: a spelling mistake,
/// another library's name for it, or a spelling mistake in that.
pub(crate) fn guess(word: &str) -> Option<Name> {
    let word = word.to_lowercase().replace('-', "_");
    let own = || nearest(&word, ALL.map(|name| name.text));
    let foreign = || ALL.into_iter().find(|name| name.aliases.contains(&&*word));
    let misspelt_foreign = || {
        let aliases = ALL
            .into_iter()
            .flat_map(|name| name.aliases.iter().copied());
        let alias = nearest(&word, aliases)?;
        ALL.into_iter().find(|name| name.aliases.contains(&alias))
    };
    foreign()
        .or_else(|| exact(own()?))
        .or_else(misspelt_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_stands_for_two_options() {
        let mut words: Vec<_> = ALL
            .iter()
            .flat_map(|name| name.aliases.iter().chain([&name.text]))
            .collect();
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
    }

    #[test]
    fn misspelt_and_foreign_words_are_recognised() {
        for (word, option) in [
            ("tll", TTL),
            ("Scope", SCOPE),
            ("expires", TTL),
            ("expiry", TTL),
            ("retension", TTL),
            ("user", TENANT),
            ("idempotency_key", KEY),
            ("header", KEY),
            ("max-response", MAX_RESPONSE),
        ] {
            assert_eq!(guess(word), Some(option), "{word}");
        }
        assert_eq!(guess("colour"), None);
    }
}
