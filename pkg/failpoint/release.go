//go:build !rehearsal

package failpoint

// Hit does nothing. It is inlined and leaves nothing in a binary.
func Hit(string) {}
