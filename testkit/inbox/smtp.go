package inbox

import (
	"crypto/tls"
	"fmt"
	"io"
	"time"

	"github.com/emersion/go-smtp"
)

// maxSize bounds one mail, in bytes.
const maxSize = 10 << 20

// NewSMTP returns an SMTP server, not yet listening, that puts every mail into the store.
// It offers STARTTLS with config; errors of connections are written to log.
func NewSMTP(store *Store, config *tls.Config, log io.Writer) *smtp.Server {
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{store: store}, nil }))
	s.Domain, s.TLSConfig, s.ErrorLog = "inbox", config, logger{log}
	s.MaxMessageBytes, s.MaxRecipients = maxSize, 100
	s.ReadTimeout, s.WriteTimeout = 5*time.Minute, time.Minute // RFC 5321 §4.5.3.2.7
	return s
}

// session takes mails to anybody from anybody.
type session struct{ store *Store }

func (*session) Mail(string, *smtp.MailOptions) error { return nil }
func (*session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (*session) Reset()                               {}
func (*session) Logout() error                        { return nil }

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.store.Add(raw); err != nil {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: err.Error()}
	}
	return nil
}

// logger writes go-smtp's errors as lines.
type logger struct{ w io.Writer }

func (l logger) Printf(format string, v ...any) { fmt.Fprintf(l.w, format+"\n", v...) }
func (l logger) Println(v ...any)               { fmt.Fprintln(l.w, v...) }
