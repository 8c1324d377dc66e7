//! One suite for all databases.

/// Makes a test of each function on each database, or on one of them: `stamp!(postgres: …)`,
/// `stamp!(sqlite: …)`.
/// A function that is listed nowhere is dead code, which the compiler reports.
macro_rules! stamp {
    (postgres: $($test:ident),+ $(,)?) => {
        mod on_postgres_only {
            stamp!(@tests Postgres [cfg_attr(
                not(feature = "postgres-server"),
                ignore = "needs PostgreSQL: run scripts/test"
            )] $($test)+);
        }
    };
    (sqlite: $($test:ident),+ $(,)?) => {
        mod on_sqlite_only {
            stamp!(@tests Sqlite [allow(clippy::allow_attributes)] $($test)+);
        }
        mod on_sqlite_in_memory_only {
            stamp!(@tests SqliteInMemory [allow(clippy::allow_attributes)] $($test)+);
        }
    };
    ($($test:ident),+ $(,)?) => {
        mod on_postgres {
            stamp!(@tests Postgres [cfg_attr(
                not(feature = "postgres-server"),
                ignore = "needs PostgreSQL: run scripts/test"
            )] $($test)+);
        }
        mod on_sqlite {
            stamp!(@tests Sqlite [allow(clippy::allow_attributes)] $($test)+);
        }
        mod on_sqlite_in_memory {
            stamp!(@tests SqliteInMemory [allow(clippy::allow_attributes)] $($test)+);
        }
    };
    (@tests $kind:ident [$attribute:meta] $($test:ident)+) => {
        stamp!(@each $kind [$attribute] $($test)+);
    };
    (@each $kind:ident $attribute:tt $($test:ident)+) => {
        $(stamp!(@one $kind $attribute $test);)+
    };
    (@one $kind:ident [$attribute:meta] $test:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[$attribute]
        async fn $test() {
            super::$test(idem_tests::Kind::$kind).await;
        }
    };
}
