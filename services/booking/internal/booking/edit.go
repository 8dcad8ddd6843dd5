package booking

import "fmt"

// Edit is a correction of a booking: what is nil stays.
type Edit struct {
	Name    *string
	Address *string
	Locale  *string
	Note    *string
	Seats   *int
}

// Check returns what is wrong with e by itself.
func (e Edit) Check() []Fault {
	var faults faults
	if e.Seats != nil && *e.Seats < 1 {
		faults.add("seats", "must be at least 1")
	}
	if e.Name != nil {
		faults.add("name", lineFault(tidyName(*e.Name), maxName))
	}
	if e.Address != nil {
		faults.add("address", addressFault(*e.Address))
	}
	if e.Locale != nil {
		faults.add("locale", localeFault(*e.Locale))
	}
	if e.Note != nil {
		faults.add("note", noteFault(tidyNote(*e.Note)))
	}
	return faults
}

// Edit corrects b; customer is the UUID of whoever has the edit's address. Other seats are
// told to customer and host; another address is told how things stand; name, locale and note
// are nobody's news. A cancelled booking's contact may still be corrected.
func (b Booking) Edit(e Edit, customer string, t Terms) (Change, error) {
	faults := faults(e.Check())
	resize := e.Seats != nil && *e.Seats != b.Seats
	if resize {
		faults.add("seats", t.Resource.seatsFault(*e.Seats))
	}
	if err := faults.err(); err != nil {
		return Change{}, err
	}
	after, fields := b, []string(nil)
	if resize {
		after.Seats, fields = *e.Seats, append(fields, "seats")
	}
	after.Contact, fields = b.Contact.edit(e, customer, fields)
	corrected := after.Contact != b.Contact
	change := Change{b, after, KindChanged, fields}
	switch {
	case change.None():
		return change, nil
	case resize && b.Status == Cancelled:
		return Change{}, fmt.Errorf("change seats: %w", ErrCancelled)
	case corrected && b.erased():
		return Change{}, fmt.Errorf("change contact: %w", ErrErased)
	}
	readdressed := after.Contact.Address != b.Contact.Address
	change.After.advance(t, telling{customer: resize || readdressed, host: resize})
	return change, nil
}

// edit returns the corrected contact, and fields with the names of what is another now.
func (c Contact) edit(e Edit, customer string, fields []string) (edited Contact, changed []string) {
	set := func(name string, field *string, value *string, tidy func(string) string) {
		if value == nil {
			return
		}
		if text := tidy(*value); text != *field {
			*field, fields = text, append(fields, name)
		}
	}
	same := func(s string) string { return s }
	set("name", &c.Name, e.Name, tidyName)
	set("locale", &c.Locale, e.Locale, same)
	set("note", &c.Note, e.Note, tidyNote)
	before := c.Address
	if set("address", &c.Address, e.Address, same); c.Address != before {
		c.Customer = customer
	}
	return c, fields
}
