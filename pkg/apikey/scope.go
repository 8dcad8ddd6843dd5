package apikey

import "slices"

// Scope is a kind of request that a key may make.
type Scope string

// The scopes.
const (
	BookingsRead  Scope = "bookings:read"
	BookingsWrite Scope = "bookings:write" // does not imply reading, but a change's answer shows the booking
	Webhooks      Scope = "webhooks"
	Admin         Scope = "admin" // implies all others
)

// Scopes are all of them, in the order in which they are listed.
var Scopes = []Scope{BookingsRead, BookingsWrite, Webhooks, Admin}

// Principal is who asks: the key that a request came with.
type Principal struct {
	Key       string   // its id
	Scopes    []Scope  // what it may do
	Resources []string // the only ones that it may know of; nil: all
}

// May reports whether the scope, or admin, is one of the key's.
func (p Principal) May(scope Scope) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, Admin)
}

// All reports whether the key is for all resources.
func (p Principal) All() bool { return p.Resources == nil }

// Sees reports whether the key is for that resource.
func (p Principal) Sees(resource string) bool {
	return p.All() || slices.Contains(p.Resources, resource)
}

// Covers reports whether the key is for all of these resources; nil means every resource
// that there is.
func (p Principal) Covers(resources []string) bool {
	if p.All() {
		return true
	}
	return resources != nil && !slices.ContainsFunc(resources, func(r string) bool { return !p.Sees(r) })
}
