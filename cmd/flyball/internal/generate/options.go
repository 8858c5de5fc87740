package generate

import (
	"errors"
	"fmt"
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

// generators are the generators by the names that they have in options.
var generators = map[string]genall.Generator{
	"applyconfiguration": applyconfiguration.Generator{},
	"crd":                crd.Generator{},
	"object":             deepcopy.Generator{},
	"rbac":               rbac.Generator{},
	"schemapatch":        schemapatcher.Generator{},
	"webhook":            webhook.Generator{},
}

// outputRules are the output rules by the names that they have in options.
var outputRules = map[string]genall.OutputRule{
	"artifacts": genall.OutputArtifacts{},
	"dir":       genall.OutputToDirectory(""),
	"none":      genall.OutputToNothing,
	"stdout":    genall.OutputToStdout,
}

// optionsRegistry returns a registry of the options of the command line, which have the syntax of
// markers without the plus sign: each generator NAME, the output rules output:RULE and
// output:NAME:RULE, and paths.
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

// complete returns the options to run with: those that are given, and where they name no
// generator, those of the project in the current folder.
func complete(options []string) ([]string, error) {
	var hasGenerator, hasPaths, hasOutput bool
	for _, option := range options {
		if option == "" || option == "+" {
			return nil, errors.New("an option is empty")
		}
		name := optionName(option)
		_, isGenerator := generators[name]
		hasGenerator = hasGenerator || isGenerator
		hasPaths = hasPaths || name == "paths"
		hasOutput = hasOutput || name == "output"
	}
	if hasGenerator {
		return options, nil
	}
	defaults, err := projectGenerators(".")
	if err != nil {
		return nil, err
	}
	if !hasPaths {
		defaults = append(defaults, "paths=./...")
	}
	if !hasOutput {
		defaults = append(defaults, "output:crd:artifacts:config=config/crd/bases")
	}
	return append(defaults, options...), nil
}

// optionName returns the first part of the name of an option.
func optionName(option string) string {
	name := strings.TrimPrefix(option, "+")
	if end := strings.IndexAny(name, ":="); end >= 0 {
		name = name[:end]
	}
	return name
}

// checkOptions returns an error that names the options that there are if one is unknown.
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
