package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	gopath "path"
	"strings"
	"text/template"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

//go:embed all:templates
var templates embed.FS

// data is the input of the templates.
type data struct {
	*projectfile.Project
	*projectfile.Resource // nil in templates of a whole project
	// Boilerplate is the header of Go files.
	Boilerplate string
	// Hub and Spoke are the resources of a conversion.
	Hub, Spoke *projectfile.Resource
	// Root is the relative path from the folder of the file to the project.
	Root string
	// Sample is the name of the sample of a kind.
	Sample string
	// GoVersion is the Go release of the project.
	GoVersion string
	License   string
	Owner     string
	Year      int
	// GroupVersionName is the name of the group version variable in the package of a type. RegistersObjects is set if
	// its SchemeBuilder registers objects, as in older projects, instead of functions.
	GroupVersionName string
	RegistersObjects bool
	// Plane is set if the tests start Flyball's control plane, also through envtest: the project requires the module,
	// and the runtime is controller-runtime.
	Plane bool
	// Fake is set if the tests have no API server, so that the test of a controller uses the fake client.
	Fake bool
	// Import is the import name of the controller's or webhook's package in main.go.
	Import string
}

// Flyball reports whether the project uses Flyball's runtime.
func (d data) Flyball() bool { return d.Runtime() == projectfile.RuntimeFlyball }

// Ctrl returns the import of the runtime's main package.
func (d data) Ctrl() string {
	if d.Flyball() {
		return `"flyball.dev/ctrl"`
	}
	return `ctrl "sigs.k8s.io/controller-runtime"`
}

// Pkg returns the parent path of the runtime's packages.
func (d data) Pkg() string {
	if d.Flyball() {
		return "flyball.dev/ctrl"
	}
	return "sigs.k8s.io/controller-runtime/pkg"
}

// Alias returns the import name of the package with the kind's type.
func (d data) Alias() string { return alias(d.Resource) }

// HubAlias returns the import name of the hub's package.
func (d data) HubAlias() string { return alias(d.Hub) }

// RBACGroup returns the API group as a value in a marker.
func (d data) RBACGroup() string {
	if g := d.Resource.QualifiedGroup(); g != "" {
		return g
	}
	return `""`
}

// PluralName returns the plural of the kind.
func (d data) PluralName() string { return plural(d.Resource) }

// Lower returns the kind in lower case.
func (d data) Lower() string { return strings.ToLower(d.Resource.Kind) }

// RoleName returns the prefix of the names of the kind's roles.
func (d data) RoleName() string {
	return strings.ReplaceAll(rolePrefix(d.Project, d.Resource), "_", "-")
}

// APIVersion returns the group and version of the kind, as in manifests.
func (d data) APIVersion() string {
	return gopath.Join(d.Resource.QualifiedGroup(), d.Resource.Version)
}

// WebhookPath returns the path of an admission webhook of the kind.
func (d data) WebhookPath(operation string) string {
	return "/" + operation + "-" + strings.Join([]string{
		strings.ReplaceAll(d.QualifiedGroup(), ".", "-"), d.Resource.Version, d.Lower()}, "-")
}

// Namespaced reports whether objects of the kind have a namespace, as far as it is known.
func (d data) Namespaced() bool { return d.Resource.API == nil || d.Resource.API.Namespaced }

// ControllerPackage returns the name of the package of a controller.
func (d data) ControllerPackage() string { return packageName(controllerFolder(d.Project, d.Resource)) }

// rolePrefix returns the prefix of the files of a kind's roles.
func rolePrefix(p *projectfile.Project, r *projectfile.Resource) string {
	if p.MultiGroup && r.Group != "" {
		return strings.ToLower(r.Group + "_" + r.Kind)
	}
	return strings.ToLower(r.Kind)
}

// execute executes a template, and formats the result if it is Go code.
func execute(name string, d data) ([]byte, error) {
	t, err := template.New(gopath.Base(name)).Delims("[[", "]]").Option("missingkey=error").
		ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, d); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, ".go.tmpl") {
		return out.Bytes(), nil
	}
	code, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the template %s: %w", name, err)
	}
	return code, nil
}

// render adds a file made from a template to a plan.
func (p *plan) render(path, name string, d data, force bool) error {
	content, err := execute(name, d)
	if err != nil {
		return err
	}
	return p.create(path, content, force)
}

// renderMissing is render for a file that is not overwritten.
func (p *plan) renderMissing(path, name string, d data) error {
	if p.exists(path) {
		return nil
	}
	return p.render(path, name, d, false)
}
