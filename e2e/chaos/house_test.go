package chaos

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// shortTimes are the protocol's, small: what a dead sender had in hand is taken over after
// 2 s, and its slot is quiet for 7 s.
const shortTimes = "lease=2s,renew=500ms,dot=2s,answer=3s,cap=6s,quiet=7s,sweep=200ms,audit=1s,young=15s,step=500ms,poll=500ms"

// idle is how long PostgreSQL waits for a service that is silent in a transaction: 20 s in
// production.
const idle = 2 * time.Second

// house is an installation whose mails go to a server that the test looks at, and disturbs.
type house struct {
	*install.Installation
	mail   *mailtest.Server
	js     jetstream.JetStream // as operator
	guests []*guest
	lost   int // the events of so many guests were taken out of BOOKINGS
	copies int
}

// open starts a house with these services.
func open(t *testing.T, parts []string, change ...func(*stack.Config)) *house {
	t.Helper()
	return openOn(t, dbtest.New(t), parts, change...)
}

// openOn is open on a database that the test has prepared.
func openOn(t *testing.T, db *dbtest.DB, parts []string, change ...func(*stack.Config)) *house {
	t.Helper()
	setForServices(t, db, fmt.Sprintf("idle_in_transaction_session_timeout = '%dms'", idle.Milliseconds()))
	mail := mailtest.New(t, mailtest.Options{})
	all := append([]func(*stack.Config){func(c *stack.Config) {
		c.DatabaseURL, c.Password = db.URL(""), dbtest.Password
		c.Parts, c.SMTPURL = parts, mail.URL()
		c.Env["SMTP_CA_FILE"] = mail.CAFile()
		c.Env["SLOTWISE_TIMES"] = shortTimes
		c.Env["RELAY_POLL"] = "1s"
		c.Env["RECONCILE_EVERY"] = "2s"
	}}, change...)
	h := &house{Installation: install.Start(t, all...), mail: mail}
	h.DB = db
	h.js = h.operate()
	return h
}

// setForServices gives all services' roles a setting in this database.
func setForServices(t *testing.T, db *dbtest.DB, setting string) {
	t.Helper()
	for _, service := range stack.Services {
		if _, err := db.Admin.Exec(t.Context(), `alter role slotwise_`+service+` in database `+db.Name+` set `+setting); err != nil {
			t.Fatal(err)
		}
	}
}

// operate connects to NATS as the operator, who may look at everything and repair streams.
func (h *house) operate() jetstream.JetStream {
	h.T.Helper()
	nkey, err := nats.NkeyOptionFromSeed(h.SeedFile("dev"))
	if err != nil {
		h.T.Fatal(err)
	}
	nc, err := nats.Connect(h.NATSURL(), nkey, nats.CustomInboxPrefix("_INBOX_dev"), nats.MaxReconnects(-1))
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		h.T.Fatal(err)
	}
	return js
}

// start starts one more copy of a service, with settings NAME=value beyond the others', and
// returns its name and the process.
func (h *house) start(service string, env ...string) (name string, p *stack.Process) {
	h.T.Helper()
	h.copies++
	name = fmt.Sprintf("%s-%d", service, h.copies)
	return name, h.Copy(name, service, env...)
}

// end stops a copy, which may be dead.
func (h *house) end(p *stack.Process) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), 15*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		h.T.Error(err)
	}
}

// awaitHit returns once the copy's failpoint has acted: the process is dead, or frozen.
func (h *house) awaitHit(name string, p *stack.Process, step, action string) {
	h.T.Helper()
	h.Eventually(30*time.Second, step+"="+action, func(context.Context) error {
		if h.Log.Lines(name, "failpoint "+step+": "+action) == 0 {
			return fmt.Errorf("%s has not come there", name)
		}
		if action == "kill" && p.Running() {
			return fmt.Errorf("%s lives", name)
		}
		return nil
	})
}

// thaw lets a frozen process go on.
func (h *house) thaw(p *stack.Process) {
	h.T.Helper()
	if err := p.Signal(syscall.SIGCONT); err != nil {
		h.T.Fatal(err)
	}
}
