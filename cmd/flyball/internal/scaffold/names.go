package scaffold

import (
	"fmt"
	"go/token"
	"go/types"
	gopath "path"
	"regexp"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// coreGroups are the groups of the built-in kinds in k8s.io/api, with their domains.
var coreGroups = map[string]string{
	"admission": "k8s.io", "admissionregistration": "k8s.io", "apps": "", "authentication": "k8s.io",
	"authorization": "k8s.io", "autoscaling": "", "batch": "", "certificates": "k8s.io", "coordination": "k8s.io",
	"core": "", "discovery": "k8s.io", "events": "k8s.io", "networking": "k8s.io", "node": "k8s.io", "policy": "",
	"rbac": "authorization.k8s.io", "resource": "k8s.io", "scheduling": "k8s.io", "storage": "k8s.io",
}

// checkCoreKind returns an error if a built-in group lacks a kind. It does not check groups outside the scheme, which
// have no stored objects.
func checkCoreKind(r *projectfile.Resource) error {
	kind := schema.GroupKind{Group: r.QualifiedGroup(), Kind: r.Kind}
	if !scheme.Scheme.IsGroupRegistered(kind.Group) || scheme.Scheme.Recognizes(kind.WithVersion(r.Version)) {
		return nil
	}
	var versions []string
	for _, v := range scheme.Scheme.VersionsForGroupKind(kind) {
		versions = append(versions, v.Version)
	}
	if len(versions) == 0 {
		return fmt.Errorf("%s is not a kind of Kubernetes: choose another --kind, or create the type with --resource", gvk(r))
	}
	return fmt.Errorf("%s is not a kind of Kubernetes, which has it in %s: choose another --version", gvk(r), strings.Join(versions, ", "))
}

// regularPlural returns the plural that controller-gen derives from a kind.
func regularPlural(kind string) string { return flect.Pluralize(strings.ToLower(kind)) }

// plural returns the plural of the resource, the name in URLs.
func plural(r *projectfile.Resource) string {
	if r.Plural != "" {
		return r.Plural
	}
	return regularPlural(r.Kind)
}

// gvk returns the group, version and kind for messages.
func gvk(r *projectfile.Resource) string {
	return gopath.Join(r.QualifiedGroup(), r.Version) + " " + r.Kind
}

// packageName returns the name of the package of the types of a path.
func packageName(path string) string {
	name := safe(gopath.Base(path))
	if token.IsKeyword(name) || name == "main" {
		return name + "group"
	}
	return name
}

// alias returns the import name of the package with the types.
func alias(r *projectfile.Resource) string {
	name := safe(r.Group)
	switch name {
	case "":
		name = safe(strings.Split(r.Domain, ".")[0])
	case "meta": // metav1 is Kubernetes' package
		name = "metagroup"
	}
	return name + r.Version
}

// safe converts a name to a part of a Go identifier: it drops invalid characters and leading digits.
func safe(name string) string {
	name = strings.NewReplacer("-", "", ".", "").Replace(name)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "g" + name
	}
	return name
}

// templateNames are the lower-case names that the templates use within the scope of an object of the kind.
var templateNames = []string{"before", "c", "client", "condition", "context", "ctrl", "ctx", "equality", "err", "fake",
	"list", "logf", "meta", "r", "ready", "req", "result", "runtime", "scheme", "t", "testing", "types", "v", "version", "versions"}

// Variable returns the variable name for an object of the kind. The name is the kind in lower case, unless that is no
// Go identifier or already has a meaning in the templates.
func (d data) Variable() string {
	name := d.Lower()
	if token.IsKeyword(name) || types.Universe.Lookup(name) != nil || slices.Contains(templateNames, name) || name == d.Alias() {
		return "object"
	}
	return name
}

// declarations returns the names that the files of a kind declare in the package of its type.
func declarations(r *projectfile.Resource) []string {
	return []string{r.Kind, r.Kind + "List", r.Kind + "Spec", r.Kind + "Status"}
}

// nameError returns an error for an invalid name in a flag.
func nameError(flag, name string, reasons []string) error {
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("--%s %q is invalid: %s", flag, name, strings.Join(reasons, "; "))
}

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// validate checks the names of a kind.
func validate(r *projectfile.Resource) error {
	if r.Group == "" && r.Domain == "" {
		return fmt.Errorf("--group is required, as the project has no domain")
	}
	if r.Group != "" {
		if err := nameError("group", r.Group, validation.IsDNS1123Subdomain(r.Group)); err != nil {
			return err
		}
	}
	if err := nameError("group", r.QualifiedGroup(), subdomain(r.QualifiedGroup())); err != nil {
		return err
	}
	if r.Version == "" {
		return fmt.Errorf("--version is required, such as v1 or v1alpha1")
	}
	if !versionPattern.MatchString(r.Version) {
		return fmt.Errorf("--version %q is invalid: it must be like v1, v1beta2 or v1alpha1", r.Version)
	}
	if r.Kind == "" {
		return fmt.Errorf("--kind is required, such as Widget")
	}
	reasons := validation.IsDNS1035Label(strings.ToLower(r.Kind))
	if len(reasons) == 0 && strings.ContainsAny(r.Kind, "-") {
		reasons = []string{"it must be a Go identifier, without -"}
	}
	if len(reasons) == 0 && !(r.Kind[0] >= 'A' && r.Kind[0] <= 'Z') {
		reasons = []string{"it must begin with an upper case letter, such as " + strings.ToUpper(r.Kind[:1]) + r.Kind[1:]}
	}
	if err := nameError("kind", r.Kind, reasons); err != nil {
		return err
	}
	if err := nameError("plural", plural(r), validation.IsDNS1035Label(plural(r))); err != nil {
		return err
	}
	// This is the kind of lists. It has the same limit.
	if reasons := validation.IsDNS1035Label(strings.ToLower(r.Kind + "List")); len(reasons) > 0 {
		return fmt.Errorf("--kind %q is invalid: with List at the end, %s", r.Kind, strings.Join(reasons, "; "))
	}
	return nil
}

// subdomain returns the reasons why a qualified group is invalid. The core group is empty.
func subdomain(group string) []string {
	if group == "" {
		return nil
	}
	return validation.IsDNS1123Subdomain(group)
}

// validateRepo checks the path of a Go module.
func validateRepo(repo string) error { return validateImport("repo", repo) }

// validateImport checks an import path in a flag.
func validateImport(flag, path string) error {
	if err := module.CheckImportPath(path); err != nil {
		return fmt.Errorf("--%s is invalid: %w", flag, err)
	}
	return nil
}
