package api

import (
	"time"

	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

func decodeRequest(body []byte) (booking.Request, error) {
	o := web.ReadObject(body, "resource", "start", "seats", "name", "address", "locale", "note")
	o.Require("resource", "start", "name", "address")
	r := booking.Request{
		Resource: value(o.Text("resource")),
		Start:    value(o.Instant("start")),
		Seats:    valueOr(1, o.Integer("seats")),
		Name:     value(o.Text("name")),
		Address:  value(o.Text("address")),
		Locale:   value(o.Optional("locale")),
		Note:     value(o.Optional("note")),
	}
	return r, faultsOf(o, r.Check()...)
}

func decodeEdit(body []byte) (booking.Edit, error) {
	o := web.ReadObject(body, "name", "address", "locale", "note", "seats")
	e := booking.Edit{
		Name:    o.Text("name"),
		Address: o.Text("address"),
		Locale:  o.Optional("locale"),
		Note:    o.Optional("note"),
		Seats:   o.Integer("seats"),
	}
	return e, faultsOf(o, e.Check()...)
}

func decodeStart(body []byte) (time.Time, error) {
	o := web.ReadObject(body, "start")
	o.Require("start")
	return value(o.Instant("start")), faultsOf(o)
}

// decodeNothing: a request that needs no body may have an empty object.
func decodeNothing(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return faultsOf(web.ReadObject(body))
}

// faultsOf returns the faults that reading found, and then those of the domain in fields that
// were read without one.
func faultsOf(o *web.Object, domain ...booking.Fault) error {
	for _, f := range domain {
		o.Fault(f.Field, f.Detail)
	}
	found := o.Faults()
	if len(found) == 0 {
		return nil
	}
	faults := make([]booking.Fault, len(found))
	for i, f := range found {
		faults[i] = booking.Fault(f)
	}
	return &booking.InvalidError{Faults: faults}
}

func value[T any](p *T) T { return valueOr(*new(T), p) }

func valueOr[T any](absent T, p *T) T {
	if p == nil {
		return absent
	}
	return *p
}
