// Package apikey is who may ask our HTTP APIs what: keys that are sent as bearer tokens
// (RFC 6750), each with scopes and, if it is for some only, the resources that it is for.
//
// # The key
//
//	slw_ 32 characters: 160 random bits  8 characters: a checksum
//
// in a-z2-7 (base32 of RFC 4648 in lower case). The checksum tells a key that was typed or cut
// wrongly from one that is not known, without asking anybody. The prefix lets scanners find
// keys that lie where they should not: slw_[a-z2-7]{40}.
//
// Stored is the SHA-256 of the whole text. With that many random bits nothing slower is needed,
// and a key is found by its hash, so that no comparison's time tells anything about it.
//
// # Checking
//
// Each request asks the database for its key: one row by a unique index. So a key that was
// revoked is refused from the commit on, by every process. What is wrong is refused with 401 or
// 403; wrong keys are answered with 429 once a client address has sent many. A right key is
// never refused for its neighbours' wrong ones: they may share an address, and 160 bits are not
// found by trying.
package apikey
