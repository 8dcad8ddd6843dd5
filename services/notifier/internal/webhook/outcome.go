package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// outcome is how one hand ended.
type outcome string

const (
	accepted   outcome = "sent"    // 2xx
	failed     outcome = "again"   // anything else that is the endpoint's matter
	gone       outcome = "gone"    // 410: the endpoint wants no more
	lost       outcome = "lost"    // our own fault, before anything was written
	cut        outcome = "unknown" // our own fault, and the receiver may have it: marked
	unsendable outcome = "held"    // there is nothing that could be sent: a person has to look
)

// kind says why, for the metrics.
type kind string

const (
	kindNone      kind = ""
	kindForbidden kind = "forbidden" // the URL or the address is not allowed
	kindName      kind = "name"      // the host's name could not be resolved
	kindConnect   kind = "connect"
	kindTLS       kind = "tls"
	kindTimeout   kind = "timeout"
	kindClosed    kind = "closed" // the connection ended before an answer, or it was none of HTTP
	kindRedirect  kind = "redirect"
	kindGone      kind = "gone"
	kindClient    kind = "4xx"
	kindServer    kind = "5xx"
	kindStatus    kind = "status" // no status of a final answer
	kindInternal  kind = "internal"
)

var kinds = []kind{
	kindForbidden, kindName, kindConnect, kindTLS, kindTimeout, kindClosed, kindRedirect, kindGone, kindClient, kindServer, kindStatus, kindInternal,
}

// ending is what a try has come to.
type ending struct {
	outcome outcome
	kind    kind
	status  int           // 0: none came
	words   string        // what the owner and operators read: no address that our resolver told
	after   time.Duration // Retry-After, if it counts for this status
}

// answered judges an answer.
func answered(status int, header http.Header, body []byte, now time.Time) ending {
	e := ending{outcome: failed, status: status, words: strings.TrimRight(strconv.Itoa(status)+" "+readable(body), " \n")}
	switch {
	case status >= 200 && status <= 299:
		e.outcome = accepted
	case status >= 300 && status <= 399:
		e.kind = kindRedirect
	case status == http.StatusGone:
		e.outcome, e.kind = gone, kindGone
	case status >= 400 && status <= 499:
		e.kind = kindClient
	case status >= 500 && status <= 599:
		e.kind = kindServer
	default:
		e.kind = kindStatus
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.after = retryAfter(header.Get("Retry-After"), now)
	}
	return e
}

// retryAfter reads seconds or a date (RFC 9110 §10.2.3); 0 when it is neither or has passed.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// broken judges a try without an answer. parent is the context that ends when we are told to
// stop; wrote says that the request may have gone out.
func broken(parent context.Context, err error, wrote bool, timeout time.Duration) ending {
	e := ending{outcome: failed}
	errno, _ := errors.AsType[syscall.Errno](err)
	name, badName := errors.AsType[*net.DNSError](err)
	certificate, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	operation, inSocket := errors.AsType[*net.OpError](err)
	switch {
	case parent.Err() != nil && wrote:
		e.outcome, e.kind, e.words = cut, kindInternal, "cut off by us, maybe delivered"
	case parent.Err() != nil, errors.Is(err, errProxy), slices.Contains(own, errno):
		e.outcome, e.kind, e.words = lost, kindInternal, "not tried: a fault of our own"
	case errors.Is(err, errForbidden):
		e.kind, e.words = kindForbidden, errForbidden.Error()
	case errors.Is(err, context.DeadlineExceeded) && wrote:
		e.kind, e.words = kindTimeout, fmt.Sprintf("no answer within %s", timeout)
	case badName:
		e.kind, e.words = kindName, "the host's name can't be resolved"
		if name.IsNotFound {
			e.words = "the host's name does not exist"
		}
	case badCertificate:
		e.kind, e.words = kindTLS, "TLS: "+certificate.Err.Error()
	case wrote && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errno == syscall.ECONNRESET || errno == syscall.EPIPE):
		e.kind, e.words = kindClosed, "the connection was closed without an answer"
	case wrote:
		e.kind, e.words = kindClosed, "no answer that can be read"
	case inSocket && operation.Op == "dial" && errno != 0:
		e.kind, e.words = kindConnect, "no connection: "+errno.Error()
	case errors.Is(err, context.DeadlineExceeded) || inSocket && operation.Timeout():
		e.kind, e.words = kindTimeout, "no connection in time"
	case inSocket && operation.Op == "dial":
		e.kind, e.words = kindConnect, "no connection"
	default:
		e.kind, e.words = kindTLS, "no connection: TLS or the proxy failed"
	}
	return e
}

// own are errors of this process or machine, which say nothing of an endpoint.
var own = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.ENETDOWN, syscall.EPERM, syscall.EACCES,
}

// readable makes text of an answer's body that can be shown on a terminal.
func readable(body []byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(body), "?"))
}

// clip cuts an answer to what its column takes, 1 KiB.
func clip(answer string) string {
	const most = 1024
	if len(answer) > most {
		answer = strings.ToValidUTF8(answer[:most], "")
	}
	return answer
}
