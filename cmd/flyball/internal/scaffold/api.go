package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	gopath "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// KindOptions identify a kind and its package.
type KindOptions struct {
	Group, Version, Kind string
	// Plural is the plural if it is irregular.
	Plural string
	// ExternalAPIPath is the package of an external kind's types, ExternalAPIDomain the domain of its group, and
	// ExternalAPIModule its module, with an optional version.
	ExternalAPIPath, ExternalAPIDomain, ExternalAPIModule string
	// Force overwrites existing files.
	Force bool
	// Generate, if not nil, is called after the files are written. If it fails, the files are removed.
	Generate func(context.Context) error
}

// APIOptions are the options of CreateAPI.
type APIOptions struct {
	KindOptions
	// Resource and Controller select whether to write the type and a controller. If Controller is nil, CreateAPI writes
	// a controller unless the kind has one in another version.
	Resource   bool
	Controller *bool
	// ClusterScoped makes the kind cluster-scoped.
	ClusterScoped bool
}

// CreateAPI adds a kind, its controller, or both to the project in a folder.
func CreateAPI(ctx context.Context, folder string, o APIOptions) (*Changes, error) {
	project, err := projectfile.Load(folder)
	if err != nil {
		return nil, err
	}
	r, err := o.resource(project, o.Resource)
	if err != nil {
		return nil, err
	}
	others := project.VersionsOf(r)
	controlled := slices.ContainsFunc(others, func(o *projectfile.Resource) bool { return o.Controller })
	withController := !controlled
	if o.Controller != nil {
		withController = *o.Controller
	}
	if !o.Resource && !withController {
		return nil, errors.New("there is nothing to do: at least one of --resource and --controller must be true")
	}
	if existing := project.Find(r.Group, r.Domain, r.Version, r.Kind); existing != nil {
		if o.Resource && existing.API != nil && !o.Force {
			return nil, fmt.Errorf("%s exists already, in %s: choose another --kind or --version, or overwrite it with --force",
				gvk(r), withLine(folder, typesFile(project, existing), "type "+r.Kind+" "))
		}
		r = existing
	} else {
		project.Resources = append(project.Resources, r)
	}
	if withController && controlled && !o.Force {
		return nil, fmt.Errorf("%s has a controller already, in %s: leave it with --controller=false, or overwrite it with --force",
			gvk(r), withLine(folder, controllerFile(project, r), "type "+r.Kind+"Reconciler "))
	}
	if err := checkGroups(project, r); err != nil {
		return nil, err
	}
	if o.Resource {
		r.API = &projectfile.API{CRDVersion: "v1", Namespaced: !o.ClusterScoped}
		if err := errors.Join(sameKind(r, others), checkCollisions(project, r)); err != nil {
			return nil, err
		}
	}
	r.Controller = r.Controller || withController
	return apply(ctx, folder, project, o.KindOptions, func(p *plan, d data) error {
		d.Resource = r
		if o.Resource {
			if err := renderAPI(p, d, others, o.Force); err != nil {
				return err
			}
		}
		if withController {
			return renderController(p, d, o.Force)
		}
		return nil
	})
}

// apply renders the changes of a project, writes them, and runs the following steps.
func apply(ctx context.Context, folder string, project *projectfile.Project, o KindOptions,
	render func(*plan, data) error) (*Changes, error) {
	header, err := boilerplate(folder)
	if err != nil {
		return nil, err
	}
	p := &plan{folder: folder, canForce: true}
	if err := render(p, data{Project: project, Boilerplate: header}); err != nil {
		return nil, err
	}
	if err := p.edit(projectfile.Name, project.Encode); err != nil {
		return nil, err
	}
	if err := p.keep("go.mod", "go.sum"); err != nil {
		return nil, err
	}
	changes := p.changes()
	return changes, p.commit(func() error {
		if o.ExternalAPIPath == "" {
			return nil
		}
		what := o.ExternalAPIPath
		if o.ExternalAPIModule != "" {
			what = o.ExternalAPIModule
		}
		return goCommand(ctx, folder, "get", what)
	}, func() error {
		if o.Generate == nil {
			return nil
		}
		return o.Generate(ctx)
	})
}

// resource returns the resource that the options describe. If own is set, its type will be part of the project.
func (o *KindOptions) resource(project *projectfile.Project, own bool) (*projectfile.Resource, error) {
	r := &projectfile.Resource{Group: o.Group, Version: o.Version, Kind: o.Kind, Domain: project.Domain}
	if o.Plural != "" && o.Plural != regularPlural(o.Kind) {
		r.Plural = o.Plural
	}
	if o.ExternalAPIPath == "" && (o.ExternalAPIDomain != "" || o.ExternalAPIModule != "") {
		return nil, errors.New("--external-api-domain and --external-api-module need --external-api-path")
	}
	known := project.Find(o.Group, project.Domain, o.Version, o.Kind)
	domain, core := coreGroups[o.Group]
	switch {
	case o.ExternalAPIPath != "" && own:
		return nil, errors.New("--external-api-path is for a kind of another project: set --resource=false")
	case o.ExternalAPIPath != "":
		if err := validateImport("external-api-path", o.ExternalAPIPath); err != nil {
			return nil, err
		}
		r.External, r.Path, r.Module, r.Domain = true, o.ExternalAPIPath, o.ExternalAPIModule, o.ExternalAPIDomain
	case own, known != nil && known.API != nil:
		r.Path = gopath.Join(project.Repo, apiFolder(project, r))
	case core:
		r.Core, r.Domain, r.Path = true, domain, gopath.Join("k8s.io/api", o.Group, o.Version)
		if err := validate(r); err != nil {
			return nil, err
		}
		return r, checkCoreKind(r)
	default:
		if err := validate(r); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s is neither a kind of this project nor of Kubernetes: create its type first, with flyball create api, "+
			"or say where it is with --external-api-path and --external-api-domain%s", gvk(r), kindsOf(project))
	}
	return r, validate(r)
}

// kindsOf lists the kinds of a project, for the error about an unknown kind.
func kindsOf(project *projectfile.Project) string {
	var kinds []string
	for _, r := range project.Resources {
		if r.API != nil {
			kinds = append(kinds, gvk(r))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return "; the project has " + list(kinds)
}

// goFolders are the names of folders that the go command treats specially.
var goFolders = []string{"internal", "testdata", "vendor"}

// checkGroups returns an error if a project with the single-group layout would have two groups, or if the group cannot
// have a folder in the multi-group layout.
func checkGroups(project *projectfile.Project, r *projectfile.Resource) error {
	if project.MultiGroup && slices.Contains(goFolders, r.Group) {
		return fmt.Errorf("--group %q is invalid: a folder of this name has a meaning for the go command; "+
			"choose another, or use the layout for one group", r.Group)
	}
	if groups := project.Groups(); !project.MultiGroup && r.API == nil && !r.Core && !r.External &&
		len(groups) > 0 && !slices.Contains(groups, r.QualifiedGroup()) {
		return fmt.Errorf("the project has the group %s, and its layout is for one group: "+
			"change it with flyball edit --multigroup first", groups[0])
	}
	return nil
}

// sameKind returns an error if the versions of a kind would differ in their scope or names.
func sameKind(r *projectfile.Resource, others []*projectfile.Resource) error {
	for _, o := range others {
		if o.API == nil || o.Version == r.Version {
			continue
		}
		if o.API.Namespaced != r.API.Namespaced {
			return fmt.Errorf("%s and %s must have the same scope: --namespaced=%v", gvk(r), gvk(o), o.API.Namespaced)
		}
		if plural(o) != plural(r) {
			return fmt.Errorf("%s and %s must have the same plural: --plural=%s", gvk(r), gvk(o), plural(o))
		}
	}
	return nil
}

// checkCollisions returns an error if a kind would declare a Go name or have a resource that another kind already has.
func checkCollisions(project *projectfile.Project, r *projectfile.Resource) error {
	for _, name := range []string{"AddToScheme", "GroupVersion", "SchemeBuilder", "SchemeGroupVersion"} {
		if r.Kind == name {
			return fmt.Errorf("--kind %q is invalid: %s/groupversion_info.go declares this name", r.Kind, apiFolder(project, r))
		}
	}
	for _, o := range project.Resources {
		if project.MultiGroup && o.Group != r.Group && safe(o.Group) == safe(r.Group) {
			return fmt.Errorf("--group %q is invalid: its packages would have the same import names as the packages of %s: choose another",
				r.Group, o.Group)
		}
		if o.API == nil || o.QualifiedGroup() != r.QualifiedGroup() || o.Kind == r.Kind {
			continue
		}
		if plural(o) == plural(r) {
			return fmt.Errorf("%s and %s would both be the resource %s: set another --plural", gvk(r), gvk(o), plural(r))
		}
		if o.Version != r.Version {
			continue
		}
		for _, name := range declarations(r) {
			if slices.Contains(declarations(o), name) {
				return fmt.Errorf("%s and %s would both declare the type %s: choose another --kind", gvk(r), gvk(o), name)
			}
		}
	}
	return nil
}

// The folders and files of a kind.

// withLine returns the place of a declaration: the file, and the number of the first line that begins with the
// declaration, if there is one.
func withLine(folder, path, declaration string) string {
	content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(path)))
	if err != nil {
		return path
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		if number++; strings.HasPrefix(line, declaration) {
			return fmt.Sprintf("%s:%d", path, number)
		}
	}
	return path
}

func apiFolder(p *projectfile.Project, r *projectfile.Resource) string {
	if folder, ok := strings.CutPrefix(r.Path, p.Repo+"/"); ok {
		return folder // the layout may have changed since
	}
	if p.MultiGroup && r.Group != "" {
		return gopath.Join("api", r.Group, r.Version)
	}
	return gopath.Join("api", r.Version)
}

func typesFile(p *projectfile.Project, r *projectfile.Resource) string {
	return gopath.Join(apiFolder(p, r), strings.ToLower(r.Kind)+"_types.go")
}

func controllerFolder(p *projectfile.Project, r *projectfile.Resource) string {
	if p.MultiGroup && r.Group != "" {
		return gopath.Join("internal/controller", r.Group)
	}
	return "internal/controller"
}

func controllerFile(p *projectfile.Project, r *projectfile.Resource) string {
	return gopath.Join(controllerFolder(p, r), strings.ToLower(r.Kind)+"_controller.go")
}

// root returns the Go expressions that lead from a folder up to the project, for filepath.Join.
func root(folder string) string {
	return strings.TrimSuffix(strings.Repeat(`"..", `, strings.Count(folder, "/")+1), ", ")
}

// renderAPI adds the type of a kind and its related files to a plan.
func renderAPI(p *plan, d data, others []*projectfile.Resource, force bool) error {
	r, folder := d.Resource, apiFolder(d.Project, d.Resource)
	if err := p.renderMissing(folder+"/groupversion_info.go", "api/groupversion_info.go.tmpl", d); err != nil {
		return err
	}
	groupVersion, err := p.load(folder + "/groupversion_info.go")
	if err != nil {
		return err
	}
	d.GroupVersionName, d.RegistersObjects = registration(groupVersion.content)
	if err := p.render(typesFile(d.Project, r), "api/types.go.tmpl", d, force); err != nil {
		return err
	}
	if err := markStorageVersion(p, d.Project, r, others); err != nil {
		return err
	}
	d.Sample = sampleName(r, others)
	sample := strings.ToLower(fmt.Sprintf("%s_%s_%s.yaml", r.Group, r.Version, r.Kind))
	sample = strings.TrimPrefix(sample, "_")
	if err := p.render("config/samples/"+sample, "config/samples/sample.yaml.tmpl", d, force); err != nil {
		return err
	}
	for _, name := range []string{"crd/kustomization", "crd/kustomizeconfig", "samples/kustomization"} {
		if err := p.renderMissing("config/"+name+".yaml", "config/"+name+".yaml.tmpl", d); err != nil {
			return err
		}
	}
	prefix := rolePrefix(d.Project, r)
	for _, role := range []string{"admin", "editor", "viewer"} {
		file := prefix + "_" + role + "_role.yaml"
		if !p.exists("config/rbac/" + file) {
			if err := p.render("config/rbac/"+file, "config/rbac/"+role+"_role.yaml.tmpl", d, false); err != nil {
				return err
			}
		}
		if err := p.insertItem("config/rbac/kustomization.yaml", "", "resources", file); err != nil {
			return err
		}
	}
	crd := fmt.Sprintf("bases/%s_%s.yaml", r.QualifiedGroup(), plural(r))
	return errors.Join(
		p.insertItem("config/crd/kustomization.yaml", "crdkustomizeresource", "resources", crd),
		p.insertItem("config/samples/kustomization.yaml", "manifestskustomizesamples", "resources", sample),
		p.insertItem("config/default/kustomization.yaml", "", "resources", "../crd"),
		p.insertType("cmd/main.go", r, "scheme"),
	)
}

// registration returns how a package registers its types: the name of its group version variable, and whether its
// SchemeBuilder takes objects.
func registration(groupVersionInfo []byte) (groupVersion string, objects bool) {
	groupVersion = "GroupVersion"
	if regexp.MustCompile(`(?m)^\s*(var\s+)?SchemeGroupVersion\b`).Match(groupVersionInfo) {
		groupVersion = "SchemeGroupVersion"
	}
	return groupVersion, bytes.Contains(groupVersionInfo, []byte("scheme.Builder{"))
}

// sampleName returns the name of a kind's sample. It contains the version if the kind has several, because samples of
// all versions are the same objects to the API server.
func sampleName(r *projectfile.Resource, others []*projectfile.Resource) string {
	name := strings.ToLower(r.Kind)
	if slices.ContainsFunc(others, func(o *projectfile.Resource) bool { return o.API != nil && o.Version != r.Version }) {
		name += "-" + r.Version
	}
	return name + "-sample"
}

// markStorageVersion marks the first version of a kind as the storage version, when a second version is added.
func markStorageVersion(p *plan, project *projectfile.Project, r *projectfile.Resource, others []*projectfile.Resource) error {
	others = slices.DeleteFunc(slices.Clone(others), func(o *projectfile.Resource) bool { return o.API == nil || o.Version == r.Version })
	if len(others) == 0 {
		return nil
	}
	const marker = "// +kubebuilder:storageversion\n"
	for _, o := range others {
		f, err := p.load(typesFile(project, o))
		if err != nil {
			return err
		}
		if strings.Contains(string(unixLines(f.content)), marker) {
			return nil
		}
	}
	return p.edit(typesFile(project, others[0]), func(content []byte) ([]byte, error) {
		text := string(content)
		declaration := strings.Index(text, "\ntype "+r.Kind+" struct")
		at := strings.LastIndex(text[:max(declaration, 0)], "// +kubebuilder:object:root=true\n")
		if at < 0 {
			return nil, fmt.Errorf("there are several versions of %s now, and one must be stored: write %s above its type in one of them, "+
				"below // +kubebuilder:object:root=true", r.Kind, strings.TrimSpace(marker))
		}
		at += len("// +kubebuilder:object:root=true\n")
		return []byte(text[:at] + marker + text[at:]), nil
	})
}

// renderController adds a controller to a plan.
func renderController(p *plan, d data, force bool) error {
	r, folder := d.Resource, controllerFolder(d.Project, d.Resource)
	d.Root = root(folder)
	suite := folder + "/suite_test.go"
	d.Fake = r.API == nil
	if p.exists(suite) {
		f, err := p.load(suite)
		if err != nil {
			return err
		}
		d.Fake = d.Fake || !strings.Contains(string(f.content), "func TestMain(")
	}
	if err := p.render(controllerFile(d.Project, r), "controller/controller.go.tmpl", d, force); err != nil {
		return err
	}
	test := strings.TrimSuffix(controllerFile(d.Project, r), ".go") + "_test.go"
	if err := p.render(test, "controller/controller_test.go.tmpl", d, force); err != nil {
		return err
	}
	if d.Flyball() && r.API != nil {
		if err := p.render(strings.TrimSuffix(test, "controller_test.go")+"lab_test.go", "controller/lab_test.go.tmpl", d, force); err != nil {
			return err
		}
	}
	if !d.Fake {
		if err := d.setPlane(p); err != nil {
			return err
		}
		if err := p.renderMissing(suite, "controller/suite_test.go.tmpl", d); err != nil {
			return err
		}
		if err := p.insertType(suite, r, "scheme.Scheme"); err != nil {
			return err
		}
	}
	if r.External {
		if err := p.insertType("cmd/main.go", r, "scheme"); err != nil {
			return err
		}
	}
	if err := p.insertReconciled(r); err != nil {
		return err
	}
	d.Import = "controller"
	name := "" // the package's own
	if d.MultiGroup && r.Group != "" {
		d.Import = safe(r.Group) + "controller"
		name = d.Import
	}
	return errors.Join(
		p.insertImport("cmd/main.go", name, gopath.Join(d.Repo, folder)),
		p.insertTemplate("cmd/main.go", "builder", "cmd/main_controller.tmpl", d),
	)
}

// endToEnd is the file of the end-to-end tests. In Kubebuilder's projects it contains other tests.
const endToEnd = "test/e2e/e2e_test.go"

// insertReconciled makes the end-to-end tests wait for the objects of a kind to become ready.
func (p *plan) insertReconciled(r *projectfile.Resource) error {
	const marker = "e2e-reconciled"
	if r.API == nil || !p.exists(endToEnd) {
		return nil
	}
	f, err := p.load(endToEnd)
	if err != nil || !bytes.Contains(f.content, []byte(ownPrefix+marker)) {
		return err
	}
	return p.insertGo(endToEnd, marker, fmt.Sprintf("\t%q,\n", r.Kind))
}

// insertGo inserts code at a marker of a Go file.
func (p *plan) insertGo(path, marker, code string) error {
	return p.edit(path, func(content []byte) ([]byte, error) { return insertGo(content, marker, code) })
}

// insertImport inserts the import of a package at the marker of a Go file. The name may be empty.
func (p *plan) insertImport(path, name, imported string) error {
	return p.insertGo(path, "imports", "\t"+strings.TrimLeft(name+" ", " ")+strconv.Quote(imported)+"\n")
}

// insertType inserts the import of the package of a kind's type into a Go file, and adds its types to a scheme. These
// inserts are a line each, as Kubebuilder writes them, so that it finds the lines that are there; longer ones are templates.
func (p *plan) insertType(path string, r *projectfile.Resource, scheme string) error {
	return errors.Join(
		p.insertImport(path, alias(r), r.Path),
		p.insertGo(path, "scheme", fmt.Sprintf("\tutilruntime.Must(%s.AddToScheme(%s))\n", alias(r), scheme)),
	)
}

// insertTemplate inserts code made from a template at a marker of a Go file.
func (p *plan) insertTemplate(path, marker, name string, d data) error {
	code, err := execute(name, d)
	if err != nil {
		return err
	}
	return p.insertGo(path, marker, string(code))
}

// insertItem inserts an item into a list of a YAML file.
func (p *plan) insertItem(path, marker, list, item string) error {
	return p.edit(path, func(content []byte) ([]byte, error) { return insertItem(content, marker, list, item) })
}
