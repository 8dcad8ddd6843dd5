package api

import (
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

func decodeRequest(body []byte) (booking.Request, error) {
	o := readObject(body, "resource", "start", "seats", "name", "address", "locale", "note")
	o.require("resource", "start", "name", "address")
	r := booking.Request{
		Resource: value(o.text("resource")),
		Start:    value(o.instant("start")),
		Seats:    valueOr(1, o.integer("seats")),
		Name:     value(o.text("name")),
		Address:  value(o.text("address")),
		Locale:   value(o.optional("locale")),
		Note:     value(o.optional("note")),
	}
	return r, o.err(r.Check())
}

func decodeEdit(body []byte) (booking.Edit, error) {
	o := readObject(body, "name", "address", "locale", "note", "seats")
	e := booking.Edit{
		Name:    o.text("name"),
		Address: o.text("address"),
		Locale:  o.optional("locale"),
		Note:    o.optional("note"),
		Seats:   o.integer("seats"),
	}
	return e, o.err(e.Check())
}

func decodeStart(body []byte) (time.Time, error) {
	o := readObject(body, "start")
	o.require("start")
	return value(o.instant("start")), o.err(nil)
}

// decodeNothing: a request that needs no body may have an empty object.
func decodeNothing(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return readObject(body).err(nil)
}

func value[T any](p *T) T { return valueOr(*new(T), p) }

func valueOr[T any](absent T, p *T) T {
	if p == nil {
		return absent
	}
	return *p
}
