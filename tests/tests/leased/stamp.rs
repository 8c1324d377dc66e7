//! One suite for both databases.

/// Makes a test of each function on each database, or on PostgreSQL alone.
/// A function that is listed nowhere is dead code, which the compiler reports.
macro_rules! stamp {
    (postgres: $($test:ident),+ $(,)?) => {
        mod on_postgres_only {
            $(stamp!(@one Postgres [cfg_attr(
                not(feature = "postgres-server"),
                ignore = "needs PostgreSQL: run scripts/test"
            )] $test);)+
        }
    };
    (sqlite: $($test:ident),+ $(,)?) => {
        mod on_sqlite_only {
            $(stamp!(@one Sqlite [allow(clippy::allow_attributes)] $test);)+
        }
    };
    ($($test:ident),+ $(,)?) => {
        mod on_postgres {
            $(stamp!(@one Postgres [cfg_attr(
                not(feature = "postgres-server"),
                ignore = "needs PostgreSQL: run scripts/test"
            )] $test);)+
        }
        mod on_sqlite {
            $(stamp!(@one Sqlite [allow(clippy::allow_attributes)] $test);)+
        }
    };
    (@one $kind:ident [$attribute:meta] $test:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[$attribute]
        async fn $test() {
            super::$test(idem_tests::Kind::$kind).await;
        }
    };
}
