//! The expansions that people have read compile, and their sources earn no warning from the
//! strictest lints: clippy with `-D warnings` is a gate of every change, and looks at this file.

#![deny(warnings, clippy::pedantic, clippy::nursery)]
#![allow(
    dead_code,
    clippy::unused_async,
    reason = "nothing here is routed, or awaits"
)]

/// Printed, so the literals and paths of the attribute are no longer a macro's to the lints.
macro_rules! expanded {
    ($($name:ident = $path:literal,)*) => {
        $(
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, unused_qualifications)]
            #[path = $path]
            mod $name;
        )*
    };
}

expanded! {
    atomic_expanded = "../../../idem-macros/tests/expansions/atomic.rs",
    attributes_expanded = "../../../idem-macros/tests/expansions/attributes.rs",
    every_option_expanded = "../../../idem-macros/tests/expansions/every_option.rs",
    leased_expanded = "../../../idem-macros/tests/expansions/leased.rs",
    smallest_expanded = "../../../idem-macros/tests/expansions/smallest.rs",
    webhook_expanded = "../../../idem-macros/tests/expansions/webhook.rs",
}

#[path = "../../../idem-macros/tests/expansions/from/atomic.rs"]
mod atomic;
#[path = "../../../idem-macros/tests/expansions/from/attributes.rs"]
mod attributes;
#[path = "../../../idem-macros/tests/expansions/from/every_option.rs"]
mod every_option;
#[path = "../../../idem-macros/tests/expansions/from/leased.rs"]
mod leased;
#[path = "../../../idem-macros/tests/expansions/from/smallest.rs"]
mod smallest;
#[path = "../../../idem-macros/tests/expansions/from/webhook.rs"]
mod webhook;
