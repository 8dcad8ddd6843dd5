-- Built while mails are planned: see pkg/pgdb. The first serves the claim of what is due for an
-- endpoint, the second what is listed, released and recovered of it.
create index concurrently send_log_webhook_due on notifier.send_log (endpoint, due_at) where channel = 'webhook' and state in ('planned', 'unknown');
create index concurrently send_log_endpoint on notifier.send_log (endpoint, created_at, key) where channel = 'webhook';
