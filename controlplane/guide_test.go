package controlplane_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"sigs.k8s.io/yaml"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/metrics/server"
)

// database is what the members of a database have in common.
type database struct {
	mu      sync.Mutex
	logs    map[string]io.Writer // of the members that run, by the names of their pods
	primary string               // the pod of the primary
}

// run executes the container of a member.
func (d *database) run(ctx context.Context, p *runtime.Process) int {
	d.mu.Lock()
	d.logs[p.Pod.Name] = p.Stdout
	fmt.Fprintln(p.Stdout, "started as a replica")
	d.mu.Unlock()
	<-ctx.Done() // SIGTERM
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, p.Pod.Name)
	if d.primary == p.Pod.Name {
		d.primary = ""
	}
	return 0
}

// promote executes the command promote.
func (d *database) promote(_ context.Context, p *runtime.Process) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	log := d.logs[p.Pod.Name]
	switch {
	case d.primary == "" && log != nil:
		d.primary = p.Pod.Name
		fmt.Fprintln(log, "promoted to primary")
	case d.primary != p.Pod.Name:
		fmt.Fprintf(p.Stderr, "the primary is %q\n", d.primary)
		return 1
	}
	return 0
}

// status executes the command status, which is the readiness probe too.
func (d *database) status(_ context.Context, p *runtime.Process) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary != p.Pod.Name {
		fmt.Fprintln(p.Stdout, "replica")
		return 1
	}
	fmt.Fprintln(p.Stdout, "primary")
	return 0
}

// operator is the operator under test. It promotes the oldest member if none is ready.
type operator struct {
	client.Client
	pods podClient
}

func (o *operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	list := &corev1.PodList{}
	if err := o.List(ctx, list, client.InNamespace(req.Namespace), client.MatchingLabels{"app": req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var running []corev1.Pod
	for _, pod := range list.Items {
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning:
		case pod.Status.ContainerStatuses[0].Ready:
			return ctrl.Result{}, nil // the primary
		default:
			running = append(running, pod)
		}
	}
	if len(running) == 0 {
		return ctrl.Result{}, nil
	}
	oldest := slices.MinFunc(running, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return ctrl.Result{}, o.pods.exec(ctx, oldest.Name, io.Discard, "promote")
}

// podClient executes commands in pods of the namespace default.
type podClient struct {
	*rest.Config
	kubernetes.Interface
}

func (c podClient) exec(ctx context.Context, pod string, out io.Writer, command ...string) error {
	o := &corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}
	at := c.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(pod).SubResource("exec").VersionedParams(o, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, at.String())
	if err == nil {
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: out})
	}
	return err
}

// guide has the examples of the guide in docs/pods.md, in their order.
type guide struct{ yaml, code, console []string }

// readGuide reads the guide. The test fails if the Go code of the guide is not the code of this file.
func readGuide(t *testing.T) (g guide) {
	t.Helper()
	page, err := os.ReadFile("../docs/pods.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## From an annotation to a database that fails over\n")
	section, _, ok := strings.Cut(section, "\n## ")
	if !ok {
		t.Fatal("docs/pods.md has no guide")
	}
	for _, block := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		switch block[1] {
		case "yaml":
			g.yaml = append(g.yaml, block[2])
		case "go":
			g.code = append(g.code, block[2])
		}
	}
	for _, block := range regexp.MustCompile(`(?m)^    \$ kubectl .*\n(?:    .*\n)*`).FindAllString(section, -1) {
		g.console = append(g.console, strings.ReplaceAll(block[4:], "\n    ", "\n"))
	}
	source, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	indent := regexp.MustCompile(`(?m)^\t+`)
	for _, code := range g.code {
		if !bytes.Contains(indent.ReplaceAll(source, nil), indent.ReplaceAll([]byte(code), nil)) {
			t.Fatalf("guide_test.go has no such code:\n%s", code)
		}
	}
	if len(g.yaml) != 2 || len(g.code) != 3 || len(g.console) != 2 {
		t.Fatalf("the guide has %d manifests, %d pieces of code and %d sessions", len(g.yaml), len(g.code), len(g.console))
	}
	return g
}

// set returns the StatefulSet of the guide, with the annotations of another manifest in its template.
func (g guide) set(t *testing.T, annotations string) *appsv1.StatefulSet {
	t.Helper()
	set, of := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	if err := errors.Join(yaml.UnmarshalStrict([]byte(g.yaml[0]), set), yaml.UnmarshalStrict([]byte(annotations), of)); err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Annotations = of.Spec.Template.Annotations
	return set
}

// createSet creates a StatefulSet, and waits some seconds.
func createSet(t *testing.T, c podClient, set *appsv1.StatefulSet) {
	t.Helper()
	controlplanetest.Must[*appsv1.StatefulSet](t)(c.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}))
	time.Sleep(10 * time.Second) // virtual
}

// play checks that the commands of a session have the output that the guide shows.
func (c podClient) play(t *testing.T, session string) {
	t.Helper()
	for _, command := range strings.SplitAfter(session, "$ kubectl ")[1:] {
		command = strings.TrimSuffix(command, "$ kubectl ")
		line, want, _ := strings.Cut(command, "\n")
		if got := c.kubectl(t, strings.Fields(line)); got != want {
			t.Errorf("kubectl %s: got\n%s\nwant\n%s", line, got, want)
		}
	}
}

// kubectl does what kubectl does: logs, exec, and delete pod.
func (c podClient) kubectl(t *testing.T, args []string) string {
	t.Helper()
	switch {
	case args[0] == "logs":
		return logsOf(t, c, args[1], corev1.PodLogOptions{})
	case args[0] == "exec" && args[2] == "--":
		var out output
		err := c.exec(t.Context(), args[1], &out, args[3:]...)
		if exit := (utilexec.CodeExitError{}); errors.As(err, &exit) {
			return out.String() + fmt.Sprintln("command terminated with exit code", exit.Code)
		} else if err != nil {
			t.Fatal(err)
		}
		return out.String()
	case args[0] == "delete" && args[1] == "pod":
		if err := c.CoreV1().Pods("default").Delete(t.Context(), args[2], metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // virtual
		return fmt.Sprintf("pod %q deleted from default namespace\n", args[2])
	}
	t.Fatalf("the guide has the command %q", args)
	return ""
}

// members returns the restarts of each pod, and whether it is ready.
func (c podClient) members(t *testing.T) (all []string) {
	t.Helper()
	list := controlplanetest.Must[*corev1.PodList](t)(c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}))
	for _, pod := range list.Items {
		for _, s := range pod.Status.ContainerStatuses {
			all = append(all, fmt.Sprintf("%s %d %t", pod.Name, s.RestartCount, s.Ready))
		}
	}
	return all
}

// inGuide runs a test in virtual time.
func inGuide(t *testing.T, test func(t *testing.T, g guide, plane *controlplane.ControlPlane, c podClient)) {
	g := readGuide(t)
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		test(t, g, plane, podClient{plane.Config(), controlplanetest.ClientFor(t, plane.Config())})
		time.Sleep(time.Minute) // virtual: client-go's heartbeats end
	})
}

// TestGuideAnnotation: the pods of the guide's first manifest crash-loop.
func TestGuideAnnotation(t *testing.T) {
	inGuide(t, func(t *testing.T, g guide, _ *controlplane.ControlPlane, c podClient) {
		createSet(t, c, g.set(t, g.yaml[0]))
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 true", "db-1 0 true", "db-2 0 true"}) {
			t.Errorf("at first: %q", got)
		}
		time.Sleep(time.Minute) // virtual
		if got := c.members(t); !slices.Equal(got, []string{"db-0 1 true", "db-1 1 true", "db-2 1 true"}) {
			t.Errorf("after a minute: %q", got)
		}
		pod := controlplanetest.Must[*corev1.Pod](t)(c.CoreV1().Pods("default").Get(t.Context(), "db-0", metav1.GetOptions{}))
		if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 {
			t.Errorf("the first run ended with %v", last)
		}
		time.Sleep(55 * time.Second) // virtual
		pod = controlplanetest.Must[*corev1.Pod](t)(c.CoreV1().Pods("default").Get(t.Context(), "db-0", metav1.GetOptions{}))
		if waiting := pod.Status.ContainerStatuses[0].State.Waiting; waiting == nil || waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("after two minutes, the pod waits with %v", waiting)
		}
	})
}

// TestGuideScript: the script of the guide answers as the guide shows, and forgets its role with its container.
func TestGuideScript(t *testing.T) {
	inGuide(t, func(t *testing.T, g guide, _ *controlplane.ControlPlane, c podClient) {
		createSet(t, c, g.set(t, g.yaml[1]))
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 false", "db-1 0 false", "db-2 0 false"}) {
			t.Errorf("at first: %q", got)
		}
		c.play(t, g.console[0])
		time.Sleep(3 * time.Second) // virtual
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 true", "db-1 0 false", "db-2 0 false"}) {
			t.Errorf("after the promotion: %q", got)
		}
		c.kubectl(t, []string{"delete", "pod", "db-0"})
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 false", "db-1 0 false", "db-2 0 false"}) {
			t.Errorf("after the deletion: %q", got)
		}
	})
}

// TestGuideFailover: an operator promotes another member when the primary's pod is deleted.
func TestGuideFailover(t *testing.T) {
	inGuide(t, func(t *testing.T, g guide, plane *controlplane.ControlPlane, c podClient) {
		db := &database{logs: map[string]io.Writer{}}
		plane.Pods().Handle(runtime.Selector{Image: "db:*"}, db.run)
		plane.Pods().HandleExec(runtime.Selector{Image: "db:*", Command: "promote"}, db.promote)
		plane.Pods().HandleExec(runtime.Selector{Image: "db:*", Command: "status"}, db.status)

		createSet(t, c, g.set(t, g.yaml[1]))
		mgr, err := ctrl.NewManager(plane.Config(), ctrl.Options{Scheme: scheme.Scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}})
		if err == nil {
			err = ctrl.NewControllerManagedBy(mgr).For(&appsv1.StatefulSet{}).Owns(&corev1.Pod{}).Complete(&operator{mgr.GetClient(), c})
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(10 * time.Second) // virtual
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 true", "db-1 0 false", "db-2 0 false"}) {
			t.Errorf("at first: %q", got)
		}
		c.play(t, g.console[1])
		if got := c.members(t); !slices.Equal(got, []string{"db-0 0 false", "db-1 0 true", "db-2 0 false"}) {
			t.Errorf("after the failover: %q", got)
		}
	})
}
