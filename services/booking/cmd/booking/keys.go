package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/store"
)

// errUsage says that the program was called in a wrong way.
var errUsage = errors.New("booking --help tells more")

func usage(format string, args ...any) error {
	return fmt.Errorf("%s; %w", fmt.Sprintf(format, args...), errUsage)
}

// findKeys is [find] of the commands about API keys, which run as the service's own role.
func findKeys(args []string) (command, error) {
	switch {
	case len(args) > 0 && args[0] == "create":
		w, err := parseKey(args[1:])
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s settings, _ io.Reader, out io.Writer) error {
			return createKey(ctx, s, w, out)
		}, nil
	case len(args) == 1 && args[0] == "list":
		return func(ctx context.Context, s settings, _ io.Reader, out io.Writer) error { return listKeys(ctx, s, out) }, nil
	case len(args) == 2 && args[0] == "revoke":
		return func(ctx context.Context, s settings, _ io.Reader, out io.Writer) error {
			return revokeKey(ctx, s, args[1], out)
		}, nil
	}
	return nil, usage("there are keys create --name NAME --scopes LIST, keys list, and keys revoke ID")
}

// wanted is the key that `keys create` asks for.
type wanted struct {
	store.APIKey
	days int // until it expires; 0: never
}

// mostDays is ten years: who means longer means for ever.
const mostDays = 3650

// parseKey reads the arguments of `keys create`.
func parseKey(args []string) (w wanted, err error) {
	flags := flag.NewFlagSet("keys create", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	flags.StringVar(&w.Name, "name", "", "")
	scopes := flags.String("scopes", "", "")
	resources := flags.String("resources", "", "")
	flags.IntVar(&w.days, "days", 0, "")
	if err := flags.Parse(args); err != nil {
		return wanted{}, usage("keys create: %v", err)
	}
	if flags.NArg() > 0 {
		return wanted{}, usage("keys create: %q is not expected; lists have commas and no spaces", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })

	w.Name, w.Resources = strings.TrimSpace(w.Name), words(*resources)
	for _, word := range words(*scopes) {
		if w.Scopes = append(w.Scopes, apikey.Scope(word)); !slices.Contains(apikey.Scopes, apikey.Scope(word)) {
			return wanted{}, usage("keys create: there is no scope %q; there are %s", word, listed(apikey.Scopes, ""))
		}
	}
	switch n := len([]rune(w.Name)); {
	case n < 1, n > 100, strings.ContainsFunc(w.Name, unicode.IsControl):
		return wanted{}, usage("keys create: --name must tell in 1 to 100 characters what the key is for")
	case len(w.Scopes) == 0:
		return wanted{}, usage("keys create: --scopes must be some of %s", listed(apikey.Scopes, ""))
	case given["resources"] && w.Resources == nil: // an empty variable of a script must not mean all
		return wanted{}, usage("keys create: --resources is empty; leave it out for a key that is for all")
	case given["days"] && (w.days < 1 || w.days > mostDays):
		return wanted{}, usage("keys create: --days must be from 1 to %d; leave it out for a key that does not expire", mostDays)
	}
	return w, nil
}

// words are those of a list, each once; nil when there is none.
func words(list string) (all []string) {
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// createKey makes a key and prints it, this once.
func createKey(ctx context.Context, s settings, w wanted, out io.Writer) error {
	return withStore(ctx, s, func(bookings *store.Store) error {
		all, err := bookings.Resources(ctx)
		if err != nil {
			return err
		}
		for _, id := range w.Resources {
			if !slices.ContainsFunc(all, func(r booking.Resource) bool { return r.ID == id }) {
				return fmt.Errorf("keys create: there is no resource %q; booking resources list shows all", id)
			}
		}
		text, hash := apikey.New()
		id, err := bookings.MakeAPIKey(ctx, hash, w.APIKey, w.days)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "id   %s\nkey  %s\n\nThe key is shown only now. It is sent as\n\n  Authorization: Bearer %s\n", id, text, text)
		return nil
	})
}

func listKeys(ctx context.Context, s settings, out io.Writer) error {
	return withStore(ctx, s, func(bookings *store.Store) error {
		all, err := bookings.APIKeys(ctx)
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "id\tname\tscopes\tresources\tcreated\tlast used\tstate")
		for _, k := range all {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, listed(k.Scopes, ""), listed(k.Resources, "all"),
				minute(k.Created), minute(k.LastUsed), state(k))
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("print keys: %w", err)
		}
		return nil
	})
}

func listed[T ~string](all []T, none string) string {
	if all == nil {
		return none
	}
	texts := make([]string, 0, len(all))
	for _, one := range all {
		texts = append(texts, string(one))
	}
	return strings.Join(texts, ",")
}

// minute is how a time is listed; the zero time is never.
func minute(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}

func state(k store.APIKey) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked " + minute(k.Revoked)
	case k.Expired:
		return "expired " + minute(k.Expires)
	case !k.Expires.IsZero():
		return "valid until " + minute(k.Expires)
	}
	return "valid"
}

func revokeKey(ctx context.Context, s settings, id string, out io.Writer) error {
	return withStore(ctx, s, func(bookings *store.Store) error {
		name, since, err := bookings.RevokeAPIKey(ctx, id)
		if errors.Is(err, store.ErrNoAPIKey) && strings.HasPrefix(id, "slw_") { // a key itself is not repeated
			return fmt.Errorf("keys revoke: %w: it is wanted by its id, key_…, and not by the key; booking keys list shows all", err)
		}
		if errors.Is(err, store.ErrNoAPIKey) {
			return fmt.Errorf("keys revoke: %w; booking keys list shows all", err)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s (%s) is revoked since %s\n", id, name, since.Format(time.RFC3339))
		return nil
	})
}
