package generate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall/help"
	"sigs.k8s.io/controller-tools/pkg/genall/help/pretty"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// The levels of help, as many as there are letters in -w or -h.
const (
	summary = 1 + iota
	details
	fullDetails
	asJSON
)

// OptionsHelp writes help on the generators, their options and the output rules. The level is 1 for
// a summary, 2 or 3 for details, and 4 for JSON.
func OptionsHelp(out io.Writer, level int) error {
	registry, err := optionsRegistry()
	if err != nil {
		return err
	}
	return writeHelp(out, level, registry, help.SortByOption)
}

// MarkersHelp writes help on the markers of the generators among the options, or of all generators if
// there are none. The level is as for OptionsHelp.
func MarkersHelp(out io.Writer, args []string, level int) error {
	options, err := optionsRegistry()
	if err != nil {
		return err
	}
	given := map[string]bool{} // without their arguments, which may be absent here
	for _, arg := range args {
		_, definition, err := markerOfOption(options, arg)
		if err != nil {
			return err
		}
		given[definition.Name] = true
	}
	names := slices.DeleteFunc(sortedKeys(generators), func(name string) bool { return len(args) > 0 && !given[name] })
	if len(names) == 0 {
		return fmt.Errorf("none of the generators %s is among the options", strings.Join(sortedKeys(generators), ", "))
	}
	registry := &markers.Registry{}
	for _, name := range names {
		if err := generators[name].RegisterMarkers(registry); err != nil {
			return err
		}
	}
	return writeHelp(out, level, registry, help.SortByCategory)
}

// writeHelp writes help on the definitions of a registry.
func writeHelp(out io.Writer, level int, registry *markers.Registry, order help.SortGroup) error {
	categories := help.ByCategory(registry, order)
	if level >= asJSON {
		return json.NewEncoder(out).Encode(categories)
	}
	for _, category := range categories {
		if category.Category == "" {
			continue
		}
		text := pretty.MarkersSummary(category.Category, category.Markers)
		if level > summary {
			text = pretty.MarkersDetails(level >= fullDetails, category.Category, category.Markers)
		}
		if err := text.Write(out); err != nil {
			return err
		}
	}
	return nil
}
