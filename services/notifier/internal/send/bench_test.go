package send_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/wneessen/go-mail/smtp"
	"go.uber.org/zap"
)

// BenchmarkSend sends 20 000 planned mails of 1 600 bytes to a server that takes everything,
// over STARTTLS, and compares the rate with that of go-mail's dialogue alone over as many kept
// connections in the same run. Goal: 3 000 a second.
func BenchmarkSend(b *testing.B) {
	for _, connections := range []int{4, 16} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			for b.Loop() {
				const mails = 20_000
				raw := rawRate(b, connections, mails)
				rate := sendRate(b, connections, mails)
				b.ReportMetric(rate, "mails/s")
				b.ReportMetric(raw, "raw/s")
				b.ReportMetric(rate/raw, "of-raw")
			}
		})
	}
}

var body = "Subject: booking\r\n\r\n" + strings.Repeat(strings.Repeat("x", 77)+"\r\n", 20)

func sendRate(b *testing.B, connections, mails int) float64 {
	b.Helper()
	db, mail := dbtest.New(b), mailtest.New(b, mailtest.Options{NoOp: true})
	db.Durable()
	fill(b, db, mails)
	times := sendlog.DefaultTimes()
	server, err := url.Parse(mail.URL())
	if err != nil {
		b.Fatal(err)
	}
	settings := send.Settings{Server: server, TLS: send.Mandatory, CAs: mail.Pool(), Hello: "notifier.example", Connections: connections, Drain: time.Minute}
	render := func(h sendlog.Hand) ([]byte, error) {
		return []byte("Slotwise-Hand: " + h.Token + "\r\nMessage-ID: <" + h.Key + "@slotwise.example>\r\n" + body), nil
	}
	s := send.New(sendlog.New(db.Pool("slotwise_notifier"), times), settings, render,
		func(sendlog.Hand) string { return "bookings@slotwise.example" }, zap.NewNop(), prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(b.Context())
	start, before := time.Now(), cpu()
	var done sync.WaitGroup
	done.Go(func() { _ = s.Run(ctx) })
	for mail.Counts().Accepted < mails && time.Since(start) < 2*time.Minute {
		<-time.After(time.Millisecond)
	}
	took := time.Since(start)
	used := cpu() - before
	b.ReportMetric(postgresCPU(b, db)*1e6/float64(mails), "postgres-us/mail")
	cancel()
	done.Wait()
	var sent int
	if err := db.Admin.QueryRow(context.WithoutCancel(b.Context()), `select count(*) from notifier.send_log where state = 'sent'`).Scan(&sent); err != nil || sent != mails {
		b.Fatalf("%d sent: %v", sent, err)
	}
	b.ReportMetric(float64(used.Microseconds())/float64(mails), "both-ends-us/mail")
	return float64(mails) / took.Seconds()
}

// fill plans mails confirmations of as many bookings.
func fill(b *testing.B, db *dbtest.DB, mails int) {
	b.Helper()
	for _, sql := range []string{
		`insert into booking.resources (id, name, zone, capacity, slot_minutes) values ('room-7', 'Room 7', 'Europe/Berlin', 1, 60)`,
		`insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, told_customer, told_host, created_at, changed_at)
		 select gen_random_uuid(), 'room-7', 'confirmed', now() + interval '9 days', now() + interval '9 days 1 hour', 1, 1, 1, 1, 1, now(), now()
		 from generate_series(1, ` + fmt.Sprint(mails) + `)`,
		`insert into booking.customers (id, address) select id, id || '@customers.example' from booking.bookings`,
		`insert into booking.contacts (booking, customer, name, address, locale, note) select id, c.id, 'Ada', c.address, 'en', '' from booking.bookings join booking.customers c using (id)`,
		`insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at, payload)
		 select 'email-confirm-' || id || '-v1', 'email', id, 'confirm', 1, 1, 'customer', 0, 'planned', clock_timestamp(), '{"status": "confirmed", "resource": "room-7"}'
		 from booking.bookings`,
	} {
		if _, err := db.Admin.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
}

// rawRate is what go-mail's dialogue alone does over kept connections.
func rawRate(b *testing.B, connections, mails int) float64 {
	b.Helper()
	mail := mailtest.New(b, mailtest.Options{NoOp: true})
	var left atomic.Int64
	left.Store(int64(mails))
	var running sync.WaitGroup
	start := time.Now()
	for range connections {
		running.Go(func() {
			conn, err := net.Dial("tcp", mail.Addr()) //nolint:noctx // a loopback socket
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			client, err := smtp.NewClient(conn, "127.0.0.1")
			if err == nil {
				err = client.StartTLS(&tls.Config{RootCAs: mail.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
			}
			for err == nil && left.Add(-1) >= 0 {
				err = rawMail(client)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	running.Wait()
	return float64(mails) / time.Since(start).Seconds()
}

func rawMail(client *smtp.Client) error {
	if err := client.Mail("<bookings@slotwise.example>"); err != nil {
		return err
	}
	if err := client.Rcpt("<ada@customers.example>"); err != nil {
		return err
	}
	data, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := data.Write([]byte(body)); err != nil {
		return err
	}
	return data.Close()
}

// postgresCPU is what PostgreSQL has used for the sender's connections, in seconds.
func postgresCPU(b *testing.B, db *dbtest.DB) (seconds float64) {
	b.Helper()
	rows, err := db.Admin.Query(b.Context(), `
		select pg_read_file('/proc/' || pid || '/stat') from pg_stat_activity
		where datname = current_database() and usename = 'slotwise_notifier'`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var stat string
		if err := rows.Scan(&stat); err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(stat[strings.LastIndex(stat, ")"):]) // proc(5): utime and stime are the 14th and 15th
		for _, field := range fields[12:14] {
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += ticks / 100
		}
	}
	return seconds
}

// cpu is what this process has used: sender and server, not PostgreSQL.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
