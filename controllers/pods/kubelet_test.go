package pods_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/kubelettest"
)

// The namespaces of pods with functions and with scripts.
const (
	withFunctions = "functions"
	withScripts   = "scripts"
)

// TestAsKubelet: pods have the statuses and the events that a kubelet has recorded for them. What their containers do is in Go functions,
// and in scripts. differences.txt lists what differs, with the reasons.
func TestAsKubelet(t *testing.T) {
	cases, err := kubelettest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := kubelettest.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	listed := readDifferences(t)
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		for _, namespace := range []string{withFunctions, withScripts} {
			r := newReplay(e, namespace)
			var all sync.WaitGroup
			for i := range cases {
				if c := &cases[i]; fits(c, namespace) {
					all.Go(func() { r.play(c) })
				}
			}
			all.Wait()
			r.stop()
			for name, history := range r.histories {
				if recorded[name] == nil {
					t.Errorf("%s is not recorded", name)
					continue
				}
				for _, line := range kubelettest.Compare(recorded[name], history) {
					if !listed.has(namespace+"/"+name, line) {
						t.Errorf("%s/%s: %s", namespace, name, line)
					}
				}
			}
		}
	})
	listed.requireSeen(t)
}

// fits reports whether the outcomes of a case can be had in a namespace. A function has no reason for its end. A container without a
// process has no probes and hooks.
func fits(c *kubelettest.Case, namespace string) bool {
	for _, list := range [][]corev1.Container{c.Spec.InitContainers, c.Spec.Containers} {
		for _, spec := range list {
			oom := slices.ContainsFunc(spec.Command, func(arg string) bool { return strings.HasSuffix(arg, kubelettest.OOMKilled) })
			asked := spec.StartupProbe != nil || spec.ReadinessProbe != nil || spec.LivenessProbe != nil || spec.Lifecycle != nil
			if oom && namespace == withFunctions || asked && namespace == withScripts {
				return false
			}
		}
	}
	return true
}

// replay has the pods of one namespace.
type replay struct {
	controllerstest.Env
	namespace string
	close     []func()

	mu        sync.Mutex
	histories map[string]*kubelettest.History // by pod
	frozen    map[string]bool
	pods      map[string]*corev1.Pod
	starts    map[string]time.Time // of the last run, by pod and container
	runs      map[string]int
}

// newReplay starts to observe a new namespace.
func newReplay(e controllerstest.Env, namespace string) *replay {
	r := &replay{
		Env: e, namespace: namespace,
		histories: map[string]*kubelettest.History{}, frozen: map[string]bool{}, pods: map[string]*corev1.Pod{},
		starts: map[string]time.Time{}, runs: map[string]int{},
	}
	e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	e.WaitIdle() // the namespace has its service account
	r.watch(&corev1.PodList{}, r.observePod)
	r.watch(&corev1.EventList{}, r.observeEvent)
	if namespace == withFunctions {
		for _, register := range []func() (func(), error){
			func() (func(), error) {
				return e.Plane.Pods().Handle(runtime.Selector{Namespace: namespace}, r.execute)
			},
			func() (func(), error) {
				return e.Plane.Pods().HandleExec(runtime.Selector{Namespace: namespace}, r.answer)
			},
		} {
			remove, err := register()
			e.Must(err)
			r.close = append(r.close, remove)
		}
	}
	return r
}

// stop ends the observation.
func (r *replay) stop() {
	for _, end := range slices.Backward(r.close) {
		end()
	}
}

// watch watches the objects of a kind.
func (r *replay) watch(list client.ObjectList, observe func(watch.EventType, client.Object)) {
	r.Helper()
	w, err := r.Watch(r.Context(), list, client.InNamespace(r.namespace))
	r.Must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if object, ok := e.Object.(client.Object); ok {
				r.mu.Lock()
				observe(e.Type, object)
				r.mu.Unlock()
			}
		}
	}()
	r.close = append(r.close, func() { w.Stop(); <-done })
}

func (r *replay) observePod(kind watch.EventType, o client.Object) {
	pod := o.(*corev1.Pod)
	h := r.histories[pod.Name]
	if h == nil || r.frozen[pod.Name] {
		return
	}
	r.pods[pod.Name] = pod
	h.Observe(pod)
	if kind == watch.Deleted {
		h.Deleted()
	}
}

func (r *replay) observeEvent(_ watch.EventType, o client.Object) {
	e := o.(*corev1.Event)
	name := e.InvolvedObject.Name
	if h, pod := r.histories[name], r.pods[name]; h != nil && pod != nil && !r.frozen[name] {
		h.Event(pod, e.InvolvedObject.FieldPath, e.Type, e.Reason, e.Message)
	}
}

// play creates the pod of a case, does the acts, and observes it.
func (r *replay) play(c *kubelettest.Case) {
	pod := c.Pod(r.namespace)
	script, err := scriptOf(c, r.namespace == withScripts)
	r.Must(err)
	if script != "" {
		pod.Annotations = map[string]string{pods.ScriptAnnotation: script}
	}
	r.mu.Lock()
	r.histories[c.Name], r.pods[c.Name] = &kubelettest.History{}, pod.DeepCopy()
	r.mu.Unlock()
	if r.namespace == withFunctions {
		r.Must(r.listen(pod))
	}
	start := time.Now()
	r.CreateAll(pod)
	for _, act := range c.Then {
		time.Sleep(time.Until(start.Add(act.At.Duration)))
		if act.Delete != nil {
			r.Must(r.Delete(r.Context(), pod, client.GracePeriodSeconds(*act.Delete)))
			continue
		}
		r.Must(r.Get(r.Context(), client.ObjectKeyFromObject(pod), pod))
		if act.Touch {
			before := pod.DeepCopy()
			pod.Labels = map[string]string{"touched": "at-" + act.At.Duration.String()}
			r.Must(r.Patch(r.Context(), pod, client.MergeFrom(before)))
			continue
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, *act.Ephemeral)
		r.Must(r.SubResource("ephemeralcontainers").Update(r.Context(), pod))
	}
	time.Sleep(time.Until(start.Add(c.Lasts.Duration)))
	r.mu.Lock()
	r.frozen[c.Name] = true
	r.mu.Unlock()
}

// execute executes a container. It is a [runtime.Handler].
func (r *replay) execute(ctx context.Context, p *runtime.Process) int {
	program, err := kubelettest.ParseProgram(p.Args)
	if err != nil {
		r.Error(err)
	}
	key := p.Pod.Name + "/" + p.Container.Name
	r.mu.Lock()
	number := r.runs[key]
	r.runs[key]++
	r.starts[key] = time.Now()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.starts, key) // the next run may be probed before its function is called
		r.mu.Unlock()
	}()
	if code, ok := await(program.Run(number), ctx.Done()); ok {
		return code
	}
	code, _ := await(program.Stop, p.Killed)
	return code
}

// await waits for an end, and returns its exit code. ok is false if the channel was closed before.
func await(e kubelettest.End, closed <-chan struct{}) (code int, ok bool) {
	if e.Never {
		<-closed
		return 0, false
	}
	timer := time.NewTimer(e.After)
	defer timer.Stop()
	select {
	case <-timer.C:
		return e.Code, true
	case <-closed:
		return 0, false
	}
}

// age returns how long a container of a pod has run.
func (r *replay) age(pod, container string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	start, ok := r.starts[pod+"/"+container]
	if !ok {
		return 0 // its function is about to be called
	}
	return time.Since(start)
}

// answer executes probes and hooks. It is a [runtime.Handler].
func (r *replay) answer(ctx context.Context, p *runtime.Process) int {
	if p.Args[0] == "hook" {
		e, err := kubelettest.Hook(p.Args)
		if err != nil {
			r.Error(err)
		}
		code, _ := await(e, ctx.Done())
		return code
	}
	code, err := kubelettest.Probe(p.Args, r.age(p.Pod.Name, p.Container.Name))
	if err != nil {
		r.Error(err)
	}
	if code != 0 {
		_, _ = p.Stdout.Write([]byte(kubelettest.ProbeOutput))
	}
	return code
}

// listen answers the HTTP requests to the containers of a pod that serve.
func (r *replay) listen(pod *corev1.Pod) error {
	for _, c := range pod.Spec.Containers {
		program, err := kubelettest.ParseProgram(c.Command)
		if err != nil || program.Serve == nil {
			continue
		}
		l, err := r.Plane.Pods().Listen(runtime.Selector{Namespace: r.namespace, Pod: pod.Name}, kubelettest.Port)
		if err != nil {
			return err
		}
		name := pod.Name // the creation writes the pod
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if r.age(name, c.Name) < *program.Serve {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(l)
		}()
		r.mu.Lock()
		r.close = append(r.close, func() { _ = server.Close(); <-done })
		r.mu.Unlock()
	}
	return nil
}

// scriptOf returns the script of a pod: the pulls of its images, and what its containers do if nothing else says so.
func scriptOf(c *kubelettest.Case, runs bool) (string, error) {
	all := slices.Concat(c.Spec.InitContainers, c.Spec.Containers)
	for _, act := range c.Then {
		if act.Ephemeral != nil {
			all = append(all, corev1.Container(act.Ephemeral.EphemeralContainerCommon))
		}
	}
	s := pods.Script{}
	for _, spec := range all {
		script := pods.ContainerScript{Name: spec.Name}
		if n := kubelettest.PullFailures(spec.Image); n > 0 {
			script.Pull = &pods.PullScript{Failures: int32(n)}
		}
		if runs {
			program, err := kubelettest.ParseProgram(spec.Command)
			if err != nil {
				return "", err
			}
			for _, e := range program.Runs {
				script.Runs = append(script.Runs, pods.RunScript{Steps: steps(e)})
			}
			script.Stop = &pods.StopScript{After: metav1.Duration{Duration: program.Stop.After}, Code: int32(program.Stop.Code)}
			if program.Stop.Never {
				script.Stop.After.Duration = time.Hour
			}
		}
		if runs || script.Pull != nil {
			s.Containers = append(s.Containers, script)
		}
	}
	if len(s.Containers) == 0 {
		return "", nil
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// steps returns the steps of a run.
func steps(e kubelettest.End) []pods.Step {
	if e.Never {
		return nil
	}
	return []pods.Step{{After: metav1.Duration{Duration: e.After}, Exit: &pods.ExitScript{Code: int32(e.Code), Reason: e.Reason}}}
}

// differences are the listed differences: patterns of the lines of [kubelettest.Compare], each after the namespace and the name of the
// pod. The value is how often a line has matched.
type differences map[string]int

func readDifferences(t *testing.T) differences {
	data, err := os.ReadFile("testdata/kubelet/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := differences{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list[line] = 0
		}
	}
	return list
}

// has reports whether a difference is listed.
func (d differences) has(pod, line string) bool {
	found := false
	for pattern := range d {
		if runtime.Match(pattern, pod+": "+line) {
			d[pattern]++
			found = true
		}
	}
	return found
}

// requireSeen fails the test if a listed difference has not occurred.
func (d differences) requireSeen(t *testing.T) {
	for pattern, n := range d {
		if n == 0 {
			t.Errorf("the difference %q is listed, but did not occur", pattern)
		}
	}
}
