package flyball_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	gopath "path"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/testcache"
)

// may is the table of permitted imports outside of ctrl. The row of a package is the one with the
// longest path that the package is at or below. It may import the packages of its own row, the
// packages that the row lists, each with the packages below it, and everything outside the module unless the row
// forbids that.
var may = []struct {
	path    string
	imports []string
	// outside, if not nil, are the only imports from outside the module and the standard library.
	outside []string
}{
	{path: "storage", outside: []string{}},
	{path: "storage/memory", imports: []string{"storage", "internal/invariants"}, outside: []string{}},
	{path: "storage/etcd", imports: []string{"storage", "storage/memory"}},
	{path: "storage/etcdserver", imports: []string{"storage"}},
	{path: "storage/split", imports: []string{"storage"}, outside: []string{}},
	{path: "storage/snapshot", imports: []string{"storage", "storage/internal/frame"}, outside: []string{}},
	{path: "storage/datadir", imports: []string{"storage", "storage/memory"}, outside: []string{}},
	{path: "storage/storagetest", imports: []string{"storage"}, outside: []string{"github.com/google/go-cmp"}},

	{path: "apiserver", imports: []string{"storage", "apiserver", "internal/inprocess"}},
	{path: "apiserver/schema"},
	{path: "apiserver/managedfields", imports: []string{"apiserver/schema", "apiserver/equality"}},
	{path: "apiserver/resource", imports: []string{"apiserver/managedfields"}},
	{path: "apiserver/store", imports: []string{"storage", "apiserver/resource", "internal/protobuf"}},
	{path: "apiserver/aggregator", imports: []string{"apiserver/resource", "apiserver/store", "apiserver/webhook", "storage"}},
	{path: "apiserver/auditlog"},
	{path: "apiserver/background", imports: []string{"apiserver/authz/rbac", "apiserver/builtin", "apiserver/kinds", "apiserver/managedfields", "apiserver/resource",
		"apiserver/store", "storage"}},
	{path: "apiserver/authn"},
	{path: "apiserver/authz", imports: []string{"apiserver/podrefs"}},
	{path: "apiserver/serviceaccount"},
	{path: "apiserver/admission", imports: []string{"apiserver/podrefs", "internal/quota"}},
	{path: "apiserver/admission/upstream", imports: []string{"apiserver/admission/stored", "apiserver/managedfields", "internal/quota"}},
	{path: "apiserver/admission/stored"},
	{path: "apiserver/webhook"},
	{path: "apiserver/endpoints", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/equality", "internal/protobuf", "internal/inprocess"}},
	{path: "apiserver/discovery", imports: []string{"apiserver/resource"}},
	{path: "apiserver/openapi", imports: []string{"apiserver/resource", "apiserver/schema", "internal/packed"}},
	{path: "apiserver/builtin", imports: []string{"apiserver/kinds"}},
	{path: "apiserver/builtin/strategytest", imports: []string{"apiserver/authz", "apiserver/builtin", "apiserver/kinds", "apiserver/resource", "apiserver/schema",
		"apiserver/store", "storage/memory"}},
	{path: "apiserver/kinds", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/equality"}},
	{path: "apiserver/kinds/check", imports: []string{"apiserver/kinds/fieldrules", "apiserver/equality"}},
	{path: "apiserver/kinds/fieldrules"},
	{path: "apiserver/kinds/columns"},
	{path: "apiserver/kinds/allocator", outside: []string{"k8s.io/apimachinery"}},
	{path: "apiserver/kinds/podspec", imports: []string{"apiserver/kinds/fieldrules", "apiserver/kinds/check"}},
	{path: "apiserver/kinds/workload", imports: []string{"apiserver/kinds/fieldrules", "apiserver/kinds/check", "apiserver/kinds/columns", "apiserver/kinds/podspec"}},
	{path: "apiserver/crd", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/store", "internal/packed", "storage"}},

	{path: "controllers", imports: []string{"ctrl", "controllers", "internal/inprocess", "internal/quota", "internal/responses"}},
	{path: "controllers/pods/memfs", imports: []string{"controllers/pods/runtime"}, outside: []string{}},
	{path: "controllers/pods/shell", imports: []string{"controllers/pods/runtime"}, outside: []string{"k8s.io/api", "mvdan.cc/sh/v3"}},
	{path: "controllers/stages", imports: []string{"controllers/internal", "controllers/pods", "ctrl", "internal/manifest"}},
	{path: "controlplane", imports: []string{"storage", "apiserver", "controllers", "ctrl", "internal/clientscheme", "internal/inprocess", "internal/kubeconfig", "internal/restclient"}},
	{path: "controlplane/encryption", imports: []string{"apiserver"}},
	{path: "controlplane/kubeflags", imports: []string{"apiserver/admission", "apiserver/authn", "apiserver/serviceaccount", "controlplane"}},
	{path: "controlplane/controllerstest", imports: []string{"controllers", "controlplane", "ctrl"}},
	{path: "controlplane/controlplanetest", imports: []string{"controlplane"}},
	{path: "cmd", imports: []string{"controlplane", "controllers", "ctrl/log", "internal/kubeconfig", "internal/objectdiff", "internal/privatefile", "internal/restclient", "ctrl/client", "ctrl/console", "ctrl/manager", "internal/selfsigned", "lab", "plan", "record", "storage", "apiserver", "vet"}},
	{path: "cmd/flyball/internal/apply", imports: []string{"internal/manifest", "internal/objectdiff"}},
	{path: "cmd/flyball/internal/filetx", outside: []string{}},
	{path: "cmd/flyball/internal/process", outside: []string{}},
	{path: "cmd/flyball/internal/hostprocess", imports: []string{"cmd/flyball/internal/process"}, outside: []string{"golang.org/x/sys"}},
	{path: "cmd/flyball/internal/inpod"},
	{path: "cmd/flyball/internal/images", imports: []string{"cmd/flyball/internal/hostprocess", "cmd/flyball/internal/inpod", "controllers/pods/runtime", "controllers/pods/memfs"}},
	{path: "cmd/flyball/internal/progress", imports: []string{"cmd/flyball/internal/terminal"}},
	{path: "cmd/flyball/internal/projectfile"},
	{path: "cmd/flyball/internal/chart"},
	{path: "cmd/flyball/internal/scaffold", imports: []string{"cmd/flyball/internal/filetx", "cmd/flyball/internal/chart", "cmd/flyball/internal/process", "cmd/flyball/internal/projectfile"}},
	{path: "cmd/flyball/internal/generate", imports: []string{"cmd/flyball/internal/filetx", "cmd/flyball/internal/projectfile", "cmd/flyball/internal/testproject"}},
	{path: "cmd/flyball/internal/scenario", imports: []string{"cmd/flyball/internal/apply", "ctrl/client", "lab"}},
	{path: "cmd/flyball/internal/watch"},
	{path: "cmd/flyball/internal/terminal"},
	{path: "cmd/flyball/internal/testproject", imports: []string{"internal/testcache"}},
	{path: "cmd/flyball/internal/dev", imports: []string{"apiserver/auditlog", "cmd/flyball/internal/apply", "cmd/flyball/internal/generate",
		"cmd/flyball/internal/process", "cmd/flyball/internal/progress", "cmd/flyball/internal/projectfile", "cmd/flyball/internal/terminal",
		"cmd/flyball/internal/testproject", "cmd/flyball/internal/watch", "controllers/pods", "controlplane", "ctrl/client", "internal/kubeconfig", "internal/manifest", "internal/selfsigned", "storage/memory"}},
	{path: "examples", imports: []string{"ctrl", "controlplane", "examples", "internal/kubeconfig", "internal/reserve", "internal/testlevel", "lab", "plan", "record"}},
	{path: "lab", imports: []string{"controllers", "controlplane", "ctrl", "internal/canonical", "internal/clientscheme", "internal/inprocess", "internal/protobuf", "internal/selfsigned", "storage"}},
	{path: "lab/zoo", imports: []string{"ctrl", "lab"}},
	{path: "plan", imports: []string{"apiserver/auditlog", "controllers", "controlplane", "ctrl", "internal/canonical", "internal/clientscheme", "internal/inprocess",
		"internal/objectdiff", "lab", "record", "storage"}},
	{path: "record", imports: []string{"internal/clientscheme"}, outside: []string{"github.com/klauspost/compress/zstd", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}},
	{path: "record/restore", imports: []string{"record", "apiserver/store", "storage", "storage/memory"}},
	{path: "vet", outside: []string{"golang.org/x/tools"}},
	{path: "internal", imports: []string{"internal"}},
	{path: "internal/canonical", imports: []string{"internal/clientscheme"}},
	{path: "internal/clientscheme"},
	{path: "internal/restclient", imports: []string{"internal/clientscheme"}},
	{path: "internal/packed", outside: []string{}},
	{path: "internal/privatefile", outside: []string{}},
	{path: "internal/protobuf", outside: []string{}},
	{path: "internal/reserve", imports: []string{"internal/reserve"}, outside: []string{}},
	{path: "internal/responses", outside: []string{}},
	{path: "internal/selfsigned", outside: []string{}},
}

// ctrlImports has a row for each package of ctrl, with the packages of this module that it may
// import. Paths are relative to ctrl.
const ctrlImports = `
.: builder client/config controller/controllerutil log manager manager/signals reconcile scheme
builder: client client/apiutil controller handler internal/reflectutil manager predicate reconcile source webhook webhook/admission webhook/conversion
cache: internal/observe cache/cacheapi cache/internal/listener cache/internal/reflector cache/internal/store cache/internal/wire client client/apiutil healthz ../internal/objectdiff internal/optional internal/overlay internal/representation log metrics ../internal/inprocess
cache/cacheapi:
cache/informertest: cache client controller/controllertest
cache/internal/compact: cache/internal/compact/arena cache/internal/compact/intern
cache/internal/compact/arena:
cache/internal/compact/intern:
cache/internal/listener: cache/internal/store
cache/internal/reflector: cache/internal/wire client
cache/internal/store: cache/internal/compact client ../internal/invariants internal/memsize
cache/internal/wire: client ../internal/inprocess
certwatcher: certwatcher/metrics log metrics
certwatcher/metrics: metrics
client: cache/cacheapi client/apiutil internal/overlay internal/reflectutil internal/representation log ../internal/protobuf ../internal/responses
client/apiutil: ../internal/clientscheme ../internal/inprocess
client/config: ../internal/kubeconfig
client/fake: client client/apiutil client/fake/internal/converters client/interceptor internal/reflectutil ../apiserver/managedfields ../apiserver/schema
client/fake/internal/converters:
client/interceptor: client
cluster: cache client client/apiutil internal/recorder log recorder
config: internal/cause
console/always: console internal/observe
console: client internal/cause internal/httpserver internal/observe manager metrics/server ../internal/objectdiff ../internal/privatefile ../internal/selfsigned
controller: internal/observe client config controller/priorityqueue internal/cause internal/development internal/names internal/optional internal/overlay internal/queue internal/reflectutil log manager metrics reconcile source ../internal/inprocess
controller/controllertest: reconcile
controller/controllerutil: client client/apiutil
controller/priorityqueue: internal/queue reconcile
conversion:
envtest: client client/config internal/bubble internal/testing/controlplane log webhook webhook/conversion ../apiserver/admission ../controlplane ../controlplane/kubeflags ../internal/reserve ../internal/selfsigned ../record ../record/restore ../storage/memory
envtest/komega: client
event: client
finalizer: client controller/controllerutil internal/reflectutil
handler: client event internal/cause internal/queue internal/reflectutil log reconcile
healthz: log
internal/aliasvar:
internal/bubble:
internal/certwatchertest: log
internal/cause: internal/reflectutil
internal/development: cache/cacheapi client config internal/optional ../internal/objectdiff metrics
internal/fakeapi:
internal/httpserver:
internal/memsize:
internal/names:
internal/optional: cache/cacheapi
internal/observe: client config internal/cause internal/memsize
internal/overlay: cache/cacheapi
internal/queue: internal/cause metrics
internal/recorder: recorder ../internal/restclient
internal/reflectutil:
internal/representation:
internal/testing/controlplane:
internal/testserver: client ../controlplane
leaderelection: recorder
leaderelection/fake: leaderelection recorder
log: internal/aliasvar
log/zap:
manager: cache client cluster config healthz internal/bubble internal/development internal/httpserver internal/names internal/observe internal/optional leaderelection log metrics/server webhook webhook/conversion ../internal/inprocess
manager/signals:
metrics: internal/aliasvar
metrics/filters: metrics/server
metrics/server: certwatcher internal/aliasvar internal/httpserver log metrics ../internal/selfsigned
predicate: client event internal/reflectutil log
reconcile: client internal/cause
recorder:
scheme:
source: cache client event handler internal/cause ../internal/objectdiff internal/optional internal/queue internal/reflectutil log predicate reconcile
webhook: certwatcher client healthz internal/aliasvar internal/bubble internal/httpserver log webhook/admission webhook/internal/metrics ../internal/selfsigned
webhook/admission: log webhook/admission/metrics webhook/internal/metrics webhook/internal/review
webhook/admission/metrics: metrics
webhook/authentication: log webhook/internal/review
webhook/conversion: client client/apiutil conversion log webhook/conversion/metrics webhook/internal/review
webhook/conversion/metrics: metrics
webhook/internal/metrics: metrics
webhook/internal/review:
`

const module = "flyball.dev"

type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Standard   bool
	Imports    []string
}

// linksAllClients reports whether the linker keeps the clients, and the apply configurations, of many kinds for a program that
// makes a client of a package.
func linksAllClients(path string) bool {
	return path == "k8s.io/client-go/kubernetes" || path == "k8s.io/client-go/kubernetes/typed/core/v1"
}

func TestImports(t *testing.T) {
	testcache.DependsOnTree()
	standard := map[string]bool{}
	var packages []listed
	for _, p := range list(t) {
		if p.Standard {
			standard[p.ImportPath] = true
		}
		if within(p.ImportPath, module) {
			packages = append(packages, p)
		}
	}
	if len(packages) < 10 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	for _, p := range packages {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		permits, ok := rowOf(path)
		if !ok {
			t.Errorf("%s has no row in the table of imports", path)
			continue
		}
		for _, imported := range p.Imports {
			inside, ok := strings.CutPrefix(imported, module+"/")
			switch {
			case linksAllClients(imported) && path != "apiserver/admission/upstream" && path != "controlplane/controlplanetest" && !within(path, "examples"):
				t.Errorf("%s imports %s, and so links clients of all kinds: use internal/restclient", path, imported)
			case within(imported, "k8s.io/kubernetes"):
				t.Errorf("%s imports k8s.io/kubernetes", path)
			case inside == "controlplane/controllerstest":
				t.Errorf("%s may import %s in its tests only", path, inside)
			case ok && !permits(inside, true):
				t.Errorf("%s may not import %s", path, inside)
			case !ok && !standard[imported] && !permits(imported, false):
				t.Errorf("%s may not import %s from outside the standard library", path, imported)
			}
		}
	}
}

// rowOf returns what a package of this module may import: packages of the module by their relative
// paths, and others.
func rowOf(path string) (permits func(imported string, inside bool) bool, ok bool) {
	if path == "" {
		return func(string, bool) bool { return true }, true
	}
	if within(path, "ctrl") {
		for row := range strings.Lines(strings.TrimSpace(ctrlImports)) {
			name, imports, _ := strings.Cut(strings.TrimSpace(row), ":")
			if gopath.Join("ctrl", name) == path {
				list := strings.Fields(imports)
				return func(imported string, inside bool) bool {
					return !inside || slices.ContainsFunc(list, func(a string) bool { return gopath.Join("ctrl", a) == imported })
				}, true
			}
		}
		return nil, false
	}
	row := -1
	for i, r := range may {
		if within(path, r.path) && (row < 0 || len(r.path) > len(may[row].path)) {
			row = i
		}
	}
	if row < 0 {
		return nil, false
	}
	return func(imported string, inside bool) bool {
		list := may[row].outside
		if inside {
			list = append([]string{may[row].path}, may[row].imports...)
		} else if list == nil {
			return true
		}
		return slices.ContainsFunc(list, func(a string) bool { return within(imported, a) })
	}, true
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Dir,GoFiles,Standard,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestOperatorsLinkNoClients: a program with a control plane links neither the storage in an etcd cluster, nor etcd's API,
// nor the clients of KMS plugins, nor kwok's library, unless it imports their packages.
func TestOperatorsLinkNoClients(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./controlplane", "./examples/appservice").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, forbidden := range []string{"flyball.dev/storage/etcd", "flyball.dev/storage/etcdserver", "flyball.dev/controlplane/encryption", "k8s.io/kms", "go.etcd.io/etcd/server", "go.etcd.io/bbolt",
			module + "/controllers/stages", "sigs.k8s.io/kwok", "github.com/Masterminds", "github.com/itchyny", "github.com/wzshiming"} {
			if strings.HasPrefix(dep, forbidden) {
				t.Errorf("%s is linked", strings.TrimSpace(dep))
			}
		}
	}
}

// TestOperatorsLinkNoStorage: an operator links storage only with a control plane. A control plane links the log of a data
// directory, because Options.DataDir is a path, and the log brings no module along.
func TestOperatorsLinkNoStorage(t *testing.T) {
	deps := func(path string) []string {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	for _, dep := range deps("./ctrl") {
		for _, forbidden := range []string{module + "/storage", module + "/apiserver", module + "/controlplane", "go.etcd.io"} {
			if within(dep, forbidden) {
				t.Errorf("./ctrl links %s", dep)
			}
		}
	}
	if !slices.Contains(deps("./controlplane"), module+"/storage/datadir") {
		t.Error("./controlplane links no data directory")
	}
	for _, dep := range deps("./storage/datadir") {
		if !within(dep, module) {
			t.Errorf("./storage/datadir links %s", dep)
		}
	}
}

// TestOperatorsLinkNoConsole: an operator links the console, and html/template, only if it imports the package.
func TestOperatorsLinkNoConsole(t *testing.T) {
	deps := func(path string) string {
		out, err := exec.Command("go", "list", "-deps", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return "\n" + string(out)
	}
	if !strings.Contains(deps("./ctrl/console"), "\nhtml/template\n") {
		t.Error("the console does not link html/template")
	}
	if operator := deps("./ctrl"); strings.Contains(operator, "\nhtml/template\n") || strings.Contains(operator, "/ctrl/console\n") {
		t.Error("./ctrl links the console or html/template")
	}
	if strings.Contains(deps("./controlplane"), "/ctrl/console\n") { // gRPC's traces link html/template
		t.Error("./controlplane links the console")
	}
}

// TestControllersAreCompiledOnce checks that a package that builds a controller of reconcile.Requests uses the workers, the queue
// and the sources of other packages. The compiler would otherwise compile some 1,200 functions anew in each such package, also in
// the user's, as soon as a function of ctrl that the package may inline refers to them.
func TestControllersAreCompiledOnce(t *testing.T) {
	out, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "./controllers/rootca").Output()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := exec.Command("go", "tool", "nm", strings.TrimSpace(string(out))).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(symbols), "T flyball.dev/controllers/rootca.AddToManager") {
		t.Fatal("the package's own function is missing")
	}
	for _, instance := range []string{"controller.(*workerPool[", "queue.(*Queue[", "source.(*kind[", "handler.mapped["} {
		if strings.Contains(string(symbols), "T flyball.dev/ctrl/"+instance) || strings.Contains(string(symbols), "T flyball.dev/ctrl/internal/"+instance) {
			t.Errorf("the package compiles its own %s…]", instance)
		}
	}
}

// TestInformersAreCompiledOnce checks that only package upstream compiles the methods of client-go's informers of all kinds,
// some 2,300 functions in a second of CPU time. A package that has a value with a method of such a type would do so too.
func TestInformersAreCompiledOnce(t *testing.T) {
	for name, want := range map[string]bool{"admission": false, "admission/stored": false, "admission/upstream": true} {
		out, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "./apiserver/"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := exec.Command("go", "tool", "nm", strings.TrimSpace(string(out))).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(symbols), "T k8s.io/client-go/tools/cache.(*DeletedObject["); got != want {
			t.Errorf("package %s compiles the informers: %v, want %v", name, got, want)
		}
	}
}

// TestOperatorsKeepCalledMethods checks that the linker of an operator without a control plane leaves out methods that nothing
// calls. As soon as a program may look a method up by a name in a variable, as text/template does, the linker keeps all
// methods of all types, and the operator is a quarter larger.
func TestOperatorsKeepCalledMethods(t *testing.T) {
	dir := t.TempDir()
	source := `package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/reconcile"
)

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		panic(err)
	}
	get := func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, mgr.GetClient().Get(ctx, req.NamespacedName, &corev1.Pod{})
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(reconcile.Func(get)); err != nil {
		panic(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}
`
	if err := os.WriteFile(dir+"/main.go", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-ldflags=-dumpdep", "-o", dir+"/operator", dir+"/main.go").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "main.main -> flyball.dev/ctrl.") {
		t.Fatal("the linker does not say what refers to what")
	}
	for line := range strings.Lines(string(out)) {
		if from, to, _ := strings.Cut(line, " -> "); strings.Contains(to, "<ReflectMethod>") {
			t.Errorf("%s makes the linker keep all methods; %s refers to it", strings.TrimSpace(to), from)
		}
	}
}

// TestShellReachesNoHost: the shell and the file systems of containers import no package that opens a file, starts a process
// or connects, and take only constants from package syscall, and only messages from net/http. Programs without a control plane do not link the shell.
func TestShellReachesNoHost(t *testing.T) {
	forbidden := []string{"os", "os/exec", "os/user", "os/signal", "io/ioutil", "net", "path/filepath", "plugin", "unsafe", "golang.org/x/sys", "mvdan.cc/sh/v3/interp"}
	use := regexp.MustCompile(`\b(syscall|http)\.([A-Za-z_0-9]+)`)
	harmless := regexp.MustCompile(`^(syscall\.(Errno|[A-Z_0-9]+)|http\.(Request|Response|ReadResponse|Header|(Method|Status)[A-Z]\w*))$`)
	renamed := regexp.MustCompile(`\S+ "(syscall|net/http)"`)
	for _, p := range list(t) {
		if p.ImportPath != module+"/controllers/pods/shell" && p.ImportPath != module+"/controllers/pods/memfs" {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(forbidden, imported) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(p.Dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range use.FindAll(text, -1) {
				if !harmless.Match(m) {
					t.Errorf("%s of %s has %s", name, p.ImportPath, m)
				}
			}
			if m := renamed.Find(text); m != nil {
				t.Errorf("%s of %s has the import %s", name, p.ImportPath, m)
			}
		}
	}
	out, err := exec.Command("go", "list", "-deps", "./ctrl", "./ctrl/client/fake", "./ctrl/config", "./ctrl/webhook/conversion").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		if strings.HasPrefix(dep, "mvdan.cc/") || strings.HasPrefix(dep, module+"/controllers") {
			t.Errorf("operators link %s", strings.TrimSpace(dep))
		}
	}
}
