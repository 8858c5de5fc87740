// Package sandbox has the containers of pods that something executes: their processes, files, logs, probes and lifecycle
// hooks. A [Sandboxes] implements [runtime.Runtime].
//
// A container is executed by a handler of [runtime.Handlers], or by the shell if it knows the command. The stand-in for
// kubelet asks [Sandboxes.Executes], starts and stops runs, and derives the status of a pod from [Sandboxes.Runs]. A pod
// without such a container has a sandbox only from its first exec on.
//
// Concurrency: each run has a goroutine for its process, and one for each probe. They wait on channels and timers only,
// and end with their run. [Sandboxes.Close] kills all processes, and waits for their goroutines. The function Changed is
// called without a lock.
package sandbox

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/inputs"
	"flyball.dev/controllers/pods/memfs"
	"flyball.dev/controllers/pods/runtime"
)

// The sizes of file systems, in bytes.
const (
	maxDisk    = 1 << 30  // of all pods and claims
	maxPodDisk = 64 << 20 // of a pod, and of a claim
)

// Shell executes commands.
type Shell interface {
	// Knows reports whether the shell can execute a command with its arguments as the main process of a container. has
	// reports whether a file of the image is a program with that name or path, and lacks whether a file can only come from the
	// image, and is not there. Without asks, a command that asks a server is not known.
	Knows(args []string, has, lacks func(name string) bool, asks bool) bool
	// Run is a [runtime.Handler].
	Run(ctx context.Context, p *runtime.Process) (exitCode int)
}

// Options are the parts that sandboxes use. Script and Image may be nil.
type Options struct {
	Handlers *runtime.Handlers
	Shell    Shell
	// Pod returns a pod on the nodes of the control plane, or a NotFound error. The pod is shared and not changed.
	Pod func(ctx context.Context, ref runtime.PodRef) (*corev1.Pod, error)
	// Reader returns the reader of the objects that a pod refers to. Its File is not used.
	Reader func(ctx context.Context, pod *corev1.Pod) inputs.Reader
	// Claim returns the UID of a PersistentVolumeClaim.
	Claim func(ctx context.Context, namespace, name string) (types.UID, error)
	// Script returns the log of a run of a container that nothing executes. ok is false if it has none.
	Script func(pod *corev1.Pod, container string, previous bool) (log LogFunc, ok bool)
	// Image describes the image of a container. The result is shared, and nothing changes it.
	Image func(pod *corev1.Pod, c *corev1.Container) Image
	// Changed is called when the result of Runs has changed.
	Changed func(pod types.NamespacedName)
	// Record records an event about a container of a pod.
	Record func(pod *corev1.Pod, container *corev1.Container, typ, reason, message string)
}

// Sandboxes has the sandboxes of the pods of a control plane. Its methods may be called from several goroutines at once.
type Sandboxes struct {
	o          Options
	disk       *memfs.Disk
	logBytes   atomic.Int64
	goroutines sync.WaitGroup

	mu     sync.Mutex
	closed bool
	pods   map[types.UID]*sandbox
	names  map[types.NamespacedName]types.UID
	shared map[string]*memfs.Volume // the volumes of claims and of the hosts
}

var _ runtime.Runtime = (*Sandboxes)(nil)

// New returns Sandboxes without a sandbox.
func New(o Options) *Sandboxes {
	return &Sandboxes{
		o: o, disk: memfs.NewDisk(maxDisk, nil), pods: map[types.UID]*sandbox{}, names: map[types.NamespacedName]types.UID{},
		shared: map[string]*memfs.Volume{},
	}
}

// Close kills all processes, and waits until they have returned, or ctx ends. Nothing can be started afterwards.
func (s *Sandboxes) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := make([]*sandbox, 0, len(s.pods))
	for _, box := range s.pods {
		all = append(all, box)
	}
	s.mu.Unlock()
	for _, box := range all {
		box.close()
	}
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spawn calls a function in a goroutine that Close waits for.
func (s *Sandboxes) spawn(f func()) { s.goroutines.Go(f) }

// find returns the sandbox of a pod, or nil.
func (s *Sandboxes) find(uid types.UID) *sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// sandboxOf returns the sandbox of a pod, and makes one if necessary. It returns nil after Close.
func (s *Sandboxes) sandboxOf(pod *corev1.Pod) *sandbox {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	box := s.pods[pod.UID]
	if box == nil {
		box = &sandbox{
			owner: s, key: key, pod: pod, disk: memfs.NewDisk(maxPodDisk, s.disk),
			volumes: map[string]*volume{}, containers: map[string]*container{}, gone: make(chan struct{}),
		}
		s.pods[pod.UID] = box
		s.names[key] = pod.UID
	}
	return box
}

// Remove kills the processes of the pod with a name, unless it has the given UID, and forgets its files and logs. It
// returns the UID of the pod, if there was one.
func (s *Sandboxes) Remove(key types.NamespacedName, except types.UID) (uid types.UID, ok bool) {
	s.mu.Lock()
	uid, ok = s.names[key]
	if !ok || uid == except {
		s.mu.Unlock()
		return "", false
	}
	box := s.pods[uid]
	delete(s.pods, uid)
	delete(s.names, key)
	s.mu.Unlock()
	box.close()
	return uid, true
}

// RemoveClaim forgets the files of a claim.
func (s *Sandboxes) RemoveClaim(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shared, claimKey(uid))
}

// Runs returns the runs of the containers of a pod that are in this process, by the name of the container and in order.
// It is nil for a pod that nothing executes.
func (s *Sandboxes) Runs(uid types.UID) map[string][]Run {
	box := s.find(uid)
	if box == nil {
		return nil
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	all := map[string][]Run{}
	for name, c := range box.containers {
		for _, r := range c.runs {
			all[name] = append(all[name], r.state)
		}
	}
	return all
}

// Update tells the sandbox of a pod, if there is one, of a change of the pod or, with inputs, of the objects that the pod
// refers to. It updates the files of volumes.
func (s *Sandboxes) Update(ctx context.Context, pod *corev1.Pod, changedInputs bool) error {
	box := s.find(pod.UID)
	if box == nil {
		return nil
	}
	return box.update(ctx, pod, changedInputs)
}

// Start starts a run of a container, unless it was started before. The pod has its addresses in its status. Start returns a
// [*ConfigError] if the container cannot be made from its specification, and other errors if the API server does not
// answer.
func (s *Sandboxes) Start(ctx context.Context, pod *corev1.Pod, c *corev1.Container, number int32) error {
	box := s.sandboxOf(pod)
	if box == nil {
		return context.Canceled
	}
	return box.start(ctx, pod, c, number)
}

// Stop stops a run of a container with a grace period: it executes the hook preStop, then sends SIGTERM, and then kills the
// process.
func (s *Sandboxes) Stop(pod *corev1.Pod, container string, number int32, grace time.Duration) {
	if box := s.find(pod.UID); box != nil {
		if r := box.run(container, number); r != nil {
			r.stop(grace, nil)
		}
	}
}

// StopPod stops all runs of a pod with a grace period, sidecars last. A call with a shorter period overrides an earlier
// one. others are the containers that have no run and have not ended: sidecars wait for them too, until a later call is without
// them.
func (s *Sandboxes) StopPod(pod *corev1.Pod, grace time.Duration, others []string) {
	if box := s.sandboxOf(pod); box != nil {
		box.stop(pod, grace, others)
	}
}

// Announce tells the runs of a container, up to the one with a number, that the events of their starts are recorded. Their own events
// follow.
func (s *Sandboxes) Announce(uid types.UID, container string, number int32) {
	box := s.find(uid)
	if box == nil {
		return
	}
	box.mu.Lock()
	var runs []*run
	if c := box.containers[container]; c != nil {
		runs = slices.Clone(c.runs)
	}
	box.mu.Unlock()
	for _, r := range runs {
		if r.state.Number <= number {
			r.announce()
		}
	}
}

// Stopping reports whether StopPod was called for a pod.
func (s *Sandboxes) Stopping(uid types.UID) bool {
	box := s.find(uid)
	if box == nil {
		return false
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	return box.stopping
}

// Await waits until the runs of a pod have ended that are in this process, but no longer than d.
func (s *Sandboxes) Await(ctx context.Context, uid types.UID, d time.Duration) {
	box := s.find(uid)
	if box == nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, r := range box.live() {
		select {
		case <-r.done:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ConfigError is the error of a container that cannot be made from its specification.
type ConfigError struct {
	// Volume is the volume that cannot be mounted, or "".
	Volume string
	Err    error
}

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Run is the state of one run of a container.
type Run struct {
	// Number is the number of the run, from 0: the restarts before it.
	Number    int32
	StartedAt time.Time
	// Starting reports whether the hook postStart has not returned yet.
	Starting bool
	// Started and Ready are the results of the probes. They are true for a container without probes.
	Started, Ready bool
	// End is the end of the run, or nil.
	End *End
}

// End is the end of a run.
type End struct {
	At       time.Time
	ExitCode int32
	Reason   string // "" for Completed or Error
	Message  string
	// Restarts reports whether the container was stopped to restart, whatever its exit code is.
	Restarts bool
	// PostStart says why the hook postStart has failed, or is "".
	PostStart string
}

// sandbox has the state that the containers of a pod share.
type sandbox struct {
	owner *Sandboxes
	key   types.NamespacedName
	disk  *memfs.Disk
	gone  chan struct{} // closed when the pod is removed

	mu         sync.Mutex
	pod        *corev1.Pod
	volumes    map[string]*volume
	containers map[string]*container
	stopping   bool
	deadline   time.Time                // of the processes of a pod that is stopped
	others     map[string]chan struct{} // of a pod that is stopped, the containers without a run; closed when they have ended
	closed     bool
	preStops   map[string]*preStop // by container, the hooks of containers that have no process
	idle       map[string]*idleRun // by container, the runs of containers that have no process, if clients wait for their ends
	renewal    *time.Timer         // of tokens
}

// container has the runs of a container.
type container struct {
	runs []*run // the last two, and those that have not ended
	made *made
}

// run returns a run of a container, or nil.
func (b *sandbox) run(container string, number int32) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.containers[container]; c != nil {
		for _, r := range c.runs {
			if r.state.Number == number {
				return r
			}
		}
	}
	return nil
}

// live returns the runs that have not ended, by container.
func (b *sandbox) live() map[string]*run {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]*run{}
	for name, c := range b.containers {
		for _, r := range c.runs {
			if r.state.End == nil {
				all[name] = r
			}
		}
	}
	return all
}

// start starts a run.
func (b *sandbox) start(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, number int32) error {
	if b.run(spec.Name, number) != nil {
		return nil
	}
	m, err := b.make(ctx, pod, spec, number)
	if err != nil {
		return err
	}
	r := newRun(b, m, number)
	b.mu.Lock()
	if b.closed || b.stopping {
		b.mu.Unlock()
		return context.Canceled
	}
	c := b.containers[spec.Name]
	for _, other := range c.runs {
		if other.state.Number == number || other.state.End == nil {
			b.mu.Unlock()
			return nil // it was started meanwhile, or the one before has not ended
		}
	}
	c.runs = append(c.runs, r)
	const kept = 2
	for len(c.runs) > kept {
		c.runs[0].log.drop()
		c.runs = c.runs[1:]
	}
	b.mu.Unlock()
	r.start()
	return nil
}

// stop stops all runs. A sidecar stops after the main containers, and after the sidecars behind it.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.killContainersWithSyncResult
//upstream:pkg/kubelet/kuberuntime.newTerminationOrdering
func (b *sandbox) stop(pod *corev1.Pod, grace time.Duration, others []string) {
	waits, ok := b.stops(pod, time.Now().Add(grace), others)
	if !ok {
		return
	}
	live := b.live()
	var before []<-chan struct{}
	stop := func(name string, after []<-chan struct{}) {
		if r := live[name]; r != nil {
			r.stop(grace, after)
			before = append(before[:len(before):len(before)], r.done)
			delete(live, name)
		} else if ended := waits[name]; ended != nil {
			before = append(before[:len(before):len(before)], ended)
		}
	}
	for i := range pod.Spec.Containers {
		stop(pod.Spec.Containers[i].Name, nil)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if c := &pod.Spec.InitContainers[i]; podstate.IsSidecar(c) {
			stop(c.Name, before)
		}
	}
	for _, r := range live {
		r.stop(grace, nil)
	}
}

// stops notes that a pod is stopped, and which containers without a run have not ended. It returns their channels, unless an
// earlier call had the deadline.
func (b *sandbox) stops(pod *corev1.Pod, deadline time.Time, others []string) (waits map[string]chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopping {
		b.others = map[string]chan struct{}{}
		for _, name := range others {
			b.others[name] = make(chan struct{})
		}
	}
	for name, ended := range b.others {
		if !slices.Contains(others, name) {
			close(ended)
			delete(b.others, name)
		}
	}
	if b.stopping && !deadline.Before(b.deadline.Add(-time.Second)) {
		return nil, false
	}
	b.stopping, b.deadline, b.pod = true, deadline, pod
	return maps.Clone(b.others), true
}

// close kills all processes, and forgets files and logs.
func (b *sandbox) close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed, b.stopping = true, true
	for _, p := range b.preStops {
		p.cancel(nil)
	}
	for _, r := range b.idle {
		close(r.ended)
	}
	b.idle = nil
	close(b.gone)
	if b.renewal != nil {
		b.renewal.Stop()
	}
	var runs []*run
	for _, c := range b.containers {
		runs = append(runs, c.runs...)
	}
	b.mu.Unlock()
	for _, r := range runs {
		r.kill()
		r.log.drop()
	}
	b.disk.Release()
}

// changed tells the owner of a change.
func (b *sandbox) changed() { b.owner.o.Changed(b.key) }
