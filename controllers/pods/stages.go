package pods

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/sandbox"
)

// Options configure the behaviour of pods. With the zero value, a pod is ready immediately if its images can be pulled.
type Options struct {
	// Delay is the time between the binding of a pod and its readiness.
	Delay time.Duration
	// Jitter is the maximum time that is added to the delay. The time depends on the UID of the pod.
	Jitter time.Duration
	// MissingImages are patterns of images that cannot be pulled. In a pattern, * matches any characters. A container
	// with such an image waits with ErrImagePull and ImagePullBackOff until its image is changed. Nil means
	// [DefaultMissingImages]; an empty list means that every image can be pulled.
	MissingImages []string
	// Network is the IPv4 network of the addresses of pods on nodes without a podCIDR, or with one that has no address left. By default
	// it is [DefaultNetwork]. When it is exhausted, further pods stay Pending until another pod terminates or is deleted.
	Network netip.Prefix
	// Handlers execute containers and commands. Nil means none.
	Handlers *runtime.Handlers
	// Shell executes the commands that it knows. Nil means a shell of package shell.
	Shell sandbox.Shell
	// OnRuntime, if not nil, is called with the runtime of the pods when the controller is added to its manager.
	OnRuntime func(runtime.Runtime)
	// Nodes are the nodes that exist from the start, with running kubelets. Of each node, the name, the labels, the
	// annotations, the finalizers, the specification and the status count; a node gets the addresses that it lacks, and its capacity the
	// CPU, memory, ephemeral storage and pods. Allocatable resources are at most the capacity.
	// Nil means [Nodes](1), and an empty list no nodes. A deleted node is created again at the next start.
	Nodes []corev1.Node
	// AllNodes makes the control plane simulate the kubelets of all nodes, unless [KubeletAnnotation] stops them.
	// Otherwise it simulates the kubelets of Nodes, and of nodes with this annotation.
	AllNodes bool
	// Script is the script of all pods. The script of a pod goes before it, field by field. [ParseScript] parses it.
	Script *Script
	// WithoutLeases leaves out the leases of the nodes, and the posts of statuses that have not changed. Only the node-lifecycle-controller reads them.
	WithoutLeases bool
	// Usage returns the CPU and the memory that a container that runs uses at a time. By default, it is [Options.UsageOf]. Usage
	// may be called from several goroutines at once, and must not change the pod.
	Usage func(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList
}

// DefaultNetwork has room for 8 million pods, and does not overlap the services' 10.96.0.0/12.
var DefaultNetwork = netip.MustParsePrefix("10.128.0.0/9")

func (o *Options) missingImages() []string {
	if o.MissingImages == nil {
		return DefaultMissingImages
	}
	return o.MissingImages
}

func (o *Options) network() netip.Prefix {
	if !o.Network.IsValid() {
		return DefaultNetwork
	}
	return o.Network
}

// noAddress returns the message for a pod without an address, as from kubelet.
func (o *Options) noAddress() string {
	return fmt.Sprintf("Failed to create pod sandbox: no IP addresses available in %s", o.network())
}

// Annotations that control the containers of a pod, because nothing executes their commands. Users may change them
// while the pod runs.
const (
	// OutcomeAnnotation selects whether containers run or terminate. The default is [Succeeded] for the pods of Jobs,
	// and [Running] for all others.
	OutcomeAnnotation = "flyball.dev/outcome"
	// DurationAnnotation is how long containers run before they terminate, such as 90s or 1h30m. By default they
	// terminate immediately.
	DurationAnnotation = "flyball.dev/duration"
	// ExitCodeAnnotation is the exit code of failing containers, from 1 to 255; the default is 1. Containers without
	// [OutcomeAnnotation] fail if it is set.
	ExitCodeAnnotation = "flyball.dev/exit-code"
)

// The values of the outcome annotation. Terminated containers are restarted according to their restart policy, with the
// kubelet's back-off: immediately after the first failure, and then after 10 s, 20 s and so on up to 5 min. While they
// wait, the reason is CrashLoopBackOff. The back-off is forgotten 10 minutes after the start of a run.
const (
	Running    = "Running"    // its containers run, and are ready
	NeverReady = "NeverReady" // its containers run, but are not ready
	Succeeded  = "Succeeded"  // its containers terminate successfully
	Failed     = "Failed"     // its containers fail
)

// step is the next change of a pod.
type step struct {
	actions
	remove bool              // delete the pod without a grace period
	status *corev1.PodStatus // update the status, if not nil
	ending *ending           // the end of a pod
	ended  bool              // no container of an ending pod runs
	frees  bool              // resources of the node: the pod has ended, or was resized
}

// actions are the part of a step that follows from the statuses of the containers.
type actions struct {
	start   []runKey                // start these processes, and then compute the step again
	stop    []runKey                // stop these processes
	noGrace bool                    // they have no grace period
	changes []change                // containers that stop because they have changed
	stopPod *time.Duration          // stop all processes with this grace period
	running []string                // containers without a process that still run while the pod is stopped
	killing []string                // containers that are stopped, although they may not have their turn
	waits   []string                // sidecars that have succeeded and are in their back-off
	hooks   []hook                  // execute these hooks of containers without a process
	pulls   map[string]pullBackOff  // by image, as its pulls are known now
	delays  map[runKey]restartDelay // the back-offs of runs
	after   time.Duration           // compute the step again after that time, if not zero
}

// provision is the set of resources that the node has for a pod, and the state of its processes.
type provision struct {
	hostIP     string            // the address of the node
	ip         string            // its address, "" if none is free
	mounted    bool              // its volumes are there
	polls      bool              // nothing delivers what its volumes lack
	config     map[string]string // by container, the error in its configuration
	script     *Script
	invalid    error // of the script
	executed   map[string]executor
	runs       map[string][]sandbox.Run
	started    map[string]moment
	stopping   map[string]moment
	preStops   map[string]sandbox.PreStop // of the containers without a process with a hook that something answers
	pulls      map[string]pullBackOff
	delays     map[runKey]restartDelay
	granted    *corev1.Pod // with its allocated resources
	deferred   string      // why a resize has to wait, or ""
	generation int64       // of the pod when its last resize was granted, or zero
}

// newContainers returns the containers of a pod.
func newContainers(pod *corev1.Pod, given provision, o *Options, now time.Time) *containers {
	return &containers{
		courses:       courses{pod: pod, script: given.script, executed: given.executed, runs: given.runs, started: given.started},
		actions:       actions{pulls: expirePulls(given.pulls, now), delays: expireDelays(given.delays, now)},
		missingImages: o.missingImages(), config: given.config, stopping: given.stopping, preStops: given.preStops,
		generation: given.generation, now: metav1.NewTime(now),
	}
}

// next returns the next step of a pod.
func next(pod *corev1.Pod, given provision, o *Options, now time.Time) step {
	c := newContainers(pod, given, o, now)
	switch {
	case pod.DeletionTimestamp != nil:
		return c.delete()
	case podstate.Finished(pod):
		return c.clean()
	}
	if why := c.firstEnd(&pod.Status); why != nil && !why.since.After(now) {
		return end(c, *why)
	}
	started, after := hasStarted(pod, o, now)
	if after > 0 {
		c.until(after)
	}
	c.started = started && given.mounted
	status := c.status(given, o)
	if why := c.firstEnd(&status); why != nil {
		c.until(why.since.Sub(now))
	}
	s := step{actions: c.actions}
	if !equality.Semantic.DeepEqual(status, pod.Status) {
		s.status = &status
		s.frees = podstate.Finished(&corev1.Pod{Status: status}) || resizing(pod, &pod.Status) && !resizing(pod, &status)
	}
	return s
}

// delete returns the next step of a pod that is deleted.
func (c *containers) delete() step {
	s := c.clean()
	if !podstate.Finished(c.pod) && c.pod.Spec.NodeName != "" {
		why := deletion(c.pod)
		if first := c.firstEnd(&c.pod.Status); first != nil && first.since.Before(why.since) {
			why = first.until(why.since.Add(why.grace)) // its containers stop already
		}
		s = end(c, why)
		if !s.ended || len(c.pod.Finalizers) > 0 {
			return s // whoever has a finalizer may wait for the status
		}
	}
	if s.stopPod != nil {
		return s
	}
	// Without a grace period and finalizers its deletion was interrupted, perhaps by the end of the server.
	return step{actions: actions{killing: s.killing}, remove: grace(c.pod) > 0 || len(c.pod.Finalizers) == 0, ending: s.ending}
}

// clean returns the step of a pod that has terminated, although processes of it may run, if another has ended it.
func (c *containers) clean() step {
	if !c.live("") {
		return step{}
	}
	period := gracePeriod(c.pod)
	s := step{actions: actions{stopPod: &period}}
	for spec := range podstate.Containers(&c.pod.Spec) {
		if c.live(spec.Name) {
			s.killing = append(s.killing, spec.Name)
		}
	}
	return s
}

// grace returns the grace period of a terminating pod, in seconds.
func grace(pod *corev1.Pod) int64 { return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) }

// hasStarted reports whether the delay of a bound pod has passed, and returns the remaining delay.
func hasStarted(pod *corev1.Pod, o *Options, now time.Time) (ok bool, after time.Duration) {
	delay := o.Delay
	if o.Jitter > 0 {
		h := fnv.New64a()
		h.Write([]byte(pod.UID))
		delay += time.Duration(h.Sum64() % uint64(o.Jitter))
	}
	if delay <= 0 {
		return true, 0
	}
	since := now
	if pod.Status.StartTime != nil {
		since = pod.Status.StartTime.Time
	}
	left := since.Add(delay).Sub(now)
	return left <= 0, max(left, 0)
}
