-- What each endpoint has in hand is counted at every hand: not among the mails.
create index concurrently send_log_webhook_handed on notifier.send_log (endpoint, lease_until) where channel = 'webhook' and state = 'handed' and lease_until is not null;
-- What an endpoint misses while it is disabled may be much, and the sweep looks for it.
create index concurrently send_log_webhook_held on notifier.send_log (endpoint, (reason = 'endpoint disabled')) where channel = 'webhook' and state = 'held';
