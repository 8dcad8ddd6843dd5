package mailtest

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// Start listens again after Stop, on the same port.
func (s *Server) Start() {
	s.tb.Helper()
	l, err := net.Listen("tcp", s.addr) //nolint:noctx // a loopback socket
	if err != nil {
		s.tb.Fatalf("mailtest: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.tb.Fatal("mailtest: started twice")
	}
	s.addr, s.listener, s.stopping = l.Addr().String(), l, make(chan struct{})
	s.running.Go(func() { s.serve(l, s.stopping) })
}

// Stop closes the socket and all connections, and waits for the dialogues. Faults that
// still wait do not act any more. What was accepted stays.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		close(s.stopping)
		_ = s.listener.Close()
		s.listener = nil
	}
	s.mu.Unlock()
	s.CloseConns()
	s.running.Wait()
}

// CloseConns closes all connections, as a server does that restarts.
func (s *Server) CloseConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *Server) serve(l net.Listener, stopping <-chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // stopped
		}
		number, ok := s.enter(conn, stopping)
		if !ok {
			continue
		}
		s.running.Go(func() {
			defer s.leave(conn)
			d := newDialogue(s, conn, number, stopping)
			d.run()
		})
	}
}

// enter registers a connection; one above the limit is told so and closed.
func (s *Server) enter(conn net.Conn, stopping <-chan struct{}) (number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-stopping: // it came while Stop closed the others
		_ = conn.Close()
		return 0, false
	default:
	}
	if s.o.MaxConns > 0 && len(s.conns) >= s.o.MaxConns {
		s.counts.Refused++
		s.running.Go(func() { refuse(conn, s.o.TLS, s.tls) })
		return 0, false
	}
	s.conns[conn] = true
	s.counts.Conns++
	s.counts.Open++
	return s.counts.Conns, true
}

func (s *Server) leave(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	s.counts.Open--
}

// refuse answers a connection above the limit. The client has a second to hear it.
func refuse(conn net.Conn, implicit bool, config *tls.Config) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if implicit {
		conn = tls.Server(conn, config)
	}
	_, _ = fmt.Fprint(conn, "421 4.7.0 too many connections\r\n") // it may have left
}
