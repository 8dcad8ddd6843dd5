package mailtest

import (
	"bufio"
	"bytes"
	"errors"
	"time"
)

func (d *dialogue) readData() bool {
	d.server.count(func(c *Counts) { c.DATA++ })
	if len(d.to) == 0 {
		return d.answer("503 5.5.1 RCPT first")
	}
	open := false
	if goesOn := d.step(DATA, "", "354 end with a dot", func() { open = true }); !goesOn || !open {
		return goesOn
	}
	wrong, err := d.readBody()
	if err != nil {
		return false
	}
	d.server.count(func(c *Counts) { c.Dots++ })
	if wrong != "" {
		d.reset()
		return d.answer(wrong)
	}
	m := Message{From: d.from, To: d.to, Raw: d.data, Conn: d.number, TLS: d.encrypted, User: d.user}
	goesOn := d.step(Dot, "", "250 2.0.0 accepted", func() { m.At = time.Now(); d.server.accept(m) })
	d.reset()
	return goesOn
}

// readBody reads up to the final dot into d.data. It returns the refusal of a message that a
// strict server does not take.
func (d *dialogue) readBody() (refusal string, err error) {
	size, atStart := 0, true
	for {
		line, err := d.r.ReadSlice('\n')
		whole := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		if atStart && whole && string(line) == ".\r\n" {
			return refusal, nil
		}
		if atStart && line[0] == '.' {
			line = line[1:]
		}
		atStart = whole
		if size += len(line); size > d.server.o.MaxSize {
			refusal = "552 5.3.4 too large"
		}
		if d.server.o.NoOp || refusal != "" {
			continue
		}
		if r := checkLine(line, whole); r != "" {
			refusal = r
			continue
		}
		d.data = append(d.data, line...)
	}
}

// checkLine tells what a strict server has against a line of a message (RFC 5321 §2.3.8, §4.5.3.1.6).
func checkLine(line []byte, whole bool) (refusal string) {
	text := bytes.TrimSuffix(line, []byte("\r\n"))
	switch {
	case !whole || len(text) > 998:
		return "554 5.6.0 line too long"
	case len(text) == len(line) || bytes.ContainsAny(text, "\r\n"):
		return "554 5.6.0 bare CR or LF"
	}
	return ""
}
