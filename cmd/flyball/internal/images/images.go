// Package images executes containers as programs of this machine: the containers of an image are a program that whoever
// starts the control plane has chosen. Pods choose its arguments, its environment and its volumes, and nothing else.
//
// What a pod may not choose is what would make another program of it: the file that is executed, the variables of the
// dynamic linker and of shells, the working directory, and volumes in the place of files of this machine.
package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/controllers/pods/runtime"
)

// Options configure a Runner.
type Options struct {
	// Images are the images. The first that matches goes first.
	Images []Image
	// Server is the API server for the programs.
	Server inpod.Server
	// Kubeconfig is a kubeconfig of the API server, for programs without a mount namespace.
	Kubeconfig clientcmdapi.Config
	// PodExists reports whether a pod exists. The files of a pod that does not exist are removed. On error, they are
	// kept.
	PodExists func(ctx context.Context, namespace, name string, uid types.UID) (bool, error)
	// Warn reports, once, that this system permits no mount namespaces.
	Warn func(string)
}

// refreshInterval is how often the files of volumes are compared with the ones in the pods, which follow their ConfigMaps,
// Secrets and tokens.
const refreshInterval = 5 * time.Second

// stopGrace is how long programs may take to end when the control plane ends.
const stopGrace = 5 * time.Second

// Runner executes containers.
type Runner struct {
	options   Options
	dir       string // the files of the pods
	base      []string
	cancel    context.CancelFunc
	refreshed chan struct{} // closed when refreshUntil has ended

	warned sync.Once

	mu      sync.Mutex
	closed  bool
	running map[*container]bool
	pods    map[types.UID]*podFiles
	ended   sync.WaitGroup // of the containers
}

// podFiles are the files of a pod.
type podFiles struct {
	namespace, name string
	containers      int // that run
	unforward       func()
}

// NewRunner returns a runner that executes the containers of the images. Close ends it.
func NewRunner(h *runtime.Handlers, o Options) (*Runner, error) {
	dir, err := os.MkdirTemp("", "flyball-images-") // with mode 0700
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runner{options: o, dir: dir, base: baseEnv(), cancel: cancel, refreshed: make(chan struct{}),
		running: map[*container]bool{}, pods: map[types.UID]*podFiles{}}
	for _, image := range slices.Backward(o.Images) { // the last handler goes first
		for _, pattern := range image.patterns() {
			handler := func(ctx context.Context, p *runtime.Process) int { return r.execute(ctx, h, &image, p) }
			if _, err := h.Handle(runtime.Selector{Image: pattern}, handler); err != nil {
				return nil, err
			}
		}
	}
	go r.refreshUntil(ctx)
	return r, nil
}

// Close ends all programs, with SIGTERM and a grace period, and removes the files of the pods. It returns when nothing is
// left.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.running {
		c.terminate()
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(stopGrace):
		r.mu.Lock()
		for c := range r.running {
			c.kill()
		}
		r.mu.Unlock()
		<-done
	}
	r.cancel()
	<-r.refreshed
	_ = os.RemoveAll(r.dir) // it is in the folder for temporary files
}

// Exit codes of containers that do not start, as of a container runtime.
const notStarted = 128

// execute executes a container, and returns its exit code.
func (r *Runner) execute(ctx context.Context, h *runtime.Handlers, image *Image, p *runtime.Process) int {
	c, err := r.start(h, image, p)
	if errors.Is(err, errClosed) {
		<-p.Killed
		return 137
	}
	if err != nil {
		fmt.Fprintln(stderr(p), "flyball:", err)
		reportTermination(p, err.Error())
		return notStarted
	}
	defer r.remove(c)
	select {
	case <-c.process.Done():
		return c.process.ExitCode()
	case <-p.Killed:
		c.kill()
	case <-ctx.Done():
		c.terminate()
	}
	select {
	case <-c.process.Done():
	case <-p.Killed:
		c.kill()
		<-c.process.Done()
	}
	return c.process.ExitCode()
}

var errClosed = errors.New("the control plane ends")

// container is a container that runs, or is about to.
type container struct {
	pod types.UID
	// started is closed when the start has succeeded or failed. The other fields are written before.
	started chan struct{}
	process *hostprocess.Process // nil if the start has failed
	volumes []*volume
}

// start starts a container.
func (r *Runner) start(h *runtime.Handlers, image *Image, p *runtime.Process) (*container, error) {
	if err := checkEnv(p.Container); err != nil {
		return nil, err
	}
	if err := r.enter(h, p.Pod); err != nil {
		return nil, err
	}
	c := &container{pod: p.Pod.UID, started: make(chan struct{})}
	r.mu.Lock()
	r.running[c] = true // the program may be called as soon as it starts
	r.mu.Unlock()
	err := r.startProcess(c, image, p)
	close(c.started)
	if err != nil {
		r.remove(c)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.terminate()
	}
	return c, nil
}

// remove removes a container that has ended.
func (r *Runner) remove(c *container) {
	r.mu.Lock()
	delete(r.running, c)
	r.mu.Unlock()
	r.leave(c.pod)
}

// enter counts a container of a pod. The ports of the pod are the ports that its containers listen on.
func (r *Runner) enter(h *runtime.Handlers, pod *corev1.Pod) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errClosed
	}
	r.ended.Add(1)
	files := r.pods[pod.UID]
	first := files == nil
	if first {
		files = &podFiles{namespace: pod.Namespace, name: pod.Name, unforward: func() {}}
		r.pods[pod.UID] = files
	}
	files.containers++
	r.mu.Unlock()
	if !first || !canFindListeners {
		return nil
	}
	unforward, err := h.ForwardTo(runtime.Selector{Namespace: pod.Namespace, Pod: pod.Name}, 0, func(ctx context.Context, port int32) (net.Conn, error) {
		return r.dial(ctx, pod.UID, port)
	})
	if err != nil {
		r.leave(pod.UID)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	files.unforward = unforward
	return nil
}

// leave counts the end of a container of a pod.
func (r *Runner) leave(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod].containers--
	r.ended.Done()
}

// refreshUntil refreshes volumes, and removes the files of pods that are gone, until ctx ends.
func (r *Runner) refreshUntil(ctx context.Context) {
	defer close(r.refreshed)
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.refresh(ctx)
		}
	}
}

// refresh refreshes the volumes of the containers that run, and removes the files of pods that do not exist any more.
func (r *Runner) refresh(ctx context.Context) {
	r.mu.Lock()
	containers := slices.Collect(maps.Keys(r.running))
	idle := map[types.UID]*podFiles{}
	for uid, files := range r.pods {
		if files.containers == 0 {
			idle[uid] = files
		}
	}
	r.mu.Unlock()
	for _, c := range containers {
		<-c.started
		for _, v := range c.volumes {
			_ = v.refresh() // or else the next time
		}
	}
	for uid, files := range idle {
		if exists, err := r.options.PodExists(ctx, files.namespace, files.name, uid); err == nil && !exists {
			r.forget(uid)
		}
	}
}

// forget removes the files of a pod that is gone.
func (r *Runner) forget(uid types.UID) {
	r.mu.Lock()
	files := r.pods[uid]
	if files.containers > 0 {
		r.mu.Unlock()
		return
	}
	delete(r.pods, uid)
	r.mu.Unlock()
	files.unforward()
	_ = os.RemoveAll(r.podDir(uid)) // in the folder for temporary files
}

// podDir returns the folder of a pod's files.
func (r *Runner) podDir(uid types.UID) string {
	return filepath.Join(r.dir, filepath.Base(string(uid)))
}

// dial connects to a port of a pod: to a loopback port on which a container of the pod listens.
func (r *Runner) dial(ctx context.Context, pod types.UID, port int32) (net.Conn, error) {
	r.mu.Lock()
	var containers []*container
	for c := range r.running {
		if c.pod == pod {
			containers = append(containers, c)
		}
	}
	r.mu.Unlock()
	var groups []int
	for _, c := range containers {
		if <-c.started; c.process != nil {
			groups = append(groups, c.process.PID())
		}
	}
	address, err := listener(groups, port)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// terminate asks the program to end.
func (c *container) terminate() { c.signal(terminationSignal) }

// kill ends the program.
func (c *container) kill() { c.signal(os.Kill) }

func (c *container) signal(s os.Signal) {
	if <-c.started; c.process != nil {
		c.process.Signal(s)
	}
}
