package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// InitOptions are the options of Init.
type InitOptions struct {
	// Domain is the domain of the API groups, such as example.com.
	Domain string
	// Repo is the path of the Go module. The default is the path in go.mod.
	Repo string
	// Name is the name of the project. The default is the name of the folder.
	Name string
	// Owner is the copyright owner, and License the license of the code: apache2 or none.
	Owner, License string
	// Runtime is projectfile.RuntimeFlyball or projectfile.RuntimeControllerRuntime.
	Runtime string
	// FlyballPath is a folder with the module flyball.dev. The default is the folder that this program was built from.
	FlyballPath string
	// SkipGoVersionCheck accepts any release of Go.
	SkipGoVersionCheck bool
	// SkipFetch skips go mod tidy.
	SkipFetch bool
}

// userFiles are files that Init does not overwrite.
var userFiles = []string{"README.md", ".gitignore", ".dockerignore", ".golangci.yml", ".devcontainer/devcontainer.json"}

// Init creates a project in a folder. The folder may contain the files of a new repository: hidden files, go.mod, a
// license and a readme.
func Init(ctx context.Context, folder string, o InitOptions) (*Changes, error) {
	if err := checkEmpty(folder); err != nil {
		return nil, err
	}
	if !o.SkipGoVersionCheck {
		if err := checkGo(ctx, folder); err != nil {
			return nil, err
		}
	}
	project, err := newProject(folder, &o)
	if err != nil {
		return nil, err
	}
	p := &plan{folder: folder}
	if err := renderProject(p, project, o); err != nil {
		return nil, err
	}
	if err := planModule(p, project, o.FlyballPath); err != nil {
		return nil, err
	}
	changes := p.changes()
	if _, folder, _ := source(o.FlyballPath); folder != "" {
		changes.note("go.mod replaces %s by %s, a folder of this machine: docs/start.md there says what a colleague and CI need.",
			flyballModule, folder)
	}
	err = p.commit(func() error {
		if o.SkipFetch {
			return nil
		}
		return tidy(ctx, folder, changes)
	})
	return changes, err
}

// checkEmpty returns an error if a folder has content that could conflict with the project.
func checkEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == projectfile.Name }) {
		return fmt.Errorf("%s exists already: the folder has a project; add kinds to it with flyball create api", projectfile.Name)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."), name == "go.mod", name == "go.sum", name == "LICENSE",
			!e.IsDir() && strings.HasSuffix(name, ".md"):
		default:
			return fmt.Errorf("the folder is not empty: it has %s; change to an empty folder, "+
				"or one with no more than hidden files, go.mod, go.sum, LICENSE and *.md", name)
		}
	}
	return nil
}

// newProject checks and completes the options, and returns the project.
func newProject(folder string, o *InitOptions) (*projectfile.Project, error) {
	if err := nameError("domain", o.Domain, validation.IsDNS1123Subdomain(o.Domain)); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	given := o.Name
	if o.Name == "" {
		o.Name = strings.ToLower(filepath.Base(absolute))
	}
	if err := nameError("project-name", o.Name, validation.IsDNS1123Label(o.Name)); err != nil {
		if given == "" {
			return nil, fmt.Errorf("the name of the folder cannot be the name of the project, choose another with --project-name: %w", err)
		}
		return nil, err
	}
	path, err := modulePath(folder)
	switch {
	case err != nil:
		return nil, err
	case o.Repo == "" && path == "":
		return nil, errors.New("--repo is required, the path of the Go module, such as github.com/me/" + o.Name)
	case o.Repo == "":
		o.Repo = path
	case path != "" && path != o.Repo:
		return nil, fmt.Errorf("--repo is %s, but go.mod has the module %s: leave --repo out, or change go.mod", o.Repo, path)
	}
	if err := validateRepo(o.Repo); err != nil {
		return nil, err
	}
	if o.License != "apache2" && o.License != "none" {
		return nil, fmt.Errorf("--license %q is invalid: it must be apache2 or none", o.License)
	}
	if strings.ContainsAny(o.Owner, "\n\r") || strings.Contains(o.Owner, "*/") {
		return nil, errors.New("--owner must be a single line without */, as it is part of a comment")
	}
	if o.Runtime != projectfile.RuntimeFlyball && o.Runtime != projectfile.RuntimeControllerRuntime {
		return nil, fmt.Errorf("--runtime %q is invalid: it must be %s or %s", o.Runtime, projectfile.RuntimeFlyball, projectfile.RuntimeControllerRuntime)
	}
	return projectfile.New(o.Domain, o.Repo, o.Name, o.Runtime), nil
}

// renderProject adds the files of a new project to a plan.
func renderProject(p *plan, project *projectfile.Project, o InitOptions) error {
	d := data{Project: project, GoVersion: minimumGo[:strings.LastIndex(minimumGo, ".")], License: o.License,
		Owner: o.Owner, Year: time.Now().Year()}
	boilerplate, err := execute("project/boilerplate.go.txt.tmpl", d)
	if err != nil {
		return err
	}
	d.Boilerplate = string(boilerplate)
	files := [][2]string{
		{"hack/boilerplate.go.txt", "project/boilerplate.go.txt.tmpl"},
		{"cmd/main.go", "cmd/main.go.tmpl"}, {"cmd/controlplane.go", "cmd/controlplane.go.tmpl"},
		{"Makefile", "project/Makefile.tmpl"}, {"Dockerfile", "project/Dockerfile.tmpl"},
		{"README.md", "project/README.md.tmpl"}, {".gitignore", "project/gitignore.tmpl"},
		{".dockerignore", "project/dockerignore.tmpl"}, {".golangci.yml", "project/golangci.yml.tmpl"},
		{".devcontainer/devcontainer.json", "project/devcontainer.json.tmpl"},
		{".github/workflows/test.yml", "project/workflow.yml.tmpl"},
		{".github/workflows/test-e2e.yml", "project/workflow-e2e.yml.tmpl"},
	}
	for _, name := range []string{"default/kustomization", "default/metrics_service", "default/manager_metrics_patch",
		"manager/kustomization", "manager/manager", "rbac/kustomization", "rbac/service_account", "rbac/role",
		"rbac/role_binding", "rbac/leader_election_role", "rbac/leader_election_role_binding", "rbac/metrics_auth_role",
		"rbac/metrics_auth_role_binding", "rbac/metrics_reader_role", "prometheus/kustomization", "prometheus/monitor",
		"default/metrics_replacements", "metrics-certs/kustomization", "metrics-certs/kustomizeconfig", "metrics-certs/issuer",
		"metrics-certs/certificate", "metrics-certs/manager_patch", "metrics-certs/monitor_tls_patch",
		"network-policy/kustomization", "network-policy/allow-metrics-traffic"} {
		files = append(files, [2]string{"config/" + name + ".yaml", "config/" + name + ".yaml.tmpl"})
	}
	for _, name := range []string{"e2e", "deployed", "flyball", "kind"} {
		files = append(files, [2]string{"test/e2e/" + name + "_test.go", "e2e/" + name + "_test.go.tmpl"})
	}
	for _, f := range files {
		add := func(path, name string, d data) error { return p.render(path, name, d, false) }
		if slices.Contains(userFiles, f[0]) {
			add = p.renderMissing
		}
		if err := add(f[0], f[1], d); err != nil {
			return err
		}
	}
	content, err := project.Encode([]byte(projectfile.Header))
	if err != nil {
		return err
	}
	return p.create(projectfile.Name, content, false)
}

// boilerplate returns the header of Go files in a project.
func boilerplate(folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "hack", "boilerplate.go.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimRight(string(content), "\n") + "\n", err
}
