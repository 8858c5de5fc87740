package flyball_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	gopath "path"
	"slices"
	"strings"
	"testing"
)

// may is the table of permitted imports outside of ctrl. The row of a package is the one with the
// longest path that the package is at or below. It may import the packages of its own row, those
// that the row lists, each with what is below it, and everything outside the module unless the row
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
	{path: "storage/snapshot", imports: []string{"storage", "storage/internal/frame"}, outside: []string{}},
	{path: "storage/datadir", imports: []string{"storage", "storage/memory"}, outside: []string{}},
	{path: "storage/storagetest", imports: []string{"storage"}, outside: []string{"github.com/google/go-cmp"}},

	{path: "apiserver", imports: []string{"storage", "apiserver"}},
	{path: "apiserver/schema"},
	{path: "apiserver/managedfields", imports: []string{"apiserver/schema", "apiserver/equality"}},
	{path: "apiserver/resource", imports: []string{"apiserver/managedfields"}},
	{path: "apiserver/store", imports: []string{"storage", "apiserver/resource"}},
	{path: "apiserver/aggregator", imports: []string{"apiserver/resource", "apiserver/store", "apiserver/webhook", "storage"}},
	{path: "apiserver/auditlog"},
	{path: "apiserver/authn"},
	{path: "apiserver/authz", imports: []string{"apiserver/podrefs"}},
	{path: "apiserver/serviceaccount"},
	{path: "apiserver/admission", imports: []string{"apiserver/podrefs", "internal/quota"}},
	{path: "apiserver/admission/upstream", imports: []string{"apiserver/admission/stored", "apiserver/managedfields", "internal/quota"}},
	{path: "apiserver/admission/stored"},
	{path: "apiserver/webhook"},
	{path: "apiserver/endpoints", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/equality"}},
	{path: "apiserver/discovery", imports: []string{"apiserver/resource"}},
	{path: "apiserver/openapi", imports: []string{"apiserver/resource", "apiserver/schema"}},
	{path: "apiserver/builtin", imports: []string{"apiserver/kinds"}},
	{path: "apiserver/kinds", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/equality"}},
	{path: "apiserver/kinds/fieldrules"},
	{path: "apiserver/kinds/columns"},
	{path: "apiserver/kinds/allocator", outside: []string{"k8s.io/apimachinery"}},
	{path: "apiserver/kinds/podspec", imports: []string{"apiserver/kinds/fieldrules"}},
	{path: "apiserver/kinds/workload", imports: []string{"apiserver/kinds/fieldrules", "apiserver/kinds/columns", "apiserver/kinds/podspec", "apiserver/equality"}},
	{path: "apiserver/crd", imports: []string{"apiserver/resource", "apiserver/managedfields", "apiserver/store", "storage"}},

	{path: "controllers", imports: []string{"ctrl", "controllers", "internal/quota"}},
	{path: "controllers/controllerstest", imports: []string{"controllers", "controlplane", "ctrl"}},
	{path: "controlplane", imports: []string{"storage", "apiserver", "controllers", "ctrl", "internal/inprocess", "internal/kubeconfig"}},
	{path: "controlplane/encryption", imports: []string{"apiserver"}},
	{path: "controlplane/controlplanetest", imports: []string{"controlplane"}},
	{path: "cmd", imports: []string{"controlplane", "controllers", "ctrl/log", "internal/apiserverflags", "internal/kubeconfig", "internal/selfsigned", "storage", "apiserver/store", "vet"}},
	{path: "cmd/flyball/internal/apply"},
	{path: "cmd/flyball/internal/filetx", outside: []string{}},
	{path: "cmd/flyball/internal/process", outside: []string{}},
	{path: "cmd/flyball/internal/progress", imports: []string{"cmd/flyball/internal/terminal"}},
	{path: "cmd/flyball/internal/projectfile"},
	{path: "cmd/flyball/internal/chart"},
	{path: "cmd/flyball/internal/scaffold", imports: []string{"cmd/flyball/internal/filetx", "cmd/flyball/internal/chart", "cmd/flyball/internal/process", "cmd/flyball/internal/projectfile"}},
	{path: "cmd/flyball/internal/generate", imports: []string{"cmd/flyball/internal/filetx", "cmd/flyball/internal/projectfile", "cmd/flyball/internal/testproject"}},
	{path: "cmd/flyball/internal/watch"},
	{path: "cmd/flyball/internal/terminal"},
	{path: "cmd/flyball/internal/testproject"},
	{path: "cmd/flyball/internal/dev", imports: []string{"apiserver/auditlog", "cmd/flyball/internal/apply", "cmd/flyball/internal/generate",
		"cmd/flyball/internal/process", "cmd/flyball/internal/progress", "cmd/flyball/internal/projectfile", "cmd/flyball/internal/terminal",
		"cmd/flyball/internal/testproject", "cmd/flyball/internal/watch", "controlplane", "ctrl/client", "internal/kubeconfig", "internal/selfsigned", "storage/memory"}},
	{path: "examples", imports: []string{"ctrl", "controlplane", "examples", "internal/kubeconfig"}},
	{path: "vet", outside: []string{"golang.org/x/tools"}},
	{path: "internal", imports: []string{"internal"}},
	{path: "internal/selfsigned", outside: []string{}},
	{path: "internal/apiserverflags", imports: []string{"apiserver/admission", "apiserver/authn", "apiserver/serviceaccount", "controlplane"}},
}

// ctrlImports has a row for each package of ctrl, with the packages of this module that it may
// import. Paths are relative to ctrl.
const ctrlImports = `
.: builder client/config controller/controllerutil log manager manager/signals reconcile scheme
builder: client client/apiutil controller handler internal/reflectutil manager predicate reconcile source webhook webhook/admission webhook/conversion
cache: cache/cacheapi cache/internal/listener cache/internal/reflector cache/internal/store cache/internal/wire client client/apiutil healthz internal/objectdiff internal/optional internal/overlay internal/representation log metrics ../internal/inprocess
cache/cacheapi:
cache/informertest: cache client controller/controllertest
cache/internal/compact: cache/internal/compact/arena cache/internal/compact/intern
cache/internal/compact/arena:
cache/internal/compact/intern:
cache/internal/listener: cache/internal/store
cache/internal/reflector: cache/internal/wire client
cache/internal/store: cache/internal/compact client ../internal/invariants
cache/internal/wire: client
certwatcher: certwatcher/metrics log metrics
certwatcher/metrics: metrics
client: cache/cacheapi client/apiutil internal/overlay internal/reflectutil internal/representation log
client/apiutil:
client/config: ../internal/kubeconfig
client/fake: client client/apiutil client/fake/internal/converters client/interceptor internal/reflectutil ../apiserver/managedfields ../apiserver/schema
client/fake/internal/converters:
client/interceptor: client
cluster: cache client client/apiutil internal/recorder log recorder
config: internal/cause
controller: client config controller/priorityqueue internal/cause internal/development internal/names internal/optional internal/overlay internal/queue internal/reflectutil log manager metrics reconcile source
controller/controllertest: reconcile
controller/controllerutil: client client/apiutil
controller/priorityqueue: internal/queue reconcile
conversion:
envtest: client client/config internal/bubble internal/testing/controlplane log webhook webhook/conversion ../apiserver/admission ../controllers ../controlplane ../internal/apiserverflags ../internal/selfsigned
envtest/komega: client
event: client
finalizer: client controller/controllerutil internal/reflectutil
handler: client event internal/cause internal/queue internal/reflectutil log reconcile
healthz: log
internal/aliasvar:
internal/bubble:
internal/cause: internal/reflectutil
internal/development: cache/cacheapi client config internal/objectdiff metrics
internal/fakeapi:
internal/httpserver:
internal/names:
internal/objectdiff:
internal/optional: cache/cacheapi
internal/overlay: cache/cacheapi
internal/queue: internal/cause metrics
internal/recorder: recorder
internal/reflectutil:
internal/representation:
internal/testing/controlplane:
internal/testserver: client ../controlplane
leaderelection: recorder
leaderelection/fake: leaderelection recorder
log: internal/aliasvar
log/zap:
manager: cache client cluster config healthz internal/bubble internal/development internal/httpserver internal/names internal/optional leaderelection log metrics/server webhook webhook/conversion ../internal/inprocess
manager/signals:
metrics: internal/aliasvar
metrics/filters: metrics/server
metrics/server: certwatcher internal/aliasvar internal/httpserver log metrics ../internal/selfsigned
predicate: client event internal/reflectutil log
reconcile: client internal/cause
recorder:
scheme:
source: cache client event handler internal/cause internal/objectdiff internal/optional internal/queue internal/reflectutil log predicate reconcile
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

func TestImports(t *testing.T) {
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
			case within(imported, "k8s.io/kubernetes"):
				t.Errorf("%s imports k8s.io/kubernetes", path)
			case inside == "controllers/controllerstest":
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

// TestOperatorsLinkNoClients: a program with a control plane links neither the storage in an etcd cluster nor the clients of
// KMS plugins, unless it imports their packages.
func TestOperatorsLinkNoClients(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./controlplane", "./examples/appservice").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, forbidden := range []string{"flyball.dev/storage/etcd", "flyball.dev/controlplane/encryption", "k8s.io/kms", "go.etcd.io/etcd/server"} {
			if strings.HasPrefix(dep, forbidden) {
				t.Errorf("%s is linked", strings.TrimSpace(dep))
			}
		}
	}
}
