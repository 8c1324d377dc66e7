#![allow(dead_code, unused_variables)]

use idem_ui::*;

trait Repo {
    fn id(&self) -> i64;
}

#[idempotent(scope = "pay", tenant = repo.id())]
async fn pay<R>(State(repo): State<R>, tx: &mut PgConnection) {}

fn main() {}
