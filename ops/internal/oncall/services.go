package oncall

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// report is what this program knows of the answer of ops.get.relay.
type report struct {
	Outbox        string     `json:"outbox"`
	Stream        string     `json:"stream"`
	Waiting       int64      `json:"waiting"`
	OldestSeconds float64    `json:"oldest_seconds"`
	PausedSince   *time.Time `json:"paused_since,omitempty"`
	PauseReason   string     `json:"pause_reason,omitempty"`
	Parked        int64      `json:"parked"`
	ParkedRows    []parked   `json:"parked_rows"`
}

type parked struct {
	ID        int64     `json:"id"`
	Key       string    `json:"key"`
	Subject   string    `json:"subject"`
	MessageID string    `json:"message_id"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason"`
	ParkedAt  time.Time `json:"parked_at"`
}

func relay(ctx context.Context, c *call) error {
	c.service = "relay"
	if err := c.alone(); err != nil {
		return err
	}
	var r report
	if err := c.ask(ctx, "ops.get.relay", "", &r); err != nil {
		return err
	}
	if c.json {
		return c.write(r)
	}
	oldest := time.Duration(r.OldestSeconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(c.out, "%s to %s: %d waiting, the oldest for %s; %d parked\n", r.Outbox, r.Stream, r.Waiting, oldest, r.Parked)
	if r.PausedSince != nil {
		fmt.Fprintf(c.out, "it pauses since %s: %s\n", at(r.PausedSince), line(r.PauseReason))
	}
	var rows [][]string
	for _, p := range r.ParkedRows {
		rows = append(rows, []string{strconv.FormatInt(p.ID, 10), p.MessageID, "parked " + at(&p.ParkedAt), count(p.Attempts, "refusal"), line(p.Reason)})
	}
	section(c.out, "parked", rows)
	return nil
}

func unpark(ctx context.Context, c *call) error {
	c.service = "relay"
	var order struct {
		IDs []int64 `json:"ids,omitempty"`
		All bool    `json:"all,omitempty"`
	}
	words, err := c.parse(func(flags *flag.FlagSet) { flags.BoolVar(&order.All, "all", false, "all that are parked") })
	if err != nil {
		return err
	}
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return c.wrong("%s is no row's number", word)
		}
		order.IDs = append(order.IDs, n)
	}
	var answer struct {
		Unparked int64 `json:"unparked"`
	}
	if err := c.do(ctx, "unpark", order, &answer); err != nil {
		return err
	}
	if c.json {
		err = c.write(answer)
	} else {
		fmt.Fprintf(c.out, "%s due again\n", count(int(answer.Unparked), "event"))
	}
	if err == nil && answer.Unparked == 0 {
		err = fmt.Errorf("%w: no such event is parked", ErrNothing)
	}
	return err
}

func reconcile(ctx context.Context, c *call) error {
	c.service, c.patience = "scheduler", 10*time.Minute // a million reminders take a while
	if err := c.alone(); err != nil {
		return err
	}
	var answer struct {
		Looked  int `json:"looked"`
		Created int `json:"created"`
	}
	if err := c.do(ctx, "reconcile", "", &answer); err != nil {
		return err
	}
	if c.json {
		return c.write(answer)
	}
	fmt.Fprintf(c.out, "%s ahead, %s made again\n", count(answer.Looked, "reminder"), count(answer.Created, "schedule"))
	return nil
}

// alone reads the flags of a command that takes nothing else.
func (c *call) alone() error {
	words, err := c.parse()
	if err == nil && len(words) > 0 {
		err = c.wrong("%s is no argument of it", words[0])
	}
	return err
}
