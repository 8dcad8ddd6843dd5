// Package stack runs a whole Slotwise on one machine, each part a process of its own with its
// own database role and NATS user: PostgreSQL, nats-server, the inbox, the topology and the
// four services. `make run` is this package with a person in front of it; the tests of e2e
// kill, freeze and restart its parts.
//
// # Order
//
// Servers first (each a given one, or one of ours), then roles, migrations, topology and
// services, which may all start together because each waits for what it needs. Stop goes the
// other way round: services finish what is in hand while the servers still answer.
//
// # The data folder
//
//	postgres/, nats/, inbox/  the servers' data
//	keys/                     nkey seeds, one a NATS user
//	api-key                   an admin's API key, made the first time
//	secrets/                  passwords of the database roles, and the key of customers' links
//	env                       addresses, as shell variables
//	nats-cli/                 a context for the nats CLI (XDG_CONFIG_HOME=<folder>/nats-cli)
package stack
