package stack

import (
	"context"
	"fmt"
)

// Add starts one more copy of a service under a name of its own, such as "relay-2", with its
// own ports and with env (NAME=value) beyond what every copy of that service gets. It does not
// wait until the copy is ready. From then on it is a part like the others, for [Stack.Part],
// [Stack.AdminURL], [Stack.FrontURL] and [Stack.Stop].
func (s *Stack) Add(ctx context.Context, name, service string, env ...string) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[name] != nil {
		return nil, fmt.Errorf("add %s: there is one already", name)
	}
	ports := []map[string]string{s.admin}
	if s.front[service] != "" {
		ports = append(ports, s.front)
	}
	for _, addrs := range ports {
		port, err := s.config.free(ctx, 0)
		if err != nil {
			return nil, fmt.Errorf("find a port for %s: %w", name, err)
		}
		addrs[name] = s.config.addr(port)
	}
	if err := s.launch(name, service, append(s.serviceEnv(name, service), env...)); err != nil {
		return nil, err
	}
	return s.parts[name], nil
}

// Await returns once the service or copy of that name says that it is ready, or after 30 s with
// what keeps it from that.
func (s *Stack) Await(ctx context.Context, name string) error {
	return waitFor(ctx, name, func(ctx context.Context) error { return s.probe(ctx, name) })
}
