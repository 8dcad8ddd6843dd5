package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// inDocker is a server in a container.
type inDocker struct {
	pool *dockertest.Pool
	made *dockertest.Resource
	log  *log
}

// expire is how long a container lives whose test was killed.
const expire = 15 * time.Minute

// daemon is this test binary's connection to Docker.
var daemon = sync.OnceValues(func() (*dockertest.Pool, error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		return nil, fmt.Errorf("TEST_NATS_IMAGE is set, and Docker does not answer: %w", err)
	}
	return pool, nil
})

const clientPort = "4222/tcp"

// startContainer starts the image with the test's file and store, as the test's user: what it
// writes can be removed.
func (s *Server) startContainer() error {
	pool, err := daemon()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.store, 0o700); err != nil {
		return fmt.Errorf("make the store's folder: %w", err)
	}
	repository, tag := splitImage(s.image)
	binding := docker.PortBinding{HostIP: "127.0.0.1"}
	if s.port > 0 {
		binding.HostPort = strconv.Itoa(s.port)
	}
	made, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository: repository, Tag: tag,
		Cmd:          []string{"-c", "/nats.conf", "-sd", "/store", "-a", "0.0.0.0", "-p", "4222"},
		User:         fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()),
		Mounts:       []string{s.config + ":/nats.conf", s.store + ":/store"},
		ExposedPorts: []string{clientPort},
		PortBindings: map[docker.Port][]docker.PortBinding{clientPort: {binding}},
	})
	if err != nil {
		return fmt.Errorf("run %s: %w", s.image, err)
	}
	s.running = inDocker{pool: pool, made: made, log: s.log}
	if err := made.Expire(uint(expire.Seconds())); err != nil {
		return fmt.Errorf("bound the life of the container: %w", err)
	}
	port, err := strconv.Atoi(made.GetPort(clientPort))
	if err != nil {
		return fmt.Errorf("read the container's port: %w", err)
	}
	s.listensOn(port)
	return s.waitReady()
}

// waitReady returns once a client gets in: Docker itself takes connections before the server does.
func (s *Server) waitReady() error {
	nkey, err := nats.NkeyOptionFromSeed(s.SeedFile(Admin))
	if err != nil {
		return fmt.Errorf("user %s: %w", Admin, err)
	}
	deadline := time.After(readyTimeout)
	for {
		nc, err := nats.Connect(s.URL(), nkey, nats.Timeout(2*time.Second))
		if err == nil {
			nc.Close()
			return nil
		}
		select {
		case <-deadline:
			return fmt.Errorf("not ready after %s: %w", readyTimeout, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (d inDocker) stop(ctx context.Context) error {
	client, id := d.pool.Client, d.made.Container.ID
	err := client.KillContainer(docker.KillContainerOptions{ID: id, Signal: docker.SIGTERM, Context: ctx})
	if err == nil {
		_, err = client.WaitContainerWithContext(id, ctx)
	}
	var out bytes.Buffer
	err = errors.Join(err, client.Logs(docker.LogsOptions{
		Context: ctx, Container: id, OutputStream: &out, ErrorStream: &out, Stdout: true, Stderr: true,
	}))
	for line := range strings.Lines(out.String()) {
		d.log.line(strings.TrimSpace(line))
	}
	if err = errors.Join(err, d.pool.Purge(d.made)); err != nil {
		return fmt.Errorf("stop the container: %w", err)
	}
	return nil
}

// splitImage cuts an image's name before its tag; by default that is latest.
func splitImage(image string) (repository, tag string) {
	at := strings.LastIndex(image, ":")
	if at < 0 || strings.Contains(image[at:], "/") { // a registry's port
		return image, "latest"
	}
	return image[:at], image[at+1:]
}
