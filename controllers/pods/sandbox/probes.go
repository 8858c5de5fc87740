package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
)

// maxOutput is the number of bytes of a probe's output that are kept.
//
//upstream:pkg/probe/exec.maxReadLength
const maxOutput = 10 << 10

// probes reports whether a probe of a container is executed. The other probes succeed, because nothing would answer them. The
// program by executes the container itself.
func (s *Sandboxes) probes(pod *corev1.Pod, c *corev1.Container, p *corev1.Probe, by mainProgram) bool {
	switch {
	case p.Exec != nil:
		process := &runtime.Process{Pod: pod, Container: c, Args: p.Exec.Command, Exec: true}
		image := s.image(pod, c)
		return s.o.Handlers.Find(process, nil) != nil || len(p.Exec.Command) > 0 && image.has(c, p.Exec.Command[0]) ||
			by != noProgram && s.knows(c, &image, p.Exec.Command, by == ofImage)
	case p.HTTPGet != nil:
		return by == ofImage || s.serves(s.at(p.HTTPGet.Host, pod), c, p.HTTPGet.Port)
	case p.TCPSocket != nil:
		return by == ofImage || s.serves(pod, c, p.TCPSocket.Port)
	case p.GRPC != nil:
		return by == ofImage || s.o.Handlers.Serves(pod, p.GRPC.Port)
	}
	return false
}

// mainProgram is the program of a container.
type mainProgram uint8

const (
	noProgram mainProgram = iota
	// ofShell is a program of the shell, or a handler. It may serve ports without being asked by name.
	ofShell
	// ofImage is a file of the image, which serves what it listens on.
	ofImage
)

// mainProgram returns the program of a process that executes a container.
func (s *Sandboxes) mainProgram(p *runtime.Process) mainProgram {
	image := s.image(p.Pod, p.Container)
	switch {
	case s.o.Handlers.Find(p, nil) != nil:
		return ofShell
	case len(p.Args) > 0 && image.has(p.Container, p.Args[0]):
		return ofImage
	case s.knowsMain(p.Pod, p.Container, &image, p.Args):
		return ofShell
	}
	return noProgram
}

// at returns the pod with an address, among the pods with processes. Without such a pod, it is the given one.
func (s *Sandboxes) at(address string, otherwise *corev1.Pod) *corev1.Pod {
	if address == "" || address == otherwise.Status.PodIP {
		return otherwise
	}
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.pods))
	s.mu.Unlock()
	for _, box := range all {
		box.mu.Lock()
		pod := box.pod
		box.mu.Unlock()
		if pod.Status.PodIP == address && !podstate.Finished(pod) {
			return pod
		}
	}
	return otherwise
}

func (s *Sandboxes) serves(pod *corev1.Pod, c *corev1.Container, port intstr.IntOrString) bool {
	number, ok := portOf(c, port)
	return ok && s.o.Handlers.Serves(pod, number)
}

// portOf returns the number of a port of a container.
//
//upstream:pkg/probe.ResolveContainerPort
func portOf(c *corev1.Container, port intstr.IntOrString) (int32, bool) {
	if port.Type == intstr.Int {
		return port.IntVal, true
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort, true
		}
	}
	n, err := strconv.ParseUint(port.StrVal, 10, 16)
	return int32(n), err == nil
}

// probing is a probe of a run.
type probing struct {
	run  *run
	spec *corev1.Probe
	kind probeKind
}

// probeKind is the purpose of a probe.
type probeKind string

const (
	startup   probeKind = "Startup"
	readiness probeKind = "Readiness"
	liveness  probeKind = "Liveness"
)

// probes returns the probes that are executed, and sets the state before their first result.
func (r *run) probes() (all []*probing) {
	owner := r.box.owner
	by := owner.mainProgram(r.process())
	for kind, spec := range map[probeKind]*corev1.Probe{startup: r.spec.StartupProbe, readiness: r.spec.ReadinessProbe, liveness: r.spec.LivenessProbe} {
		if spec == nil || !owner.probes(r.pod, r.spec, spec, by) {
			continue
		}
		switch kind {
		case startup:
			r.state.Started = false
		case readiness:
			r.probed, r.state.Ready = false, false
		}
		all = append(all, &probing{r, spec, kind})
	}
	return all
}

// probe starts the goroutines of the probes.
func (r *run) probe() {
	for _, p := range r.probing {
		r.box.owner.spawn(p.loop)
	}
}

// loop probes until the run ends.
//
//upstream:pkg/kubelet/prober.worker.run
func (p *probing) loop() {
	ticker := time.NewTicker(max(time.Duration(p.spec.PeriodSeconds)*time.Second, time.Second))
	defer ticker.Stop()
	begin := time.Now()
	succeeded, count := false, int32(0)
	for {
		if time.Since(begin) >= time.Duration(p.spec.InitialDelaySeconds)*time.Second && p.isDue() {
			ok := p.once()
			if count++; ok != succeeded {
				succeeded, count = ok, 1
			}
			if !p.result(ok, count) {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-p.trigger():
		case <-p.run.done:
			return
		}
	}
}

// trigger returns a channel that receives when the readiness may be probed for the first time.
func (p *probing) trigger() <-chan struct{} {
	if p.kind == readiness {
		return p.run.ready
	}
	return nil
}

// isDue reports whether a probe is executed in the state of the run.
func (p *probing) isDue() bool {
	p.run.box.mu.Lock()
	defer p.run.box.mu.Unlock()
	return p.run.state.End == nil && (p.kind == startup || p.run.state.Started) && (p.kind == readiness || !p.run.stopped)
}

// result acts on a result that occurred a number of times in a row. It reports whether the probe goes on.
//
//upstream:pkg/kubelet/prober.worker.doProbe
func (p *probing) result(ok bool, count int32) bool {
	if ok && count < p.spec.SuccessThreshold || !ok && count < p.spec.FailureThreshold {
		return true
	}
	switch {
	case p.kind == readiness:
		p.run.setReady(func() { p.run.probed = ok })
		return true
	case ok && p.kind == startup:
		p.run.set(func(s *Run) { s.Started = true })
		select {
		case p.run.ready <- struct{}{}:
		default:
		}
		return false
	case ok:
		return true
	}
	p.failed()
	return false
}

// failed stops the run after a failure of a startup or liveness probe. The container restarts unless its policy is Never, whatever its
// exit code is. If the pod has nothing else to keep, the pod is stopped, with its own grace period.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computeInitContainerActions
func (p *probing) failed() {
	r := p.run
	restarts := restartsAfterFailure(r.pod, r.spec)
	r.box.mu.Lock()
	stopped := r.stopped
	keeps := slices.ContainsFunc(r.box.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name != r.spec.Name && s.State.Terminated == nil
	})
	r.restarts = restarts && !stopped
	r.box.mu.Unlock()
	if stopped {
		return
	}
	probe, grace := strings.ToLower(string(p.kind)), r.graceOf(p.spec)
	message := fmt.Sprintf("Container %s failed %s probe", r.spec.Name, probe)
	switch {
	case isInit(r.pod, r.spec):
		message = fmt.Sprintf("Init container %s failed %s probe", r.spec.Name, probe)
	case restarts:
		message += ", will be restarted"
	case !keeps:
		message, grace = "Stopping container "+r.spec.Name, r.graceOf(nil)
	}
	r.record(corev1.EventTypeNormal, "Killing", "%s", message)
	r.stop(grace, nil)
}

// restartsAfterFailure reports whether a container restarts after a failure of a probe. Its rules do not count.
//
//upstream:pkg/kubelet/kuberuntime.shouldRestartOnFailure
func restartsAfterFailure(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// isInit reports whether a container is an init container.
func isInit(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// once executes the probe, and reports whether it succeeded. It records a failure.
//
//upstream:pkg/kubelet/prober.prober.probe
func (p *probing) once() bool {
	timeout := max(time.Duration(p.spec.TimeoutSeconds)*time.Second, time.Second)
	ctx, cancel := p.run.untilEnd(timeout)
	defer cancel()
	var output string
	var err error
	r := p.run
	switch {
	case p.spec.Exec != nil:
		output, err = r.command(ctx, p.spec.Exec.Command)
	case p.spec.HTTPGet != nil:
		output, err = r.get(ctx, p.spec.HTTPGet, "kube-probe/1.37")
	case p.spec.TCPSocket != nil:
		err = r.connect(ctx, p.spec.TCPSocket.Port)
	default:
		err = r.connect(ctx, intstr.FromInt32(p.spec.GRPC.Port))
	}
	if err == nil {
		return true
	}
	if r.hasEnded() {
		return false
	}
	if output == "" {
		output = err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) && p.spec.Exec != nil {
		output = fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(p.spec.Exec.Command, " "), timeout)
	}
	r.record(corev1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", p.kind, output)
	return false
}

// errFailed is the error of a command with an exit code, and of a response with a status code.
var errFailed = errors.New("failed")

// command executes a command in the container. The error is errFailed if its exit code is not zero.
func (r *run) command(ctx context.Context, args []string) (output string, err error) {
	b := &limitedBuffer{limit: maxOutput}
	code, err := r.box.execute(ctx, r.made, r.done, args, runtime.Streams{Stdout: b, Stderr: b})
	if err == nil && code != 0 {
		err = errFailed
	}
	return b.String(), err
}

// limitedBuffer keeps the first bytes that are written. Its writers do not run at the same time.
type limitedBuffer struct {
	gate
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Buffer.Write(p[:min(len(p), max(b.limit-b.Len(), 0))])
	return len(p), nil
}

func (b *limitedBuffer) String() string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.Buffer.String()
}

// connect connects to a port of the pod.
func (r *run) connect(ctx context.Context, port intstr.IntOrString) error {
	number, _ := portOf(r.spec, port)
	c, err := r.dial(ctx, r.pod, number)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// dial connects to a port of a pod. The error has the address of the pod.
func (r *run) dial(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error) {
	c, err := r.box.owner.o.Handlers.Dial(ctx, pod, port)
	if err != nil {
		address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port)))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("dial tcp %s: i/o timeout", address)
		}
		return nil, fmt.Errorf("dial tcp %s: connect: connection refused", address)
	}
	return c, nil
}

// get sends a request to a port of the pod, or of another pod with the address that the action has. The error is errFailed for a status code of a failure.
//
//upstream:pkg/probe/http.DoHTTPProbe
//upstream:pkg/probe/http.NewRequestForHTTPGetAction
func (r *run) get(ctx context.Context, action *corev1.HTTPGetAction, agent string) (output string, err error) {
	port, _ := portOf(r.spec, action.Port)
	host, pod := action.Host, r.box.owner.at(action.Host, r.pod)
	if host == "" {
		host = r.pod.Status.PodIP
	}
	to, err := url.Parse(action.Path)
	if err != nil {
		to = &url.URL{Path: action.Path}
	}
	to.Scheme, to.Host = strings.ToLower(string(action.Scheme)), net.JoinHostPort(host, strconv.Itoa(int(port)))
	if to.Scheme == "" {
		to.Scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return "", err
	}
	for _, h := range action.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
		}
	}
	for name, value := range map[string]string{"User-Agent": agent, "Accept": "*/*"} {
		if _, ok := request.Header[name]; !ok {
			request.Header.Set(name, value)
		}
	}
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as kubelet does
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx, pod, port) },
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) >= 10 || next.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxOutput)); err != nil {
		return "", err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Sprintf("HTTP probe failed with statuscode: %d", response.StatusCode), errFailed
	}
	return "", nil
}
