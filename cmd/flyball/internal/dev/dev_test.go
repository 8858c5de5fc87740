package dev

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/cmd/flyball/internal/testproject"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/reserve/reservetest"
)

// project is a project with an operator that writes its version to the status of widgets, and
// starts a program that does not end by itself.
const project = `
-- api/v1/widget_types.go --
// Package v1 has widgets.
// +kubebuilder:object:generate=true
// +groupName=example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/scheme"
)

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	// +kubebuilder:validation:Minimum=1
	Size int ` + "`json:\"size\"`" + `
}

// WidgetStatus is the observed state of a widget.
type WidgetStatus struct {
	Version string ` + "`json:\"version,omitempty\"`" + `
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Widget is a widget.
type Widget struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	Spec   WidgetSpec   ` + "`json:\"spec\"`" + `
	Status WidgetStatus ` + "`json:\"status,omitempty\"`" + `
}

// +kubebuilder:object:root=true

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	metav1.ListMeta ` + "`json:\"metadata,omitempty\"`" + `
	Items []Widget  ` + "`json:\"items\"`" + `
}

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = (&scheme.Builder{GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}}).
	Register(&Widget{}, &WidgetList{}).AddToScheme
-- config/rbac/service_account.yaml --
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
-- config/rbac/role_binding.yaml --
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects:
- {kind: ServiceAccount, name: controller-manager, namespace: system}
-- config/rbac/kustomization.yaml --
resources: [service_account.yaml, role.yaml, role_binding.yaml]
-- config/crd/kustomization.yaml --
resources: [bases/example.com_widgets.yaml]
-- config/default/kustomization.yaml --
namespace: p-system
namePrefix: p-
resources: [../crd, ../rbac]
-- cmd/testdata/greeting --
hello
-- cmd/main.go --
// Command main is an operator for widgets.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"

	v1 "example.com/p/api/v1"
)

const version = "v1"

//go:embed testdata/greeting
var greeting string

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

func run() error {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Print(greeting)
	fmt.Println("pids", os.Getpid(), child.Process.Pid)
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port})})
	if err != nil {
		return err
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &v1.Widget{}).WithValidator(validator{}).Complete(); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&v1.Widget{}).Complete(reconciler{mgr.GetClient()})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// +kubebuilder:webhook:path=/validate-example-com-v1-widget,mutating=false,failurePolicy=fail,sideEffects=None,groups=example.com,resources=widgets,verbs=create,versions=v1,name=widgets.example.com,admissionReviewVersions=v1

type validator struct{}

func (validator) ValidateCreate(_ context.Context, widget *v1.Widget) (admission.Warnings, error) {
	if widget.Name == "refused" {
		return nil, errors.New("the webhook refuses it")
	}
	return nil, nil
}

func (validator) ValidateUpdate(context.Context, *v1.Widget, *v1.Widget) (admission.Warnings, error) { return nil, nil }

func (validator) ValidateDelete(context.Context, *v1.Widget) (admission.Warnings, error) { return nil, nil }

// +kubebuilder:rbac:groups=example.com,resources=widgets,verbs=get;list;watch

type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	widget := &v1.Widget{}
	if err := r.Get(ctx, req.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if widget.Status.Version == version {
		return ctrl.Result{}, nil
	}
	widget.Status.Version = version
	return ctrl.Result{}, r.Status().Update(ctx, widget)
}
`

const (
	types = "api/v1/widget_types.go"
	main  = "cmd/main.go"
	limit = 8 * time.Minute // of the test; compilers may have to wait
)

// world is a run of "flyball dev" in a test.
type world struct {
	*testing.T
	ctx   context.Context
	lines chan string
}

// until reads the output up to a line that contains a text.
func (w *world) until(text string) string {
	w.Helper()
	for line := range w.lines {
		w.Log(line)
		if strings.Contains(line, text) {
			return line
		}
	}
	w.Fatalf("%q was not printed", text)
	return ""
}

// untilAll reads the output until each text was in a line, in any order, and returns the lines.
func (w *world) untilAll(texts ...string) []string {
	w.Helper()
	found := make([]string, len(texts))
	for slices.Contains(found, "") {
		line := w.until("")
		for i, text := range texts {
			if strings.Contains(line, text) {
				found[i] = line
			}
		}
	}
	return found
}

// hasConsole fails unless the operator, which sets no console, has one at a URL that flyball top finds.
func (w *world) hasConsole(printed string) {
	w.Helper()
	address, err := url.Parse(printed)
	if err != nil {
		w.Fatal(err)
	}
	token := address.Query().Get("token")
	address.RawQuery = ""
	request, err := http.NewRequestWithContext(w.ctx, http.MethodGet, address.JoinPath("api/now").String(), nil)
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(content), `"widget"`) {
		w.Errorf("the console answers %s %s, %v", response.Status, content, err)
	}
	file, err := os.ReadFile(".flyball/console")
	if err != nil || strings.TrimSpace(string(file)) != printed {
		w.Errorf("the file has %q, want %q: %v", file, printed, err)
	}
}

// edit replaces texts in a file.
func (w *world) edit(path string, oldnew ...string) {
	w.Helper()
	content, err := os.ReadFile(path)
	edited := strings.NewReplacer(oldnew...).Replace(string(content))
	if edited == string(content) {
		w.Fatalf("%s has no %q", path, oldnew)
	}
	if err := errors.Join(err, os.WriteFile(path, []byte(edited), 0o666)); err != nil {
		w.Fatal(err)
	}
}

// pids returns the processes of the operator, of a line of its output.
func (w *world) pids() (pids []int) {
	w.Helper()
	line := w.until("operator | pids")
	for _, field := range strings.Fields(line)[3:] {
		pid, err := strconv.Atoi(field)
		if err != nil {
			w.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestDev(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	temporary := t.TempDir()
	testproject.New(t, project)
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	read, write := io.Pipe()
	done := make(chan error, 1)
	port, apiServer := reservetest.Port(t), reservetest.Address(t)
	script, err := pods.ParseScript([]byte("containers: [{image: 'tool:*', runs: [{steps: [{exit: {code: 0}}]}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		done <- Run(ctx, write, Options{WebhookPort: port, Args: []string{strconv.Itoa(port)},
			Kubeconfig: ".flyball/kubeconfig", Listen: apiServer, Script: script, Grace: time.Minute})
		_ = write.Close()
	}()
	w := &world{t, ctx, make(chan string, 1000)}
	go func() {
		defer close(w.lines)
		for scanner := bufio.NewScanner(read); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()

	// Deep copies and CRDs are there from the start.
	w.until("created api/v1/zz_generated.deepcopy.go")
	w.until("created config/crd/bases/example.com_widgets.yaml")
	w.until("created config/rbac/role.yaml")
	w.until("the operator acts as the service account p-system/p-controller-manager, with the roles in config/default")
	w.until("CustomResourceDefinition widgets.example.com created")
	w.until("operator | hello")
	first := w.pids()
	printed := w.untilAll("operator | The console is at ", "the operator watches widgets: ")
	w.hasConsole(strings.TrimPrefix(printed[0], "operator | The console is at "))
	cfg, err := clientcmd.BuildConfigFromFlags("", ".flyball/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cfg)
	if err := c.Create(ctx, widget("v")); err != nil {
		t.Fatal(err)
	}

	w.untilScripted(c)

	// The markers grant the permission.
	w.until("the roles of the operator do not allow it to update widgets/status; this marker does: " +
		"// +kubebuilder:rbac:groups=example.com,resources=widgets/status,verbs=update")
	w.edit(main, "type reconciler", "// +kubebuilder:rbac:groups=example.com,resources=widgets/status,verbs=update\n\ntype reconciler")
	w.until("updated config/rbac/role.yaml")
	w.until("ClusterRole p-manager-role updated")
	w.pids()
	w.gone(first)
	w.untilVersion(c, "v1")
	w.until("first write: update widgets/status default/v: ")
	if err := c.Create(ctx, widget("refused")); err == nil || !strings.Contains(err.Error(), "the webhook refuses it") {
		t.Errorf("the webhook was not called: %v", err)
	}

	// Another version works on the same object.
	w.edit(main, `version = "v1"`, `version = "v2"`)
	w.until("changed: cmd/main.go")
	w.pids()
	w.untilVersion(c, "v2")
	w.until("first write: update widgets/status default/v: ")

	// Embedded files are part of the source.
	w.edit("cmd/testdata/greeting", "hello", "good evening")
	w.until("changed: cmd/testdata/greeting")
	w.until("operator | good evening")
	second := w.pids()

	// Compiler errors are printed, and the operator keeps running.
	w.edit(main, "Status().Update(ctx, widget)", "Status().Update(ctx, 7)")
	w.until("cannot use 7")
	w.until("the operator from before the change runs on")

	// So is a definition that the API server rejects.
	w.edit(main, "Status().Update(ctx, 7)", "Status().Update(ctx, widget)")
	w.edit(types, "// WidgetSpec is", "// +kubebuilder:validation:XValidation:rule=`self.nothing`\n\n// WidgetSpec is")
	rejected := w.until("the API server rejects it: config/crd/bases/example.com_widgets.yaml: ")
	if !strings.Contains(rejected, "undefined field 'nothing'") {
		t.Errorf("the message of the API server is not shown: %s", rejected)
	}
	w.until("the operator from before the change runs on")
	if err := syscall.Kill(second[0], 0); err != nil {
		t.Errorf("the operator does not run on: %v", err)
	}

	// A definition that stored objects do not satisfy is installed, with a warning.
	w.edit(types, "// +kubebuilder:validation:XValidation:rule=`self.nothing`\n\n", "", "Minimum=1", "Minimum=5")
	w.until("CustomResourceDefinition widgets.example.com updated")
	w.until(`a stored object does not satisfy the new definition: Widget.example.com "v" is invalid: spec.size: Invalid value: 1`)
	w.pids()

	// An operator that crashes is waited for, and the next one works.
	w.edit(main, "func run() error {", "func run() error {\n\tos.Exit(7)")
	w.until("the operator has exited with code 7; waiting for the next change")
	w.edit(main, "\n\tos.Exit(7)", "", `"v2"`, `"v3"`)
	last := w.pids()
	w.untilVersion(c, "v3")

	// Ctrl-C ends everything.
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.gone(last)
	if _, err := os.Stat(".flyball/console"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the operator has left the URL of its console: %v", err)
	}
	if connection, err := net.Dial("tcp", apiServer); err == nil {
		t.Errorf("something still listens at %s", connection.RemoteAddr())
		_ = connection.Close()
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %q, %v", left, err)
	}
}

// TestStaleFilesAreSaid: after a type is deleted, the build fails in its deep copies, so the reason is said.
func TestStaleFilesAreSaid(t *testing.T) {
	testproject.New(t, project)
	var out bytes.Buffer
	s := &session{Options: Options{Generate: []string{"object", "crd", "paths=./...", "output:crd:artifacts:config=config/crd/bases"}},
		out: newOutput(&out)}
	if _, err := s.generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "stale") {
		t.Fatal(out.String())
	}
	if err := errors.Join(os.Remove(types), os.WriteFile("api/v1/doc.go", []byte("package v1\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1/zz_generated.deepcopy.go", "config/crd/bases/example.com_widgets.yaml"} {
		if want := "stale " + path + ": its types are gone; flyball generate --prune removes it"; !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

// gone fails unless processes have ended.
func (w *world) gone(pids []int) {
	w.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && !zombie(pid) {
			w.Errorf("the process %d is there: %v", pid, err)
		}
	}
}

// zombie reports whether a process has ended and nobody has waited for it, such as init in a
// container.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// newClient returns a client of the administrator.
func newClient(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// untilVersion waits until a widget has a version in its status. A watch ends when the definition
// changes, and another one begins.
func (w *world) untilVersion(c client.WithWatch, version string) {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widget("").GroupVersionKind())
	list.SetKind("WidgetList")
	for {
		watch, err := c.Watch(w.ctx, list)
		if err != nil {
			w.Fatal(err)
		}
		defer watch.Stop()
		for event := range watch.ResultChan() {
			if u, ok := event.Object.(*unstructured.Unstructured); ok {
				if got, _, _ := unstructured.NestedString(u.Object, "status", "version"); got == version {
					return
				}
			}
		}
	}
}

// untilScripted creates a pod, and waits until it has ended as the script says.
func (w *world) untilScripted(c client.WithWatch) {
	w.Helper()
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "default", "name": "p"},
		"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "tool:1"}}}}}
	if err := c.Create(w.ctx, pod); err != nil {
		w.Fatal(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
	watch, err := c.Watch(w.ctx, list, client.InNamespace("default"))
	if err != nil {
		w.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if phase, _, _ := unstructured.NestedString(event.Object.(*unstructured.Unstructured).Object, "status", "phase"); phase == "Succeeded" {
			return
		}
	}
	w.Fatal("the watch has ended before the pod")
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "default", "name": name}, "spec": map[string]any{"size": int64(1)}}}
}
