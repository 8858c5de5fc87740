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

// markerOfOption returns an option as a marker, and the marker's definition.
func markerOfOption(registry *markers.Registry, option string) (marker string, definition *markers.Definition, err error) {
	marker = "+" + strings.TrimPrefix(option, "+") // the plus sign is optional
	if marker == "+" {
		return "", nil, errors.New("an option is empty")
	}
	if definition = registry.Lookup(marker, markers.DescribesPackage); definition == nil {
		return "", nil, fmt.Errorf("unknown option %q: it must be one of the generators %s, or paths=..., output:RULE... or "+
			"output:GENERATOR:RULE... with one of the rules %s; flyball generate -h explains them", option,
			strings.Join(sortedKeys(generators), ", "), strings.Join(sortedKeys(outputRules), ", "))
	}
	return marker, definition, nil
}

// parseOption parses an option, as controller-gen does: as a marker. The name is the name of the marker's definition.
func parseOption(registry *markers.Registry, option string) (name string, value any, err error) {
	marker, definition, err := markerOfOption(registry, option)
	if err != nil {
		return "", nil, err
	}
	if value, err = definition.Parse(marker); err != nil {
		return "", nil, fmt.Errorf("unable to parse option %q: %s", option, oneLine(err.Error()))
	}
	return definition.Name, value, nil
}
