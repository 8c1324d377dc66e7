#![allow(dead_code, unused_variables)]

use idem_ui::*;

use std::pin::Pin;

trait Api {
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        account: Account,
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait;
}

struct Payments;

// What `#[async_trait]` makes of `async fn pay(&self, account: Account) -> String`.
impl Api for Payments {
    #[idempotent(scope = "pay", tenant = account.id)]
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        account: Account,
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { account.id.to_string() })
    }
}

fn main() {}
