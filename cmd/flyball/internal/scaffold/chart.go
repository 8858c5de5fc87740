package scaffold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	gopath "path"
	"path/filepath"
	"slices"
	"strings"

	"flyball.dev/cmd/flyball/internal/chart"
	"flyball.dev/cmd/flyball/internal/projectfile"
)

// helmPlugin is the name of Kubebuilder's plugin that creates a chart.
const helmPlugin = "helm/v2-alpha"

// helmNames are all names of the plugin that Kubebuilder accepts.
var helmNames = []string{helmPlugin, "helm", "helm.kubebuilder.io/v2-alpha"}

// check checks the options without the project.
func (o *EditOptions) check() error {
	for _, name := range o.Plugins {
		if !slices.Contains(helmNames, name) {
			return fmt.Errorf("--plugins %q is not known: only %s is", name, helmPlugin)
		}
	}
	if len(o.Plugins) == 0 && (o.Force || o.OutputDir != "") {
		return errors.New("--force and --output-dir need --plugins=" + helmPlugin)
	}
	if o.OutputDir != "" && !filepath.IsLocal(o.OutputDir) {
		return fmt.Errorf("--output-dir %q is invalid: it must be a folder of the project", o.OutputDir)
	}
	return nil
}

// renderChart adds the files of a chart to a plan, and returns remarks.
func renderChart(p *plan, project *projectfile.Project, o EditOptions) (notes []string, err error) {
	name := cmp.Or(project.Name, strings.ToLower(gopath.Base(project.Repo)))
	made, err := chart.Make(p.folder, name)
	if err != nil {
		return nil, err
	}
	notes = made.Notes
	folder := gopath.Join(filepath.ToSlash(cmp.Or(o.OutputDir, "dist")), "chart")
	for path, content := range made.Once {
		if path = gopath.Join(folder, path); !p.exists(path) {
			if err := p.create(path, content, false); err != nil {
				return nil, err
			}
		}
	}
	templates, err := generatedTemplates(p, folder)
	if err != nil {
		return nil, err
	}
	for path, content := range made.Templates {
		path = gopath.Join(folder, path)
		if own, ok := templates[path]; ok && own {
			notes = append(notes, path+" is left as it is: it does not begin with the line of what is generated.")
		} else if err := p.create(path, content, true); err != nil {
			return nil, err
		}
		delete(templates, path)
	}
	for path, own := range templates {
		if own {
			continue
		}
		if err := p.remove(path); err != nil {
			return nil, err
		}
	}
	kept, err := renderValues(p, folder, made.Values, o.Force)
	if len(kept) > 0 {
		notes = append(notes, fmt.Sprintf("%s/%s keeps %s, for which config/default has another value.", folder, chart.ValuesFile, strings.Join(kept, ", ")))
	}
	slices.Sort(notes)
	return notes, err
}

// generatedTemplates returns the existing templates of a chart. own marks templates that belong to the user.
func generatedTemplates(p *plan, folder string) (own map[string]bool, err error) {
	own = map[string]bool{}
	root := filepath.Join(p.folder, filepath.FromSlash(folder), "templates")
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == root {
			return fs.SkipAll
		}
		if err != nil || entry.IsDir() {
			return err
		}
		path, err := filepath.Rel(p.folder, name)
		if err != nil {
			return err
		}
		f, err := p.load(filepath.ToSlash(path))
		if err != nil {
			return err
		}
		own[f.path] = !bytes.HasPrefix(unixLines(f.content), []byte(chart.Header))
		return nil
	})
	return own, err
}

// renderValues adds the values of a chart to a plan. It returns the values that the user has edited and config has
// changed as well.
func renderValues(p *plan, folder string, generated []byte, force bool) (kept []string, err error) {
	values, err := p.load(gopath.Join(folder, chart.ValuesFile))
	if err != nil {
		return nil, err
	}
	last, err := p.load(gopath.Join(folder, chart.GeneratedValuesFile))
	if err != nil {
		return nil, err
	}
	merged := generated
	if values.content != nil && !force {
		if merged, kept, err = chart.MergeValues(values.content, last.content, generated); err != nil {
			return nil, fmt.Errorf("%s: %w", values.path, err)
		}
	}
	values.content, last.content = merged, generated
	return kept, nil
}
