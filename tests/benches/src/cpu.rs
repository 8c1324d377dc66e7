//! The processor's time that a request takes, in the server's process and in its database
//! backends. Neighbours on the machine change it far less than what the clock shows.

use sqlx::{Connection, PgConnection};

use crate::Failure;
use crate::serve::Server;

/// Nanoseconds that the server and its backends have run so far.
///
/// # Errors
/// When the database does not answer.
pub async fn nanoseconds(server: &Server) -> Result<u64, Failure> {
    let mut processes: Vec<u32> = server.id().into_iter().collect();
    if server.url.starts_with("postgres:") {
        let mut conn = PgConnection::connect(&server.url).await?;
        let backends: Vec<i32> = sqlx::query_scalar(
            "select pid from pg_stat_activity where pid <> pg_backend_pid() \
             and application_name = current_setting('application_name')",
        )
        .fetch_all(&mut conn)
        .await?;
        processes.extend(backends.iter().map(|backend| backend.cast_unsigned()));
    }
    Ok(processes.into_iter().map(of_process).sum())
}

/// The first field of each thread's `schedstat`; nothing where a process has ended.
fn of_process(process: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return 0;
    };
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}
