package vet_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/testcache"
	"flyball.dev/vet"
)

// load loads packages of this module.
func load(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	testcache.DependsOnTree()
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: ".."}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		t.Fatal("the packages have errors")
	}
	return loaded
}

// findings returns what the rules that are on by default find, as "file:line: rule: message".
func findings(t *testing.T, in ...*packages.Package) []string {
	t.Helper()
	graph, err := checker.Analyze(vet.Analyzers(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, action := range graph.Roots {
		if action.Err != nil {
			t.Fatal(action.Err)
		}
		for _, d := range action.Diagnostics {
			found = append(found, fmt.Sprintf("%s: %s: %s", action.Package.Fset.Position(d.Pos), action.Analyzer.Name, d.Message))
		}
	}
	return found
}

// TestExamples: the rules find nothing in the examples.
func TestExamples(t *testing.T) {
	loaded := load(t, "./examples/...")
	if len(loaded) < 5 {
		t.Fatalf("only %d packages were loaded", len(loaded))
	}
	for _, finding := range findings(t, loaded...) {
		t.Error(finding)
	}
}

// mistake is a change of source that makes the mistake of a rule.
type mistake struct {
	rule    string
	changes []string // what there is, and what it becomes
}

// mistakes are changes of an example's source. Each one makes the mistake of one rule.
var mistakes = []mistake{
	{"requeue", []string{"	return ctrl.Result{}, r.updateStatus",
		"	if deployment.Status.ReadyReplicas == 0 {\n		return ctrl.Result{Requeue: true}, nil\n	}\n	return ctrl.Result{}, r.updateStatus"}},
	{"memorystate", []string{"	client.Client\n", "	client.Client\n	last string\n",
		"	app := &appv1.AppService{}\n", "	r.last = req.Name\n	app := &appv1.AppService{}\n"}},
	{"droppederror", []string{"	if err := r.Update(ctx, found); err != nil {\n		return found, err\n	}\n", "	_ = r.Update(ctx, found)\n"}},
	{"conflict", []string{"	if err := r.Status().Update(ctx, app); err != nil {\n",
		"	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.Status().Update(ctx, app) }); err != nil {\n"}},
	{"conflict", []string{"	if err := r.Status().Update(ctx, app); err != nil {\n",
		"	if err := r.Status().Update(ctx, app); err != nil {\n		if apierrors.IsConflict(err) {\n			return nil\n		}\n",
		"		Named(\"appservice\").", "		Named(\"appservice\").\n		WithEventFilter(predicate.GenerationChangedPredicate{})."}},
	{"stalestatus", []string{"verbs=get;list;watch\n", "verbs=get;list;watch;update\n",
		"	if err := r.Status().Update(ctx, app); err != nil {\n",
		"	if err := r.Update(ctx, app); err != nil {\n		return err\n	}\n	if err := r.Status().Update(ctx, app); err != nil {\n"}},
	{"latesnapshot", []string{"	return ctrl.Result{}, r.updateStatus", "	app.Status.ReadyReplicas = deployment.Status.ReadyReplicas\n	return ctrl.Result{}, r.updateStatus"}},
	{"finalizerorder", []string{"	client.Client\n", "	client.Client\n	Cloud interface{ CreateBucket(context.Context, string) error }\n",
		"	deployment, err := r.reconcileDeployment",
		"	if err := r.Cloud.CreateBucket(ctx, app.Name); err != nil {\n		return ctrl.Result{}, err\n	}\n	controllerutil.AddFinalizer(app, \"example.com/x\")\n	deployment, err := r.reconcileDeployment",
		"		return ctrl.Result{}, nil // its dependents are garbage collected\n",
		"		controllerutil.RemoveFinalizer(app, \"example.com/x\")\n		return ctrl.Result{}, nil\n"}},
	{"resourceversion", []string{"	deployment, err := r.reconcileDeployment",
		"	if n, err := strconv.Atoi(app.ResourceVersion); err == nil && n > 7 {\n		return ctrl.Result{}, nil\n	}\n	deployment, err := r.reconcileDeployment"}},
	{"wallclock", []string{"	deployment, err := r.reconcileDeployment",
		"	if time.Now().After(app.CreationTimestamp.Add(time.Hour)) {\n		return ctrl.Result{}, nil\n	}\n	deployment, err := r.reconcileDeployment"}},
	{"createexists", []string{"	if created, err := r.createIfMissing(ctx, app, wanted, found); created || err != nil {\n		return err\n	}\n",
		"	if err := r.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {\n		return r.Create(ctx, wanted)\n	}\n"}},
	{"listscope", []string{"verbs=create;patch\n", "verbs=create;patch\n// +kubebuilder:rbac:groups=\"\",resources=pods,verbs=list\n",
		"	deployment, err := r.reconcileDeployment",
		"	pods := &corev1.PodList{}\n	if err := r.List(ctx, pods); err != nil {\n		return ctrl.Result{}, err\n	}\n	for _, pod := range pods.Items {\n		if pod.Name == app.Name {\n			return ctrl.Result{}, nil\n		}\n	}\n	deployment, err := r.reconcileDeployment"}},
	{"ignorenotfound", []string{"client.IgnoreNotFound(err)", "err"}},
	{"adoption", []string{"	deployment, err := r.reconcileDeployment",
		"	services := &corev1.ServiceList{}\n	if err := r.List(ctx, services, client.InNamespace(app.Namespace)); err != nil {\n		return ctrl.Result{}, err\n	}\n	for i := range services.Items {\n		if err := ctrl.SetControllerReference(app, &services.Items[i], r.Scheme); err != nil {\n			return ctrl.Result{}, err\n		}\n	}\n	deployment, err := r.reconcileDeployment"}},
	{"ownerreference", []string{"	if err := ctrl.SetControllerReference(app, wanted, r.Scheme); err != nil {\n		return false, err\n	}\n", ""}},
	{"crossnamespace", []string{"	found := &corev1.Service{}\n",
		"	found := &corev1.Service{}\n	wanted.Namespace = \"shared\"\n	if err := ctrl.SetControllerReference(app, wanted, r.Scheme); err != nil {\n		return err\n	}\n"}},
	{"twoowners", []string{"	if err := r.Create(ctx, wanted); err != nil {",
		"	if err := ctrl.SetControllerReference(found, wanted, r.Scheme); err != nil {\n		return false, err\n	}\n	if err := r.Create(ctx, wanted); err != nil {"}},
	{"eventstate", []string{"	client.Client\n", "	client.Client\n	last string\n",
		"		Named(\"appservice\").", "		Named(\"appservice\").\n		WithEventFilter(predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool {\n			r.last = e.Object.GetName()\n			return true\n		}})."}},
	{"finalizer", []string{"	deployment, err := r.reconcileDeployment",
		"	controllerutil.AddFinalizer(app, \"example.com/x\")\n	deployment, err := r.reconcileDeployment"}},
	{"stuckfinalizer", []string{"		return ctrl.Result{}, nil // its dependents are garbage collected\n",
		"		if err := r.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(app.Namespace), client.MatchingLabels(labelsFor(app))); err != nil {\n			return ctrl.Result{}, nil\n		}\n		controllerutil.RemoveFinalizer(app, \"example.com/x\")\n		return ctrl.Result{}, nil\n",
		"verbs=create;patch\n", "verbs=create;patch\n// +kubebuilder:rbac:groups=\"\",resources=services,verbs=deletecollection\n"}},
	{"observedgeneration", []string{"	app.Status.ObservedGeneration = app.Generation\n	ready.ObservedGeneration = app.Generation\n", ""}},
	{"generatename", []string{"	deployment, err := r.reconcileDeployment",
		"	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, GenerateName: app.Name}}\n	if err := r.Create(ctx, pod); err != nil {\n		return ctrl.Result{}, err\n	}\n	deployment, err := r.reconcileDeployment",
		"verbs=create;patch\n", "verbs=create;patch\n// +kubebuilder:rbac:groups=\"\",resources=pods,verbs=create\n"}},
	{"rbac", []string{"// +kubebuilder:rbac:groups=app.example.com,resources=appservices/status,verbs=get;update;patch\n", ""}},
	{"ignore", []string{"	deployment, err := r.reconcileDeployment", "	//flyball:ignore requeue\n	deployment, err := r.reconcileDeployment"}},
	{"leaderelection", []string{"func main() { appService.Main() }\n",
		"func main() {\n	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})\n	if err != nil {\n		panic(err)\n	}\n	if err := (&controller.AppServiceReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {\n		panic(err)\n	}\n	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {\n		panic(err)\n	}\n}\n"}},
}

// TestMistakes makes each mistake in a copy of an example, and expects that its rule finds it and
// that no other finds anything.
func TestMistakes(t *testing.T) {
	// The mistakes need packages that the example does not import.
	loaded := load(t, "./examples/appservice/internal/controller", "./examples/appservice",
		"./ctrl/predicate", "./ctrl/event", "./ctrl/controller/controllerutil", "k8s.io/client-go/util/retry", "strconv", "time")
	imports := importer{}
	for _, p := range loaded {
		imports[p.PkgPath] = p.Types
		for _, imported := range p.Types.Imports() {
			if imports[imported.Path()] == nil {
				imports[imported.Path()] = imported
			}
		}
	}
	for _, m := range mistakes {
		t.Run(m.rule, func(t *testing.T) {
			example := loaded[slices.IndexFunc(loaded, func(p *packages.Package) bool { return hasSource(t, p, m.changes[0]) })]
			found := findings(t, changed(t, example, imports, m.changes))
			if len(found) != 1 || !strings.Contains(found[0], ": "+m.rule+": ") {
				t.Errorf("found %q, want one finding of %s", found, m.rule)
			}
		})
	}
	for _, rule := range vet.Analyzers() {
		if !slices.ContainsFunc(mistakes, func(m mistake) bool { return m.rule == rule.Name }) {
			t.Errorf("there is no mistake for %s", rule.Name)
		}
	}
}

// importer imports the packages that are loaded already.
type importer map[string]*types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not loaded", path)
}

func hasSource(t *testing.T, p *packages.Package, text string) bool {
	t.Helper()
	return slices.ContainsFunc(p.CompiledGoFiles, func(name string) bool { return strings.Contains(read(t, name), text) })
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// changed returns a copy of a package after changes of its source. Imports are added as they are
// needed.
func changed(t *testing.T, p *packages.Package, imports importer, changes []string) *packages.Package {
	t.Helper()
	result := *p
	result.Fset, result.Syntax = token.NewFileSet(), nil
	applied := 0
	for _, name := range p.CompiledGoFiles {
		source := read(t, name)
		for i := 0; i < len(changes); i += 2 {
			if strings.Contains(source, changes[i]) {
				source = strings.Replace(source, changes[i], changes[i+1], 1)
				applied++
			}
		}
		for path, identifier := range map[string]string{"flyball.dev/ctrl/predicate": "predicate.", "flyball.dev/ctrl/event": "event.",
			"flyball.dev/ctrl/controller/controllerutil": "controllerutil.", "strconv": "strconv.", "time": "time.",
			"k8s.io/client-go/util/retry": "retry."} {
			imported := strings.Contains(source, fmt.Sprintf("\t%q\n", path))
			if !imported && strings.Contains(strings.Join(changes, ""), identifier) {
				source = strings.Replace(source, "import (", fmt.Sprintf("import (\n\t%q", path), 1)
			}
		}
		file, err := parser.ParseFile(result.Fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		result.Syntax = append(result.Syntax, file)
	}
	if applied != len(changes)/2 {
		t.Fatalf("%d of %d changes could be made", applied, len(changes)/2)
	}
	result.TypesInfo = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Scopes: map[ast.Node]*types.Scope{}, Instances: map[*ast.Ident]types.Instance{}, FileVersions: map[*ast.File]string{},
	}
	var err error
	config := types.Config{Importer: imports}
	if result.Types, err = config.Check(p.PkgPath, result.Fset, result.Syntax, result.TypesInfo); err != nil {
		t.Fatal(err)
	}
	return &result
}
