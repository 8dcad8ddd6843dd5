package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"

	"github.com/slotwise/slotwise/testkit/daemon"
)

// DefaultImage is what Docker runs when Options.Image names nothing else.
const DefaultImage = "postgres:15-alpine"

// Places in the container. The image must understand the official one's PGDATA,
// POSTGRES_PASSWORD, POSTGRES_HOST_AUTH_METHOD and server settings as arguments.
const (
	containerPort = docker.Port("5432/tcp")
	containerDisk = "/slotwise" // in memory, unless Options.Dir is mounted below it
	containerData = containerDisk + "/data"
)

// container is a server in a container, below the shell of package daemon.
type container struct {
	client *docker.Client
	id     string
	pipe   io.Closer // of its standard input: closing it stops the server
	done   chan struct{}
	log    *tail
}

// startDocker is the third way.
func startDocker(ctx context.Context, o Options) (*Server, error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.PingWithContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no daemon answers: %w", errUnavailable, err)
	}
	o.Image = cmp.Or(o.Image, DefaultImage)
	image, err := findImage(ctx, pool.Client, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	for try := 1; ; try++ {
		s, err := runContainer(ctx, pool.Client, image, o)
		var busy *BusyError
		if !errors.As(err, &busy) || o.Addr != "" || try == 3 {
			return s, err
		} // else somebody took the free port in between
	}
}

// findImage returns the image, pulled if need be.
func findImage(ctx context.Context, client *docker.Client, o Options) (*docker.Image, error) {
	image, err := client.InspectImage(o.Image)
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return image, err
	}
	if o.Log != nil {
		fmt.Fprintf(o.Log, "pulling the image %s\n", o.Image)
	}
	name, tag := docker.ParseRepositoryTag(o.Image)
	pull := docker.PullImageOptions{Context: ctx, Repository: name, Tag: cmp.Or(tag, "latest")}
	if err := client.PullImage(pull, docker.AuthConfiguration{}); err != nil {
		return nil, fmt.Errorf("pull the image %s: %w", o.Image, err)
	}
	return client.InspectImage(o.Image)
}

func runContainer(ctx context.Context, client *docker.Client, image *docker.Image, o Options) (*Server, error) {
	var err error
	if o.Addr == "" {
		if o.Addr, err = freeAddr(ctx); err != nil {
			return nil, err
		}
	}
	options, err := containerOptions(image, o)
	if err != nil {
		return nil, err
	}
	made, err := create(ctx, client, options)
	if err != nil {
		return nil, err
	}
	c := &container{client: client, id: made.ID, done: make(chan struct{}), log: &tail{}}
	err = c.start(ctx, o)
	if err == nil {
		err = waitReady(ctx, adminURL(o.Addr, o.Password), c.done)
	}
	if err != nil {
		err = fmt.Errorf("start PostgreSQL from the image %s: %w\n%s", o.Image, err, c.log)
		return nil, errors.Join(err, c.remove(context.WithoutCancel(ctx)), checkFree(ctx, o.Addr))
	}
	return &Server{AdminURL: adminURL(o.Addr, o.Password), How: "Docker with the image " + o.Image, process: c}, nil
}

// containerOptions say how the image is run: its own entry point below our shell.
func containerOptions(image *docker.Image, o Options) (docker.CreateContainerOptions, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return docker.CreateContainerOptions{}, fmt.Errorf("address %q: %w", o.Addr, err)
	}
	inside := o
	inside.Addr = "*:5432"
	settings, err := settingArgs(inside)
	if err != nil {
		return docker.CreateContainerOptions{}, err
	}
	env := []string{"PGDATA=" + containerData, "TZ=UTC", "POSTGRES_INITDB_ARGS=--encoding=UTF8 --locale=C.UTF-8"}
	if o.Password == "" {
		env = append(env, "POSTGRES_HOST_AUTH_METHOD=trust")
	} else {
		env = append(env, "POSTGRES_PASSWORD="+o.Password)
	}
	options := docker.CreateContainerOptions{
		Config: &docker.Config{
			Image: o.Image, Env: env, ExposedPorts: map[docker.Port]struct{}{containerPort: {}},
			Entrypoint: append([]string{"/bin/sh", "-c", daemon.Script, "watch", "INT", ""}, image.Config.Entrypoint...),
			Cmd:        append([]string{"postgres"}, settings...),
			OpenStdin:  true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		},
		HostConfig: &docker.HostConfig{
			AutoRemove: true, ShmSize: 256 << 20,
			PortBindings: map[docker.Port][]docker.PortBinding{containerPort: {{HostIP: host, HostPort: port}}},
		},
	}
	if o.Dir == "" {
		options.HostConfig.Tmpfs = map[string]string{containerDisk: "mode=1777"}
		return options, nil
	}
	return options, mountData(&options, o.Dir)
}

// mountData mounts a data folder, and runs the server as the folder's owner. The container's
// name keeps a second one from it.
func mountData(options *docker.CreateContainerOptions, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find data folder: %w", err)
	}
	who, err := daemon.NotRoot()
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), who.Own(dir)); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	options.Name = fmt.Sprintf("slotwise-postgres-%x", sha256.Sum256([]byte(dir)))[:40]
	options.Config.User = who.ID()
	// initdb wants to know the name of the user who runs it.
	options.HostConfig.Binds = []string{dir + ":" + containerData, "/etc/passwd:/etc/passwd:ro"}
	return nil
}

// create creates the container, once a predecessor of the same data folder has ended.
func create(ctx context.Context, client *docker.Client, options docker.CreateContainerOptions) (*docker.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	options.Context = ctx
	for {
		made, err := client.CreateContainer(options)
		if !errors.Is(err, docker.ErrContainerAlreadyExists) {
			return made, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("data folder is in use by the container %s", options.Name)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// start starts the container with its standard input and output in our hands.
func (c *container) start(ctx context.Context, o Options) error {
	log := io.Writer(c.log)
	if o.Log != nil {
		log = io.MultiWriter(c.log, o.Log)
	}
	in, pipe := io.Pipe()
	c.pipe = pipe
	attached := make(chan struct{})
	streams, err := c.client.AttachToContainerNonBlocking(docker.AttachToContainerOptions{
		Container: c.id, InputStream: in, OutputStream: log, ErrorStream: log,
		Stream: true, Stdin: true, Stdout: true, Stderr: true, Success: attached,
	})
	if err != nil {
		close(c.done)
		return fmt.Errorf("attach to the container: %w", err)
	}
	go func() {
		_ = streams.Wait() // however it has ended
		close(c.done)
	}()
	select {
	case <-attached:
		attached <- struct{}{}
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.client.StartContainerWithContext(c.id, nil, ctx)
}

func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) Stop(ctx context.Context) error {
	_ = c.pipe.Close() // never fails
	select {
	case <-c.done:
		return nil // Docker removes it
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop PostgreSQL: removed its container: %w", ctx.Err()), c.remove(context.WithoutCancel(ctx)))
	}
}

// remove kills and removes the container, if it is still there.
func (c *container) remove(ctx context.Context) error {
	err := c.client.RemoveContainer(docker.RemoveContainerOptions{Context: ctx, ID: c.id, Force: true, RemoveVolumes: true})
	var none *docker.NoSuchContainer
	if err != nil && !errors.As(err, &none) {
		return fmt.Errorf("remove the container: %w", err)
	}
	<-c.done
	return nil
}
