package scaffold

import (
	"context"
	"errors"
	"fmt"
	"os"
	gopath "path"
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// WebhookOptions are the options of CreateWebhook.
type WebhookOptions struct {
	KindOptions
	// Defaulting, Validation and Conversion select the webhooks to write.
	Defaulting, Validation, Conversion bool
	// Spoke lists the versions that are converted to and from the version of the kind.
	Spoke []string
	// DefaultingPath and ValidationPath replace the default paths of the webhooks.
	DefaultingPath, ValidationPath string
}

// CreateWebhook adds webhooks of a kind to the project in a folder.
func CreateWebhook(ctx context.Context, folder string, o WebhookOptions) (*Changes, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	project, err := projectfile.Load(folder)
	if err != nil {
		return nil, err
	}
	r, err := o.resource(project, false)
	if err != nil {
		return nil, err
	}
	if existing := project.Find(r.Group, r.Domain, r.Version, r.Kind); existing != nil {
		r = existing
	} else {
		project.Resources = append(project.Resources, r)
	}
	// Conversion needs no change in the code of other webhooks.
	extend := r.Webhooks != nil && !o.Force && o.Conversion && !o.Defaulting && !o.Validation
	existError := fmt.Errorf("%s has webhooks already, in %s: add the others there, or write it anew with --force",
		gvk(r), withLine(folder, webhookFile(project, r), "func Setup"+r.Kind+"WebhookWithManager("))
	switch {
	case extend:
		r.Webhooks.Conversion = true
	case r.Webhooks != nil && !o.Force:
		return nil, existError
	default:
		r.Webhooks = &projectfile.Webhooks{Defaulting: o.Defaulting, Validation: o.Validation, Conversion: o.Conversion,
			DefaultingPath: o.DefaultingPath, ValidationPath: o.ValidationPath, Version: "v1"}
	}
	spokes, err := o.spokes(project, r)
	if err != nil {
		return nil, err
	}
	if extend && len(spokes) == 0 {
		return nil, existError
	}
	changes, err := apply(ctx, folder, project, o.KindOptions, func(p *plan, d data) error {
		d.Resource = r
		own, err := hasOwnSuite(p, webhookFolder(project, r))
		if err != nil {
			return err
		}
		d.Fake = !own
		if !extend {
			if err := renderWebhook(p, d, o.Force); err != nil {
				return err
			}
		}
		if len(spokes) > 0 {
			if err := renderConversion(p, d, spokes, o.Force); err != nil {
				return err
			}
		}
		if err := renderSuite(p, d, spokes); err != nil {
			return err
		}
		return renderWebhookConfig(p, d)
	})
	if err == nil && len(spokes) > 0 && !requires(folder, randomModule) {
		changes.note("The tests of the conversion need the module %s: run go mod tidy.", randomModule)
	}
	return changes, err
}

// randomModule is the module that creates random objects for conversion tests. The Kubernetes libraries require it from
// v0.33 on.
const randomModule = "sigs.k8s.io/randfill"

// requires reports whether the go.mod of a folder mentions a module.
func requires(folder, path string) bool {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	return err == nil && strings.Contains(string(content), path+" v")
}

// check checks the options without the project.
func (o *WebhookOptions) check() error {
	switch {
	case !o.Defaulting && !o.Validation && !o.Conversion:
		return errors.New("at least one of --defaulting, --programmatic-validation and --conversion is required")
	case len(o.Spoke) > 0 && !o.Conversion:
		return errors.New("--spoke needs --conversion")
	case o.DefaultingPath != "" && !o.Defaulting:
		return errors.New("--defaulting-path needs --defaulting")
	case o.ValidationPath != "" && !o.Validation:
		return errors.New("--validation-path needs --programmatic-validation")
	}
	for _, path := range []struct{ flag, value string }{{"defaulting-path", o.DefaultingPath}, {"validation-path", o.ValidationPath}} {
		if path.value != "" && (!strings.HasPrefix(path.value, "/") || strings.ContainsAny(path.value, " ,\"?#;")) {
			return fmt.Errorf("--%s %q is invalid: it must be a path, such as /default-widgets", path.flag, path.value)
		}
	}
	return nil
}

// spokes returns the resources of the spokes.
func (o *WebhookOptions) spokes(project *projectfile.Project, hub *projectfile.Resource) ([]*projectfile.Resource, error) {
	if !o.Conversion {
		return nil, nil
	}
	if hub.API == nil {
		return nil, fmt.Errorf("--conversion is for kinds of this project: the type of %s is not part of it", gvk(hub))
	}
	var versions []string
	var all []*projectfile.Resource
	for _, v := range project.VersionsOf(hub) {
		if v.API != nil && v.Version != hub.Version {
			versions = append(versions, v.Version)
		}
	}
	if len(o.Spoke) == 0 {
		return nil, fmt.Errorf("--conversion needs --spoke, the other versions: the project has %s of %s", list(versions), gvk(hub))
	}
	for _, version := range o.Spoke {
		if !slices.Contains(versions, version) {
			return nil, fmt.Errorf("--spoke %s: the project has %s beside %s; create the version with flyball create api first",
				version, list(versions), gvk(hub))
		}
		if slices.Contains(hub.Webhooks.Spoke, version) {
			continue
		}
		hub.Webhooks.Spoke = append(hub.Webhooks.Spoke, version)
		all = append(all, project.Find(hub.Group, hub.Domain, version, hub.Kind))
	}
	return all, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "no other version"
	}
	return strings.Join(names, ", ")
}

func webhookFolder(p *projectfile.Project, r *projectfile.Resource) string {
	if p.MultiGroup && r.Group != "" {
		return gopath.Join("internal/webhook", r.Group, r.Version)
	}
	return gopath.Join("internal/webhook", r.Version)
}

func webhookFile(p *projectfile.Project, r *projectfile.Resource) string {
	return gopath.Join(webhookFolder(p, r), strings.ToLower(r.Kind)+"_webhook.go")
}

// WebhookPackage returns the name of the package of the webhooks.
func (d data) WebhookPackage() string { return d.Resource.Version }

// DefaultingPath returns the path of the defaulting webhook.
func (d data) DefaultingPath() string {
	if path := d.Webhooks.DefaultingPath; path != "" {
		return path
	}
	return d.WebhookPath("mutate")
}

// ValidationPath returns the path of the validating webhook.
func (d data) ValidationPath() string {
	if path := d.Webhooks.ValidationPath; path != "" {
		return path
	}
	return d.WebhookPath("validate")
}

// renderWebhook adds the code of webhooks to a plan.
func renderWebhook(p *plan, d data, force bool) error {
	r, file := d.Resource, webhookFile(d.Project, d.Resource)
	if err := p.render(file, "webhook/webhook.go.tmpl", d, force); err != nil {
		return err
	}
	if r.API != nil && !d.Fake || r.Webhooks.Defaulting || r.Webhooks.Validation {
		if err := p.render(strings.TrimSuffix(file, ".go")+"_test.go", "webhook/webhook_test.go.tmpl", d, force); err != nil {
			return err
		}
	}
	d.Import = "webhook" + r.Version // one package has the webhooks of all groups
	if d.MultiGroup && r.Group != "" {
		d.Import = "webhook" + alias(r)
	}
	return errors.Join(
		p.insertImport("cmd/main.go", d.Import, gopath.Join(d.Repo, webhookFolder(d.Project, r))),
		p.insertTemplate("cmd/main.go", "builder", "cmd/main_webhook.tmpl", d),
	)
}

// renderSuite adds the common code of the webhook tests for the project's own kinds to a plan.
func renderSuite(p *plan, d data, spokes []*projectfile.Resource) error {
	if d.API == nil || d.Fake {
		return nil
	}
	folder := webhookFolder(d.Project, d.Resource)
	suite := folder + "/webhook_suite_test.go"
	d.Root = root(folder)
	if err := d.setPlane(p); err != nil {
		return err
	}
	if err := p.renderMissing(suite, "webhook/webhook_suite_test.go.tmpl", d); err != nil {
		return err
	}
	for _, v := range append([]*projectfile.Resource{d.Resource}, spokes...) {
		if err := p.insertType(suite, v, "scheme"); err != nil {
			return err
		}
	}
	errs := []error{p.insertGo(suite, "webhook", fmt.Sprintf("\t\tSetup%sWebhookWithManager,\n", d.Kind))}
	for _, v := range d.VersionsOf(d.Resource) {
		if v.API != nil && v.Webhooks != nil && v.Version != d.Resource.Version {
			errs = append(errs, extendSuite(p, d.Project, d.Resource, v), extendSuite(p, d.Project, v, d.Resource))
		}
	}
	return errors.Join(errs...)
}

// hasOwnSuite reports whether the common test code of a webhook folder is, or will be, Flyball's. Kubebuilder's suite
// starts with another test framework, and is left alone.
func hasOwnSuite(p *plan, folder string) (bool, error) {
	suite := folder + "/webhook_suite_test.go"
	if !p.exists(suite) {
		return true, nil
	}
	f, err := p.load(suite)
	return err == nil && strings.Contains(string(f.content), "range []func(ctrl.Manager) error{"), err
}

// extendSuite adds the webhooks of another version to the common test code of a version. For an object in any version,
// the API server calls the webhooks of all versions (matchPolicy: Equivalent).
func extendSuite(p *plan, project *projectfile.Project, r, other *projectfile.Resource) error {
	suite := webhookFolder(project, r) + "/webhook_suite_test.go"
	if own, err := hasOwnSuite(p, webhookFolder(project, r)); err != nil || !own || !p.exists(suite) {
		return err
	}
	name := "webhook" + other.Version
	return errors.Join(
		p.insertImport(suite, name, gopath.Join(project.Repo, webhookFolder(project, other))),
		p.insertType(suite, other, "scheme"),
		p.insertGo(suite, "webhook", fmt.Sprintf("\t\t%s.Setup%sWebhookWithManager,\n", name, r.Kind)),
	)
}

// renderConversion adds the conversions of a kind to a plan. The hub may already exist.
func renderConversion(p *plan, d data, spokes []*projectfile.Resource, force bool) error {
	file := strings.ToLower(d.Resource.Kind) + "_conversion.go"
	if err := p.renderMissing(gopath.Join(apiFolder(d.Project, d.Resource), file), "api/hub.go.tmpl", d); err != nil {
		return err
	}
	d.Hub = d.Resource
	for _, d.Spoke = range spokes {
		path := gopath.Join(apiFolder(d.Project, d.Spoke), file)
		if err := p.render(path, "api/spoke.go.tmpl", d, force); err != nil {
			return err
		}
		if err := p.render(strings.TrimSuffix(path, ".go")+"_test.go", "api/spoke_test.go.tmpl", d, force); err != nil {
			return err
		}
	}
	patch := fmt.Sprintf("webhook_in_%s.yaml", rolePrefix(d.Project, &projectfile.Resource{Group: d.Resource.Group, Kind: plural(d.Resource)}))
	if err := p.renderMissing("config/crd/patches/"+patch, "config/crd/webhook_patch.yaml.tmpl", d); err != nil {
		return err
	}
	return errors.Join(
		p.insertItem("config/crd/kustomization.yaml", "crdkustomizewebhookpatch", "patches", "path: patches/"+patch),
		p.insertItem("config/crd/kustomization.yaml", "", "configurations", "kustomizeconfig.yaml"),
	)
}

// renderWebhookConfig adds the manifests that webhooks need in a cluster to a plan.
func renderWebhookConfig(p *plan, d data) error {
	for _, name := range []string{"webhook/kustomization", "webhook/kustomizeconfig", "webhook/service",
		"certmanager/kustomization", "certmanager/kustomizeconfig", "certmanager/issuer", "certmanager/certificate-webhook",
		"network-policy/allow-webhook-traffic", "default/manager_webhook_patch", "default/webhook_replacements"} {
		if err := p.renderMissing("config/"+name+".yaml", "config/"+name+".yaml.tmpl", d); err != nil {
			return err
		}
	}
	if d.Webhooks.Defaulting || d.Webhooks.Validation {
		if err := p.insertItem("config/webhook/kustomization.yaml", "", "resources", "manifests.yaml"); err != nil {
			return err
		}
	}
	const overlay = "config/default/kustomization.yaml"
	return errors.Join(
		p.insertItem("config/network-policy/kustomization.yaml", "", "resources", "allow-webhook-traffic.yaml"),
		p.insertItem(overlay, "", "resources", "../webhook"),
		p.insertItem(overlay, "", "resources", "../certmanager"),
		p.insertItem(overlay, "", "patches", "path: manager_webhook_patch.yaml\ntarget:\n  kind: Deployment"),
		p.insertItem(overlay, "", "replacements", "path: webhook_replacements.yaml"),
	)
}
