package scaffold

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/internal/testcache"
	"flyball.dev/internal/testlevel"
)

// initOptions returns the options of a project that needs no go command.
func initOptions() InitOptions {
	return InitOptions{Domain: "example.com", Repo: "example.com/me/shop", Name: "shop", License: "apache2",
		Runtime: projectfile.RuntimeFlyball, SkipGoVersionCheck: true, SkipFetch: true}
}

func kind(name string) KindOptions { return KindOptions{Group: "shop", Version: "v1", Kind: name} }

// newFolder returns a new project.
func newFolder(t *testing.T) string {
	t.Helper()
	testcache.DependsOnTree() // the module of the project has this one in place of a release
	folder := t.TempDir()
	if _, err := Init(t.Context(), folder, initOptions()); err != nil {
		t.Fatal(err)
	}
	return folder
}

// newKind returns a new project with the kind Order.
func newKind(t *testing.T) string {
	t.Helper()
	folder := newFolder(t)
	if _, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: kind("Order"), Resource: true}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// tree returns the content of all files in a folder, and its folders.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			all[path] = "a folder"
			return nil
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(t *testing.T, folder, path, content string) {
	t.Helper()
	name := filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// replace replaces a text in a file, which must be there.
func replace(t *testing.T, folder, path, old, new string) {
	t.Helper()
	content := read(t, folder, path)
	if !strings.Contains(content, old) {
		t.Fatalf("%s has no %q", path, old)
	}
	write(t, folder, path, strings.ReplaceAll(content, old, new))
}

// testUnchanged runs a command that must fail, with an error that has the text, and change nothing.
func testUnchanged(t *testing.T, folder, want string, command func(context.Context) error) {
	t.Helper()
	before := tree(t, folder)
	err := command(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is\n%v\nand does not contain\n%s", err, want)
	}
	after := tree(t, folder)
	if !maps.Equal(before, after) {
		for path := range after {
			if before[path] != after[path] {
				t.Errorf("%s has changed", path)
			}
		}
		for path := range before {
			if _, ok := after[path]; !ok {
				t.Errorf("%s is gone", path)
			}
		}
	}
}

func TestInitBadInput(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		options func(*InitOptions)
		want    string
	}{
		{"a file", map[string]string{"main.go": "package main"}, nil, "the folder is not empty: it has main.go"},
		{"a folder", map[string]string{"cmd/x.go": "package main"}, nil, "the folder is not empty: it has cmd"},
		{"a project", map[string]string{"PROJECT": ""}, nil, "PROJECT exists already"},
		{"a workflow that exists", map[string]string{".github/workflows/test.yml": ""}, nil, ".github/workflows/test.yml exists already: move it away, or make the project in another folder"},
		{"a domain", nil, func(o *InitOptions) { o.Domain = "Example.com" }, `--domain "Example.com" is invalid: a lowercase RFC 1123 subdomain must`},
		{"no domain", nil, func(o *InitOptions) { o.Domain = "" }, `--domain "" is invalid`},
		{"a name", nil, func(o *InitOptions) { o.Name = "my_shop" }, `--project-name "my_shop" is invalid: a lowercase RFC 1123 label must`},
		{"a long name", nil, func(o *InitOptions) { o.Name = strings.Repeat("a", 64) }, "must be no more than 63"},
		{"no repo", nil, func(o *InitOptions) { o.Repo = "" }, "--repo is required, the path of the Go module, such as github.com/me/shop"},
		{"a repo", nil, func(o *InitOptions) { o.Repo = "/shop" }, "--repo is invalid: malformed import path"},
		{"another repo", map[string]string{"go.mod": "module example.com/other\n"}, nil, "go.mod has the module example.com/other"},
		{"go.mod without a module", map[string]string{"go.mod": "go 1.26\n"}, nil, "go.mod: there is no module line"},
		{"go.mod with an error", map[string]string{"go.mod": "module example.com/me/shop\n\nrequire x\n"}, nil, "go.mod:3: "},
		{"a license", nil, func(o *InitOptions) { o.License = "mit" }, `--license "mit" is invalid: it must be apache2 or none`},
		{"an owner", nil, func(o *InitOptions) { o.Owner = "me */" }, "--owner must be a single line"},
		{"a runtime", nil, func(o *InitOptions) { o.Runtime = "x" }, `--runtime "x" is invalid: it must be flyball or controller-runtime`},
		{"no source", nil, func(o *InitOptions) { o.FlyballPath = "testdata" }, "--flyball-path testdata is not a folder with the module flyball.dev"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for path, content := range tt.files {
				write(t, folder, path, content)
			}
			o := initOptions()
			if tt.options != nil {
				tt.options(&o)
			}
			testUnchanged(t, folder, tt.want, func(ctx context.Context) error {
				_, err := Init(ctx, folder, o)
				return err
			})
		})
	}
}

// TestInitGoTooOld: the release of the go command in PATH is checked.
func TestInitGoTooOld(t *testing.T) {
	bin, folder := t.TempDir(), t.TempDir()
	o := initOptions()
	o.SkipGoVersionCheck = false
	t.Setenv("PATH", bin)
	init := func(ctx context.Context) error {
		_, err := Init(ctx, folder, o)
		return err
	}
	testUnchanged(t, folder, "go was not found: install Go 1.26.0 or later", init)
	write(t, bin, "go", "#!/bin/sh\necho go1.21.13\n")
	if err := os.Chmod(filepath.Join(bin, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	testUnchanged(t, folder, "go is go1.21.13, which is too old: flyball.dev needs Go 1.26.0", init)
	write(t, bin, "go", "#!/bin/sh\necho cannot >&2\nexit 1\n")
	testUnchanged(t, folder, "cannot", init)
}

// TestInitFetchFails checks that Init removes its files if go mod tidy fails and the project does not build.
func TestInitFetchFails(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "go.mod", "module example.com/me/shop\n\ngo 1.26.0\n\nreplace k8s.io/api => ./missing\n")
	o := initOptions()
	o.SkipFetch = false
	testUnchanged(t, folder, "go mod tidy failed", func(ctx context.Context) error {
		_, err := Init(ctx, folder, o)
		return err
	})
}

// TestInitKeeps: a new repository may have a readme, a license and a module.
func TestInitKeeps(t *testing.T) {
	folder := t.TempDir()
	files := map[string]string{"README.md": "mine", ".gitignore": "mine", "LICENSE": "mine", ".git/config": "mine"}
	for path, content := range files {
		write(t, folder, path, content)
	}
	write(t, folder, "go.mod", "module example.com/mine // kept\n\ngo 1.22\n\nrequire k8s.io/api v0.99.0\n")
	o := initOptions()
	o.Repo = ""
	changes, err := Init(t.Context(), folder, o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(changes.Notes, func(n string) bool { return strings.HasPrefix(n, "go.mod replaces flyball.dev by "+ownFolder()) }) {
		t.Errorf("the notes %q do not have the folder by which flyball.dev is replaced", changes.Notes)
	}
	for path, content := range files {
		if got := read(t, folder, path); got != content {
			t.Errorf("%s is %q", path, got)
		}
	}
	mod, err := modfile.Parse("go.mod", []byte(read(t, folder, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if mod.Module.Mod.Path != "example.com/mine" || mod.Go.Version != minimumGo {
		t.Errorf("module %s, go %s", mod.Module.Mod.Path, mod.Go.Version)
	}
	i := slices.IndexFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == "k8s.io/api" })
	if i < 0 || mod.Require[i].Mod.Version != "v0.99.0" {
		t.Error("a requirement has changed")
	}
	if project, err := projectfile.Load(folder); err != nil || project.Repo != "example.com/mine" {
		t.Errorf("%+v, %v", project, err)
	}
}

// TestVersions checks that projects require the same releases as this module.
func TestVersions(t *testing.T) {
	content, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if mod.Go.Version != minimumGo {
		t.Errorf("go.mod has go %s, and projects get %s", mod.Go.Version, minimumGo)
	}
}

func TestCreateAPIBadInput(t *testing.T) {
	yes, no := true, false
	order := func() APIOptions { return APIOptions{KindOptions: kind("Order"), Resource: true} }
	for _, tt := range []struct {
		name    string
		files   map[string]string
		options func(*APIOptions)
		want    string
	}{
		{"it exists", nil, nil, "shop.example.com/v1 Order exists already, in api/v1/order_types.go:53: choose another"},
		{"a group", nil, func(o *APIOptions) { o.Group = "Shop" }, `--group "Shop" is invalid: a lowercase RFC 1123 subdomain must`},
		{"a long group", nil, func(o *APIOptions) { o.Group = strings.Repeat("a.", 125) + "a" }, "must be no more than 253"},
		{"another group", nil, func(o *APIOptions) { o.Group = "other" }, "the project has the group shop.example.com, and its layout is for one group: change it with flyball edit --multigroup"},
		{"no version", nil, func(o *APIOptions) { o.Version = "" }, "--version is required"},
		{"a version", nil, func(o *APIOptions) { o.Version = "1" }, `--version "1" is invalid: it must be like v1, v1beta2 or v1alpha1`},
		{"no kind", nil, func(o *APIOptions) { o.Kind = "" }, "--kind is required"},
		{"a lower case kind", nil, func(o *APIOptions) { o.Kind = "item" }, `--kind "item" is invalid: it must begin with an upper case letter, such as Item`},
		{"a kind with a hyphen", nil, func(o *APIOptions) { o.Kind = "My-item" }, `--kind "My-item" is invalid: it must be a Go identifier`},
		{"a kind", nil, func(o *APIOptions) { o.Kind = "My_item" }, `--kind "My_item" is invalid: a DNS-1035 label must`},
		{"a plural", nil, func(o *APIOptions) { o.Kind, o.Plural = "Item", "Items" }, `--plural "Items" is invalid: a DNS-1035 label must`},
		{"a kind that is too long with List", nil, func(o *APIOptions) { o.Kind, o.Plural = "K"+strings.Repeat("i", 60), "k" }, "with List at the end, must be no more than 63"},
		{"a plural that is too long", nil, func(o *APIOptions) { o.Kind = "K" + strings.Repeat("i", 62) }, "is invalid: must be no more than 63"},
		{"the plural of another kind", nil, func(o *APIOptions) { o.Kind, o.Plural = "Item", "orders" },
			"shop.example.com/v1 Item and shop.example.com/v1 Order would both be the resource orders: set another --plural"},
		{"the list of another kind", nil, func(o *APIOptions) { o.Kind = "OrderList" }, "would both declare the type OrderList: choose another --kind"},
		{"a name of the package", nil, func(o *APIOptions) { o.Kind = "SchemeBuilder" }, "api/v1/groupversion_info.go declares this name"},
		{"nothing to do", nil, func(o *APIOptions) { o.Resource, o.Controller = false, &no }, "there is nothing to do"},
		{"another scope", nil, func(o *APIOptions) { o.Version, o.ClusterScoped = "v2", true }, "must have the same scope: --namespaced=true"},
		{"another plural", nil, func(o *APIOptions) { o.Version, o.Plural = "v2", "ordres" }, "must have the same plural: --plural=orders"},
		{"a controller of another version", nil, func(o *APIOptions) { o.Version, o.Controller = "v2", &yes },
			"has a controller already, in internal/controller/order_controller.go:36: leave it"},
		{"a kind that Kubernetes does not have", nil, func(o *APIOptions) { o.Group, o.Kind, o.Resource = "apps", "Deploymant", false },
			"apps/v1 Deploymant is not a kind of Kubernetes: choose another --kind, or create the type with --resource"},
		{"a version that Kubernetes does not have", nil, func(o *APIOptions) { o.Group, o.Version, o.Kind, o.Resource = "batch", "v2", "CronJob", false },
			"batch/v2 CronJob is not a kind of Kubernetes, which has it in v1, v1beta1: choose another --version"},
		{"no version of a kind of Kubernetes", nil, func(o *APIOptions) { o.Group, o.Version, o.Kind, o.Resource = "core", "", "Pod", false },
			"--version is required"},
		{"an unknown kind", nil, func(o *APIOptions) { o.Kind, o.Resource = "Item", false }, "shop.example.com/v1 Item is neither a kind of this project nor of Kubernetes"},
		{"a domain without a path", nil, func(o *APIOptions) { o.ExternalAPIDomain = "io" }, "need --external-api-path"},
		{"an external type of its own", nil, func(o *APIOptions) { o.ExternalAPIPath = "example.com/x" }, "set --resource=false"},
		{"an external path", nil, func(o *APIOptions) { o.ExternalAPIPath, o.Resource = "../x", false }, "--external-api-path is invalid"},
		{"a file that exists", map[string]string{"internal/controller/item_controller.go": "package controller"},
			func(o *APIOptions) { o.Kind = "Item" }, "internal/controller/item_controller.go exists already"},
		{"a folder that is a file", map[string]string{"config/samples": "", "api": ""}, func(o *APIOptions) { o.Kind = "Item" }, "not a directory"},
		{"a marker", map[string]string{"cmd/main.go": "package main\n"}, func(o *APIOptions) { o.Kind = "Item" },
			"cmd/main.go: the comment // +kubebuilder:scaffold:imports is missing: put it back, or insert this where it was, and then the comment after it:\n\tshopv1 \"example.com/me/shop/api/v1\""},
		{"broken Go", map[string]string{"cmd/main.go": "package main\n\nfunc {\n"}, func(o *APIOptions) { o.Kind = "Item" }, "cmd/main.go: the file has an error: 3:6"},
		{"broken YAML", map[string]string{"config/rbac/kustomization.yaml": "resources: [\n"}, func(o *APIOptions) { o.Kind = "Item" }, "config/rbac/kustomization.yaml: yaml: line "},
		{"generation fails", nil, func(o *APIOptions) {
			o.Kind = "Item"
			o.Generate = func(context.Context) error { return errors.New("types.go:7: no such marker") }
		}, "types.go:7: no such marker"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := newKind(t)
			for path, content := range tt.files {
				if err := os.RemoveAll(filepath.Join(folder, path)); err != nil {
					t.Fatal(err)
				}
				write(t, folder, path, content)
			}
			o := order()
			if tt.options != nil {
				tt.options(&o)
			}
			testUnchanged(t, folder, tt.want, func(ctx context.Context) error {
				_, err := CreateAPI(ctx, folder, o)
				return err
			})
		})
	}
}

// TestLabTest: a controller has a lab test if its kind is of the project, and the runtime is the lab's.
func TestLabTest(t *testing.T) {
	deployment := KindOptions{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, tt := range []struct {
		runtime string
		options APIOptions
		path    string
		want    bool
	}{
		{projectfile.RuntimeFlyball, APIOptions{KindOptions: kind("Order"), Resource: true}, "order_lab_test.go", true},
		{projectfile.RuntimeFlyball, APIOptions{KindOptions: deployment, Controller: new(true)}, "deployment_lab_test.go", false},
		{projectfile.RuntimeControllerRuntime, APIOptions{KindOptions: kind("Order"), Resource: true}, "order_lab_test.go", false},
	} {
		folder, o := t.TempDir(), initOptions()
		o.Runtime = tt.runtime
		if _, err := Init(t.Context(), folder, o); err != nil {
			t.Fatal(err)
		}
		if _, err := CreateAPI(t.Context(), folder, tt.options); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(folder, "internal", "controller", tt.path))
		if (err == nil) != tt.want {
			t.Errorf("%s, %s: %v", tt.runtime, tt.options.Kind, err)
		}
	}
}

// TestInitTwice: the error is about the project, and not about another of its files.
func TestInitTwice(t *testing.T) {
	folder := newFolder(t)
	testUnchanged(t, folder, "PROJECT exists already: the folder has a project", func(ctx context.Context) error {
		_, err := Init(ctx, folder, initOptions())
		return err
	})
}

// TestLineEndings checks that inserted code has the line endings of the file.
func TestLineEndings(t *testing.T) {
	folder := newKind(t)
	all := tree(t, folder)
	for name, content := range all {
		if content != "a folder" {
			if err := os.WriteFile(name, []byte(strings.ReplaceAll(content, "\n", "\r\n")), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := kind("Order")
	o.Version = "v2"
	changes, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: o, Resource: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(changes.Updated, "api/v1/order_types.go") || !slices.Contains(changes.Updated, "cmd/main.go") {
		t.Errorf("updated are %q", changes.Updated)
	}
	for _, path := range changes.Updated {
		content := read(t, folder, path)
		if strings.Count(content, "\n") != strings.Count(content, "\r\n") {
			t.Errorf("%s has line endings of both kinds", path)
		}
	}
}

// TestImportsPassTheLinter: packages of the standard library are apart from others, as goimports has
// them, and each is imported once.
func TestImportsPassTheLinter(t *testing.T) {
	for _, runtime := range []string{projectfile.RuntimeFlyball, projectfile.RuntimeControllerRuntime} {
		folder := t.TempDir()
		o := initOptions()
		o.Runtime = runtime
		_, err := Init(t.Context(), folder, o)
		for _, version := range []string{"v1", "v2"} {
			order := KindOptions{Group: "shop", Version: version, Kind: "Order"}
			_, createErr := CreateAPI(t.Context(), folder, APIOptions{KindOptions: order, Resource: true})
			err = errors.Join(err, createErr)
		}
		pod := KindOptions{Group: "core", Version: "v1", Kind: "Pod"}
		_, podErr := CreateAPI(t.Context(), folder, APIOptions{KindOptions: pod})
		_, defaultingErr := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: pod, Defaulting: true})
		_, webhookErr := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: kind("Order"), Defaulting: true,
			Validation: true, Conversion: true, Spoke: []string{"v2"}})
		if err := errors.Join(err, podErr, defaultingErr, webhookErr); err != nil {
			t.Fatal(err)
		}
		for path, content := range tree(t, folder) {
			if filepath.Ext(path) != ".go" {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, content, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for i, spec := range file.Imports[min(1, len(file.Imports)):] {
				before := file.Imports[i]
				if slices.ContainsFunc(file.Imports[:i+1], func(s *ast.ImportSpec) bool { return s.Path.Value == spec.Path.Value }) {
					t.Errorf("%s: %s is imported twice", path, spec.Path.Value)
				}
				adjacent := files.Position(before.End()).Line+1 == files.Position(spec.Pos()).Line
				if adjacent && isStandard(before.Path.Value) != isStandard(spec.Path.Value) {
					t.Errorf("%s: %s and %s are in one group", path, before.Path.Value, spec.Path.Value)
				}
			}
		}
	}
}

// isStandard reports whether an import path, in quotes, is of the standard library.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// TestWebhooksOfSeveralVersions: the tests of each version serve the webhooks of all, as the API server
// calls them for each object.
func TestWebhooksOfSeveralVersions(t *testing.T) {
	folder := newKind(t)
	second := kind("Order")
	second.Version = "v2"
	_, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: second, Resource: true})
	for _, o := range []KindOptions{kind("Order"), second} {
		_, webhookErr := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: o, Defaulting: true})
		err = errors.Join(err, webhookErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	for version, other := range map[string]string{"v1": "v2", "v2": "v1"} {
		suite := read(t, folder, "internal/webhook/"+version+"/webhook_suite_test.go")
		for _, want := range []string{"\t\tSetupOrderWebhookWithManager,\n", "\t\twebhook" + other + ".SetupOrderWebhookWithManager,\n",
			"\twebhook" + other + " \"example.com/me/shop/internal/webhook/" + other + "\"\n", "shop" + other + ".AddToScheme(scheme)"} {
			if strings.Count(suite, want) != 1 {
				t.Errorf("the suite of %s has not once %q:\n%s", version, want, suite)
			}
		}
	}
}

// TestSuiteOfKubebuilder: Kubebuilder's suite of webhooks is left alone, and the tests do not need it.
func TestSuiteOfKubebuilder(t *testing.T) {
	folder := newKind(t)
	const suite = "internal/webhook/v1/webhook_suite_test.go"
	const content = "package v1\n\nvar _ = BeforeSuite(func() {\n\t// +kubebuilder:scaffold:webhook\n})\n"
	write(t, folder, suite, content)
	if _, err := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: kind("Order"), Defaulting: true}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, folder, suite); got != content {
		t.Errorf("the suite has changed:\n%s", got)
	}
	test := read(t, folder, "internal/webhook/v1/order_webhook_test.go")
	if strings.Contains(test, "k8sClient") || !strings.Contains(test, "func TestOrderDefaults(") {
		t.Errorf("the test is\n%s", test)
	}
}

// TestUnusualNames tests kinds and groups with names that have a meaning in Go or in the generated files.
func TestUnusualNames(t *testing.T) {
	folder := newFolder(t)
	yes := true
	if _, err := Edit(t.Context(), folder, EditOptions{MultiGroup: &yes}); err != nil {
		t.Fatal(err)
	}
	create := func(group, kind string) {
		t.Helper()
		o := KindOptions{Group: group, Version: "v1", Kind: kind}
		if _, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: o, Resource: true}); err != nil {
			t.Errorf("%s %s: %v", group, kind, err)
			return
		}
		if _, err := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: o, Defaulting: true, Validation: true}); err != nil {
			t.Errorf("webhooks of %s %s: %v", group, kind, err)
		}
	}
	for _, kind := range []string{"Type", "Map", "String", "Nil", "Client", "Condition", "Ctx", "Meta", "R", "Req", "Shopv1", "T"} {
		create("shop", kind)
	}
	for _, group := range []string{"go", "main", "meta", "3d", "foo.bar", "foo-baz"} {
		create(group, "Order")
	}
	for _, group := range goFolders {
		testUnchanged(t, folder, "has a meaning for the go command", func(ctx context.Context) error {
			_, err := CreateAPI(ctx, folder, APIOptions{KindOptions: KindOptions{Group: group, Version: "v1", Kind: "Order"}, Resource: true})
			return err
		})
	}
	testUnchanged(t, folder, "have the same import names as the packages of foo.bar", func(ctx context.Context) error {
		o := KindOptions{Group: "foobar", Version: "v2", Kind: "Item"}
		_, err := CreateAPI(ctx, folder, APIOptions{KindOptions: o, Resource: true})
		return err
	})
	t.Run("compile", func(t *testing.T) {
		testlevel.NeedsFull(t, "compiles a project")
		t.Chdir(folder)
		if _, err := generate.Run(t.Context(), generate.Options{Tags: generate.DefaultTags}); err != nil {
			t.Fatal(err)
		}
		if err := goCommand(t.Context(), folder, "vet", "-tags=nocontrolplane", "./..."); err != nil {
			t.Error(err)
		}
	})
}

func TestCreateWebhookBadInput(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options WebhookOptions
		want    string
	}{
		{"nothing", WebhookOptions{KindOptions: kind("Order")}, "at least one of --defaulting"},
		{"no such kind", WebhookOptions{KindOptions: kind("Item"), Defaulting: true},
			"create its type first, with flyball create api, or say where it is with --external-api-path and --external-api-domain; " +
				"the project has shop.example.com/v1 Order"},
		{"a spoke without conversion", WebhookOptions{KindOptions: kind("Order"), Defaulting: true, Spoke: []string{"v2"}}, "--spoke needs --conversion"},
		{"conversion without a spoke", WebhookOptions{KindOptions: kind("Order"), Conversion: true}, "the project has no other version of"},
		{"no such spoke", WebhookOptions{KindOptions: kind("Order"), Conversion: true, Spoke: []string{"v2"}}, "--spoke v2: the project has no other version beside"},
		{"conversion of another's kind", WebhookOptions{KindOptions: KindOptions{Group: "apps", Version: "v1", Kind: "Deployment"}, Conversion: true,
			Spoke: []string{"v2"}}, "--conversion is for kinds of this project"},
		{"a path", WebhookOptions{KindOptions: kind("Order"), Defaulting: true, DefaultingPath: "x"}, `--defaulting-path "x" is invalid`},
		{"a path without a webhook", WebhookOptions{KindOptions: kind("Order"), Defaulting: true, ValidationPath: "/x"}, "--validation-path needs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := newKind(t)
			testUnchanged(t, folder, tt.want, func(ctx context.Context) error {
				_, err := CreateWebhook(ctx, folder, tt.options)
				return err
			})
		})
	}
	t.Run("they exist", func(t *testing.T) {
		folder := newKind(t)
		o := WebhookOptions{KindOptions: kind("Order"), Defaulting: true}
		if _, err := CreateWebhook(t.Context(), folder, o); err != nil {
			t.Fatal(err)
		}
		testUnchanged(t, folder, "has webhooks already, in internal/webhook/v1/order_webhook.go:28: add the others there", func(ctx context.Context) error {
			_, err := CreateWebhook(ctx, folder, o)
			return err
		})
	})
}

func TestEditBadInput(t *testing.T) {
	folder := newKind(t)
	yes, no := true, false
	testUnchanged(t, folder, "there is nothing to do", func(ctx context.Context) error {
		_, err := Edit(ctx, folder, EditOptions{})
		return err
	})
	if _, err := Edit(t.Context(), folder, EditOptions{MultiGroup: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: KindOptions{Group: "other", Version: "v1", Kind: "Item"}, Resource: true}); err != nil {
		t.Fatal(err)
	}
	testUnchanged(t, folder, "the project has several groups, shop.example.com, other.example.com", func(ctx context.Context) error {
		_, err := Edit(ctx, folder, EditOptions{MultiGroup: &no})
		return err
	})
}

// TestUsersChangesAreKept: code that a user has written stays, wherever it is.
func TestUsersChangesAreKept(t *testing.T) {
	folder := newKind(t)
	replace(t, folder, "cmd/main.go", "\t// +kubebuilder:scaffold:builder\n", "\tmine()\n\t// +kubebuilder:scaffold:builder\n\tandMine()\n")
	replace(t, folder, "config/default/kustomization.yaml", "#- ../prometheus", "- ../prometheus # mine")
	replace(t, folder, "config/rbac/kustomization.yaml", "- role.yaml", "  - role.yaml # mine")
	replace(t, folder, "config/rbac/kustomization.yaml", "\n- ", "\n  - ")
	replace(t, folder, "PROJECT", "version: \"3\"", "version: '3'")
	if _, err := CreateAPI(t.Context(), folder, APIOptions{KindOptions: kind("Item"), Resource: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: kind("Item"), Defaulting: true}); err != nil {
		t.Fatal(err)
	}
	for path, texts := range map[string][]string{
		"cmd/main.go": {"\tmine()\n", "\tandMine()\n", "&controller.OrderReconciler{", "&controller.ItemReconciler{",
			"webhookv1.SetupItemWebhookWithManager(mgr)"},
		"config/default/kustomization.yaml": {"- ../prometheus # mine\n", "- ../crd\n", "- ../webhook\n", "- path: manager_webhook_patch.yaml\n  target:\n    kind: Deployment\n"},
		"config/rbac/kustomization.yaml":    {"  - role.yaml # mine\n", "  - item_viewer_role.yaml\n"},
	} {
		for _, text := range texts {
			if n := strings.Count(read(t, folder, path), text); n != 1 {
				t.Errorf("%s has %q %d times:\n%s", path, text, n, read(t, folder, path))
			}
		}
	}
}

// TestForce: a kind that exists is written anew, and registered once.
func TestForce(t *testing.T) {
	folder := newKind(t)
	write(t, folder, "api/v1/order_types.go", "package v1\n")
	main := read(t, folder, "cmd/main.go")
	o := APIOptions{KindOptions: kind("Order"), Resource: true}
	o.Force = true
	if _, err := CreateAPI(t.Context(), folder, o); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, folder, "api/v1/order_types.go"), "type OrderSpec struct") {
		t.Error("the type is not written anew")
	}
	if read(t, folder, "cmd/main.go") != main {
		t.Error("cmd/main.go has changed")
	}
	if project, err := projectfile.Load(folder); err != nil || len(project.Resources) != 1 {
		t.Errorf("%+v, %v", project, err)
	}
}

// TestSecondVersion: the first version is stored, and the kind keeps its one controller.
func TestSecondVersion(t *testing.T) {
	folder := newKind(t)
	o := APIOptions{KindOptions: kind("Order"), Resource: true}
	o.Version = "v2"
	changes, err := CreateAPI(t.Context(), folder, o)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(changes.Created, func(p string) bool { return strings.HasPrefix(p, "internal/") }) {
		t.Errorf("created %q", changes.Created)
	}
	const marker = "// +kubebuilder:storageversion"
	if !strings.Contains(read(t, folder, "api/v1/order_types.go"), marker) || strings.Contains(read(t, folder, "api/v2/order_types.go"), marker) {
		t.Error("not the first version, or both, are stored")
	}
	for path, name := range map[string]string{"shop_v1_order": "order-sample", "shop_v2_order": "order-v2-sample"} {
		if sample := read(t, folder, "config/samples/"+path+".yaml"); !strings.Contains(sample, "name: "+name+"\n") {
			t.Errorf("the sample %s is not %s:\n%s", path, name, sample)
		}
	}
	yes := true
	o.Version, o.Controller = "v3", &yes
	testUnchanged(t, folder, "has a controller already, in internal/controller/order_controller.go", func(ctx context.Context) error {
		_, err := CreateAPI(ctx, folder, o)
		return err
	})
}

// TestConversionLater: conversion, and then another spoke, are added to a kind with webhooks, without a
// change of their code.
func TestConversionLater(t *testing.T) {
	folder := newKind(t)
	for _, version := range []string{"v2", "v3"} {
		o := APIOptions{KindOptions: kind("Order"), Resource: true}
		o.Version = version
		if _, err := CreateAPI(t.Context(), folder, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CreateWebhook(t.Context(), folder, WebhookOptions{KindOptions: kind("Order"), Defaulting: true}); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "internal/webhook/v1/order_webhook.go", "package v1 // mine\n")
	for _, spoke := range []string{"v2", "v3"} {
		o := WebhookOptions{KindOptions: kind("Order"), Conversion: true, Spoke: []string{spoke}}
		if _, err := CreateWebhook(t.Context(), folder, o); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(read(t, folder, "api/"+spoke+"/order_conversion.go"), "ConvertTo(hub conversion.Hub)") {
			t.Errorf("%s is not converted", spoke)
		}
		testUnchanged(t, folder, "has webhooks already", func(ctx context.Context) error {
			_, err := CreateWebhook(ctx, folder, o)
			return err
		})
	}
	if got := read(t, folder, "internal/webhook/v1/order_webhook.go"); got != "package v1 // mine\n" {
		t.Errorf("the webhooks are\n%s", got)
	}
	project, err := projectfile.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if w := project.Resources[0].Webhooks; !w.Defaulting || !w.Conversion || !slices.Equal(w.Spoke, []string{"v2", "v3"}) {
		t.Errorf("%+v", w)
	}
	testRoundTrip(t, folder)
}

// Not every value of the types of rawFields has a form in JSON.
const (
	rawImports = `import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
`
	rawFields = "\tConfig runtime.RawExtension `json:\"config,omitempty\"`\n" +
		"\tMore []runtime.RawExtension `json:\"more,omitempty\"`\n" +
		"\tOptional *runtime.RawExtension `json:\"optional,omitempty\"`\n" +
		"\tCapacity resource.Quantity `json:\"capacity,omitempty\"`\n" +
		"\tPort intstr.IntOrString `json:\"port,omitempty\"`\n" +
		"\tTimeout metav1.Duration `json:\"timeout,omitempty\"`\n" +
		"\tSince metav1.MicroTime `json:\"since,omitempty\"`\n" +
		"\tPods *corev1.PodTemplateSpec `json:\"pods,omitempty\"`\n"
)

// testRoundTrip runs the tests of the conversions, which must fail when a version has a field that the others lack.
func testRoundTrip(t *testing.T, folder string) {
	t.Helper()
	t.Chdir(folder)
	if _, err := generate.Run(t.Context(), generate.Options{Tags: generate.DefaultTags}); err != nil {
		t.Fatal(err)
	}
	if err := goCommand(t.Context(), folder, "test", "./api/..."); err != nil {
		t.Error(err)
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		file := "api/" + version + "/order_types.go"
		replace(t, folder, file, "\t// Message is", rawFields+"\n\t// Message is")
		replace(t, folder, file, "import (", rawImports)
	}
	if _, err := generate.Run(t.Context(), generate.Options{Tags: generate.DefaultTags}); err != nil {
		t.Fatal(err)
	}
	if err := goCommand(t.Context(), folder, "test", "./api/..."); err != nil {
		t.Errorf("with fields whose random values are no JSON: %v", err)
	}
	replace(t, folder, "api/v2/order_types.go", "\tMessage string", "\tSize int `json:\"size,omitempty\"`\n\n\tMessage string")
	err := goCommand(t.Context(), folder, "test", "./api/v2")
	if err == nil || !strings.Contains(err.Error(), "and after v1 it is") {
		t.Errorf("a field is lost, and the error is %v", err)
	}
}

// TestBadProject: a PROJECT file that is missing or cannot be extended changes nothing.
func TestBadProject(t *testing.T) {
	folder := t.TempDir()
	testUnchanged(t, folder, "there is no PROJECT file in "+folder+": change to the folder of a project", func(ctx context.Context) error {
		_, err := CreateWebhook(ctx, folder, WebhookOptions{KindOptions: kind("Item"), Defaulting: true})
		return err
	})
	write(t, folder, projectfile.Name, "version: \"4\"\n")
	testUnchanged(t, folder, `PROJECT:1: version "4" is not supported`, func(ctx context.Context) error {
		_, err := CreateAPI(ctx, folder, APIOptions{KindOptions: kind("Item"), Resource: true})
		return err
	})
}
