package generate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/applyconfiguration"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/controller-tools/pkg/schemapatcher"
	"sigs.k8s.io/controller-tools/pkg/webhook"
)

// generators maps names in options to generators.
var generators = map[string]genall.Generator{
	"applyconfiguration": applyconfiguration.Generator{},
	"crd":                crd.Generator{},
	"object":             deepcopy.Generator{},
	"rbac":               rbac.Generator{},
	"schemapatch":        schemapatcher.Generator{},
	"webhook":            webhook.Generator{},
}

// outputRules maps names in options to output rules.
var outputRules = map[string]genall.OutputRule{
	"artifacts": genall.OutputArtifacts{},
	"dir":       genall.OutputToDirectory(""),
	"none":      genall.OutputToNothing,
	"stdout":    genall.OutputToStdout,
}

// optionsRegistry returns a registry of the command-line options. They have the syntax of markers without the plus
// sign: each generator NAME, the output rules output:RULE and output:NAME:RULE, and paths.
func optionsRegistry() (*markers.Registry, error) {
	registry := &markers.Registry{}
	var errs []error
	register := func(name string, value any) {
		definition, err := markers.MakeDefinition(name, markers.DescribesPackage, value)
		if err == nil {
			err = registry.Register(definition)
		}
		if err != nil {
			errs = append(errs, err)
			return
		}
		if documented, ok := value.(genall.HasHelp); ok && documented.Help() != nil {
			registry.AddHelp(definition, documented.Help())
		}
	}
	for rule, value := range outputRules {
		register("output:"+rule, value)
	}
	for name, generator := range generators {
		register(name, generator)
		for rule, value := range outputRules {
			register("output:"+name+":"+rule, value)
		}
	}
	return registry, errors.Join(append(errs, genall.RegisterOptionsMarkers(registry))...)
}

// complete returns the runs for some options. If the options name a generator, there is a single run with these
// options. Otherwise the runs come from the project in the current folder, with the paths and outputs of the options.
func complete(options []string) (commands, error) {
	for _, option := range options {
		if option == "" || option == "+" {
			return commands{}, errors.New("an option is empty")
		}
	}
	if slices.ContainsFunc(options, isGenerator) {
		return commands{runs: [][]string{options}}, nil
	}
	c, err := projectCommands()
	if err != nil {
		return commands{}, err
	}
	if len(c.runs) == 0 {
		if c.doubt == "" {
			c.doubt = "neither the Makefile nor a go:generate line runs controller-gen or flyball generate"
		}
		if c.runs, err = defaultRuns(); err != nil {
			return commands{}, err
		}
	}
	for i, run := range c.runs {
		c.runs[i] = override(run, options)
	}
	return c, nil
}

// override returns the options of a run. Paths and outputs in options replace its own.
func override(run, options []string) []string {
	names := map[string]bool{}
	for _, option := range options {
		names[optionName(option)] = true
	}
	var result []string
	for _, option := range run {
		if !names[optionName(option)] {
			result = append(result, option)
		}
	}
	return append(result, options...)
}

// optionName returns the first part of the name of an option.
func optionName(option string) string {
	name := strings.TrimPrefix(option, "+")
	if end := strings.IndexAny(name, ":="); end >= 0 {
		name = name[:end]
	}
	return name
}

// checkOptions returns an error for an unknown option. The error lists the known options.
func checkOptions(registry *markers.Registry, options []string) error {
	for _, option := range options {
		marker := "+" + strings.TrimPrefix(option, "+")
		if registry.Lookup(marker, markers.DescribesPackage) == nil {
			return fmt.Errorf("unknown option %q: it must be one of the generators %s, or paths=..., output:RULE... or "+
				"output:GENERATOR:RULE... with one of the rules %s; flyball generate -h explains them", option,
				strings.Join(sortedKeys(generators), ", "), strings.Join(sortedKeys(outputRules), ", "))
		}
	}
	return nil
}
